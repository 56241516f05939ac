#pragma once
// Prints an ElementDag as C++ statements along its inner variable, vector body first, scalar tail after. Vector and scalar
// statements call the same prelude functions, so a result does not depend on where the tail begins.
//
// In a body every element is a named value: vec<T, W> (T itself for one lane) of its compute type, `mask<W>` for a boolean.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "codegen/element.h"
#include "backend/kernel.h"
#include "codegen/source.h"

namespace rtx::codegen {

struct RowLoop {
  int inner = 0;                     // the variable that runs along the row
  std::string begin = "0";           // C text: its first value
  std::string count;                 // C text: how many values
  int64_t begin_alignment = 1;       // `begin` is a multiple of this (lets n / 64, n % 64 stay affine within a vector)
  int vector_width = 8;              // lanes of the vector body; 1: scalar only
  int unroll = 1;
  int steps = 1;                     // bodies an iteration: `after` is called once for each, then once for single vectors, then for the tail
  bool contract = false;             // a product of f32 that only a sum reads is added to it in one rounding (with explicit vectors)
  std::string lane;                  // many threads share the row: C text of this one's place among `lanes`; empty: one thread has it
  int64_t lanes = 1;
  std::string at;                    // C name of one position, a multiple of vector_width: only the body there is printed, without a loop
  std::map<int, std::string> outer;  // C names of the other variables; default "v<id>"
  std::map<int, std::string> buffers;  // C names of pointers, by DAG buffer; default "b<k>"
  // C text of leaf `k` for `width` lanes at position `i` of the row (0-based): e.g. "load<vec<f32, 8>>(acc + i)", or the name of a
  // scalar, which is broadcast.
  std::function<std::string(int leaf, int width, const std::string& i)> leaf;
  // Called in each body after the stores with the C text of every element's value: lets row families accumulate.
  std::function<void(Source&, int width, const std::string& i, const std::function<std::string(int element)>& value)> after;
};

// Statements that do not depend on the inner variable are hoisted above the loop.
void print_row(Source& source, const ElementDag& dag, const RowLoop& loop);

// C spelling of a storage type in kernels: "f32", "bf16", "u8" for booleans; and of the type it is computed in ("f32" for bf16).
std::string type_text(ir::DType dtype);
std::string compute_text(ir::DType dtype);
// "vec<f32, 8>", "f32" for one lane; "mask<8>", "bool" for booleans.
std::string lanes_text(ir::DType dtype, int width);
// A literal of the compute type: "0.5f", "i64(3)".
std::string literal_text(ir::DType dtype, double real, int64_t integer);
// C text of a pointwise operator on arguments already of their lanes' types.
std::string operator_text(const Element& element, const std::vector<std::string>& arguments, const std::vector<ir::DType>& types, int width);

// "const f32* b0 = ARG(const f32, 0);" for every buffer; arguments in DAG buffer order starting at `first_argument`.
void print_buffers(Source& source, const ElementDag& dag, int first_argument);
// The BufferRefs that match print_buffers.
std::vector<backend::BufferRef> buffer_arguments(const ElementDag& dag);

}  // namespace rtx::codegen
