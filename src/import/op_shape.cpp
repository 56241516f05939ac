// Operators that move data by rules known at import: reshapes, slices, joins.
#include <algorithm>
#include <set>

#include "import/operators.h"

namespace rtx::import {
namespace {

void reshape_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Extents from = l.shape(x);
  const auto given = l.ints_of("shape", 1);
  if (!given) fail("no shape is given");
  Extents to = *given;
  const bool zero_copies = l.integer("allowzero", 0) == 0;
  int64_t known = 1;
  int64_t open = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && zero_copies) {
      if (i >= from.size())
        fail("the shape " + ir::text(*given) + " copies dimension " + std::to_string(i) +
             ", which the input does not have");
      to[i] = from[i];
    }
    if (to[i] == -1) {
      if (open >= 0) fail("the shape " + ir::text(*given) + " leaves two dimensions open");
      open = static_cast<int64_t>(i);
      continue;
    }
    if (to[i] < 0) fail("the shape " + ir::text(*given) + " has a negative dimension");
    if (__builtin_mul_overflow(known, to[i], &known)) fail("the shape " + ir::text(*given) + " is too large");
  }
  if (open >= 0) {
    const int64_t count = product(from);
    if (known == 0 || count % known != 0) fail(ir::text(from) + " cannot take the shape " + ir::text(*given));
    to[static_cast<size_t>(open)] = count / known;
  }
  l.out(0, l.reshape(x, to));
}

void flatten_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const int64_t rank = l.rank(x);
  const int64_t given = l.integer("axis", 1);
  if (given < -rank || given > rank)
    fail("axis " + std::to_string(given) + " is outside [" + std::to_string(-rank) + ", " +
         std::to_string(rank) + "]");
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  l.out(0, l.reshape(x, {product(l.shape(x), 0, axis), product(l.shape(x), axis)}));
}

void squeeze_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Extents from = l.shape(x);
  const auto given = l.ints_of("axes", 1);
  Extents axes;
  const bool all = !given || given->empty();  // an empty list of axes counts as none given
  if (!all) axes = l.axes(*given, l.rank(x));
  Extents to;
  for (size_t i = 0; i < from.size(); ++i) {
    const bool named = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (named && from[i] != 1) fail("axis " + std::to_string(i) + " of " + ir::text(from) + " is not 1");
    if (all ? from[i] != 1 : !named) to.push_back(from[i]);
  }
  l.out(0, l.reshape(x, to));
}

void unsqueeze_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const auto given = l.ints_of("axes", 1);
  if (!given) fail("no axes are given");
  const int64_t rank = l.rank(x) + static_cast<int64_t>(given->size());
  const Extents axes = l.axes(*given, rank);
  const Extents from = l.shape(x);
  Extents to;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i)
    to.push_back(std::binary_search(axes.begin(), axes.end(), i) ? 1 : from[next++]);
  l.out(0, l.reshape(x, to));
}

void transpose_operator(Lowering& l) {
  const ValueId x = l.in(0);
  Extents perm;
  for (int64_t i = l.rank(x); i-- > 0;) perm.push_back(i);
  if (const auto given = l.integers("perm")) {
    perm = *given;
    for (auto& axis : perm) axis = l.axis(axis, l.rank(x));
  }
  l.out(0, l.transpose(x, perm));
}

void expand_operator(Lowering& l) {
  const Extents to = l.ints(1, "shape");
  for (int64_t extent : to)
    if (extent < 0) fail("the shape " + ir::text(to) + " has a negative dimension");
  const auto joined = ir::broadcast(ir::to_shape(l.shape(l.in(0))), ir::to_shape(to));
  if (!joined.ok()) fail(joined.error().why);
  l.out(0, l.expand(l.in(0), ir::extents(*joined)));
}

// x[a, b] repeated by r: [1, a, 1, b] expanded to [r0, a, r1, b], joined again.
void tile_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const Extents from = l.shape(x);
  Extents repeats = l.ints(1, "repeats");
  if (repeats.size() != from.size())
    fail("repeats " + ir::text(repeats) + " do not match the shape " + ir::text(from));
  Extents apart, wide, to;
  for (size_t i = 0; i < from.size(); ++i) {
    if (repeats[i] < 0) fail("repeats " + ir::text(repeats) + " are negative");
    apart.insert(apart.end(), {1, from[i]});
    wide.insert(wide.end(), {repeats[i], from[i]});
    to.push_back(product({repeats[i], from[i]}));
  }
  if (to == from) return l.out(0, x);
  l.out(0, l.reshape(l.expand(l.reshape(x, apart), wide), to));
}

