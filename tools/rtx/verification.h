#pragma once
// A compiled model against recorded data, or against the reference interpreter: what `rtx verify` does once and `rtx suite` does
// for case after case in one process.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "rtx/options.h"
#include "rtx/pipeline_run.h"
#include "validate/validate.h"

namespace rtx::tools {

struct VerifiedOutput {
  std::string data, output;
  validate::Comparison comparison;
  // Against the reference, as norms: error of the same graph run node by node; what one region may lose; which of them was the bound.
  double node_by_node = NAN, region_tolerance = NAN;
  std::string judged_by = "recorded data";
};

struct Verification {
  std::vector<VerifiedOutput> outputs;
  std::vector<std::string> departures;  // with --all-tensors: the first tensor that departs
  std::vector<std::string> rejected;    // candidates that validation refused on the way: family, parameters, reason
  int regions = 0, kernels = 0, hits = 0;
  int64_t compiles = 0;
  bool agrees() const;
  std::string first_disagreement() const;  // empty when all agree
};

class Verifier {
 public:
  // Without `workers` candidates run in this process: quicker, and a kernel that crashes takes the process with it.
  Verifier(const Common& common, Console& console, bool workers) : common_(common), console_(console), workers_(workers) {}
  Result<Verification> verify(const VerifyCommand& command);

 private:
  struct Compiled {
    std::shared_ptr<const runtime::Program> program;
    ir::Graph graph;
  };
  Result<Compiled> compile(const VerifyCommand& command, const ModelOptions& options, const std::map<std::string, ir::HostTensor>& bound, Verification* out);
  Result<Compiled> compile(const VerifyCommand& command, ir::Graph graph, Verification* out);
  Status against_data(const VerifyCommand& command, const DataSet& data, Verification* out);
  Status against_reference(const VerifyCommand& command, Verification* out);
  Result<std::string> first_departure(const VerifyCommand& command, const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs);

  const Common& common_;
  Console& console_;
  bool workers_;
  std::unique_ptr<Workbench> bench_;
};

}  // namespace rtx::tools
