#include "validate/axes.h"

#include <algorithm>

#include "validate/validate.h"

namespace rtx::validate {

namespace {

using ir::Op;
using ir::ValueId;
using Extents = std::vector<int64_t>;

// Joins dimensions that operators show to be one.
class Builder {
 public:
  explicit Builder(const ir::Graph& graph) {
    for (size_t v = 0; v < graph.values.size(); ++v) {
      extents_.push_back(graph.extents(static_cast<ValueId>(v)));
      first_.push_back(static_cast<int>(parent_.size()));
      for (size_t d = 0; d < extents_[v].size(); ++d) {
        parent_.push_back(static_cast<int>(parent_.size()));
        axes_.push_back({extents_[v][d], false, false});
      }
      const auto& value = graph.values[v];
      if ((value.constant && value.constant->count() > 1) || !value.layout.dense()) pin_all(static_cast<ValueId>(v));
    }
    for (const auto& state : graph.states) pin_all(state.input), pin_all(state.output);
    for (const auto& node : graph.nodes) visit(node);
  }

  int root(ValueId value, size_t d) {
    int at = first_[static_cast<size_t>(value)] + static_cast<int>(d);
    while (parent_[static_cast<size_t>(at)] != at) at = parent_[static_cast<size_t>(at)];
    return at;
  }
  Axis& axis(ValueId value, size_t d) { return axes_[static_cast<size_t>(root(value, d))]; }
  const Extents& extents(ValueId value) const { return extents_[static_cast<size_t>(value)]; }

 private:
  size_t rank(ValueId value) const { return extents(value).size(); }
  void pin(ValueId value, size_t d) { axis(value, d).fixed = axis(value, d).mixed = true; }
  void mix(ValueId value, size_t d) { axis(value, d).mixed = true; }
  void pin_all(ValueId value) {
    for (size_t d = 0; d < rank(value); ++d) pin(value, d);
  }
  void tie(ValueId a, size_t da, ValueId b, size_t db) {
    const int64_t ea = extents(a)[da], eb = extents(b)[db];
    if (ea == 1 || eb == 1) return;  // a broadcast, or nothing to resize
    if (ea != eb) {
      pin(a, da), pin(b, db);
      return;
    }
    const int ra = root(a, da), rb = root(b, db);
    if (ra == rb) return;
    auto &to = axes_[static_cast<size_t>(ra)], &from = axes_[static_cast<size_t>(rb)];
    to.fixed |= from.fixed, to.mixed |= from.mixed;
    parent_[static_cast<size_t>(rb)] = ra;
  }
  // Dimensions counted from the last one, as broadcasting does; the last `skip` ones are left to the caller.
  void tie_trailing(ValueId a, ValueId b, size_t skip = 0) {
    for (size_t back = skip + 1; back <= std::min(rank(a), rank(b)); ++back) tie(a, rank(a) - back, b, rank(b) - back);
  }