void concat_operator(Lowering& l) {
  if (l.input_count() == 0) fail("it joins nothing");
  std::vector<ValueId> parts;
  for (int i = 0; i < l.input_count(); ++i) parts.push_back(l.in(i));
  const int64_t given = l.version() < 4 ? l.integer("axis", 1) : l.required_integer("axis");
  l.out(0, l.concat(parts, l.axis(given, l.rank(parts[0]))));
}

struct Window {
  int64_t start, step, length;
};

// What [start : end : step] takes from n elements, by numpy's rule.
Window window_of(int64_t n, int64_t start, int64_t end, int64_t step) {
  if (step == 0) fail("a step is 0");
  step = std::max(step, -INT64_MAX);
  if (start < 0) start += n;
  if (end < 0) end += n;
  int64_t length = 0;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, n);
    end = std::clamp<int64_t>(end, 0, n);
    if (end > start) length = (end - start - 1) / step + 1;
  } else {
    start = std::clamp<int64_t>(start, -1, n - 1);
    end = std::clamp<int64_t>(end, -1, n - 1);
    if (start > end) length = (start - end - 1) / -step + 1;
  }
  return {start, step, length};
}

void slice_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const bool by_attribute = l.version() < 10;
  const auto read = [&](const char* name, int i) -> std::optional<Extents> {
    if (by_attribute) return l.integers(name);
    return l.has(i) ? std::optional<Extents>(l.ints(i, name)) : std::nullopt;
  };
  const auto starts = read("starts", 1);
  const auto ends = read("ends", 2);
  const auto axes = read("axes", 3);
  const auto steps = by_attribute ? std::optional<Extents>() : read("steps", 4);
  if (!starts || !ends) fail("starts or ends are missing");
  if (ends->size() != starts->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size()))
    fail("starts, ends, axes and steps have different lengths");
  Extents lengths = l.shape(x);
  Extents first(lengths.size(), 0);
  Extents stride(lengths.size(), 1);
  std::set<int64_t> seen;
  for (size_t i = 0; i < starts->size(); ++i) {
    const int64_t axis = l.axis(axes ? (*axes)[i] : static_cast<int64_t>(i), l.rank(x));
    if (!seen.insert(axis).second) fail("axis " + std::to_string(axis) + " is sliced twice");
    const auto at = static_cast<size_t>(axis);
    const Window window = window_of(lengths[at], (*starts)[i], (*ends)[i], steps ? (*steps)[i] : 1);
    first[at] = window.start;
    stride[at] = window.step;
    lengths[at] = window.length;
  }
  l.out(0, l.slice(x, first, stride, lengths));
}

void split_operator(Lowering& l) {
  const ValueId x = l.in(0);
  const int64_t axis = l.axis(l.integer("axis", 0), l.rank(x));
  const int64_t size = l.shape(x)[static_cast<size_t>(axis)];
  Extents sizes;
  if (const auto given = l.ints_of("split", 1)) {
    sizes = *given;
  } else {
    const int64_t parts = l.integer("num_outputs", l.output_count());
    if (parts <= 0 || parts > (int64_t{1} << 24)) fail("it splits into " + std::to_string(parts) + " parts");
    if (l.version() < 18 && size % parts != 0)
      fail("axis " + std::to_string(axis) + " of size " + std::to_string(size) + " does not split into " +
           std::to_string(parts) + " equal parts");
    const int64_t chunk = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(size - i * chunk, 0, chunk));
  }
  if (static_cast<int64_t>(sizes.size()) < l.output_count())
    fail("it has " + std::to_string(l.output_count()) + " outputs and sizes " + ir::text(sizes));
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > size - start)
      fail("sizes " + ir::text(sizes) + " do not add up to " + std::to_string(size));
    if (l.wants(static_cast<int>(i))) l.out(static_cast<int>(i), l.slice_axis(x, axis, start, sizes[i]));
    start += sizes[i];
  }
  if (start != size) fail("sizes " + ir::text(sizes) + " do not add up to " + std::to_string(size));
}

// Pads one axis: a piece in front and a piece behind, cut off where a pad is negative.
ValueId padded(Lowering& l, ValueId x, int64_t axis, int64_t before, int64_t after, const std::string& mode,
               ValueId fill) {
  const auto at = static_cast<size_t>(axis);
  const int64_t cut_before = std::max<int64_t>(-before, 0);
  const int64_t cut_after = std::max<int64_t>(-after, 0);
  if (cut_before + cut_after > 0) {
    const int64_t rest = l.shape(x)[at] - cut_before - cut_after;
    if (rest < 0) fail("it cuts more than axis " + std::to_string(axis) + " has");
    x = l.slice_axis(x, axis, cut_before, rest);
  }
  const int64_t size = l.shape(x)[at];
  const auto piece = [&](int64_t length, bool front) {
    Extents extents = l.shape(x);
    extents[at] = length;
    if (mode == "constant") return l.expand(fill, extents);
    if (size == 0) fail("an empty axis cannot be padded by mode " + mode);
    if (mode == "edge") return l.expand(l.slice_axis(x, axis, front ? 0 : size - 1, 1), extents);
    if (mode == "wrap" && length <= size) return l.slice_axis(x, axis, front ? size - length : 0, length);
    if (mode == "reflect" && length < size)
      return l.slice_axis(x, axis, front ? length : size - 2, length, -1);
    unsupported("it pads " + std::to_string(length) + " by mode " + mode);
  };
  std::vector<ValueId> parts;
  if (before > 0) parts.push_back(piece(before, true));
  parts.push_back(x);
  if (after > 0) parts.push_back(piece(after, false));
  return l.concat(parts, axis);
}

