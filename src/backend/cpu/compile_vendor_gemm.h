#pragma once
// The matmul of the unfused baseline: emitted text that calls OpenBLAS (cblas_sgemm, cblas_dgemm), one call per matrix. The
// library is loaded by whoever runs it (globally, so that the symbols resolve); nothing of it is linked.
#include <optional>

#include "backend/kernel.h"
#include "ir/graph.h"

namespace rtx::backend::cpu {

// A plan when the body is one f32 or f64 matmul over dense operands; nothing otherwise.
std::optional<KernelPlan> vendor_gemm(const ir::Graph& body, int threads);

}  // namespace rtx::backend::cpu