  void visit(const ir::Node& node) {
    const ValueId x = node.inputs.empty() ? ir::kNoValue : node.inputs[0], y = node.outputs[0];
    const auto& attributes = node.attributes;
    const auto axis_attribute = static_cast<size_t>(attributes.integer("axis"));
    if (ir::info(node.op).op_class == ir::OpClass::pointwise || node.op == Op::expand) {
      for (const ValueId input : node.inputs)
        if (input != ir::kNoValue) tie_trailing(input, y);
      return;
    }
    switch (node.op) {
      case Op::transpose: {
        const auto perm = attributes.integers("perm");
        for (size_t d = 0; d < perm.size(); ++d) tie(x, static_cast<size_t>(perm[d]), y, d);
        return;
      }
      case Op::reshape: visit_reshape(x, y); return;
      case Op::slice: {
        const auto starts = attributes.integers("starts"), steps = attributes.integers("steps");
        for (size_t d = 0; d < rank(y); ++d) {
          if (extents(x)[d] == extents(y)[d] && starts[d] == 0 && steps[d] == 1) tie(x, d, y, d);
          else pin(x, d), pin(y, d);
        }
        return;
      }
      case Op::concat:
        for (const ValueId input : node.inputs)
          for (size_t d = 0; d < rank(y); ++d) {
            if (d == axis_attribute) pin(input, d), pin(y, d);
            else tie(input, d, y, d);
          }
        return;
      case Op::gather: {
        const ValueId indices = node.inputs[1];
        pin(x, axis_attribute);
        for (size_t d = 0; d < axis_attribute; ++d) tie(x, d, y, d);
        for (size_t d = 0; d < rank(indices); ++d) tie(indices, d, y, axis_attribute + d);
        for (size_t d = axis_attribute + 1; d < rank(x); ++d) tie(x, d, y, d + rank(indices) - 1);
        return;
      }
      case Op::reduce_sum:
      case Op::reduce_mean:
      case Op::reduce_max:
      case Op::reduce_min: {
        const auto axes = attributes.integers("axes");
        size_t to = 0;
        for (size_t d = 0; d < rank(x); ++d) {
          const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
          if (reduced) mix(x, d);
          else tie(x, d, y, to);
          to += !reduced || attributes.integer("keepdims") != 0 ? 1 : 0;
        }
        return;
      }
      case Op::softmax:
      case Op::log_softmax:
        tie_trailing(x, y);
        mix(x, axis_attribute);
        return;
      case Op::layer_norm:
      case Op::rms_norm:
        for (const ValueId output : node.outputs)
          for (size_t d = 0; output != ir::kNoValue && d < std::min(rank(output), rank(x)); ++d) tie(x, d, output, d);
        for (size_t d = axis_attribute; d < rank(x); ++d) mix(x, d);
        for (size_t i = 1; i < node.inputs.size(); ++i)
          if (node.inputs[i] != ir::kNoValue) tie_trailing(node.inputs[i], x);
        return;
      case Op::matmul: {
        const ValueId b = node.inputs[1];
        const bool ta = attributes.integer("trans_a") != 0, tb = attributes.integer("trans_b") != 0;
        const size_t ra = rank(x), rb = rank(b), r = rank(y);
        tie(x, ta ? ra - 1 : ra - 2, y, r - 2);
        tie(b, tb ? rb - 2 : rb - 1, y, r - 1);
        tie(x, ta ? ra - 2 : ra - 1, b, tb ? rb - 1 : rb - 2);
        mix(x, ta ? ra - 2 : ra - 1);
        tie_trailing(x, y, 2);
        tie_trailing(b, y, 2);
        return;
      }
      case Op::rotary:
        tie_trailing(x, y);
        pin(x, 3);
        for (const size_t i : {size_t{1}, size_t{2}}) {
          tie(node.inputs[i], 0, x, 0);
          tie(node.inputs[i], 1, x, 2);
          pin(node.inputs[i], 2);
        }
        return;
      case Op::attention: visit_attention(node); return;
      default:
        for (const ValueId input : node.inputs)
          if (input != ir::kNoValue) pin_all(input);
        for (const ValueId output : node.outputs) pin_all(output);
    }
  }

  // Runs of dimensions with equal products: a run with one extent on either side keeps it, others are split or merged.
  void visit_reshape(ValueId x, ValueId y) {
    const auto significant = [&](ValueId value) {
      std::vector<size_t> out;
      for (size_t d = 0; d < rank(value); ++d)
        if (extents(value)[d] != 1) out.push_back(d);
      return out;
    };
    const auto from = significant(x), to = significant(y);
    size_t i = 0, j = 0;
    while (i < from.size() && j < to.size()) {
      if (extents(x)[from[i]] == extents(y)[to[j]]) {
        tie(x, from[i++], y, to[j++]);
        continue;
      }
      int64_t left = extents(x)[from[i]], right = extents(y)[to[j]];
      pin(x, from[i++]), pin(y, to[j++]);
      while (left != right && (left < right ? i < from.size() : j < to.size())) {
        if (left < right) left *= extents(x)[from[i]], pin(x, from[i++]);
        else right *= extents(y)[to[j]], pin(y, to[j++]);
      }
    }
    for (; i < from.size(); ++i) pin(x, from[i]);
    for (; j < to.size(); ++j) pin(y, to[j]);
  }

  void visit_attention(const ir::Node& node) {
    const ValueId q = node.inputs[0], k = node.inputs[1], v = node.inputs[2], y = node.outputs[0];
    for (const ValueId other : {k, v, y}) tie(q, 0, other, 0);
    for (const ValueId value : {q, k, v, y}) pin(value, 1);  // groups of heads share keys
    tie(q, 2, y, 2);
    tie(k, 2, v, 2), mix(k, 2);
    tie(q, 3, k, 3), mix(q, 3);
    tie(v, 3, y, 3);
    if (node.inputs.size() > 3 && node.inputs[3] != ir::kNoValue) {
      const ValueId mask = node.inputs[3];
      const size_t r = rank(mask);
      if (r >= 1) tie(mask, r - 1, k, 2);
      if (r >= 2) tie(mask, r - 2, q, 2);
      if (r >= 3) pin(mask, r - 3);
      if (r >= 4) tie(mask, r - 4, q, 0);
    }
    if (node.inputs.size() > 4 && node.inputs[4] != ir::kNoValue) tie(node.inputs[4], 0, q, 0);
  }