void pad_operator(Lowering& l) {
  ValueId x = l.in(0);
  const std::string mode = l.text("mode", "constant");
  auto given = l.version() < 2 ? l.integers("paddings") : l.ints_of("pads", 1);
  if (!given) fail("no pads are given");
  Extents axes;
  if (l.version() >= 18 && l.has(3)) {
    for (int64_t axis : l.ints(3, "axes")) axes.push_back(l.axis(axis, l.rank(x)));
  } else {
    for (int64_t i = 0; i < l.rank(x); ++i) axes.push_back(i);
  }
  if (given->size() != 2 * axes.size())
    fail("pads " + ir::text(*given) + " do not match " + std::to_string(axes.size()) + " axes");
  const ValueId fill = l.version() >= 11 && l.has(2)
                           ? l.reshape(l.in(2), {})
                           : l.scalar_like(x, l.version() < 11 ? l.real("value", 0) : 0);
  constexpr int64_t kMost = int64_t{1} << 40;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t before = (*given)[i];
    const int64_t after = (*given)[i + axes.size()];
    if (std::max({before, after}) > kMost || std::min({before, after}) < -kMost)
      fail("pads " + ir::text(*given) + " are too large");
    if (before != 0 || after != 0) x = padded(l, x, axes[i], before, after, mode, fill);
  }
  l.out(0, x);
}

void depth_to_space_operator(Lowering& l) {
  const ValueId x = l.in(0);
  l.need_rank(x, 4, "the input");
  const Extents n = l.shape(x);
  const int64_t block = l.required_integer("blocksize");
  if (block <= 0 || block > 65536 || n[1] % (block * block) != 0)
    fail("blocksize " + std::to_string(block) + " does not fit " + ir::text(n));
  const int64_t depth = n[1] / (block * block);
  const bool column_first = l.text("mode", "DCR") == "CRD";
  const ValueId apart = l.reshape(x, column_first ? Extents{n[0], depth, block, block, n[2], n[3]}
                                                  : Extents{n[0], block, block, depth, n[2], n[3]});
  const ValueId moved =
      l.transpose(apart, column_first ? Extents{0, 1, 4, 2, 5, 3} : Extents{0, 3, 4, 1, 5, 2});
  l.out(0, l.reshape(moved, {n[0], depth, n[2] * block, n[3] * block}));
}

void space_to_depth_operator(Lowering& l) {
  const ValueId x = l.in(0);
  l.need_rank(x, 4, "the input");
  const Extents n = l.shape(x);
  const int64_t block = l.required_integer("blocksize");
  if (block <= 0 || block > 65536 || n[2] % block != 0 || n[3] % block != 0)
    fail("blocksize " + std::to_string(block) + " does not fit " + ir::text(n));
  const ValueId apart = l.reshape(x, {n[0], n[1], n[2] / block, block, n[3] / block, block});
  l.out(0, l.reshape(l.transpose(apart, {0, 3, 5, 1, 2, 4}),
                     {n[0], n[1] * block * block, n[2] / block, n[3] / block}));
}

}  // namespace

OperatorRows shape_operators() {
  return {
      {"Reshape", reshape_operator, 1u << 1},
      {"Flatten", flatten_operator},
      {"Squeeze", squeeze_operator, 1u << 1},
      {"Unsqueeze", unsqueeze_operator, 1u << 1},
      {"Transpose", transpose_operator},
      {"Expand", expand_operator, 1u << 1},
      {"Tile", tile_operator, 1u << 1},
      {"Concat", concat_operator},
      {"Slice", slice_operator, 1u << 1 | 1u << 2 | 1u << 3 | 1u << 4},
      {"Split", split_operator, 1u << 1},
      {"Pad", pad_operator, 1u << 1 | 1u << 3},
      {"DepthToSpace", depth_to_space_operator},
      {"SpaceToDepth", space_to_depth_operator},
  };
}

}  // namespace rtx::import
