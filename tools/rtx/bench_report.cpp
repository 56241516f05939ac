#include "rtx/bench_report.h"

#include <algorithm>
#include <cmath>

namespace rtx::tools {

namespace {

using nlohmann::json;

double real(const json& row, const char* field) {
  return row.contains(field) && row[field].is_number() ? row[field].get<double>() : 0.0;
}
std::string words(const json& row, const char* field) {
  return row.contains(field) && row[field].is_string() ? row[field].get<std::string>() : std::string();
}

void judge(const JoinedRow& ours, Rival& rival) {
  if (ours.ms <= 0 || rival.ms <= 0) return;
  rival.ratio = rival.ms / ours.ms;
  rival.verdict = ours.high_ms < rival.low_ms   ? "faster"
                  : rival.high_ms < ours.low_ms ? "slower"
                                                : "within the spread";
}

std::string short_name(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

void count(std::vector<Standing>& all, const std::string& group, const std::string& subject,
           const JoinedRow& row, double ratio) {
  auto found = std::find_if(all.begin(), all.end(),
                            [&](const Standing& s) { return s.group == group && s.subject == subject; });
  if (found == all.end()) found = all.insert(all.end(), {group, subject, 0, 0, ratio, row.name});
  ++found->rows;
  found->mean += std::log(ratio);
  if (ratio < found->least) found->least = ratio, found->at = row.name;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<'   ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '&' ? "&amp;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string rate(const JoinedRow& row) {
  if (row.ms <= 0) return "-";
  if (row.gflops > 0 && row.gflops > 40 * row.gbps) return number(row.gflops / 1e3, 4) + " TFLOP/s";
  return row.gbps > 0     ? number(row.gbps, 4) + " GB/s"
         : row.gflops > 0 ? number(row.gflops, 4) + " GFLOP/s"
                          : "-";
}

}  // namespace

std::vector<JoinedRow> join_results(const std::vector<std::pair<std::string, json>>& documents) {
  std::vector<JoinedRow> out;
  // A name may stand in two groups; who names no group means any.
  const auto row_of = [&](const std::string& name, const std::string& group) -> JoinedRow& {
    const auto found = std::find_if(out.begin(), out.end(), [&](const JoinedRow& row) {
      return row.name == name && (row.group == group || row.group.empty() || group.empty());
    });
    if (found != out.end()) return *found;
    out.push_back({group, name});
    return out.back();
  };
  for (size_t d = 0; d < documents.size(); ++d)
    for (const auto& entry : documents[d].second["rows"]) {
      const std::string name = words(entry, "name");
      if (name.empty() || real(entry, "median_ms") <= 0) continue;
      auto& row = row_of(name, words(entry, "group"));
      if (row.group.empty()) row.group = words(entry, "group");
      std::string subject = words(entry, "subject");
      if (subject == "rtx" && row.ms <= 0) {
        row.ms = real(entry, "median_ms"), row.low_ms = real(entry, "low_ms"),
        row.high_ms = real(entry, "high_ms");
        row.gflops = real(entry, "gflops"), row.gbps = real(entry, "gbps");
        continue;
      }
      const bool twice =
          subject == "rtx" || std::any_of(row.rivals.begin(), row.rivals.end(),
                                          [&](const Rival& r) { return r.subject == subject; });
      if (twice) subject += " in " + short_name(documents[d].first);
      row.rivals.push_back(
          {subject, real(entry, "median_ms"), real(entry, "low_ms"), real(entry, "high_ms")});
    }
  for (auto& row : out) {
    for (auto& rival : row.rivals) judge(row, rival);
    std::stable_sort(row.rivals.begin(), row.rivals.end(),
                     [](const Rival& a, const Rival& b) { return a.ms < b.ms; });
  }
  return out;
}

std::vector<Standing> standings(const std::vector<JoinedRow>& rows) {
  std::vector<Standing> all, best;
  for (const auto& row : rows) {
    if (row.ms <= 0) continue;
    for (const auto& rival : row.rivals) count(all, row.group, rival.subject, row, rival.ratio);
    if (!row.rivals.empty()) count(best, row.group, "best peer", row, row.rivals.front().ratio);
  }
  for (const auto& one : best)
    if (std::count_if(all.begin(), all.end(), [&](const Standing& s) { return s.group == one.group; }) > 1)
      all.push_back(one);
  std::stable_sort(all.begin(), all.end(), [&](const Standing& a, const Standing& b) {
    return a.group != b.group && a.group < b.group;
  });
  for (auto& standing : all) standing.mean = std::exp(standing.mean / standing.rows);
  return all;
}

void print_joined(const std::vector<JoinedRow>& rows, Console& console) {
  std::vector<std::vector<std::string>> table;
  for (const auto& row : rows) {
    const std::string ours = row.ms > 0 ? number(row.ms, 4) : "-";
    if (row.rivals.empty()) table.push_back({row.name, ours, rate(row), "-", "-", "-", "-"});
    for (const auto& rival : row.rivals)
      table.push_back({row.name, ours, rate(row), rival.subject, number(rival.ms, 4),
                       rival.ratio > 0 ? number(rival.ratio) : "-",
                       rival.verdict.empty() ? "-" : rival.verdict});
  }
  console.table({"what", "rtx ms", "rate", "against", "its ms", "rtx is faster by", "verdict"}, table);
  const auto all = standings(rows);
  if (all.empty()) return;
  console.line();
  table.clear();
  for (const auto& s : all)
    table.push_back({s.group.empty() ? "-" : s.group, s.subject, std::to_string(s.rows), number(s.mean, 4),
                     number(s.least, 4), s.at});
  console.table({"group", "against", "rows", "geometric mean", "minimum", "at"}, table);
}

std::string joined_html(const std::vector<std::pair<std::string, json>>& documents) {
  const auto rows = join_results(documents);
  std::string out =
      "<!doctype html><html lang=en><meta charset=utf-8><title>rtx bench</title><style>body{font:15px/1.4 "
      "sans-serif;margin:2em;max-width:90em}table{border-collapse:collapse;margin:1em 0}"
      "td,th{padding:.25em .8em;border-bottom:1px solid "
      "#ddd;text-align:right}td:first-child,th:first-child,td.w,th.w{text-align:left}"
      ".faster{color:#106010}.slower{color:#a01010}.bar{display:inline-block;height:.7em;background:#7a9cc6;"
      "vertical-align:middle}</style>\n<h1>rtx bench</h1>\n";
  const auto all = standings(rows);
  if (!all.empty()) {
    out +=
        "<h2>In short</h2><p>Ratios are a peer's time by ours: above 1, ours is "
        "faster.</p><table><tr><th>group<th class=w>against<th>rows<th>geometric mean<th>minimum<th "
        "class=w>at</tr>\n";
    for (const auto& s : all)
      out += "<tr><td>" + escaped(s.group) + "<td class=w>" + escaped(s.subject) + "<td>" +
             std::to_string(s.rows) + "<td>" + number(s.mean, 4) + "<td>" + number(s.least, 4) +
             "<td class=w>" + escaped(s.at) + "</tr>\n";
    out += "</table>\n";
  }
  out +=
      "<h2>Rows</h2><table><tr><th>what<th class=w>subject<th>median ms<th>95 % interval<th>rate<th>ratio<th "
      "class=w>verdict<th class=w></tr>\n";
  for (const auto& row : rows) {
    const double longest = std::max(row.ms, row.rivals.empty() ? 0 : row.rivals.back().ms);
    const auto line = [&](const std::string& subject, double ms, double low, double high,
                          const std::string& speed, double ratio, const std::string& verdict) {
      const int width = longest > 0 ? static_cast<int>(12 * 16 * ms / longest) : 0;
      out += "<tr><td>" + escaped(row.name) + "<td class=w>" + escaped(subject) + "<td>" + number(ms, 4) +
             "<td>" + number(low, 4) + " to " + number(high, 4) + "<td>" + speed + "<td>" +
             (ratio > 0 ? number(ratio, 4) : "") + "<td class=\"w " +
             (verdict == "faster" || verdict == "slower" ? verdict : "") + "\">" + verdict +
             "<td class=w><span class=bar style=\"width:" + std::to_string(width) + "px\"></span></tr>\n";
    };
    if (row.ms > 0) line("rtx", row.ms, row.low_ms, row.high_ms, rate(row), 0, "");
    for (const auto& rival : row.rivals)
      line(rival.subject, rival.ms, rival.low_ms, rival.high_ms, "", rival.ratio, rival.verdict);
  }
  out +=
      "</table>\n<h2>Conditions</h2><table><tr><th>file<th class=w>device<th class=w>driver<th "
      "class=w>date<th class=w>version<th class=w>command<th>MHz<th>W<th>degrees C</tr>\n";
  for (const auto& [path, document] : documents) {
    std::string command;
    if (document.contains("command") && document["command"].is_array())
      for (const auto& word : document["command"])
        if (word.is_string()) command += (command.empty() ? "" : " ") + word.get<std::string>();
    double low[3] = {0, 0, 0}, high[3] = {0, 0, 0};
    for (const auto& row : document["rows"]) {
      if (!row.contains("conditions") || !row["conditions"].is_object()) continue;
      constexpr const char* fields[] = {"core_mhz", "watts", "celsius"};
      for (size_t i = 0; i < 3; ++i) {
        const double now = real(row["conditions"], fields[i]);
        if (now <= 0) continue;
        low[i] = low[i] > 0 ? std::min(low[i], now) : now, high[i] = std::max(high[i], now);
      }
    }
    out += "<tr><td>" + escaped(short_name(path)) + "<td class=w>" + escaped(words(document, "device")) +
           "<td class=w>" + escaped(words(document, "driver")) + "<td class=w>" +
           escaped(words(document, "date")) + "<td class=w>" + escaped(words(document, "version")) +
           "<td class=w>" + escaped(command);
    for (size_t i = 0; i < 3; ++i)
      out += "<td>" + (high[i] > 0 ? number(low[i]) + " to " + number(high[i]) : std::string("-"));
    out += "</tr>\n";
  }
  return out + "</table></html>\n";
}

}  // namespace rtx::tools
