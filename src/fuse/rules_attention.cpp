// Attention written out:
//
//   scores = q k^T                 scale on q, on k, on both, or behind the product
//   scores = cap tanh(scores/cap)  optional
//   scores = scores + mask         or where(mask, scores, -inf), any number of them (mask.h says which are
//   exact) y = softmax(scores) v          the softmax alone may run in a wider type
//
// k and v may be repeated over groups of heads (reshape, expand, reshape); the operator reads them
// unrepeated. A row of scores that is -inf throughout gives NaN, as spelled, unless the chain replaces it by
// zeros.
#include <cmath>
#include <limits>

#include "fuse/mask.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

struct AttentionChain {
  ValueId q, k, v;
  bool q_transposed = false, k_transposed = false,
       v_transposed = false;  // as [.., D, S], [.., S, D], [.., Dv, S] are read otherwise
  double scale = 1, softcap = 0;
  std::vector<MaskStep> steps;
  ValueId guard = ir::kNoValue;  // rows where max(guard) is -inf are set to zeros
  ir::DType dtype = ir::DType::f32;
};

constexpr int kLongestScoreChain = 16;

class AttentionMatch {
 public:
  AttentionMatch(const Editor& editor, NodeId root) : match(editor), root_(root) {}

  bool run() {
    const ir::Node& product = match.editor.node(root_);
    match.covers.push_back(root_);
    if (product.attributes.integer("trans_a") != 0) return false;
    found.v = product.inputs[1];
    found.v_transposed = product.attributes.integer("trans_b") != 0;
    ValueId weights = through_casts(product.inputs[0]);
    weights = through_casts(take_guard(weights));
    const ir::Node* softmax = match.take(weights, Op::softmax);
    if (!softmax) return false;
    const auto rank = static_cast<int64_t>(match.editor.extents(weights).size());
    if (softmax->attributes.integer("axis") != rank - 1 || rank > 4) return false;
    scores_ = match.editor.extents(weights);
    return scores(softmax->inputs[0], 0) && guard_is_the_mask();
  }

  Match match;
  AttentionChain found;

 private:
  ValueId through_casts(ValueId value) {
    while (const ir::Node* cast = match.peek(value, Op::cast)) {
      if (!ir::is_floating(match.editor.value(cast->inputs[0]).dtype) ||
          !ir::is_floating(match.editor.value(value).dtype))
        break;
      match.take(value, Op::cast);
      value = cast->inputs[0];
    }
    return value;
  }

  // where(max(mask) == -inf, 0, weights)
  ValueId take_guard(ValueId value) {
    auto weights = match.attempt([&]() -> std::optional<ValueId> {
      const ir::Node* select = match.take(value, Op::where);
      if (!select || scalar_for(match.editor, select->inputs[1], select->inputs[2]) != 0.0)
        return std::nullopt;
      auto maximum = match.take_with_constant(select->inputs[0], Op::equal, [](double number) {
        return number == -std::numeric_limits<double>::infinity();
      });
      const ir::Node* reduce = maximum ? match.take(*maximum, Op::reduce_max) : nullptr;
      if (!reduce || reduce->attributes.integer("keepdims") != 1) return std::nullopt;
      const auto axes = reduce->attributes.integers("axes");
      if (axes.size() != 1 ||
          axes[0] + 1 != static_cast<int64_t>(match.editor.extents(reduce->inputs[0]).size()))
        return std::nullopt;
      found.guard = reduce->inputs[0];
      return select->inputs[2];
    });
    return weights ? *weights : value;
  }

  // The guard must look at exactly what was added to the scores.
  bool guard_is_the_mask() const {
    if (found.guard == ir::kNoValue) return true;
    return found.steps.size() == 1 && !found.steps[0].selects && found.steps[0].value == found.guard;
  }

  bool same_shape(ValueId value) const { return match.editor.extents(value) == scores_; }

  // Takes a product with or quotient by a constant into the scale; kNoValue when there is none.
  ValueId take_scale(ValueId value) {
    double factor = 0;
    if (auto other = match.take_with_constant(
            value, Op::mul, [&](double number) { return factor = number, std::isfinite(number); })) {
      found.scale *= factor;
      return *other;
    }
    if (const ir::Node* quotient = match.peek(value, Op::div)) {
      auto divisor = scalar_for(match.editor, quotient->inputs[1], quotient->inputs[0]);
      if (!divisor || *divisor == 0 || !std::isfinite(*divisor)) return ir::kNoValue;
      match.take(value, Op::div);
      found.scale /= *divisor;
      return quotient->inputs[0];
    }
    return ir::kNoValue;
  }

