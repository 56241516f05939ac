#pragma once
// Trial: one candidate's way from text to outcome on a device of this process: load, validate, then time. Used by the in-process
// evaluator and by worker processes.
#include <string>
#include <vector>

#include "backend/device.h"
#include "kernels/family.h"
#include "tune/outcome.h"
#include "validate/validate.h"

namespace rtx::tune {

// What validate compares by, from a family's tolerance.
validate::Bounds bounds_of(const kernels::Tolerance& tolerance);

// Buffers of a plan with one case's inputs in place, ready to be launched again and again. Buffers are rotated over several
// copies when they are small, so that a timing does not live from one input staying in the innermost cache.
class Trial {
 public:
  static Result<std::unique_ptr<Trial>> prepare(backend::Device& device, const backend::KernelPlan& plan, const backend::Binary& binary,
                                                const ir::Graph& body, const std::vector<ir::HostTensor>& inputs);
  virtual ~Trial() = default;
  virtual Status run_once() = 0;
  virtual Result<double> time_once() = 0;  // seconds
};

Outcome try_candidate(backend::Device& device, const backend::KernelPlan& plan, const backend::Binary& binary, const ir::Graph& body,
                      const std::vector<validate::Case>& cases, const validate::Bounds& bounds, bool time_it, double timeout_seconds);

}  // namespace rtx::tune
