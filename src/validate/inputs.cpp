// Inputs for validation and timing: random ones and hard ones. Inputs that are used as indices or lengths stay in range.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "base/parallel.h"
#include "validate/axes.h"
#include "validate/roles.h"
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
      case Op::tensor_scatter: {
        const auto axis = static_cast<size_t>(node.attributes.integer("axis"));
        const int64_t room = graph.extents(node.inputs[0])[axis] - graph.extents(node.inputs[1])[axis];
        narrow(graph, node.inputs[2], {0, room}, ranges);
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

// What is hard about a row of numbers, in turn: a large mean, sums that cancel, magnitudes far apart, zeros of both signs among
// numbers near the smallest ones that matter.
enum class Hardship : uint8_t { large_mean, cancelling, far_apart, tiny };
Hardship hardship(uint64_t turn) { return static_cast<Hardship>(turn % 4); }

struct Draw {
  std::mt19937_64 random;
  std::normal_distribution<double> normal{};
  std::uniform_real_distribution<double> uniform{-1, 1};
  bool narrow_format = false;  // f16: nothing above 65504

  double number() { return normal(random); }
  double mean() const { return narrow_format ? 64.0 : 4096.0; }
  double hard(Hardship kind, bool odd, int64_t i) {
    switch (kind) {
      case Hardship::large_mean: return mean() + number();
      case Hardship::cancelling: return (odd ? -1.0 : 1.0) * (narrow_format ? 32.0 : 1000.0) + 0.01 * number();
      case Hardship::far_apart: {
        const double value = uniform(random);
        return value * std::ldexp(1.0, static_cast<int>(8 * uniform(random)));
      }
      default: {
        const double value = number();
        return i % 5 == 0 ? (i % 2 ? -0.0 : 0.0) : std::ldexp(value, narrow_format ? -14 : -20);
      }
    }
  }

  // Queries and keys whose products are hard to sum while the logits stay within tens, so that f32 still decides the softmax:
  //   large mean    q = 4096 + n      k = 1/16 + n / 400         logits of one query share a shift of a few thousands
  //   cancelling    q = +-1000 + n    k = 4 + n / 100            terms of 4000 cancel along the depth
  //   far apart     rows of q by 2^-6 to 2^6, of k by 2^-2 to 2^2
  //   tiny          every key weighs the same
  // The noise of k is what makes logits differ; `steady` is the deviation of q.k for deviations of 1 with the operator's scale.
  double score_operand(const Role& role, double steady, int64_t i) {
    const bool query = role.of == Role::query;
    switch (hardship(role.head)) {
      case Hardship::large_mean: return query ? mean() + number() : 1.0 / 16 + 10 / (steady * mean()) * number();
      case Hardship::cancelling: {
        const double large = narrow_format ? 32.0 : 1000.0;
        return query ? (role.column % 2 ? -large : large) + 0.01 * number() : 4 + 10 / (steady * large) * number();
      }
      case Hardship::far_apart: return number() * std::ldexp(1.0, static_cast<int>(role.row % 65521 * 7 % (query ? 13 : 5)) - (query ? 6 : 2));
      default: return hard(Hardship::tiny, false, i);
    }
  }
};

// sqrt(depth) * scale of the graph's attention: what a logit's deviation is made of.
double steady_logit(const ir::Graph& graph) {
  for (const auto& node : graph.nodes)
    if (node.op == Op::attention) {
      const double steady = std::abs(node.attributes.real("scale", 1.0)) * std::sqrt(static_cast<double>(std::max<int64_t>(graph.extents(node.inputs[0])[3], 1)));
      return steady > 0 ? steady : 1.0;
    }
  return 1.0;
}

// Deviation of random numbers, by ValueId: a product's right operand is drawn so that the product is as large as its left operand.
// Through a few layers of weights of deviation 1 numbers would grow until a softmax of them hangs on the last bit of f32.
std::vector<double> deviations(const ir::Graph& graph) {
  std::vector<double> out(graph.values.size(), 1.0);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const auto& node = graph.nodes[n];
    if (node.op == Op::matmul) {
      const auto b = graph.extents(node.inputs[1]);
      const int64_t terms = b[b.size() - (node.attributes.integer("trans_b") != 0 ? 1 : 2)];
      out[static_cast<size_t>(node.inputs[1])] = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(terms, 1)));
    } else if (node.op == Op::cast || (ir::info(node.op).op_class == ir::OpClass::movement && node.op != Op::rotary)) {
      double& from = out[static_cast<size_t>(node.inputs[0])];
      from = std::min(from, out[static_cast<size_t>(node.outputs[0])]);
    }
  }
  return out;
}

