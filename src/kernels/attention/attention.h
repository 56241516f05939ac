#pragma once
// Attention forward: softmax(softcap(scale q k^T) + mask) v for [batch, heads, rows, width] operands, with what stands around it.
//
//   q, k, v    each a prologue of pointwise operators and movements: a slice and a transposition of a fused QKV projection is
//              read in place, row by row; a cache that is concatenated is looked up as rows are read. Arithmetic before them is
//              computed too, but the pattern leaves it to the producer: a bias is free behind a matrix product
//   mask       any broadcastable bool (true keeps) or float (is added), with its own prologue
//   epilogue   pointwise and movements: back to [batch, rows, heads * width], a residual sum, a cast
//
// A group is some query rows of one key-value head; the query heads that share it count as more rows. Keys are taken in blocks
// of 128; blocks that no row of the group sees are skipped. Few rows (decoding) take the keys one by one instead of transposed.
// That is the CPU's kernel (emit.cpp, device.h); gpu.h has those of GPUs.
#include "codegen/element.h"
#include "kernels/family.h"

namespace rtx::kernels::attention {

struct Params {
  int64_t rows_per_group = 64;  // on a CPU; the rest on GPUs
  int64_t mma = 0;              // 0: f32 arithmetic; of 16-bit operands, 1: a wave's matrix instructions, 2: a warpgroup's
  int64_t block_q = 16;         // query rows of a group
  int64_t block_k = 32;         // keys of a block
  int64_t waves = 4;            // of a group; of warpgroups, with the one that loads
  int64_t stages = 1;           // of matrix instructions: blocks of keys and values in scratch
  int64_t turns = 0;            // warpgroups issue their products one after the other, while the rest work on their scores
  int64_t splits = 1;           // groups that share a tile's keys; a second launch combines them
};

// An operand's rows: read in place when consecutive elements are neighbours in memory, else copied by its DAG.
struct Operand {
  codegen::ElementDag dag;
  int element = 0;
  bool in_place = false;
  int64_t row_stride = 0;  // of in_place: elements between neighbouring rows
  ir::DType dtype = ir::DType::f32;
};

struct Problem {
  ir::Graph body;
  int64_t batch = 0, query_heads = 0, key_heads = 0, queries = 0, keys = 0, depth = 0, width = 0;
  double scale = 1, softcap = 0;
  bool causal = false, empty_row_nan = false;
  int64_t causal_offset = 0, window_left = -1, window_right = -1;
  // Variables of the DAGs, see Variable.
  Operand q, k, v;
  codegen::ElementDag mask;  // leaf 0: the score; its last element, number `masked`, is the score to use
  int masked = -1;           // -1: there is no mask
  codegen::ElementDag valid_length;
  int valid = -1;            // element of valid_length; -1: all keys are valid
  codegen::ElementDag epilogue;  // leaf 0: the result

  // Query rows of one key-value head: of all query heads that share it.
  int64_t rows() const { return key_heads == 0 ? 0 : query_heads / key_heads * queries; }
  int64_t elements() const { return batch * query_heads * queries * width; }
  bool by_key() const;     // few rows: keys one by one
};

enum Variable { kBatch, kHead, kQuery, kDepth, kKey, kWidth };
constexpr int64_t kKeyBlock = 128, kRowTile = 8;  // as in device.h
constexpr int64_t kFewRows = 4;                   // so few that keys are read one by one
constexpr int64_t kWidestRow = 1024;              // depth and width: the thread's buffers then take about 2 MiB

struct Attention {
  using Problem = attention::Problem;
  using Params = attention::Params;
  static std::string_view name() { return "attention"; }
  static fuse::Pattern pattern();
  static Result<Problem> problem(const ir::Graph& body);
  static std::string key(const Problem& problem);
  static Space<Params> space(const Problem& problem, const backend::Caps& caps);
  static Result<backend::KernelPlan> emit(const Problem& problem, const Params& params, const backend::Caps& caps,
                                          const codegen::Dialect& dialect);
  static Work work(const Problem& problem);
  static Tolerance tolerance(const Problem& problem);
};
static_assert(KernelFamily<Attention>);

// The thread's buffers in f32 elements, 64-byte aligned each; one place for emit and space.
struct Scratch {
  int64_t rows = 0;  // of the group, rounded up to row tiles
  int64_t lanes = 0;
  int64_t depth = 0, width = 0;  // row strides of q and of the sums
  int64_t q = 0, keys_t = 0, key_rows = 0, value_rows = 0, scores = 0, sums = 0, running = 0, ranges = 0, end = 0;  // offsets
  int64_t bytes() const { return end * 4; }
};
Scratch scratch_of(const Problem& problem, const Params& params, int64_t lanes);
// v is used where it stands; else it is copied to padded f32 rows first.
bool value_in_place(const Problem& problem, int64_t lanes);

}  // namespace rtx::kernels::attention
