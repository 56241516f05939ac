#pragma once
// LoopNest: an ElementDag with the domain it is evaluated over. The passes reshape the domain until offsets are affine and the
// loops few: what a person would write by hand for this movement of data.
#include <vector>

#include "codegen/element.h"
#include "codegen/source.h"

namespace rtx::codegen {

struct LoopNest {
  ElementDag dag;
  std::vector<int64_t> extents;  // by variable id; variables of extent 1 appear nowhere
  std::vector<int> order;        // variables with extent > 1, outermost first; the last one runs along the row
  int64_t count() const;         // evaluations: the product of all extents
};

// Splits variables whose quotients and remainders appear in offsets (n of 384 with n / 64, n % 64 becomes 6 x 64), as far as
// the divisors fit together; what is left stays integer code.
void refine(LoopNest& nest);
// Cuts the domain where an in_range test on one variable changes its answer, so that pieces need no test (concat, padding).
// Gives the nest itself when there is nothing to cut, at most `limit` pieces otherwise.
std::vector<LoopNest> split_ranges(const LoopNest& nest, int limit = 16);
// Orders variables so that the first store is written in order of addresses; then merges neighbours whenever every offset allows
// (a contiguous chain becomes one loop).
void arrange(LoopNest& nest);
// Merges neighbours of `order` only.
void collapse(LoopNest& nest);

// Elements that nothing stored depends on are dropped and the rest renumbered; buffers keep their numbers.
void prune(ElementDag& dag);

// How the nest is divided among groups: the loops outside `split` are flattened into the group number together with the chunks of
// loop `split`; the loops inside run in the group.
struct Chunks {
  int split = -1;        // position in order; -1: no loops at all (one evaluation)
  int64_t chunk = 1;     // values of that loop a group takes
  int64_t pieces = 1;    // chunks along that loop
  int64_t groups = 1;
};
Chunks divide(const LoopNest& nest, int64_t elements_per_group, int64_t row_multiple);

// Prints the loops of group `g`, which `group` (C text) names, around print_row; pointers are b0, b1, ...
struct NestStyle {
  int vector_width = 8;
  int unroll = 1;
  std::string group = "g";
};
void print_nest(Source& source, const LoopNest& nest, const Chunks& chunks, const NestStyle& style);

// The same for groups of many threads: a row is some vectors and, behind the last whole one, single elements; each of these steps,
// numbered over all rows, is one thread's. `step` names its number, which is below steps_of(nest, width).
int64_t steps_of(const LoopNest& nest, int64_t vector_width);
void print_step(Source& source, const LoopNest& nest, int64_t vector_width, const std::string& step);
// "const i64 v3 = ...;" for the loops `order`, outermost first, from their row-major number `number` below `count`.
void print_coordinates(Source& source, const std::vector<int64_t>& extents, const std::vector<int>& order, const std::string& number, int64_t count);

}  // namespace rtx::codegen