// What one input is drawn from.
struct Recipe {
  InputKind kind = InputKind::random;
  bool positive = false;
  bool mask = false;                          // 0 and 1
  const std::vector<Role>* roles = nullptr;   // of an attention's operands
  double steady = 1.0;
  double deviation = 1.0;                     // of random numbers
};

// A mask's first column is kept and its second is not, whichever of 0 and 1 keeps: nobody is left with penalties alone, which f32
// cannot tell apart once the logits are added to them.
bool mask_bit(int64_t column, std::mt19937_64& random) { return column == 0 ? true : column == 1 ? false : (random() & 1) != 0; }

// What makes a product of large numbers stay within f16: a sum of `terms` products of 64 by 64 would be infinite, which tests nothing.
double narrow_scale(const Recipe& recipe, bool narrow_format) {
  const double terms = 1 / (recipe.deviation * recipe.deviation);
  return narrow_format ? std::min(1.0, 8 / terms) : 1.0;
}

double drawn(Draw& draw, const Recipe& recipe, size_t input, int64_t i, int64_t columns) {
  const Role role = recipe.roles ? (*recipe.roles)[static_cast<size_t>(i)] : Role{};
  if (recipe.mask) return mask_bit(i % columns, draw.random) ? 1 : 0;
  if (recipe.kind == InputKind::random) return recipe.deviation * draw.number();
  if (role.of == Role::several || role.of == Role::bias) return draw.number();
  if (role.of == Role::query || role.of == Role::key) return recipe.kind == InputKind::hard_scores ? draw.score_operand(role, recipe.steady, i) : draw.number();
  // A head has one hardship: in a mixture the largest numbers of a sum would hide the rest. What cancels does so along the keys.
  if (role.of == Role::value) return recipe.kind == InputKind::hard_scores ? draw.number() : draw.hard(hardship(role.head), role.row % 2 != 0, i);
  const Hardship hard = hardship(static_cast<uint64_t>(i / columns) + input);
  return draw.hard(hard, i % 2 != 0, i) * (hard == Hardship::large_mean || hard == Hardship::far_apart ? narrow_scale(recipe, draw.narrow_format) : 1.0);
}

// In blocks with generators of their own, so that all cores draw and the numbers do not depend on how many there are.
void fill_floating(ir::HostTensor& tensor, uint64_t seed, const Recipe& recipe, size_t input) {
  constexpr int64_t kBlock = 1 << 16;
  const int64_t columns = tensor.extents().empty() ? 1 : std::max<int64_t>(tensor.extents().back(), 1), count = tensor.count();
  tensor.mutable_bytes();  // its own before threads write
  in_parallel((count + kBlock - 1) / kBlock, count > 4 * kBlock ? 0 : 1, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      Draw draw{std::mt19937_64(seed + static_cast<uint64_t>(block) * 0x9e3779b97f4a7c15U)};
      draw.narrow_format = tensor.dtype() == DType::f16;
      for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
        const double value = drawn(draw, recipe, input, i, columns);
        tensor.set_double(i, recipe.positive ? std::abs(value) + 1e-3 : value);
      }
    }
  });
}