  std::vector<Extents> extents_;
  std::vector<int> first_, parent_;
  std::vector<Axis> axes_;
};

}  // namespace

Axes::Axes(const ir::Graph& graph) {
  Builder builder(graph);
  std::vector<std::pair<int, int>> numbers;  // root, axis
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto value = static_cast<ValueId>(v);
    index_.emplace_back();
    for (size_t d = 0; d < builder.extents(value).size(); ++d) {
      if (builder.extents(value)[d] <= 1) {
        index_.back().push_back(-1);
        continue;
      }
      const int root = builder.root(value, d);
      auto known = std::find_if(numbers.begin(), numbers.end(), [&](const auto& entry) { return entry.first == root; });
      if (known == numbers.end()) {
        known = numbers.insert(numbers.end(), {root, static_cast<int>(axes_.size())});
        axes_.push_back(builder.axis(value, d));
      }
      index_.back().push_back(known->second);
    }
  }
}

int Axes::of(ValueId value, size_t dimension) const { return index_[static_cast<size_t>(value)][dimension]; }

double work_of(const ir::Graph& graph) {
  double work = 0;
  for (const auto& node : graph.nodes) {
    const double count = static_cast<double>(ir::element_count(graph.extents(node.outputs[0])));
    const auto from = graph.extents(node.inputs.empty() || node.inputs[0] == ir::kNoValue ? node.outputs[0] : node.inputs[0]);
    if (node.op == Op::matmul) {
      work += 2 * count * static_cast<double>(from[from.size() - (node.attributes.integer("trans_a") != 0 ? 2 : 1)]);
    } else if (node.op == Op::attention) {
      const auto v = graph.extents(node.inputs[2]);
      const double pairs = static_cast<double>(from[0] * from[1] * from[2]) * static_cast<double>(v[2]);
      work += 2 * pairs * static_cast<double>(from[3] + v[3]);
    } else {
      work += std::max(count, static_cast<double>(ir::element_count(from)));
    }
  }
  return work;
}

ir::Graph resized(ir::Graph graph, const Axes& axes, const std::vector<std::pair<int, int64_t>>& extents) {
  for (size_t v = 0; v < graph.values.size(); ++v) {
    auto now = graph.extents(static_cast<ValueId>(v));
    bool changed = false;
    for (size_t d = 0; d < now.size(); ++d)
      for (const auto& [axis, extent] : extents)
        if (axes.of(static_cast<ValueId>(v), d) == axis) now[d] = extent, changed = true;
    if (changed) graph.values[v].shape = ir::to_shape(now);
  }
  return graph;
}

std::optional<ir::Graph> small_companion(const ir::Graph& graph, double full_flops) {
  if (work_of(graph) <= full_flops) return std::nullopt;
  const Axes axes(graph);
  for (const int64_t tile : {768, 384, 192, 96, 48, 24, 12}) {
    std::vector<std::pair<int, int64_t>> extents;
    for (int a = 0; a < axes.count(); ++a)
      if (!axes.at(a).fixed && axes.at(a).extent >= 2 * tile) extents.push_back({a, tile + axes.at(a).extent % tile});
    if (extents.empty()) continue;
    auto out = resized(graph, axes, extents);
    if (work_of(out) <= full_flops) return out;
  }
  return std::nullopt;
}

std::optional<ir::Graph> shorter_companion(const ir::Graph& graph, double most_work) {
  if (work_of(graph) <= most_work) return std::nullopt;
  const Axes axes(graph);
  std::vector<bool> last(static_cast<size_t>(axes.count()), false);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const size_t rank = graph.extents(static_cast<ValueId>(v)).size();
    if (rank == 0) continue;
    if (const int axis = axes.of(static_cast<ValueId>(v), rank - 1); axis >= 0) last[static_cast<size_t>(axis)] = true;
  }
  for (const int64_t tile : {1536, 768, 384, 192, 96, 48, 24, 12, 6, 3, 2}) {
    std::vector<std::pair<int, int64_t>> extents;
    for (int a = 0; a < axes.count(); ++a)
      if (!axes.at(a).fixed && !axes.at(a).mixed && !last[static_cast<size_t>(a)] && axes.at(a).extent >= 2 * tile) extents.push_back({a, tile + axes.at(a).extent % tile});
    if (extents.empty()) continue;
    auto out = resized(graph, axes, extents);
    if (work_of(out) <= most_work) return out;
  }
  return std::nullopt;
}

}  // namespace rtx::validate
