// recognise(): rules to a fixed point, in two phases. Attention comes after everything that its pieces are
// made of: softmax, its masks and scales tidied, transposes folded into matmuls.
#include "fuse/recognise.h"

#include <algorithm>
#include <array>

#include "fuse/common.h"
#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::ValueId;

// Rules only ever shrink or tidy, so this is never reached; it bounds the damage of a pair of rules that undo
// each other.
constexpr int kMostRounds = 64;

// Every list of rules but attention's, in the order in which a node tries them.
const std::vector<std::vector<Rule> (*)()> kParts = {
    tidy_rules,        // what has no effect, and movements that meet
    matmul_rules,      // transposes around it
    norm_rules,        // layer and RMS norm
    activation_rules,  // gelu, sigmoid, silu
    softmax_rules,     // and its masks
    rotary_rules,      // rotated halves and pairs
};

// No value that disappears may be read by a node that stays, or be a result.
bool hides_a_value(const Editor& editor, const Rewriting& rewriting) {
  auto covered = [&](NodeId node) {
    return std::find(rewriting.covers.begin(), rewriting.covers.end(), node) != rewriting.covers.end();
  };
  for (NodeId node : rewriting.covers)
    for (ValueId value : editor.node(node).outputs) {
      if (std::find(rewriting.replaces.begin(), rewriting.replaces.end(), value) != rewriting.replaces.end())
        continue;
      if (editor.is_output(value)) return true;
      for (NodeId reader : editor.readers(value))
        if (!covered(reader)) return true;
    }
  return false;
}

class RuleTable {
 public:
  void add(std::vector<Rule> rules) {
    for (Rule& rule : rules) {
      rules_.push_back(std::move(rule));
      for (ir::Op root : rules_.back().roots)
        by_root_[static_cast<size_t>(root)].push_back(rules_.size() - 1);
    }
  }

  // Name of the rule that rewrote `root`, or nothing.
  const std::string* apply(Editor& editor, NodeId root) const {
    for (size_t index : by_root_[static_cast<size_t>(editor.node(root).op)]) {
      const Rule& rule = rules_[index];
      auto rewriting = rule.match(editor, root);
      if (!rewriting || (!rule.keeps_inner_values && hides_a_value(editor, *rewriting))) continue;
      if (carry_out(editor, root, *rewriting)) return &rule.name;
    }
    return nullptr;
  }

 private:
  static bool carry_out(Editor& editor, NodeId root, const Rewriting& rewriting) {
    const auto first_new = static_cast<NodeId>(editor.node_count());
    editor.set_origin(editor.node(root).name);
    auto fresh = rewriting.build(editor);
    bool fits = fresh && fresh->size() >= rewriting.replaces.size();
    for (size_t i = 0; fits && i < rewriting.replaces.size(); ++i)
      fits = editor.can_replace(rewriting.replaces[i], (*fresh)[i]);
    if (!fits) {
      editor.bury(first_new);
      return false;
    }
    for (size_t i = 0; i < rewriting.replaces.size(); ++i) editor.replace(rewriting.replaces[i], (*fresh)[i]);
    editor.bury(first_new);
    return true;
  }

  std::vector<Rule> rules_;
  std::array<std::vector<size_t>, static_cast<size_t>(ir::Op::count_)> by_root_;
};

ir::Graph to_fixed_point(ir::Graph graph, const RuleTable& rules, std::vector<Rewrite>* log) {
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; ++round) {
    changed = false;
    Editor editor(without_common_subexpressions(graph, log));
    for (NodeId node = 0; node < static_cast<NodeId>(editor.node_count()); ++node) {
      if (!editor.alive(node)) continue;
      std::string where = editor.node(node).name;
      if (const std::string* rule = rules.apply(editor, node)) {
        changed = true;
        if (log) log->push_back({*rule, std::move(where)});
      }
    }
    graph = std::move(editor).take();
  }
  return graph;
}

int64_t count_of(const ir::Graph& graph, ir::Op op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) { return node.op == op; });
}

// Attention as products, scale, mask and softmax, whoever wrote it out. Key heads that a model repeats in memory for its query heads are
// read by stride, as by everybody who has an operator for it: found as attention first, and then written out again.
ir::Graph written_out(const ir::Graph& graph, const RuleTable& parts, std::vector<Rewrite>* log) {
  RuleTable apart = parts;
  apart.add(decompose_rules());
  std::vector<Rewrite> as_it_is;
  ir::Graph out = to_fixed_point(graph, apart, &as_it_is);
  if (count_of(out, ir::Op::expand) > 0) {
    RuleTable whole;
    whole.add(attention_rules());
    for (auto* rules : kParts) whole.add(rules());
    std::vector<Rewrite> regrouped;
    ir::Graph grouped = to_fixed_point(to_fixed_point(graph, parts, &regrouped), whole, &regrouped);
    grouped = to_fixed_point(std::move(grouped), apart, &regrouped);
    if (count_of(grouped, ir::Op::attention) <= count_of(out, ir::Op::attention) && count_of(grouped, ir::Op::expand) < count_of(out, ir::Op::expand))
      out = std::move(grouped), as_it_is = std::move(regrouped);
  }
  if (log) log->insert(log->end(), std::make_move_iterator(as_it_is.begin()), std::make_move_iterator(as_it_is.end()));
  return out;
}

}  // namespace

ir::Graph recognise(const ir::Graph& graph, const RecogniseOptions& options, std::vector<Rewrite>* log) {
  RuleTable parts;
  for (auto* rules : kParts) parts.add(rules());
  if (!options.attention) return written_out(graph, parts, log);
  ir::Graph out = to_fixed_point(graph, parts, log);
  RuleTable whole;
  whole.add(attention_rules());
  for (auto* rules : kParts) whole.add(rules());
  out = to_fixed_point(std::move(out), whole, log);
  RuleTable columns;
  columns.add(column_rules());
  return to_fixed_point(std::move(out), columns, log);
}

}  // namespace rtx::fuse