// `zero_integers`: for graphs that compute indices from integers in ways index_ranges does not follow.
std::vector<ir::HostTensor> draw(const ir::Graph& graph, uint64_t seed, InputKind kind, bool zero_integers) {
  const auto ranges = index_ranges(graph);
  const auto roles = kind == InputKind::random ? decltype(attention_roles(graph)){} : attention_roles(graph);
  const auto masks = penalty_masks(graph);
  const auto deviation = deviations(graph);
  const bool positive = has_op(graph, {Op::log, Op::sqrt, Op::pow});
  std::vector<ir::HostTensor> out;
  for (size_t input = 0; input < graph.inputs.size(); ++input) {
    const ir::ValueId id = graph.inputs[input];
    const auto& value = graph.value(id);
    const uint64_t number = seed * 1000003 + input;
    const bool mask = masks[static_cast<size_t>(id)];
    ir::HostTensor tensor(value.dtype, graph.extents(id));
    if (ir::is_floating(value.dtype)) {
      const auto known = roles.find(id);
      fill_floating(tensor, number, {kind, positive && seed % 2 == 0, mask, known == roles.end() ? nullptr : &known->second, steady_logit(graph), deviation[static_cast<size_t>(id)]},
                    input);
    } else {
      std::mt19937_64 random(number);
      Range range{ir::info(value.dtype).kind == ir::DTypeKind::signed_integer ? -8 : 0, 8};
      if (value.dtype == DType::boolean || mask) range = {0, 1};
      if (auto known = ranges.find(id); known != ranges.end()) range = known->second;
      if (ir::info(value.dtype).kind != ir::DTypeKind::signed_integer) range.low = std::max<int64_t>(range.low, 0);
      if (range.high < range.low) range = {0, 0};
      if (zero_integers) range = {0, 0};
      std::uniform_int_distribution<int64_t> any(range.low, range.high);
      const int64_t columns = tensor.extents().empty() ? 1 : std::max<int64_t>(tensor.extents().back(), 1);
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_int(i, mask ? (mask_bit(i % columns, random) ? range.high : range.low) : any(random));
      if (tensor.count() > 1 && !mask) {  // the ends of the range are where code goes wrong
        tensor.set_int(0, range.high);
        tensor.set_int(tensor.count() - 1, range.low);
      }
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

// Computes what an input set should give: in full, or for the rows of a sample.
Status complete(const ir::Graph& body, const std::optional<RowSample>& sample, Case& item) {
  const ir::Graph& graph = sample ? sample->graph : body;
  std::vector<ir::HostTensor> taken;
  if (sample) {
    item.rows = sample->rows;
    item.row_dimensions = sample->outputs;
    for (size_t i = 0; i < item.inputs.size(); ++i) taken.push_back(take_rows(item.inputs[i], sample->rows, sample->inputs[i]));
  }
  const auto& inputs = sample ? taken : item.inputs;
  RTX_TRY(item.wanted, reference::run(graph, inputs));
  if (item.kind == InputKind::random) return success();
  auto serial = serial_error(graph, inputs, item.wanted);
  item.serial_error = serial.norm;
  item.serial_rows = std::move(serial.rows);
  return success();
}

}  // namespace

std::vector<ir::HostTensor> make_inputs(const ir::Graph& graph, uint64_t seed, InputKind kind) { return draw(graph, seed, kind, false); }

Result<std::vector<Case>> make_cases(const ir::Graph& body, uint64_t seed, bool sampled) {
  std::vector<Case> cases;
  const auto sample = sampled ? sample_rows(body, seed) : std::nullopt;
  // seed and seed + 1: one of them is positive where logarithms, roots and powers want it.
  std::vector<std::pair<uint64_t, InputKind>> wanted = {{seed, InputKind::random}, {seed + 1, InputKind::hard}};
  if (has_op(body, {Op::attention})) wanted.push_back({seed + 2, InputKind::hard_scores});
  for (const auto& [number, kind] : wanted) {
    Case item;
    item.kind = kind;
    item.inputs = make_inputs(body, number, kind);
    if (auto done = complete(body, sample, item); !done.ok()) {  // an index out of range: zeros index everything that has elements
      item.inputs = draw(body, number, kind, true);
      RTX_CHECK(complete(body, sample, item));
    }
    cases.push_back(std::move(item));
  }
  return cases;
}

}  // namespace rtx::validate
