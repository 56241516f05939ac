#pragma once
// Result files: raw samples with what is needed to run them again: command, commit of the build, device,
// date.
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
  // Of the suite's rows only.
  std::string group{}, op{}, shape{}, dtype{};
  std::string chosen{};            // parameters of our kernels, or which library's calls
  int launches = 1, sets = 1;    // of one sample; sets of tensors it goes round
  bool recorded = false;         // the launches were one recording
  double sustained_seconds = 0;  // alone; 0: not measured
  backend::Conditions conditions{}, sustained{};
};
nlohmann::json result_document(const std::vector<ResultRow>& rows, const std::vector<std::string>& command,
                               const backend::Caps& caps, const std::string& toolchain);
Result<nlohmann::json> read_result_file(const std::string& path);

}  // namespace rtx::tools
