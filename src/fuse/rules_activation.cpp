// Activations written out. Spellings differ in where the constants stand and in what order the factors come,
// so a chain is read as a polynomial in x and t, where t is the erf, tanh or sigmoid inside it:
//
//   gelu, erf form     t = erf(x / sqrt 2)                                 x/2 + x t/2
//   gelu, tanh form    t = tanh(sqrt(2/pi) (x + 0.044715 x^3))             x/2 + x t/2
//   silu               t = sigmoid(alpha x)                                x t
//
// The forms are different functions; each becomes the operator it spells and no other.
#include <array>
#include <cmath>
#include <set>

#include "fuse/match.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

constexpr int kHighestPower = 3;
constexpr int kDeepestChain = 12;

// Coefficients of x^i t^j, j <= 1.
struct Polynomial {
  std::array<std::array<double, 2>, kHighestPower + 1> at{};
};

std::optional<Polynomial> product(const Polynomial& a, const Polynomial& b) {
  Polynomial out;
  for (int i = 0; i <= kHighestPower; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k <= kHighestPower; ++k)
        for (int l = 0; l < 2; ++l) {
          const double term = a.at[i][j] * b.at[k][l];
          if (term == 0) continue;
          if (i + k > kHighestPower || j + l > 1 || !std::isfinite(term)) return std::nullopt;
          out.at[i + k][j + l] += term;
        }
  return out;
}

Polynomial sum(const Polynomial& a, const Polynomial& b, double factor) {
  Polynomial out = a;
  for (int i = 0; i <= kHighestPower; ++i)
    for (int j = 0; j < 2; ++j) out.at[i][j] += factor * b.at[i][j];
  return out;
}

// Reads `value` as a polynomial; covers the nodes it consists of.
std::optional<Polynomial> read(Match& match, ValueId value, ValueId x, ValueId t, int depth = 0) {
  const Editor& editor = match.editor;
  Polynomial out;
  if (value == x) return out.at[1][0] = 1, out;
  if (value == t) return out.at[0][1] = 1, out;
  if (auto number = scalar_for(editor, value, x)) {
    if (!std::isfinite(*number)) return std::nullopt;
    return out.at[0][0] = *number, out;
  }
  const NodeId producer = editor.value(value).producer;
  if (producer == ir::kNoNode || depth > kDeepestChain) return std::nullopt;
  const ir::Node& node = editor.node(producer);
  match.covers.push_back(producer);
  auto operand = [&](size_t i) { return read(match, node.inputs[i], x, t, depth + 1); };
  switch (node.op) {
    case Op::neg: {
      auto a = operand(0);
      return a ? std::optional(sum(Polynomial{}, *a, -1)) : std::nullopt;
    }
    case Op::add:
    case Op::sub:
    case Op::mul: {
      auto a = operand(0), b = a ? operand(1) : std::nullopt;
      if (!b) return std::nullopt;
      return node.op == Op::mul ? product(*a, *b) : std::optional(sum(*a, *b, node.op == Op::add ? 1 : -1));
    }
    case Op::div: {
      auto divisor = scalar_for(editor, node.inputs[1], x);
      if (!divisor || *divisor == 0) return std::nullopt;
      auto a = operand(0);
      return a ? std::optional(sum(Polynomial{}, *a, 1 / *divisor)) : std::nullopt;
    }
    case Op::pow: {
      auto power = scalar_for(editor, node.inputs[1], x);
      if (!power || (*power != 2 && *power != 3)) return std::nullopt;
      auto a = operand(0), square = a ? product(*a, *a) : std::nullopt;
      return square && *power == 3 ? product(*square, *a) : square;
    }
    default:
      return std::nullopt;
  }
}

// Are exactly these terms present, the others no more than rounding?
struct Term {
  int x, t;
  double coefficient;
};
bool consists_of(const Polynomial& p, std::initializer_list<Term> terms, ir::DType dtype) {
  Polynomial wanted;
  for (const Term& term : terms) wanted.at[term.x][term.t] = term.coefficient;
  for (int i = 0; i <= kHighestPower; ++i)
    for (int j = 0; j < 2; ++j)
      if (wanted.at[i][j] == 0 ? std::abs(p.at[i][j]) > 1e-12 : !near(p.at[i][j], wanted.at[i][j], dtype))
        return false;
  return true;
}

bool is_arithmetic(Op op) {
  return op == Op::add || op == Op::sub || op == Op::mul || op == Op::div || op == Op::neg || op == Op::pow;
}

// Values that arithmetic leads to from `value`, itself among them.
void collect(const Editor& editor, ValueId value, int depth, std::set<ValueId>* out) {
  if (editor.value(value).constant || !out->insert(value).second || depth == 0) return;
  const NodeId producer = editor.value(value).producer;
  if (producer == ir::kNoNode || !is_arithmetic(editor.node(producer).op)) return;
  for (ValueId input : editor.node(producer).inputs) collect(editor, input, depth - 1, out);
}

enum class Activation { gelu_erf, gelu_tanh, silu };

