#pragma once
// Attention on GPUs (docs/adr/0010): what its two kernels and the launch that combines split keys share.
//
//   emit_gpu.cpp  any operand, f32 arithmetic: device_gpu.h
//   emit_mma.cpp  f16 and bf16 operands by matrix instructions: device_mma.h
//
// A group takes block_q query rows of one unit and all keys they see, or its share of them (splits). A unit is a query head, or,
// where one head's rows would leave tiles half empty (decoding), all query heads of a key head, query by query.
#include <fmt/core.h>

#include "kernels/anchored.h"
#include "kernels/attention/attention.h"

namespace rtx::kernels::attention {

struct Tiling {
  int64_t heads = 1;    // query heads of a unit
  int64_t units = 0;
  int64_t rows = 0;     // of a unit
  int64_t blocks = 0;   // tiles of a unit
  int64_t section = 1;  // units whose tiles are taken together, longest first; their keys and values fit the L2 cache
  int64_t groups() const { return units * blocks; }
};
Tiling tiling_of(const Problem& problem, const Params& params, const backend::Caps& caps);

// Scratch of the f32 kernel, in bytes; rows are padded so that neighbouring threads meet different banks.
struct GpuScratch {
  int64_t depth = 0, width = 0, keys = 0;  // row strides of q and keys, of values and results, of scores, in f32
  int64_t seen = 0, greatest = 0, total = 0, factor = 0, q = 0, key_rows = 0, value_rows = 0, scores = 0, results = 0;
  int64_t bytes = 0;
};
GpuScratch gpu_scratch_of(const Problem& problem, const Params& params);

// How the matrix kernel deals a tile to waves, and its scratch in bytes.
struct MmaShape {
  int64_t depth = 0, width = 0;  // padded to sixteens
  int64_t waves_q = 1, waves_k = 1, fragments = 1;  // along the rows, along the keys of a block, 16 rows each of a wave
  int64_t keys = 0;              // of a block, of one wave
  bool q_stays = false;          // in registers
  int64_t key_rows = 0, value_rows = 0;             // offsets; q is at 0
  int64_t key_stage = 0, value_stage = 0;           // elements of a stage
  int64_t results = 0, places = 0, greatest = 0, total = 0, result_stride = 0;  // when the last block is done
  int64_t bytes = 0;
  int64_t registers = 0;         // of a thread, about
};
MmaShape mma_shape_of(const Problem& problem, const Params& params);
bool takes_mma(const Problem& problem, const backend::Caps& caps);
// An entry of the matrix kernel in `source`; its launch.
backend::Launch emit_mma(codegen::Source& source, const std::string& name, const Problem& problem, const Params& params, const backend::Caps& caps);

Space<Params> gpu_space(const Problem& problem, const backend::Caps& caps);
Result<backend::KernelPlan> emit_gpu(const Problem& problem, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect);

// What the texts have in common: names of pointers, of coordinates, rows dealt to threads.
class GpuText {
 public:
  GpuText(codegen::Source& source, const Problem& problem, const Params& params, const backend::Caps& caps);

  const std::vector<backend::BufferRef>& arguments() const { return list_; }

 protected:
  // One row of a DAG along `inner`, shared by `lanes` threads of which this one is `lane` (C text). Coordinates are b, h (`head`),
  // i and key; `leaf` spells leaf 0.
  struct Row {
    Variable inner = kWidth;
    std::string begin = "0", count{};
    int64_t begin_alignment = 1;
    std::string lane{};
    int64_t lanes = 1;
    int vector_width = 4;
    std::string head = "h";
    std::function<std::string(int width, const std::string& i)> leaf{};
  };
  using After = std::function<void(codegen::Source&, int width, const std::string& i, const std::function<std::string(int)>& value)>;
  void row(const codegen::ElementDag& dag, const std::map<int, std::string>& names, const Row& row, const After& after = {});
  static int vector_of(const codegen::ElementDag& dag);  // elements of a thread's widest access
  // Rows 0 to `count` of `elements` each over all threads: as many threads a row as have something to do.
  void deal_rows(const std::string& r, const std::string& count, int64_t elements, int width,
                 const std::function<void(const std::string& lane, int64_t lanes)>& body);

  void bind_all();                              // pointers of all DAGs; of splits, the workspace instead of the results
  void bind_output();                           // pointers of the results and the workspace
  void coordinates(const std::string& group);   // split, unit, first (its row), rows, and those of the unit
  void unit_coordinates();                      // from unit: b, kv, h where it has one
  void head_and_query(const std::string& r);    // of row `r` of the tile: h and i
  void ranges();                                // keys: how many there are; [low_of(i), high_of(i)): those that query i sees
  void key_range();                             // [begin, end): those that the group takes, begin a multiple of block_k
  // Rows of the tile at `results`: through the epilogue; or as they are to the workspace, with what the row knows of its scores.
  void result_rows(const std::string& results, int64_t stride, const std::string& total);
  void partial_rows(const std::string& results, int64_t stride, const std::string& greatest, const std::string& total);

  std::string literal(double x) const { return codegen::literal_text(ir::DType::f32, x, 0); }
  bool masked() const { return p_.masked >= 0; }
  int64_t threads() const { return params_.waves * 32; }
  template <class... T>
  void line(const char* format, T&&... values) {
    source_.line(fmt::format(fmt::runtime(format), std::forward<T>(values)...));
  }

  codegen::Source& source_;
  const Problem& p_;
  const Params& params_;
  const Tiling tiling_;
  std::map<int, std::string> names_q_, names_k_, names_v_, names_mask_, names_valid_, names_out_;

 private:
  void bind_workspace(const char* type);

  Arguments arguments_;
  std::vector<backend::BufferRef> list_;
};

}  // namespace rtx::kernels::attention
