#include "validate/whole.h"

#include <algorithm>
#include <cmath>

namespace rtx::validate {

namespace {

using ir::DType;
using ir::Op;
using ir::ValueId;

// What leads to an output: the longest sum on the way, and whether a tensor is narrower than f32.
struct Way {
  int64_t terms = 1;
  bool narrow = false;
};

Way way_to(const ir::Graph& graph, ValueId output) {
  Way way;
  std::vector<bool> wanted(graph.values.size());
  const auto want = [&](ValueId value) {
    if (value == ir::kNoValue) return;
    wanted[static_cast<size_t>(value)] = true;
    const auto dtype = graph.value(value).dtype;
    way.narrow |= ir::is_floating(dtype) && dtype != DType::f32 && dtype != DType::f64;
  };
  want(output);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const auto& node = graph.nodes[n];
    if (std::none_of(node.outputs.begin(), node.outputs.end(), [&](ValueId y) { return y != ir::kNoValue && wanted[static_cast<size_t>(y)]; })) continue;
    for (const ValueId input : node.inputs) want(input);
    if (node.inputs.empty() || node.inputs[0] == ir::kNoValue) continue;
    const auto x = graph.extents(node.inputs[0]);
    const int64_t results = std::max<int64_t>(ir::element_count(graph.extents(node.outputs[0])), 1);
    int64_t terms = 1;
    switch (node.op) {
      case Op::matmul: terms = x[x.size() - (node.attributes.integer("trans_a") != 0 ? 2 : 1)]; break;
      case Op::attention: terms = std::max(x[3], graph.extents(node.inputs[1])[2]); break;
      case Op::reduce_sum:
      case Op::reduce_mean: terms = ir::element_count(x) / results; break;
      case Op::softmax:
      case Op::log_softmax: terms = x[static_cast<size_t>(node.attributes.integer("axis"))]; break;
      case Op::layer_norm:
      case Op::rms_norm:
        for (auto d = static_cast<size_t>(node.attributes.integer("axis")); d < x.size(); ++d) terms *= x[d];
        break;
      default: break;
    }
    way.terms = std::max(way.terms, terms);
  }
  return way;
}

double norm_error(const reference::RefTensor& found, const reference::RefTensor& wanted) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < wanted.reals.size(); ++i) {
    const double w = wanted.reals[i], f = found.reals[i];
    if (!std::isfinite(w) || !std::isfinite(f)) continue;
    error += (f - w) * (f - w), norm += w * w;
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

}  // namespace

WholeComparison compare_whole(const ir::Graph& graph, size_t index, const ir::HostTensor& found, const reference::RefTensor& exact,
                              const reference::RefTensor& rounded) {
  WholeComparison out;
  const std::string name = graph.output_name(index);
  if (!exact.floating()) {
    out.comparison = compare(name, found, exact, {});
    return out;
  }
  const Way way = way_to(graph, graph.outputs[index]);
  out.node_by_node = norm_error(rounded, exact);
  // Kernels of narrow types sum in f32, as every kernel may: nobody rounds to f16 exactly where the exact result does.
  const double sums = norm_tolerance(exact.dtype == DType::f64 && !way.narrow ? DType::f64 : DType::f32, way.terms);
  out.region_tolerance = way.narrow ? norm_tolerance(exact.dtype == DType::bf16 ? DType::bf16 : DType::f16, way.terms) : sums;
  // Roundings are random: over few results node by node may be lucky, as over three that all happen to round well.
  const double luck = 1 + 4 / std::sqrt(static_cast<double>(std::max<int64_t>(exact.count(), 1)));
  const double allowed = way.narrow ? out.node_by_node * luck + sums : std::max(out.node_by_node, sums);
  out.judged_by_nodes = way.narrow || out.node_by_node >= sums;
  Bounds bounds;
  bounds.terms = way.terms;
  bounds.scale = allowed / norm_tolerance(exact.dtype, way.terms);
  bounds.unrounded = true;
  out.comparison = compare(name, found, exact, bounds);
  return out;
}

}  // namespace rtx::validate
