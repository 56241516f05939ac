#pragma once
// The GEMM family: C[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n], and what pointwise and movement operators make
// of it before it is stored.
//
// A tile is MC x NC elements of C for one batch entry over all of K, computed by MR x NR register tiles (device_cpu.h). A and B
// are any affine views of body inputs (transposed, strided, broadcast over the batch); a B that is a weight is packed once when
// the program is loaded, another B per run or read in place. The epilogue is an ElementDag over (batch, m, n), applied to each
// finished row in L1. A few rows of A against a B read once are streamed instead (device_cpu_stream.h).
// Every element is one chain of fused multiply-adds in increasing k, so all parameters give the same bits.
//
// On a GPU a group computes a block of C by one of three main loops (Loop), K may be shared by several groups whose f32 sums a second
// launch adds in order, and the epilogue's rows are dealt to threads; the order along K is part of the numerics class.
//
// Where the epilogue joins two products of one A (act(A Bg) * (A Bu)), B's columns take turns, 8 of one and 8 of the other, so that both
// sums of a result are in one place: `in_turn`. Results then have half of B's columns.
//
// f32, f16 and bf16 compute in f32; f64 in f64; 32- and 64-bit integers in themselves (modulo 2^bits).
#include <cstdint>
#include <string>
#include <string_view>

#include "codegen/element.h"
#include "kernels/family.h"

namespace rtx::kernels::gemm {

// A matrix operand: element (batch, row, column) lies at offset(batch) + row * row_stride + column * column_stride of body input
// `input`.
struct Operand {
  int input = 0;  // position among the body's inputs
  ir::DType dtype = ir::DType::f32;
  codegen::Index offset;  // over the batch variable
  int64_t row_stride = 0, column_stride = 0;
  int64_t elements = 0;  // that the product reads, for work()
  bool weight = false;
};

struct Problem {
  // Variables of every Index here.
  static constexpr int batch_variable = 0, m_variable = 1, n_variable = 2, k_variable = 3;

  int64_t batches = 1, m = 0, n = 0, k = 0;
  Operand a, b;
  ir::DType arithmetic = ir::DType::f32;
  int64_t b_matrices = 1;    // different B among the batches
  codegen::Index b_matrix;   // which of them a batch uses
  codegen::ElementDag epilogue;  // over (batch, m, n), n a column of the result; leaf 0 is the sum, or with `in_turn` leaves 0 and 1 are both
  bool in_turn = false;
  int64_t result_columns() const { return in_turn ? n / 2 : n; }
  bool empty() const { return batches == 0 || m == 0 || n == 0; }
};

// The main loops of GPUs: any type and view by fused multiply-adds (device_gpu.h); f16 and bf16 by tensor cores (device_mma.h); few rows
// against a B that is read once, by multiply-adds (device_gpu_stream.h) or by tensor cores (device_mma_stream.h); f16 and bf16 by products
// of warpgroups on boxes of tensor views (device_wgmma.h), also with few rows (device_wgmma_stream.h).
enum class Loop : int64_t { scalar = 0, mma = 1, stream = 2, wgmma = 3, mma_stream = 4, wgmma_stream = 5 };
// A space, a tiling and a text of their own.
inline bool on_views(Loop loop) { return loop == Loop::wgmma || loop == Loop::wgmma_stream; }

enum class BSource : int64_t { panels = 0, rows = 1, task = 2, stream = 3 };  // as in device_cpu.h; stream: device_cpu_stream.h

struct Params {
  int64_t mr = 6, vectors = 2;    // register tile: rows, vectors of columns
  int64_t mc = 12, nc = 16;       // cache tile, in register tiles
  int64_t kc = 384;               // block along K
  int64_t pack_a = 0;             // copy A's block to scratch
  int64_t b_source = 0;           // BSource
  // GPUs: what a group computes, how its waves share it, and how many groups share K.
  int64_t loop = 0;               // Loop
  int64_t block_m = 64, block_n = 64, block_k = 16;
  int64_t waves_m = 2, waves_n = 2, waves_k = 1;
  int64_t stages = 2;             // of copies under way
  int64_t split = 1;              // parts of K, added up by a second launch
  // Loop::wgmma; waves_m is the number of warpgroups that multiply, block_k is 64.
  int64_t schedule = 0;           // 0: they share a tile; 1: two take tiles in turn (ping-pong)
  int64_t raster = 8;             // order of tiles: bands of rows; negative: of columns
  int64_t finish = 0;             // 0: results leave by rows; 1: through a view of C; 2: where another view brings one more operand
};

struct Family {
  using Problem = gemm::Problem;
  using Params = gemm::Params;
  static std::string_view name() { return "gemm"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps,
                                          const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};

// Sizes both space and emit need; they mirror Tiling in device_cpu.h.
struct Tiling {
  int64_t lanes = 1, nr = 1, panels = 1;
  int64_t mc = 1, nc = 1;  // in elements
  int64_t m_tiles = 1, n_tiles = 1, groups = 1;
  int64_t scratch_bytes = 0, packed_bytes = 0;
  ir::DType panel_dtype = ir::DType::f32;
};
Tiling tiling(const Problem& problem, const Params& params, int vector_bits);

// "gemm_f32_128x384x384_add", and its work for the first lines of a text.
std::string name_of(const Problem& problem);
std::string work_text(const Problem& problem);

namespace gpu {  // space_gpu.cpp, emit_gpu.cpp, space_wgmma.cpp, emit_wgmma.cpp

// A group has all rows, and its waves share columns and K.
inline bool streams(Loop loop) { return loop == Loop::stream || loop == Loop::mma_stream; }

// Sizes as in the device headers.
struct Tiling {
  int64_t m_tiles = 1, n_tiles = 1, groups = 1;
  int64_t threads = 32, groups_per_core = 1;
  int64_t split_k = 0;            // elements of one part of K
  int64_t registers = 32;         // a thread's, estimated
  int64_t scratch_bytes = 0, workspace_bytes = 0;
};
Tiling tiling(const Problem& problem, const Params& params);
Space<Params> space(const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);

}  // namespace gpu

}  // namespace rtx::kernels::gemm
