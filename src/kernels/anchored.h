#pragma once
// A body around its anchor, taken apart: what feeds it (prologue), what follows it (epilogue), and results that are stored on
// the way. Families whose anchor reduces along some axes (norm, softmax, attention) lower their bodies with these.
#include <optional>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "codegen/lower.h"
#include "codegen/print.h"
#include "ir/graph.h"

namespace rtx::kernels {

// The only node of the body that is neither pointwise nor a movement; refused when there is none, or a second one. `op` names an
// anchor that lowering would also take for a movement (rotary).
Result<ir::NodeId> only_anchor(const ir::Graph& body, std::optional<ir::Op> op = {});

// The body without one of its nodes: the node's outputs are inputs of the graph (behind the body's own, so that input positions
// stay), to be declared as leaves.
struct Opened {
  ir::Graph graph;
  std::vector<ir::ValueId> results;  // what the node's outputs have become
};
Opened open_at(const ir::Graph& body, ir::NodeId node);

// Replaces every use of `from` by `to`, as outputs too. For steps of the anchor that are pointwise: y = n * scale + bias.
void replace_uses(ir::Graph& graph, ir::ValueId from, ir::ValueId to);

// For every value whether it depends on `source` (itself included).
std::vector<bool> dependents_of(const ir::Graph& graph, ir::ValueId source);

// Coordinates of `output` when those of `value` are given: `output` follows from `value`, or `value` from `output`, by steps that
// keep the elements one to one.
Result<std::vector<codegen::Index>> related_coordinates(const ir::Graph& graph, ir::ValueId value, ir::ValueId output,
                                                        const std::vector<codegen::Index>& coordinates);

// The buffers of several DAGs as one argument list: each buffer once, named "<prefix><position>" (x0, y0).
class Arguments {
 public:
  // Prints the pointer of every buffer that is new and returns the names for RowLoop::buffers.
  std::map<int, std::string> bind(codegen::Source& source, const codegen::ElementDag& dag);
  const std::vector<backend::BufferRef>& list() const { return list_; }

 private:
  std::vector<backend::BufferRef> list_;
};

// Bytes of what the body reads (each input once) and writes.
double bytes_read(const ir::Graph& body);
double bytes_written(const ir::Graph& body);
// "1.5 Mflop, 16.8 MB" for the first lines of a kernel.
std::string work_text(double flops, double bytes);
// f32, f16 and bf16 storage: what these families compute in f32.
Status require_f32_arithmetic(const ir::Graph& body, ir::ValueId value, std::string_view family);
// "rows / per group" rounded up.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace rtx::kernels
