// Inputs for validation and timing: random ones and hard ones. Inputs that are used as indices or lengths stay in range.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "validate/serial.h"
#include "validate/validate.h"

namespace rtx::validate {

namespace {

using ir::DType;
using ir::Op;

struct Range {
  int64_t low = 0, high = 0;  // inclusive
};

// Narrows the range of every graph input that `value` is made from by operators that pass integers through.
void narrow(const ir::Graph& graph, ir::ValueId value, Range range, std::map<ir::ValueId, Range>& ranges) {
  if (value == ir::kNoValue || graph.is_constant(value)) return;
  const auto& v = graph.value(value);
  if (v.producer == ir::kNoNode) {
    auto [position, fresh] = ranges.try_emplace(value, range);
    if (!fresh) position->second = {std::max(position->second.low, range.low), std::min(position->second.high, range.high)};
    return;
  }
  const auto& node = graph.node(v.producer);
  const bool all_data = node.op == Op::concat || node.op == Op::where || node.op == Op::add || node.op == Op::max || node.op == Op::min;
  if (node.op == Op::where) {
    narrow(graph, node.inputs[1], range, ranges);
    narrow(graph, node.inputs[2], range, ranges);
  } else if (all_data) {
    for (const auto input : node.inputs) narrow(graph, input, range, ranges);
  } else if (node.op == Op::cast || ir::info(node.op).op_class == ir::OpClass::movement) {
    narrow(graph, node.inputs[0], range, ranges);
  }
}

std::map<ir::ValueId, Range> index_ranges(const ir::Graph& graph) {
  std::map<ir::ValueId, Range> ranges;
  for (const auto& node : graph.nodes) {
    switch (node.op) {
      case Op::gather: {
        const int64_t extent = graph.extents(node.inputs[0])[static_cast<size_t>(node.attributes.integer("axis"))];
        narrow(graph, node.inputs[1], {-extent, extent - 1}, ranges);
        break;
      }
      case Op::gather_nd:
      case Op::scatter_nd: {
        const auto data = graph.extents(node.inputs[0]);
        const auto indices = graph.extents(node.inputs[1]);
        const auto batch = static_cast<size_t>(node.attributes.integer("batch_dims"));
        int64_t extent = INT64_MAX;
        for (int64_t d = 0; !indices.empty() && d < indices.back(); ++d) extent = std::min(extent, data[batch + static_cast<size_t>(d)]);
        if (extent != INT64_MAX) narrow(graph, node.inputs[1], {-extent, extent - 1}, ranges);
        break;
      }
      case Op::attention:
        if (node.inputs.size() > 4 && node.inputs[4] != ir::kNoValue) narrow(graph, node.inputs[4], {0, graph.extents(node.inputs[1])[2]}, ranges);
        break;
      default: break;
    }
  }
  return ranges;
}

bool has_op(const ir::Graph& graph, std::initializer_list<Op> ops) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) { return std::find(ops.begin(), ops.end(), node.op) != ops.end(); });
}

// `gentle`: for attention, whose softmax turns logits of 1e6 and their rounding into a coin toss that no implementation wins.
void fill_floating(ir::HostTensor& tensor, std::mt19937_64& random, InputKind kind, bool positive, bool gentle, size_t input) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(-1, 1);
  const int64_t columns = tensor.extents().empty() ? 1 : std::max<int64_t>(tensor.extents().back(), 1);
  const bool narrow_format = tensor.dtype() == DType::f16;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    double value = normal(random);
    if (kind == InputKind::hard) {
      // Rows take turns: a large mean, sums that cancel, magnitudes far apart, zeros of both signs among small values.
      switch ((i / columns + static_cast<int64_t>(input)) % 4) {
        case 0: value = (gentle ? 4.0 : narrow_format ? 64.0 : 4096.0) + value; break;
        case 1: value = (i % 2 ? -1.0 : 1.0) * (gentle ? 2.0 : narrow_format ? 32.0 : 1000.0) + 0.01 * value; break;
        case 2: value = uniform(random) * std::ldexp(1.0, static_cast<int>((gentle ? 3 : 8) * uniform(random))); break;
        default: value = gentle ? value : i % 5 == 0 ? (i % 2 ? -0.0 : 0.0) : std::ldexp(value, narrow_format ? -14 : -20); break;
      }
    }
    tensor.set_double(i, positive ? std::abs(value) + 1e-3 : value);
  }
}

// `zero_integers`: for graphs that compute indices from integers in ways index_ranges does not follow.
std::vector<ir::HostTensor> draw(const ir::Graph& graph, uint64_t seed, InputKind kind, bool zero_integers) {
  const auto ranges = index_ranges(graph);
  const bool gentle = has_op(graph, {Op::attention});
  const bool positive = has_op(graph, {Op::log, Op::sqrt, Op::pow});
  std::vector<ir::HostTensor> out;
  for (size_t input = 0; input < graph.inputs.size(); ++input) {
    const ir::ValueId id = graph.inputs[input];
    const auto& value = graph.value(id);
    std::mt19937_64 random(seed * 1000003 + input);
    ir::HostTensor tensor(value.dtype, graph.extents(id));
    if (ir::is_floating(value.dtype)) {
      fill_floating(tensor, random, kind, positive && (seed % 2 == 0), gentle, input);
    } else {
      Range range{ir::info(value.dtype).kind == ir::DTypeKind::signed_integer ? -8 : 0, 8};
      if (value.dtype == DType::boolean) range = {0, 1};
      if (auto known = ranges.find(id); known != ranges.end()) range = known->second;
      if (ir::info(value.dtype).kind != ir::DTypeKind::signed_integer) range.low = std::max<int64_t>(range.low, 0);
      if (range.high < range.low) range = {0, 0};
      if (zero_integers) range = {0, 0};
      std::uniform_int_distribution<int64_t> any(range.low, range.high);
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_int(i, any(random));
      if (tensor.count() > 1) {  // the ends of the range are where code goes wrong
        tensor.set_int(0, range.high);
        tensor.set_int(tensor.count() - 1, range.low);
      }
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace

std::vector<ir::HostTensor> make_inputs(const ir::Graph& graph, uint64_t seed, InputKind kind) { return draw(graph, seed, kind, false); }

Result<std::vector<Case>> make_cases(const ir::Graph& body, uint64_t seed) {
  std::vector<Case> cases;
  // seed and seed + 1: one of them is positive where logarithms, roots and powers want it.
  const std::pair<uint64_t, InputKind> wanted[] = {{seed, InputKind::random}, {seed + 1, InputKind::hard}};
  for (const auto& [number, kind] : wanted) {
    Case item;
    item.kind = kind;
    item.inputs = make_inputs(body, number, kind);
    auto computed = reference::run(body, item.inputs);
    if (!computed.ok()) {  // an index out of range: zeros index everything that has elements
      item.inputs = draw(body, number, kind, true);
      computed = reference::run(body, item.inputs);
    }
    RTX_TRY(item.wanted, std::move(computed));
    if (kind == InputKind::hard) {
      auto serial = serial_error(body, item.inputs, item.wanted);
      item.serial_error = serial.norm;
      item.serial_rows = std::move(serial.rows);
    }
    cases.push_back(std::move(item));
  }
  return cases;
}

}  // namespace rtx::validate
