#include "rtx/result_file.h"

#include <ctime>

#include "base/files.h"
#include "rtx/options.h"

namespace rtx::tools {

using nlohmann::json;

namespace {

json conditions_json(const backend::Conditions& now) {
  if (now.core_mhz == 0 && now.watts == 0) return nullptr;
  return {{"core_mhz", now.core_mhz},           {"memory_mhz", now.memory_mhz}, {"watts", now.watts},
          {"watts_allowed", now.watts_allowed}, {"celsius", now.celsius},       {"slowed_by", now.slowed_by}};
}

bool is_row(const json& row) {
  const auto text = [&](const char* field) { return row.contains(field) && row[field].is_string(); };
  const auto number = [&](const char* field) { return row.contains(field) && row[field].is_number(); };
  return row.is_object() && text("name") && text("subject") && number("median_ms") &&
         (!row.contains("high_ms") || number("high_ms"));
}

}  // namespace

json result_document(const std::vector<ResultRow>& rows, const std::vector<std::string>& command,
                     const backend::Caps& caps, const std::string& toolchain) {
  char date[32];
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  json out = {{"format", "rtx-bench 1"},   {"command", command},
              {"version", version_text()}, {"date", date},
              {"device", caps.device},     {"arch", caps.arch},
              {"driver", caps.driver},     {"toolchain", toolchain},
              {"threads", caps.cores},     {"rows", json::array()}};
  for (const auto& row : rows) {
    const double median = row.samples.median();
    json entry = {{"name", row.name},
                  {"subject", row.subject},
                  {"median_ms", median * 1e3},
                  {"low_ms", row.samples.interval_low() * 1e3},
                  {"high_ms", row.samples.interval_high() * 1e3},
                  {"p95_ms", row.samples.percentile(95) * 1e3},
                  {"p99_ms", row.samples.percentile(99) * 1e3},
                  {"gflops", median > 0 && row.flops > 0 ? json(row.flops / median / 1e9) : json(nullptr)},
                  {"gbps", median > 0 && row.bytes > 0 ? json(row.bytes / median / 1e9) : json(nullptr)},
                  {"seconds", row.samples.seconds}};
    if (!row.group.empty()) {
      entry.update({{"group", row.group},
                    {"op", row.op},
                    {"shape", row.shape},
                    {"dtype", row.dtype},
                    {"launches", row.launches},
                    {"sets", row.sets},
                    {"recorded", row.recorded}});
      if (row.sustained_seconds > 0)
        entry["sustained_ms"] = row.sustained_seconds * 1e3,
        entry["sustained_conditions"] = conditions_json(row.sustained);
    }
    if (json now = conditions_json(row.conditions); !now.is_null() || !row.group.empty()) entry["conditions"] = std::move(now);
    if (!row.chosen.empty()) entry["chosen"] = row.chosen;
    out["rows"].push_back(std::move(entry));
  }
  return out;
}

Result<json> read_result_file(const std::string& path) {
  RTX_TRY(const std::string text, read_file(path));
  json out = json::parse(text, nullptr, false);
  if (!out.is_object() || out.value("format", "") != "rtx-bench 1" || !out.contains("rows") ||
      !out["rows"].is_array())
    return user_error("cannot read " + path,
                      "it is not a result file of `rtx bench --output` or of bench/peers");
  for (size_t k = 0; k < out["rows"].size(); ++k)
    if (!is_row(out["rows"][k]))
      return user_error("cannot read " + path,
                        "row " + std::to_string(k) + " lacks its name, its subject or its times");
  return out;
}

}  // namespace rtx::tools
