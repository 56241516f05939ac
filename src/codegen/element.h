#pragma once
// ElementDag: what happens to one element, written once for all targets. It is the epilogue and prologue language of every
// family and the whole body of the loop-nest family.
//
//   leaves   a family's own value (accumulator, normalised value, row statistic), a load under an index map, a constant,
//            an index as a value
//   inner    scalar operators with ONNX semantics (ir::Op of class pointwise), selects on coordinates, casts as nodes
//   roots    stores under an index map
//
// A DAG is over loop variables; the family owns the loops and decides which variable is the inner (vector) one.
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/index.h"
#include "ir/graph.h"

namespace rtx::codegen {

struct Element {
  enum class Kind : uint8_t { leaf, load, constant, index, op, select, in_range };
  Kind kind = Kind::constant;
  ir::DType dtype = ir::DType::f32;   // of the value; f16 and bf16 are computed in f32 and rounded only by stores (and casts to storage, see cast_rounds)
  ir::Op op = ir::Op::add;            // of kind op
  ir::Attributes attributes;          // of kind op
  std::vector<int> arguments;         // earlier elements of the DAG; select: condition, then, otherwise
  int leaf = 0;                       // which of the family's leaves
  int buffer = 0;                     // of load: index into ElementDag::buffers
  Index offset;                       // of load: element offset; of index: the value; of in_range: the tested coordinate
  int guard = -1;                     // of load: element (boolean) that must hold, else the load is not made and gives 0; -1: always
  int64_t low = 0, high = 0;          // of in_range: low <= coordinate < high
  double real = 0.0;                  // of a floating constant
  int64_t integer = 0;                // of an integer or boolean constant
};

struct Store {
  int buffer = 0;  // index into ElementDag::buffers
  Index offset;
  int value = 0;   // element
};

// A buffer the DAG touches: the region's input or output, with its storage type.
struct DagBuffer {
  ir::ValueId value = ir::kNoValue;  // of the body
  bool output = false;
  int position = 0;                  // which input / output of the body
  ir::DType dtype = ir::DType::f32;
  int64_t elements = 0;
};

struct ElementDag {
  std::vector<DagBuffer> buffers;
  std::vector<Element> elements;  // in evaluation order, common subexpressions shared
  std::vector<Store> stores;

  // Canonical text for keys and tests: "t0 = load b0[v0 * 384 + v1]: f32; t1 = add(leaf0, t0); store b1[v0 * 384 + v1] = t1".
  std::string text() const;
  // Scalar operations per evaluation, for work().
  int64_t flops() const;
};

}  // namespace rtx::codegen
