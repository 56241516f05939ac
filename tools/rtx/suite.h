#pragma once
// The suite of `rtx bench suite`: problems in groups, each with what it is measured against in the same
// process.
#include <functional>
#include <string>
#include <vector>

#include "rtx/options.h"
#include "rtx/result_file.h"
#include "rtx/workbench.h"

namespace rtx::tools {

struct SuiteRow {
  std::string group;  // "gemm large"
  std::string op, shape,
      dtype;           // what bench/peers/ and result files call it: "gemm_nt", "4096x4096x4096", "bf16"
  std::string family;  // of `rtx tune`, with its settings
  std::vector<std::string> settings;
  std::vector<std::string> peers;  // of suite_peer_names(); "baseline": the unfused baseline
  double flops = 0, bytes = 0;     // 0: what the compiled regions say

  std::string name() const;  // "gemm_nt 4096x4096x4096 bf16"; of the cpu's own rows "gemm m=1024 ..."
};

// All rows there are, of every target.
const std::vector<SuiteRow>& suite_rows();

struct SuiteFilter {
  std::string group, family;        // a group's name or its first words: "gemm" is all of gemm
  std::vector<std::string> shapes;  // parts of a row's shape: "4096x", "causal"
};
// The rows of a target that the filter lets through; without a group those that are meant for the target.
// Kind user where none is left.
Result<std::vector<SuiteRow>> select_rows(const std::string& target, const SuiteFilter& filter);

// What stands in the groups, as a table.
void list_suite(const std::vector<SuiteRow>& rows, Console& console);
std::string suite_list_json(const std::vector<SuiteRow>& rows);

// `kept` is given all rows after each that is done; `failed` counts those that could not be measured, each
// with its reason as a notice.
Result<std::vector<ResultRow>> bench_suite(const BenchCommand& command, const Common& common,
                                           Console& console, Workbench& bench, int* failed,
                                           const std::function<Status(const std::vector<ResultRow>&)>& kept);

}  // namespace rtx::tools
