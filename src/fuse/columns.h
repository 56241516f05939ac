#pragma once
// Columns of products, for rules that put weights of several products into one: which product a value is, and new constants made of columns
// of others. Columns are those of B, wherever its transposition puts them.
#include <optional>
#include <vector>

#include "fuse/match.h"

namespace rtx::fuse {

// `value` as columns first .. first + count - 1 of x B [+ bias]: the product, perhaps the sum with a bias, perhaps a slice of the last
// dimension. B and bias are constants that nobody else reads; nodes in `covers` serve no other value than this, or are shared by the parts of
// one product.
struct Columns {
  ir::ValueId x = ir::kNoValue, weight = ir::kNoValue, bias = ir::kNoValue;
  ir::Attributes attributes;  // of the product
  int64_t first = 0, count = 0;
  std::vector<ir::NodeId> covers;
};
std::optional<Columns> columns_of(const Editor& editor, ir::ValueId value);

// Same x, transposition, types and presence of a bias: their columns can stand in one product.
bool go_together(const Editor& editor, const Columns& a, const Columns& b);

// Where a column of the new product comes from.
struct Source {
  size_t part;
  int64_t column;  // within the part
};
// The product [+ bias] of `parts` whose columns are `order`.
std::optional<ir::ValueId> product_of_columns(Editor& editor, const std::vector<Columns>& parts, const std::vector<Source>& order);

// Columns first .. first + count - 1 of the last dimension.
std::optional<ir::ValueId> slice_columns(Editor& editor, ir::ValueId value, int64_t first, int64_t count);
// The source of a slice that takes a range of the last dimension and all of the others; its start in *first.
std::optional<ir::ValueId> range_of_columns(const Editor& editor, ir::ValueId value, int64_t* first);

}  // namespace rtx::fuse
