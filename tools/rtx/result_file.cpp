#include "rtx/result_file.h"

#include <ctime>

#include "base/files.h"
#include "rtx/options.h"

namespace rtx::tools {

using nlohmann::json;

json result_document(const std::vector<ResultRow>& rows, const std::vector<std::string>& command, const backend::Caps& caps, const std::string& toolchain) {
  char date[32];
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  json out = {{"format", "rtx-bench 1"}, {"command", command}, {"version", version_text()}, {"date", date}, {"device", caps.device}, {"arch", caps.arch},
              {"driver", caps.driver}, {"toolchain", toolchain}, {"threads", caps.cores}, {"rows", json::array()}};
  for (const auto& row : rows) {
    const double median = row.samples.median();
    out["rows"].push_back({{"name", row.name}, {"subject", row.subject}, {"median_ms", median * 1e3}, {"low_ms", row.samples.interval_low() * 1e3},
                           {"high_ms", row.samples.interval_high() * 1e3}, {"p95_ms", row.samples.percentile(95) * 1e3}, {"p99_ms", row.samples.percentile(99) * 1e3},
                           {"gflops", median > 0 && row.flops > 0 ? json(row.flops / median / 1e9) : json(nullptr)},
                           {"gbps", median > 0 && row.bytes > 0 ? json(row.bytes / median / 1e9) : json(nullptr)}, {"seconds", row.samples.seconds}});
  }
  return out;
}

Result<json> read_result_file(const std::string& path) {
  RTX_TRY(const std::string text, read_file(path));
  json out = json::parse(text, nullptr, false);
  if (!out.is_object() || out.value("format", "") != "rtx-bench 1" || !out.contains("rows") || !out["rows"].is_array())
    return user_error("cannot read " + path, "it is not a result file of `rtx bench --output`");
  return out;
}

std::string result_html(const json& document) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '<' ? std::string("&lt;") : c == '&' ? std::string("&amp;") : std::string(1, c);
    return out;
  };
  std::string out = "<!doctype html><meta charset=utf-8><title>rtx bench</title><style>body{font:15px sans-serif;margin:2em}table{border-collapse:collapse}"
                    "td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right}td:first-child,td:nth-child(2),th:first-child{text-align:left}</style>";
  out += "<h1>rtx bench</h1><p>" + escaped(document.value("device", "")) + ", " + escaped(document.value("date", "")) + "</p><table><tr><th>problem<th>subject<th>median ms<th>95 % interval<th>GFLOP/s<th>GB/s</tr>";
  for (const auto& row : document["rows"]) {
    const auto cell = [&](const char* field) { return row.contains(field) && row[field].is_number() ? number(row[field].get<double>(), 4) : std::string("-"); };
    out += "<tr><td>" + escaped(row.value("name", "")) + "<td>" + escaped(row.value("subject", "")) + "<td>" + cell("median_ms") + "<td>" + cell("low_ms") + " to " + cell("high_ms") + "<td>" +
           cell("gflops") + "<td>" + cell("gbps") + "</tr>";
  }
  return out + "</table>\n";
}

}  // namespace rtx::tools
