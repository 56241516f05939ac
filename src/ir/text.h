#pragma once
// The text form of a graph, both ways. It is what tests compare, `rtx explain` prints and cache keys contain.
//
//   x: f32[7,5] strides [1,7];                 graph input, optional layout (also `offset 2`)
//   w: f32[384,384] weight;                    graph input whose bytes never change
//   w: const f32[2] {1, 2};                    constant with values; large ones print as `const f32[384,384] #<blake2b-64 of bytes>`
//                                              (such a text does not parse back without the constants: parse() takes a map)
//   s = softmax(x, axis=1);                    node; types of results are inferred, except
//   c = cast(s): f16;  r = reshape(c): [35];   where a type or shape must be given after the colon
//   l = slice(r, starts=[0], steps=[2]): [4];  (y, m, v) = layer_norm(x, g, b, axis=1, epsilon=1e-05);
//   a = attention(q, k, v, _, n, scale=0.125); `_` is an absent optional input
//   state cache: past -> present axis=2 max=1024;
//   symbol batch min=1 max=64 multiple=8;      before its first use in a shape; undeclared symbols have no bounds
//   specialized shape: i64[2] {3, 4};          an input whose value was fixed; graph "name"; at the top names the graph
//   return y, s as "model output"
//
// Comments run from // to the end of the line. A name that is not one plain word stands in double quotes. parse() also takes a
// number as an operand (a scalar constant of the other operand's type). Attributes that equal their default are not printed;
// nodes' own names (where they came from) are not part of the text.
// Values are printed with their names; anonymous() renames them canonically (%0, %1, ...) for keys.
#include <map>
#include <string>

#include "ir/graph.h"

namespace rtx::ir {

struct TextOptions {
  int64_t inline_constants_up_to = 16;  // elements
  bool types_on_every_value = false;    // "s: f32[7,5] = softmax(...)"
  bool anonymous = false;               // canonical names instead of the values' own
  bool hash_constants = true;           // false: large constants print as `const f32[384,384]` only (keys: values do not change code)
};

std::string to_text(const Graph& graph, const TextOptions& options = {});
Result<Graph> parse(std::string_view text, const std::map<std::string, HostTensor>& constants = {});
// For questions that no constant's values answer (which inputs are indices): constants whose values are not in the text become values
// that nothing makes. Not a graph to run or to print.
Result<Graph> parse_structure(std::string_view text);
// For tests: parse() that asserts.
Graph parse_or_die(std::string_view text);

}  // namespace rtx::ir
