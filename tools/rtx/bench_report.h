#pragma once
// Result files side by side: rows of one name joined, ours against every other subject; as a table, a
// summary, and a page.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rtx/console.h"

namespace rtx::tools {

struct Rival {
  std::string subject;
  double ms = 0, low_ms = 0, high_ms = 0;
  double ratio = 0;     // its time by ours: above 1 we are faster
  std::string verdict{};  // "faster", "slower" where the intervals do not overlap, else "within the spread";
                        // empty where there is none of ours
};
struct JoinedRow {
  std::string group, name;
  double ms = 0, low_ms = 0, high_ms = 0;  // ours; 0: nobody measured it
  double gflops = 0, gbps = 0;
  std::vector<Rival> rivals{};  // the fastest first
};

// Documents by the name of their file. Ours is the subject "rtx" of the first file that has the row; those of
// later files are rivals.
std::vector<JoinedRow> join_results(const std::vector<std::pair<std::string, nlohmann::json>>& documents);

struct Standing {
  std::string group, subject;  // subject "best peer": the fastest of each row
  int rows = 0;
  double mean = 0, least = 0;  // geometric mean and minimum of the ratios
  std::string at;              // where the minimum is
};
// Of each group against each rival, and against the best of them where there are several.
std::vector<Standing> standings(const std::vector<JoinedRow>& rows);

void print_joined(const std::vector<JoinedRow>& rows, Console& console);
// One page that needs nothing else: summary, all rows with ratios, and under which conditions each file was
// measured.
std::string joined_html(const std::vector<std::pair<std::string, nlohmann::json>>& documents);

}  // namespace rtx::tools