  bool scores(ValueId value, int depth) {
    if (depth > kLongestScoreChain || !same_shape(value) || !ir::is_floating(match.editor.value(value).dtype))
      return false;
    if (const ir::Node* product = match.take(value, Op::matmul)) return operands(*product);
    if (const ir::Node* cast = match.peek(value, Op::cast)) {
      if (!widens(match.editor.value(cast->inputs[0]).dtype, match.editor.value(value).dtype)) return false;
      match.take(value, Op::cast);
      return scores(cast->inputs[0], depth + 1);
    }
    if (const ValueId inner = take_scale(value); inner != ir::kNoValue) return scores(inner, depth + 1);
    if (const ir::Node* tanh = match.take(value, Op::tanh)) {
      // cap tanh(f s) = cap tanh((cap f) s / cap): what has been collected so far is the cap
      if (found.softcap != 0 || !(found.scale > 0)) return false;
      found.softcap = found.scale;
      return scores(tanh->inputs[0], depth + 1);
    }
    // A mask below a scale or cap would itself be scaled.
    if (found.scale != 1 || found.softcap != 0) return false;
    if (const ir::Node* sum = match.take(value, Op::add))
      return masked({sum->inputs[1]}, sum->inputs[0], depth) ||
             masked({sum->inputs[0]}, sum->inputs[1], depth);
    if (const ir::Node* select = match.take(value, Op::where)) {
      const ValueId condition = select->inputs[0];
      const ir::DType dtype = match.editor.value(value).dtype;
      if (auto fill = scalar_for(match.editor, select->inputs[2], select->inputs[1]))
        return masked({condition, true, true, *fill, dtype}, select->inputs[1], depth);
      if (auto fill = scalar_for(match.editor, select->inputs[1], select->inputs[2]))
        return masked({condition, true, false, *fill, dtype}, select->inputs[2], depth);
    }
    return false;
  }

  bool masked(MaskStep step, ValueId inner, int depth) {
    const AttentionChain before = found;
    auto taken = match.attempt([&]() -> bool {
      found.steps.push_back(step);
      return scores(inner, depth + 1);
    });
    if (!taken) found = before;
    return taken;
  }

  bool operands(const ir::Node& product) {
    found.q = product.inputs[0];
    found.k = product.inputs[1];
    found.q_transposed = product.attributes.integer("trans_a") != 0;
    found.k_transposed = product.attributes.integer("trans_b") == 0;
    for (ValueId inner; (inner = take_scale(found.q)) != ir::kNoValue;) found.q = inner;
    for (;;) {
      if (const ValueId inner = take_scale(found.k); inner != ir::kNoValue) {
        found.k = inner;
      } else if (const ir::Node* transpose = match.peek(found.k, Op::transpose);
                 transpose && swaps_last_two(*transpose)) {
        match.take(found.k, Op::transpose);
        found.k = transpose->inputs[0];
        found.k_transposed = !found.k_transposed;
      } else {
        break;
      }
    }
    if (!found.k_transposed && !found.v_transposed) take_repeated_heads();
    return true;
  }

  static bool swaps_last_two(const ir::Node& transpose) {
    auto perm = transpose.attributes.integers("perm");
    if (perm.size() < 2) return false;
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    for (size_t i = 0; i < perm.size(); ++i)
      if (perm[i] != static_cast<int64_t>(i)) return false;
    return true;
  }

  // [B,H,S,D] -> [B,H,1,S,D] -> [B,H,n,S,D] -> [B,H n,S,D]: gives the source.
  std::optional<ValueId> take_repeated(ValueId value) {
    const ir::Node* joined = match.take(value, Op::reshape);
    const ir::Node* expand = joined ? match.take(joined->inputs[0], Op::expand) : nullptr;
    if (!expand) return std::nullopt;
    const ValueId single = expand->inputs[0];
    const auto whole = match.editor.extents(value), five = match.editor.extents(joined->inputs[0]),
               one = match.editor.extents(single);
    if (whole.size() != 4 || five.size() != 5 ||
        one != std::vector<int64_t>{five[0], five[1], 1, five[3], five[4]})
      return std::nullopt;
    if (whole != std::vector<int64_t>{five[0], five[1] * five[2], five[3], five[4]}) return std::nullopt;
    const std::vector<int64_t> source{five[0], five[1], five[3], five[4]};
    if (const ir::Node* split = match.peek(single, Op::reshape);
        split && match.editor.extents(split->inputs[0]) == source) {
      match.take(single, Op::reshape);
      return split->inputs[0];
    }
    return single;  // five-dimensional: reshaped when the operator is built
  }