// Does the chain from `root` down to `t` spell the activation of x? Covers it when it does.
bool spells(Match& match, Activation activation, ValueId root, ValueId x, ValueId t, double* alpha) {
  const ir::DType dtype = match.editor.value(root).dtype;
  const NodeId inner = match.editor.value(t).producer;
  auto argument = read(match, match.editor.node(inner).inputs[0], x, ir::kNoValue);
  if (!argument) return false;
  match.covers.push_back(inner);
  const double c = std::sqrt(2.0 / M_PI);
  switch (activation) {
    case Activation::gelu_erf:
      if (!consists_of(*argument, {{1, 0, std::sqrt(0.5)}}, dtype)) return false;
      break;
    case Activation::gelu_tanh:
      if (!consists_of(*argument, {{1, 0, c}, {3, 0, c * 0.044715}}, dtype)) return false;
      break;
    case Activation::silu:
      *alpha = argument->at[1][0];
      if (!(std::abs(*alpha) > 0) || !consists_of(*argument, {{1, 0, *alpha}}, dtype)) return false;
      break;
  }
  auto outer = read(match, root, x, t);
  if (!outer) return false;
  if (activation == Activation::silu) return consists_of(*outer, {{1, 1, 1.0}}, dtype);
  return consists_of(*outer, {{1, 0, 0.5}, {1, 1, 0.5}}, dtype);
}

std::optional<Rewriting> activation(const Editor& editor, NodeId root, Activation wanted) {
  const Op inner = wanted == Activation::gelu_erf    ? Op::erf
                   : wanted == Activation::gelu_tanh ? Op::tanh
                                                     : Op::sigmoid;
  const ValueId out = editor.node(root).outputs[0];
  if (!ir::is_floating(editor.value(out).dtype)) return std::nullopt;
  std::set<ValueId> reached;
  collect(editor, out, 5, &reached);
  for (ValueId t : reached) {
    const NodeId producer = editor.value(t).producer;
    if (producer == ir::kNoNode || editor.node(producer).op != inner) continue;
    std::set<ValueId> candidates;
    collect(editor, editor.node(producer).inputs[0], 6, &candidates);
    for (ValueId x : candidates) {
      if (!(editor.value(x).shape == editor.value(out).shape) ||
          editor.value(x).dtype != editor.value(out).dtype)
        continue;
      Match match(editor);
      double alpha = 1;
      if (!spells(match, wanted, out, x, t, &alpha)) continue;
      return Rewriting{match.covers, {out}, [=](Editor& e) -> std::optional<std::vector<ValueId>> {
                         auto y = wanted == Activation::silu
                                      ? e.add(Op::silu, {x}, {{{"alpha", alpha}}})
                                      : e.add(Op::gelu, {x},
                                              {{{"tanh", int64_t{wanted == Activation::gelu_tanh}}}});
                         if (!y) return std::nullopt;
                         return std::vector<ValueId>{*y};
                       }};
    }
  }
  return std::nullopt;
}

// 1 + exp(-x)
std::optional<ValueId> take_logistic_divisor(Match& match, ValueId value) {
  auto exponential = match.take_with_constant(value, Op::add, [](double number) { return number == 1; });
  const ir::Node* exp = exponential ? match.take(*exponential, Op::exp) : nullptr;
  if (!exp) return std::nullopt;
  if (const ir::Node* neg = match.take(exp->inputs[0], Op::neg)) return neg->inputs[0];
  return match.take_with_constant(exp->inputs[0], Op::mul, [](double number) { return number == -1; });
}

// 1 / (1 + exp(-x)); and x / (1 + exp(-x)), which is silu.
std::optional<Rewriting> logistic(const Editor& editor, NodeId root) {
  Match match(editor);
  match.covers.push_back(root);
  const ir::Node& node = editor.node(root);
  const bool quotient = node.op == Op::div;
  auto x = take_logistic_divisor(match, node.inputs[quotient ? 1 : 0]);
  if (!x || !ir::is_floating(editor.value(*x).dtype)) return std::nullopt;
  const bool plain = !quotient || scalar_for(editor, node.inputs[0], *x) == 1.0;
  if (!plain && node.inputs[0] != *x) return std::nullopt;
  return Rewriting{
      match.covers, {node.outputs[0]}, [x = *x, plain](Editor& e) -> std::optional<std::vector<ValueId>> {
        auto y = e.add(plain ? Op::sigmoid : Op::silu, {x});
        if (!y) return std::nullopt;
        return std::vector<ValueId>{*y};
      }};
}

Rule activation_rule(const char* name, Activation wanted) {
  return {name, {Op::mul, Op::add, Op::div, Op::sub}, [wanted](const Editor& e, NodeId n) {
            return activation(e, n, wanted);
          }};
}

}  // namespace

std::vector<Rule> activation_rules() {
  return {
      activation_rule("gelu: x (1 + erf(x / sqrt 2)) / 2", Activation::gelu_erf),
      activation_rule("gelu: x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2", Activation::gelu_tanh),
      {"sigmoid: 1 / (1 + exp(-x))", {Op::div, Op::reciprocal}, logistic},
      activation_rule("silu: x sigmoid(alpha x)", Activation::silu),
  };
}

}  // namespace rtx::fuse
