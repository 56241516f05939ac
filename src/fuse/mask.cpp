#include "fuse/mask.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rtx::fuse {
namespace {

using ir::Op;
using ir::ValueId;

// A score this far below another has weight 0 in every type (exp(-745) is 0 in f64), and scores are far
// smaller than the rest.
constexpr double kFillLikeMinusInfinity = -1e4;
constexpr double kAddedLikeMinusInfinity = -1e9;

// score + this = this, in f32 and in f64 (whose unit at 1e30 is 1e14).
constexpr double kAbsorbsScores = -1e30;

const double kMinusInfinity = -std::numeric_limits<double>::infinity();

template <class Kept>
KeptKeys kept_keys(const std::vector<int64_t>& extents, int64_t queries, int64_t keys, Kept&& kept) {
  KeptKeys out;
  const int64_t count = ir::element_count(extents);
  bool all = true;
  for (int64_t i = 0; all && i < count; ++i) all = kept(i);
  if (all) {
    out.all = out.every_query_keeps_one = true;
    return out;
  }
  const size_t rank = extents.size();
  const int64_t columns = rank >= 1 ? extents[rank - 1] : 1;
  const int64_t rows = columns == 0 ? 0 : count / columns;
  out.every_query_keeps_one = true;
  std::vector<int64_t> prefix(static_cast<size_t>(rows));  // keys kept, or -1 when they are no prefix
  for (int64_t row = 0; row < rows; ++row) {
    int64_t total = 0, leading = 0;
    for (int64_t j = 0; j < columns; ++j)
      if (kept(row * columns + j)) {
        ++total;
        if (leading == j) ++leading;
      }
    out.every_query_keeps_one = out.every_query_keeps_one && total > 0;
    prefix[static_cast<size_t>(row)] = total == leading ? total : -1;
  }
  if (columns != keys || rows != queries || (rank < 2 ? 1 : extents[rank - 2]) != queries) return out;
  std::optional<int64_t> offset;
  for (int64_t i = 0; i < rows && !offset; ++i)
    if (const int64_t p = prefix[static_cast<size_t>(i)]; p > 0 && p < keys) offset = p - 1 - i;
  if (!offset) return out;
  for (int64_t i = 0; i < rows; ++i)
    if (prefix[static_cast<size_t>(i)] != std::clamp<int64_t>(i + *offset + 1, 0, keys)) return out;
  out.causal_offset = offset;
  return out;
}

// Reads a constant step. False: its meaning cannot be said exactly.
bool read_constant(const Editor& editor, const MaskStep& step, bool alone, bool innermost, int64_t queries,
                   int64_t keys, AttentionMask* out) {
  const ir::HostTensor& tensor = *editor.value(step.value).constant;
  double masked = step.selects ? step.fill : 0;
  if (!step.selects)
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const double added = tensor.get_double(i);
      if (added == 0) continue;
      if (masked != 0 && added != masked) {  // a bias with values of its own
        out->steps.push_back(step);
        return true;
      }
      masked = added;
    }
  const KeptKeys kept = kept_keys(tensor.extents(), queries, keys, [&](int64_t i) {
    return step.selects ? (tensor.get_int(i) != 0) == step.keep : tensor.get_double(i) == 0;
  });
  if (kept.all) return true;
  const double limit = step.selects ? kFillLikeMinusInfinity : kAddedLikeMinusInfinity;
  const bool like_infinity =
      masked == kMinusInfinity || (masked <= limit && alone && kept.every_query_keeps_one);
  if (kept.causal_offset && like_infinity) {
    out->causal_offset =
        out->causal ? std::min(out->causal_offset, *kept.causal_offset) : *kept.causal_offset;
    out->causal = true;
    return true;
  }
  if (step.selects && !like_infinity && !(innermost && masked <= kAbsorbsScores)) return false;
  out->steps.push_back(step);
  return true;
}

}  // namespace

std::optional<AttentionMask> read_mask(Match& match, std::vector<MaskStep> steps, int64_t queries,
                                       int64_t keys) {
  const Editor& editor = match.editor;
  const size_t innermost = steps.size() - 1;
  // bias + constant, as exporters add a causal triangle to the mask that the caller gave
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].selects) continue;
    const ir::Node* sum = match.peek(steps[i].value, Op::add);
    if (!sum) continue;
    for (size_t side = 0; side < 2; ++side) {
      MaskStep triangle{sum->inputs[side]};
      AttentionMask alone;
      if (!editor.value(triangle.value).constant ||
          !read_constant(editor, triangle, false, false, queries, keys, &alone) || !alone.steps.empty())
        continue;
      match.take(steps[i].value, Op::add);
      steps[i].value = sum->inputs[1 - side];
      steps.push_back(triangle);
      break;
    }
  }
  AttentionMask out;
  for (size_t i = 0; i < steps.size(); ++i) {
    const MaskStep& step = steps[i];
    if (editor.value(step.value).constant) {
      if (!read_constant(editor, step, steps.size() == 1, i == innermost, queries, keys, &out))
        return std::nullopt;
    } else if (step.selects && step.fill != kMinusInfinity &&
               !(i == innermost && step.fill <= kAbsorbsScores)) {
      return std::nullopt;
    } else {
      out.steps.push_back(step);
    }
  }
  return out;
}

namespace {

// A selected finite fill as a mask to add.
std::optional<MaskStep> as_added(Editor& editor, const MaskStep& step) {
  if (!step.selects || step.fill == kMinusInfinity) return step;
  const ValueId zero = editor.add_constant(ir::HostTensor::scalar(step.dtype, 0));
  const ValueId fill = editor.add_constant(ir::HostTensor::scalar(step.dtype, step.fill));
  auto mask = editor.add(Op::where, {step.value, step.keep ? zero : fill, step.keep ? fill : zero});
  if (!mask) return std::nullopt;
  return MaskStep{*mask};
}

}  // namespace

std::optional<ValueId> build_mask(Editor& editor, const std::vector<MaskStep>& steps) {
  std::optional<ValueId> keep, added;
  for (const MaskStep& spelled : steps) {
    auto typed_step = as_added(editor, spelled);
    if (!typed_step) return std::nullopt;
    const MaskStep& step = *typed_step;
    if (!step.selects) {
      if (added) {
        const ir::DType a = editor.value(*added).dtype, b = editor.value(step.value).dtype;
        auto typed = editor.as_dtype(step.value, widens(a, b) ? b : a),
             before = editor.as_dtype(*added, widens(a, b) ? b : a);
        if (!typed || !before) return std::nullopt;
        added = editor.add(Op::add, {*before, *typed});
      } else {
        added = step.value;
      }
      if (!added) return std::nullopt;
      continue;
    }
    auto one = step.keep ? std::optional(step.value) : editor.add(Op::logical_not, {step.value});
    keep = keep && one ? editor.add(Op::logical_and, {*keep, *one}) : one;
    if (!keep) return std::nullopt;
  }
  if (!keep) return added ? *added : ir::kNoValue;
  if (!added) return *keep;
  const ValueId masked =
      editor.add_constant(ir::HostTensor::scalar(editor.value(*added).dtype, kMinusInfinity));
  return editor.add(Op::where, {*keep, *added, masked});
}

}  // namespace rtx::fuse
