#include "validate/roles.h"

#include <algorithm>
#include <cmath>

#include "reference/reference.h"

namespace rtx::validate {

namespace {

using ir::HostTensor;
using ir::Op;
using ir::ValueId;

class Painter {
 public:
  explicit Painter(const ir::Graph& graph) : graph_(graph) {}

  void paint(ValueId value, const std::vector<Role>& roles) {
    if (value == ir::kNoValue || graph_.is_constant(value)) return;
    const auto& v = graph_.value(value);
    if (v.producer == ir::kNoNode) {
      auto& own = found_.try_emplace(value, roles.size()).first->second;
      for (size_t i = 0; i < roles.size(); ++i) merge(own[i], roles[i]);
      return;
    }
    const auto& node = graph_.node(v.producer);
    if (node.op == Op::rotary) {
      paint(node.inputs[0], roles);
    } else if (ir::info(node.op).op_class == ir::OpClass::movement && node.op != Op::gather && node.op != Op::gather_nd && node.op != Op::scatter_nd && node.op != Op::tensor_scatter) {
      paint_moved(node, roles);
    } else if (ir::info(node.op).op_class == ir::OpClass::pointwise) {
      for (const ValueId input : node.inputs)
        if (graph_.extents(input) == graph_.extents(value)) paint(input, roles);
    }
  }
  std::map<ValueId, std::vector<Role>> found() && { return std::move(found_); }

 private:
  static void merge(Role& own, const Role& other) {
    if (other.of == Role::none) return;
    if (own.of == Role::none) own = other;
    else if (own.of != other.of) own.of = Role::several;
  }

  // Elements carry their own number through the operator, which says where each went.
  void paint_moved(const ir::Node& node, const std::vector<Role>& roles) {
    ir::Graph numbers = graph_;
    std::vector<HostTensor> tensors;
    std::vector<int64_t> begins;
    int64_t next = 0;
    for (const ValueId input : node.inputs) {
      numbers.value(input).dtype = ir::DType::i64;
      tensors.emplace_back(ir::DType::i64, graph_.extents(input));
      begins.push_back(next);
      for (int64_t i = 0; i < tensors.back().count(); ++i) tensors.back().set_int(i, ++next);  // from 1: trilu fills with 0
    }
    numbers.value(node.outputs[0]).dtype = ir::DType::i64;
    std::vector<const HostTensor*> arguments;
    for (const auto& tensor : tensors) arguments.push_back(&tensor);
    const auto moved = reference::evaluate(numbers, node, arguments);
    if (!moved.ok()) return;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      std::vector<Role> from(static_cast<size_t>(tensors[k].count()));
      for (size_t i = 0; i < roles.size(); ++i) {
        const int64_t at = (*moved)[0].get_int(static_cast<int64_t>(i)) - 1 - begins[k];
        if (at >= 0 && at < tensors[k].count()) merge(from[static_cast<size_t>(at)], roles[i]);
      }
      paint(node.inputs[k], from);
    }
  }

  const ir::Graph& graph_;
  std::map<ValueId, std::vector<Role>> found_;
};

}  // namespace

std::map<ValueId, std::vector<Role>> attention_roles(const ir::Graph& graph) {
  Painter painter(graph);
  for (const auto& node : graph.nodes) {
    if (node.op != Op::attention) continue;
    const int64_t key_heads = std::max<int64_t>(graph.extents(node.inputs[1])[1], 1);
    for (size_t operand = 0; operand < 3; ++operand) {
      const auto extents = graph.extents(node.inputs[operand]);
      std::vector<Role> roles(static_cast<size_t>(ir::element_count(extents)));
      for (size_t i = 0; i < roles.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t head = at / (extents[2] * extents[3]) % extents[1];
        auto& role = roles[i];
        role.of = operand == 0 ? Role::query : operand == 1 ? Role::key : Role::value;
        role.head = static_cast<uint64_t>(head * key_heads / std::max<int64_t>(extents[1], 1));
        role.row = static_cast<uint64_t>(at / extents[3] % extents[2]);
        role.column = static_cast<uint64_t>(at % extents[3]);
      }
      painter.paint(node.inputs[operand], roles);
    }
    if (node.inputs.size() > 3 && node.inputs[3] != ir::kNoValue && ir::is_floating(graph.value(node.inputs[3]).dtype)) {
      Role bias;
      bias.of = Role::bias;
      painter.paint(node.inputs[3], std::vector<Role>(static_cast<size_t>(ir::element_count(graph.extents(node.inputs[3]))), bias));
    }
  }
  return std::move(painter).found();
}

std::vector<bool> penalty_masks(const ir::Graph& graph) {
  constexpr double kPenalty = 64;
  // What leads to an exponential, from the last node to the first.
  std::vector<bool> leads(graph.values.size()), out(graph.values.size());
  const auto marked = [](const std::vector<bool>& set, ValueId value) { return value != ir::kNoValue && set[static_cast<size_t>(value)]; };
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const auto& node = graph.nodes[n];
    const bool grows = node.op == Op::exp || node.op == Op::softmax || node.op == Op::log_softmax || node.op == Op::attention;
    const bool passes = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId y) { return marked(leads, y); });
    const bool masks = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId y) { return marked(out, y); });
    bool penalty = false;
    if ((node.op == Op::mul || node.op == Op::div) && passes)
      for (size_t i = node.op == Op::div ? 1 : 0; i < 2; ++i)
        if (const auto& c = graph.value(node.inputs[i]).constant; c && c->count() == 1) {
          const double size = std::abs(c->get_double(0));
          penalty |= node.op == Op::mul ? size >= kPenalty : size <= 1 / kPenalty;
        }
    const auto op_class = ir::info(node.op).op_class;
    const bool through = op_class == ir::OpClass::pointwise || op_class == ir::OpClass::movement;
    for (const ValueId input : node.inputs) {
      if (input == ir::kNoValue) continue;
      if (grows || passes) leads[static_cast<size_t>(input)] = true;
      if (penalty || (masks && through)) out[static_cast<size_t>(input)] = true;
    }
  }
  return out;
}

}  // namespace rtx::validate
