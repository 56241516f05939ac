#pragma once
// Plans whose step is a call of NVIDIA's libraries instead of a kernel: the products of the unfused baseline, and the peers of a bench.
// The text names the library's file, so whoever loads the plan needs no search of its own.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "ir/graph.h"

namespace rtx::backend::cuda {

constexpr int64_t kMatmulWorkspace = int64_t{64} << 20;

// cuBLASLt, where the body is one product over dense operands (f64, f32, f16, bf16) and, behind it, what the library's epilogue computes:
// a bias of N elements, then GELU (tanh) or ReLU; or a bias and a residual (beta = 1). f32 is f32; `tf32` asks for its tensor cores.
// Nothing for other bodies.
std::optional<KernelPlan> library_matmul(const ir::Graph& body, const std::string& cublaslt, bool tf32 = false);

// cuDNN, where the body is one attention over dense f16 or bf16, full or causal with the diagonal at either end, without a mask tensor.
std::optional<KernelPlan> library_attention(const ir::Graph& body, const std::string& cudnn);

// cuFFT: forward transforms of `batch` dense arrays of complex f32, or of real f32 to the half that is not redundant.
KernelPlan library_fourier(const std::vector<int64_t>& extents, int64_t batch, bool real, const std::string& cufft);

}  // namespace rtx::backend::cuda
