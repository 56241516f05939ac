#pragma once
// What the files for GPUs share: pieces of text, and the main loop on tensor views, which has a space and an emitter of its own.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/source.h"
#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm::gpu {

// ---- text (emit_gpu.cpp) -------------------------------------------------------------------------------------------------------------
std::string number(int64_t value);
int row_width(const Problem& problem);  // elements of a vector of the epilogue: 16 bytes of the widest type stored
// Threads that share a row of `columns`: a power of two, so that a wave takes whole rows.
int64_t row_threads(int64_t columns, int64_t width);
// "struct Epilogue": its row(), dealt to `threads`, or with `pairs` pair(), which gives the one value stored of two neighbours (their sums,
// both where columns take turns). `begin_alignment`: of a row's first column; `leaf`: the sums at an offset; `other`: the load whose value
// pair() is given, or -1.
using Leaf = std::function<std::string(int width, const std::string& i)>;
void print_epilogue(codegen::Source& source, const Problem& problem, int64_t threads, int64_t begin_alignment, const Leaf& leaf, bool pairs = false,
                    int other = -1);
std::string epilogue_value(const Problem& problem);
// The epilogue of sums that lie in parts, and the second launch, which adds them in order.
void print_sum_epilogue(codegen::Source& source, const Problem& problem);
backend::Launch print_sum(codegen::Source& source, const Problem& problem, const std::string& entry);

// ---- tensor views (space_wgmma.cpp) ----------------------------------------------------------------------------------------------------
struct View {
  backend::TensorView tensor;  // its box is a stage's
  bool along_k = true;         // K is contiguous; of C: true
  bool batches = false;        // the batch is the third dimension
};
// Operands as boxes of `block` lines x 64 of K; nothing where they lie otherwise than views can say.
std::optional<View> view_of_a(const Problem& problem, int64_t block);
std::optional<View> view_of_b(const Problem& problem, int64_t block);
// The one result as boxes of 64 x 64, where at most one thing that is loaded for it varies with both row and column; that thing.
std::optional<View> view_of_c(const Problem& problem);
std::optional<View> view_of_other(const Problem& problem);
int other_load(const Problem& problem);  // its element of the epilogue; -1: there is none

// ---- Loop::wgmma ------------------------------------------------------------------------------------------------------------------------
bool may_use_wgmma(const Problem& problem, const backend::Caps& caps);
Tiling wgmma_tiling(const Problem& problem, const Params& params);
int64_t wgmma_boxes(const Params& params);  // of results on their way out, a warpgroup's
double wgmma_seconds(const Problem& problem, const Params& params, const backend::Caps& caps);
// Values of an axis once the loop and the axes before it are known.
std::vector<int64_t> wgmma_values(const Problem& problem, const backend::Caps& caps, int64_t Params::*axis, const Params& so_far);
void wgmma_rules(Space<Params>& space, const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> wgmma_emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);
void print_wgmma_width(codegen::Source& source, int64_t columns);  // products of that width, once a text

// ---- Loop::wgmma_stream (wgmma_stream.cpp): as above ------------------------------------------------------------------------------------
bool may_use_wgmma_stream(const Problem& problem, const backend::Caps& caps);
Tiling wgmma_stream_tiling(const Problem& problem, const Params& params);
double wgmma_stream_seconds(const Problem& problem, const Params& params, const backend::Caps& caps);
std::vector<int64_t> wgmma_stream_values(const Problem& problem, const backend::Caps& caps, int64_t Params::*axis, const Params& so_far);
void wgmma_stream_rules(Space<Params>& space, const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> wgmma_stream_emit(const Problem& problem, const Params& params, const codegen::Dialect& dialect);

}  // namespace rtx::kernels::gemm::gpu
