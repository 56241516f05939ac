#pragma once
// From chosen kernels to a Plan: which slot every value lives in, the steps in order, the memory plan.
#include "compiler/choose.h"
#include "compiler/pipeline.h"

namespace rtx::compiler {

struct Scheduled {
  int kernel = 0;                          // index into plan.kernels
  const backend::KernelPlan* launches = nullptr;
};

// Fills inputs, outputs, constants, prepared buffers, steps, copies and the arena of `plan`; `chosen` holds one entry per region.
void schedule(const ir::Graph& graph, const fuse::Partition& partition, const std::vector<Scheduled>& chosen, bundle::Plan* plan);

}  // namespace rtx::compiler
