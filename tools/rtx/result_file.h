#pragma once
// Result files: raw samples with what is needed to run them again: command, commit of the build, device, date.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "measure/measure.h"
#include "rtx/workbench.h"

namespace rtx::tools {

struct ResultRow {
  std::string name, subject;  // "gemm m=1024 ...", "rtx" or "openblas"
  measure::Samples samples;
  double flops = 0, bytes = 0;
};
nlohmann::json result_document(const std::vector<ResultRow>& rows, const std::vector<std::string>& command, const backend::Caps& caps, const std::string& toolchain);
Result<nlohmann::json> read_result_file(const std::string& path);
// A page with one table per problem: median, interval, share of the best.
std::string result_html(const nlohmann::json& document);

}  // namespace rtx::tools
