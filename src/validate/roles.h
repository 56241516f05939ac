#pragma once
// What a graph does with its inputs, for inputs worth trying: which elements become queries, keys and values of an attention, and
// which inputs are masks that a large constant turns into a penalty.
#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace rtx::validate {

// An element of an input as an element of an attention's operand; packed, since there is one for each element of large inputs.
struct Role {
  enum Of : uint64_t { none, query, key, value, bias, several };  // bias: a mask of numbers
  uint64_t of : 3 = none;
  uint64_t head : 13 = 0;  // of the keys; a query's head counts as the one that it reads
  uint64_t row : 28 = 0;
  uint64_t column : 20 = 0;
};
static_assert(sizeof(Role) == 8);
// By input and element; inputs that no attention reads are left out. Followed through movement, pointwise operators and rotary.
std::map<ir::ValueId, std::vector<Role>> attention_roles(const ir::Graph& graph);

// Inputs that a constant of at least 64 multiplies on the way to an exponential: (1 - mask) * -10000.
std::vector<bool> penalty_masks(const ir::Graph& graph);  // by ValueId

}  // namespace rtx::validate