  void take_repeated_heads() {
    match.attempt([&]() -> bool {
      auto k = take_repeated(found.k);
      auto v = k ? take_repeated(found.v) : std::nullopt;
      if (!v) return false;
      found.k = *k;
      found.v = *v;
      return true;
    });
  }

  NodeId root_;
  std::vector<int64_t> scores_;
};

// An operand as [B,H,S,D] of the chain's type.
std::optional<ValueId> operand(Editor& editor, ValueId value, bool transposed, ir::DType dtype) {
  auto extents = editor.extents(value);
  if (extents.size() == 5 && extents[2] == 1) extents.erase(extents.begin() + 2);
  while (extents.size() < 4) extents.insert(extents.begin(), 1);
  auto typed = editor.as_dtype(value, dtype);
  auto shaped = typed ? editor.as_shape(*typed, extents) : std::nullopt;
  if (!shaped || !transposed) return shaped;
  return editor.add(Op::transpose, {*shaped}, {{{"perm", std::vector<int64_t>{0, 1, 3, 2}}}});
}

std::optional<Rewriting> attention(const Editor& editor, NodeId root) {
  const ValueId out = editor.node(root).outputs[0];
  if (!ir::is_floating(editor.value(out).dtype)) return std::nullopt;
  AttentionMatch chain(editor, root);
  if (!chain.run() || !std::isfinite(chain.found.scale)) return std::nullopt;
  AttentionChain& found = chain.found;
  const auto shape = editor.extents(out);
  const auto q = editor.extents(found.q), k = editor.extents(found.k);
  const int64_t queries = shape[shape.size() - 2];
  const int64_t keys = found.k_transposed ? k[k.size() - 1] : k[k.size() - 2];
  if (q.size() != shape.size() || !std::equal(q.begin(), q.end() - 2, shape.begin()))
    return std::nullopt;  // broadcast queries
  auto mask = read_mask(chain.match, found.steps, queries, keys);
  if (!mask) return std::nullopt;
  found.dtype = editor.value(out).dtype;
  for (ValueId value : {found.q, found.k, found.v})
    if (widens(found.dtype, editor.value(value).dtype)) found.dtype = editor.value(value).dtype;
  return Rewriting{chain.match.covers,
                   {out},
                   [found, mask = *mask, shape, out](Editor& e) -> std::optional<std::vector<ValueId>> {
                     auto query = operand(e, found.q, found.q_transposed, found.dtype),
                          key = operand(e, found.k, found.k_transposed, found.dtype),
                          value = operand(e, found.v, found.v_transposed, found.dtype);
                     auto masked = build_mask(e, mask.steps);
                     if (!query || !key || !value || !masked) return std::nullopt;
                     ir::Attributes attributes{{{"scale", found.scale},
                                                {"softcap", found.softcap},
                                                {"causal", int64_t{mask.causal}},
                                                {"causal_offset", mask.causal_offset},
                                                {"empty_row_nan", int64_t{found.guard == ir::kNoValue}}}};
                     std::vector<ValueId> inputs{*query, *key, *value};
                     if (*masked != ir::kNoValue) inputs.push_back(*masked);
                     auto y = e.add(Op::attention, inputs, attributes);
                     auto typed = y ? e.as_dtype(*y, e.value(out).dtype) : std::nullopt;
                     auto shaped = typed ? e.as_shape(*typed, shape) : std::nullopt;
                     if (!shaped) return std::nullopt;
                     return std::vector<ValueId>{*shaped};
                   }};
}

}  // namespace

std::vector<Rule> attention_rules() {
  return {{"attention: softmax(scale q k^T + mask) v", {Op::matmul}, attention}};
}

}  // namespace rtx::fuse
