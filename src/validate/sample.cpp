// Rows of a large result in place of all of them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "validate/axes.h"

namespace rtx::validate {

namespace {

using ir::Op;
using ir::ValueId;

constexpr int64_t kRandomRows = 48;
constexpr int64_t kLeastRows = 64;

// The first and the last, both sides of the edges of the first and of the last tile of the usual extents, and random ones.
std::vector<int64_t> choose_rows(int64_t extent, uint64_t seed) {
  std::set<int64_t> rows = {0, extent - 1};
  for (const int64_t tile : {6, 16, 32, 64, 96, 128, 192, 256})
    for (const int64_t edge : {tile, extent / tile * tile})
      for (const int64_t row : {edge - 1, edge})
        if (row >= 0 && row < extent) rows.insert(row);
  std::mt19937_64 random(seed);
  const auto wanted = std::max<size_t>(rows.size() + kRandomRows, kLeastRows);
  while (rows.size() < wanted) rows.insert(static_cast<int64_t>(random() % static_cast<uint64_t>(extent)));
  return {rows.begin(), rows.end()};
}

// The axis to take rows along: it is in every output, and the longest; a row is rather a row than a column.
std::optional<int> choose_axis(const ir::Graph& graph, const Axes& axes) {
  constexpr int64_t kWorthIt = 256;  // choose_rows takes about 80
  std::optional<int> best;
  double best_score = 0;
  for (int a = 0; a < axes.count(); ++a) {
    if (axes.at(a).fixed || axes.at(a).mixed || axes.at(a).extent < kWorthIt) continue;
    bool everywhere = true, last = false;
    for (const ValueId output : graph.outputs) {
      const size_t rank = graph.extents(output).size();
      bool here = false;
      for (size_t d = 0; d < rank; ++d)
        if (axes.of(output, d) == a) here = true, last |= d + 1 == rank;
      everywhere &= here;
    }
    const double score = static_cast<double>(axes.at(a).extent) * (last ? 0.125 : 1.0);
    if (everywhere && score > best_score) best = a, best_score = score;
  }
  return best;
}

// What a causal or windowed attention lets each of the rows see, as a mask; the operator itself then sees every key.
void masks_in_place_of_positions(ir::Graph& graph, const Axes& axes, int axis, const std::vector<int64_t>& rows) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != Op::attention || axes.of(graph.nodes[n].inputs[0], 2) != axis) continue;
    ir::Node node = graph.nodes[n];
    const bool causal = node.attributes.integer("causal") != 0;
    const int64_t left = node.attributes.integer("window_left", -1), right = node.attributes.integer("window_right", -1);
    if (!causal && left < 0 && right < 0) continue;
    const int64_t keys = graph.extents(node.inputs[1])[2], shift = node.attributes.integer("causal_offset");
    const bool added = node.inputs.size() > 3 && node.inputs[3] != ir::kNoValue && ir::is_floating(graph.value(node.inputs[3]).dtype);
    const auto dtype = added ? graph.value(node.inputs[3]).dtype : ir::DType::boolean;
    ir::HostTensor seen(dtype, {static_cast<int64_t>(rows.size()), keys});
    for (size_t i = 0; i < rows.size(); ++i)
      for (int64_t j = 0; j < keys; ++j) {
        const auto distance = static_cast<__int128>(j) - rows[i] - shift;
        const bool keep = !(causal && distance > 0) && !(left >= 0 && distance < -static_cast<__int128>(left)) && !(right >= 0 && distance > right);
        const int64_t at = static_cast<int64_t>(i) * keys + j;
        if (added) seen.set_double(at, keep ? 0.0 : -std::numeric_limits<double>::infinity());
        else seen.set_int(at, keep ? 1 : 0);
      }
    ValueId mask = graph.add_constant(graph.fresh_name("rows_seen"), std::move(seen));
    node.inputs.resize(std::max<size_t>(node.inputs.size(), 4), ir::kNoValue);
    if (node.inputs[3] != ir::kNoValue) {
      mask = graph.add_node(added ? Op::add : Op::logical_and, {node.inputs[3], mask});
      std::rotate(graph.nodes.begin() + static_cast<std::ptrdiff_t>(n), graph.nodes.end() - 1, graph.nodes.end());
      for (auto& value : graph.values)
        if (value.producer >= static_cast<ir::NodeId>(n)) value.producer = value.producer + 1 == static_cast<ir::NodeId>(graph.nodes.size()) ? static_cast<ir::NodeId>(n) : value.producer + 1;
      ++n;
    }
    node.inputs[3] = mask;
    node.attributes.items["causal"] = int64_t{0};
    node.attributes.items["window_left"] = node.attributes.items["window_right"] = int64_t{-1};
    graph.nodes[n] = node;
  }
}

}  // namespace

std::optional<RowSample> sample_rows(const ir::Graph& graph, uint64_t seed) {
  const Axes axes(graph);
  const auto axis = choose_axis(graph, axes);
  if (!axis) return std::nullopt;
  for (const ValueId output : graph.outputs)
    if (!ir::is_floating(graph.value(output).dtype)) return std::nullopt;  // whether an integer was written cannot be seen
  RowSample out;
  out.rows = choose_rows(axes.at(*axis).extent, seed);
  const auto dimensions = [&](ValueId value) {
    std::vector<size_t> found;
    for (size_t d = 0; d < graph.extents(value).size(); ++d)
      if (axes.of(value, d) == *axis) found.push_back(d);
    return found;
  };
  for (const ValueId input : graph.inputs) out.inputs.push_back(dimensions(input));
  for (const ValueId output : graph.outputs) out.outputs.push_back(dimensions(output));
  out.graph = resized(graph, axes, {{*axis, static_cast<int64_t>(out.rows.size())}});
  masks_in_place_of_positions(out.graph, axes, *axis, out.rows);
  return out;
}

ir::HostTensor take_rows(const ir::HostTensor& tensor, const std::vector<int64_t>& rows, const std::vector<size_t>& dimensions) {
  if (dimensions.empty()) return tensor;
  auto extents = tensor.extents();
  for (const size_t d : dimensions) extents[d] = static_cast<int64_t>(rows.size());
  ir::HostTensor out(tensor.dtype(), extents);
  const auto strides = ir::row_major_strides(tensor.extents());
  // What follows the last such dimension is copied in one piece.
  const size_t inner = dimensions.back() + 1;
  int64_t piece = ir::bytes_of(tensor.dtype());
  for (size_t d = inner; d < extents.size(); ++d) piece *= extents[d];
  std::byte* to = out.mutable_bytes();
  const int64_t pieces = piece == 0 ? 0 : out.byte_size() / piece;
  for (int64_t p = 0; p < pieces; ++p) {
    int64_t rest = p, from = 0;
    for (size_t d = inner; d-- > 0;) {
      const int64_t at = rest % extents[d];
      rest /= extents[d];
      const bool taken = std::find(dimensions.begin(), dimensions.end(), d) != dimensions.end();
      from += (taken ? rows[static_cast<size_t>(at)] : at) * strides[d];
    }
    std::memcpy(to + p * piece, tensor.bytes() + from * ir::bytes_of(tensor.dtype()), static_cast<size_t>(piece));
  }
  return out;
}

}  // namespace rtx::validate
