#pragma once
// Matcher words: what a rule says about the nodes it covers.
//
// A match walks from its root towards the inputs and notes every node it steps over. Those nodes disappear
// with the rewrite, so the driver checks before it builds anything that none of their results is read
// elsewhere or is a result of the graph.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "fuse/editor.h"

namespace rtx::fuse {

class Match {
 public:
  explicit Match(const Editor& editor) : editor(editor) {}

  const Editor& editor;
  std::vector<ir::NodeId> covers;

  // The producer of `value` when its operator is `op`, and covers it; otherwise null.
  const ir::Node* take(ir::ValueId value, ir::Op op);
  // The same without covering it.
  const ir::Node* peek(ir::ValueId value, ir::Op op) const;
  // take() of an operator with two operands, one of which is the constant that `wanted` likes; gives the
  // other operand.
  std::optional<ir::ValueId> take_with_constant(ir::ValueId value, ir::Op op,
                                                const std::function<bool(double)>& wanted);
  // Steps over casts from a narrower to a wider floating type: their source holds the same values.
  ir::ValueId through_widening(ir::ValueId value);

  // Runs one alternative; forgets what it covered when it fails.
  template <class Alternative>
  auto attempt(Alternative&& alternative) {
    const size_t before = covers.size();
    auto result = alternative();
    if (!result) covers.resize(before);
    return result;
  }
};

// The number all elements of a constant have.
std::optional<double> uniform(const Editor& editor, ir::ValueId value);
// A uniform constant that does not widen the shape of what it is combined with.
std::optional<double> scalar_for(const Editor& editor, ir::ValueId value, ir::ValueId operand);
// Equal up to the rounding of constants written in this type.
bool near(double found, double wanted, ir::DType dtype);
// Is the cast exact for every value?
bool widens(ir::DType from, ir::DType to);

struct Rewriting {
  std::vector<ir::NodeId> covers;     // nodes that disappear, the root among them
  std::vector<ir::ValueId> replaces;  // their results that are read outside
  // The new values, one per replaced one; nothing when the composite does not take these operands.
  std::function<std::optional<std::vector<ir::ValueId>>(Editor&)> build;
};

// One row: a chain and the operator it spells. `match` looks from a root whose operator is among `roots`.
struct Rule {
  std::string name;
  std::vector<ir::Op> roots;
  std::function<std::optional<Rewriting>(const Editor&, ir::NodeId)> match;
  // A tidying rule hides nothing: its inner values stay for others who read them.
  bool keeps_inner_values = false;
};

std::vector<Rule> tidy_rules();
std::vector<Rule> matmul_rules();
std::vector<Rule> norm_rules();
std::vector<Rule> activation_rules();
std::vector<Rule> softmax_rules();
std::vector<Rule> rotary_rules();
std::vector<Rule> attention_rules();
std::vector<Rule> column_rules();     // weights of several products in one
std::vector<Rule> decompose_rules();  // the other way, for the unfused baseline

}  // namespace rtx::fuse
