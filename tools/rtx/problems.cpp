#include "rtx/problems.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

namespace rtx::tools {

namespace {

using ir::DType;
using ir::Op;
using ir::ValueId;

const std::map<std::string, std::vector<Setting>>& table() {
  static const Setting dtype{"dtype", "f32", "f32, f16, bf16, f64"};
  static const Setting rows{"rows", "1024", "rows"}, columns{"columns", "1024", "columns"};
  static const std::map<std::string, std::vector<Setting>> settings = {
      {"gemm",
       {{"m", "128", "rows of A"}, {"n", "384", "columns of B"}, {"k", "384", "terms of each sum"}, {"batch", "1", "matrices"},
        {"trans_a", "0", "A is stored K x M"}, {"trans_b", "0", "B is stored N x K"}, {"weight", "1", "B is constant and packed once"}, {"gate", "0", "1: silu(A B) times A B2"},
        {"epilogue", "", "any of bias, gelu, gelu_tanh, silu, relu, residual in this order, joined by commas"}, dtype}},
      {"attention",
       {{"batch", "1", "sequences"}, {"heads", "12", "query heads"}, {"kv_heads", "0", "key heads (0: as many as query heads)"}, {"queries", "128", "query tokens"},
        {"keys", "0", "key tokens (0: as many as query tokens)"}, {"dim", "64", "head size"}, {"causal", "0", "1: a token sees itself and what came before"},
        {"mask", "0", "1: an added mask [batch,1,1,keys]"}, dtype}},
      {"norm", {rows, columns, {"kind", "layer", "layer or rms"}, {"epilogue", "", "gelu, gelu_tanh, silu or relu"}, {"residual", "0", "1: a residual is added before; 2: and the sum is a result too"}, dtype}},
      {"softmax", {rows, columns, {"scale", "1", "factor before"}, dtype}},
      {"rotary",
       {{"batch", "1", "sequences"}, {"heads", "12", "heads"}, {"tokens", "128", "tokens"}, {"dim", "64", "head size"}, {"rotated", "0", "columns that rotate (0: all)"},
        {"interleaved", "0", "1: pairs are neighbours, 0: halves apart"}, dtype}},
      {"reduce", {rows, columns, {"kind", "sum", "sum, mean, max or min"}, {"axis", "1", "0 or 1"}, dtype}},
      {"pointwise", {rows, columns, {"chain", "gelu", "any of bias, gelu, gelu_tanh, silu, relu, tanh, exp, add, mul, residual in this order, joined by commas"}, dtype}},
      {"movement", {rows, columns, {"kind", "transpose", "transpose, slice or concat"}, dtype}},
      {"loopnest", {rows, columns, {"kind", "matmul", "matmul over i32"}}},
  };
  return settings;
}

class Builder {
 public:
  Builder(std::map<std::string, std::string> values) : values_(std::move(values)) {}  // NOLINT

  Result<ir::Graph> build(const std::string& family) {
    graph_.name = family;
    if (values_.count("dtype") != 0) {
      const auto dtype = ir::dtype_from_name(values_["dtype"]);
      if (!dtype || !ir::is_floating(*dtype)) return user_error("unknown dtype '" + values_["dtype"] + "'", "it is one of f32, f16, bf16, f64");
      dtype_ = *dtype;
    }
    auto result = family == "gemm"        ? gemm()
                  : family == "attention" ? attention()
                  : family == "norm"      ? norm()
                  : family == "softmax"   ? softmax()
                  : family == "rotary"    ? rotary()
                  : family == "reduce"    ? reduce()
                  : family == "pointwise" ? pointwise()
                  : family == "movement"  ? movement()
                                          : loopnest();
    RTX_TRY(const ValueId y, std::move(result));
    graph_.outputs.insert(graph_.outputs.begin(), y);
    graph_.output_names.insert(graph_.output_names.begin(), "y");
    return std::move(graph_);
  }

 private:
  Result<int64_t> integer(const std::string& name) {
    const std::string& text = values_[name];
    if (text.empty() || text.size() > 12 || text.find_first_not_of("0123456789") != std::string::npos)
      return user_error("cannot understand " + name + "=" + text, "a non-negative integer is wanted");
    const auto value = static_cast<int64_t>(std::stoll(text));
    // No tensor of the problem is larger than the product of all its settings.
    if (value > 1 && (__builtin_mul_overflow(product_, value, &product_) || product_ > int64_t{1} << 62))
      return user_error("the problem is too large", "with " + name + "=" + text + " its settings multiply to more than 2^62", "make one smaller");
    return value;
  }
  ValueId input(const std::string& name, std::vector<int64_t> extents) { return graph_.add_input(name, dtype_, ir::to_shape(extents)); }
  ValueId weight(const std::string& name, std::vector<int64_t> extents) {
    ir::HostTensor tensor(dtype_, std::move(extents));
    std::mt19937 random(7);
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, normal(random));
    return graph_.add_constant(name, std::move(tensor));
  }
  static ir::Attributes attributes(std::initializer_list<std::pair<const std::string, ir::Attribute>> items) {
    ir::Attributes out;
    for (const auto& [name, value] : items) out.items.emplace(name, value);
    return out;
  }
  Result<ValueId> chain(ValueId x, const std::string& words, const std::vector<int64_t>& extents) {
    for (size_t begin = 0; begin < words.size();) {
      const size_t end = std::min(words.find(',', begin), words.size());
      const std::string word = words.substr(begin, end - begin);
      if (word == "bias") x = graph_.add_node(Op::add, {x, dynamic_ ? input("bias", {extents.back()}) : weight("bias", {extents.back()})});
      else if (word == "residual" || word == "add") x = graph_.add_node(Op::add, {x, input(graph_.fresh_name("residual"), extents)});
      else if (word == "mul") x = graph_.add_node(Op::mul, {x, input(graph_.fresh_name("factor"), extents)});
      else if (word == "gelu") x = graph_.add_node(Op::gelu, {x}, attributes({{"tanh", int64_t{0}}}));
      else if (word == "gelu_tanh") x = graph_.add_node(Op::gelu, {x}, attributes({{"tanh", int64_t{1}}}));
      else if (word == "silu") x = graph_.add_node(Op::silu, {x}, attributes({{"alpha", 1.0}}));
      else if (word == "relu") x = graph_.add_node(Op::relu, {x});
      else if (word == "tanh") x = graph_.add_node(Op::tanh, {x});
      else if (word == "exp") x = graph_.add_node(Op::exp, {x});
      else return user_error("unknown operator '" + word + "'", "in '" + words + "'");
      begin = end + 1;
    }
    return x;
  }

  Result<ValueId> gemm() {
    RTX_TRY(const int64_t m, integer("m"));
    RTX_TRY(const int64_t n, integer("n"));
    RTX_TRY(const int64_t k, integer("k"));
    RTX_TRY(const int64_t batch, integer("batch"));
    RTX_TRY(const int64_t ta, integer("trans_a"));
    RTX_TRY(const int64_t tb, integer("trans_b"));
    RTX_TRY(const int64_t constant, integer("weight"));
    std::vector<int64_t> a = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, b = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
    std::vector<int64_t> out = {m, n};
    if (batch != 1) a.insert(a.begin(), batch), b.insert(b.begin(), batch), out.insert(out.begin(), batch);
    RTX_TRY(const int64_t gate, integer("gate"));
    dynamic_ = constant == 0;
    const ValueId x = input("x", a);
    const auto times = [&](const char* name) { return graph_.add_node(Op::matmul, {x, dynamic_ ? input(name, b) : weight(name, b)}, attributes({{"trans_a", ta}, {"trans_b", tb}})); };
    ValueId y = times("w");
    if (gate) y = graph_.add_node(Op::mul, {graph_.add_node(Op::silu, {y}, attributes({{"alpha", 1.0}})), times("up")});
    return chain(y, values_["epilogue"], out);
  }
  Result<ValueId> attention() {
    RTX_TRY(const int64_t batch, integer("batch"));
    RTX_TRY(const int64_t heads, integer("heads"));
    RTX_TRY(int64_t kv_heads, integer("kv_heads"));
    RTX_TRY(const int64_t queries, integer("queries"));
    RTX_TRY(int64_t keys, integer("keys"));
    RTX_TRY(const int64_t dim, integer("dim"));
    RTX_TRY(const int64_t causal, integer("causal"));
    RTX_TRY(const int64_t mask, integer("mask"));
    if (kv_heads == 0) kv_heads = heads;
    if (keys == 0) keys = queries;
    if (kv_heads == 0 || heads % kv_heads != 0) return user_error("heads=" + std::to_string(heads) + " is no multiple of kv_heads=" + std::to_string(kv_heads));
    std::vector<ValueId> inputs = {input("q", {batch, heads, queries, dim}), input("k", {batch, kv_heads, keys, dim}), input("v", {batch, kv_heads, keys, dim})};
    if (mask) inputs.push_back(input("mask", {batch, 1, 1, keys}));
    return graph_.try_add_node(Op::attention, inputs, attributes({{"scale", 1.0 / std::sqrt(static_cast<double>(dim))}, {"causal", causal}, {"causal_offset", keys - queries}}));
  }
  Result<ValueId> norm() {
    RTX_TRY(const int64_t rows, integer("rows"));
    RTX_TRY(const int64_t columns, integer("columns"));
    RTX_TRY(const int64_t residual, integer("residual"));
    ValueId x = input("x", {rows, columns});
    if (residual) x = graph_.add_node(Op::add, {x, input("residual", {rows, columns})});
    if (residual == 2) graph_.outputs = {x}, graph_.output_names = {"sum"};
    const ValueId scale = weight("scale", {columns});
    if (values_["kind"] == "layer") x = graph_.add_node(Op::layer_norm, {x, scale, weight("shift", {columns})}, attributes({{"axis", int64_t{1}}, {"epsilon", 1e-5}}));
    else if (values_["kind"] == "rms") x = graph_.add_node(Op::rms_norm, {x, scale}, attributes({{"axis", int64_t{1}}, {"epsilon", 1e-6}}));
    else return user_error("unknown kind '" + values_["kind"] + "'", "it is layer or rms");
    return chain(x, values_["epilogue"], {rows, columns});
  }
  Result<ValueId> softmax() {
    RTX_TRY(const int64_t rows, integer("rows"));
    RTX_TRY(const int64_t columns, integer("columns"));
    ValueId x = input("x", {rows, columns});
    if (values_["scale"] != "1") x = graph_.add_node(Op::mul, {x, graph_.add_constant("scale", ir::HostTensor::scalar(dtype_, std::strtod(values_["scale"].c_str(), nullptr)))});
    return graph_.try_add_node(Op::softmax, {x}, attributes({{"axis", int64_t{1}}}));
  }
  Result<ValueId> rotary() {
    RTX_TRY(const int64_t batch, integer("batch"));
    RTX_TRY(const int64_t heads, integer("heads"));
    RTX_TRY(const int64_t tokens, integer("tokens"));
    RTX_TRY(const int64_t dim, integer("dim"));
    RTX_TRY(int64_t rotated, integer("rotated"));
    RTX_TRY(const int64_t interleaved, integer("interleaved"));
    if (rotated == 0) rotated = dim;
    const std::vector<int64_t> table = {1, tokens, rotated / 2};
    return graph_.try_add_node(Op::rotary, {input("x", {batch, heads, tokens, dim}), input("cos", table), input("sin", table)},
                               attributes({{"interleaved", interleaved}, {"rotary_dim", rotated}}));
  }
  Result<ValueId> reduce() {
    RTX_TRY(const int64_t rows, integer("rows"));
    RTX_TRY(const int64_t columns, integer("columns"));
    RTX_TRY(const int64_t axis, integer("axis"));
    const auto op = ir::op_from_name("reduce_" + values_["kind"]);
    if (!op || axis > 1) return user_error("cannot understand this reduction", "kind is sum, mean, max or min; axis is 0 or 1");
    return graph_.try_add_node(*op, {input("x", {rows, columns})}, attributes({{"axes", std::vector<int64_t>{axis}}, {"keepdims", int64_t{0}}}));
  }
  Result<ValueId> pointwise() {
    RTX_TRY(const int64_t rows, integer("rows"));
    RTX_TRY(const int64_t columns, integer("columns"));
    return chain(input("x", {rows, columns}), values_["chain"], {rows, columns});
  }
  Result<ValueId> movement() {
    RTX_TRY(const int64_t rows, integer("rows"));
    RTX_TRY(const int64_t columns, integer("columns"));
    const ValueId x = input("x", {rows, columns});
    if (values_["kind"] == "transpose") return graph_.try_add_node(Op::transpose, {x}, attributes({{"perm", std::vector<int64_t>{1, 0}}}));
    if (values_["kind"] == "concat") return graph_.try_add_node(Op::concat, {x, input("z", {rows, columns})}, attributes({{"axis", int64_t{1}}}));
    if (values_["kind"] == "slice")
      return graph_.try_add_node_as(Op::slice, {x}, dtype_, ir::to_shape({rows, columns / 2}), attributes({{"starts", std::vector<int64_t>{0, 0}}, {"steps", std::vector<int64_t>{1, 2}}}));
    return user_error("unknown kind '" + values_["kind"] + "'", "it is transpose, slice or concat");
  }
  Result<ValueId> loopnest() {
    dtype_ = DType::i32;
    RTX_TRY(const int64_t rows, integer("rows"));
    RTX_TRY(const int64_t columns, integer("columns"));
    return graph_.try_add_node(Op::matmul, {input("x", {rows, columns}), input("w", {columns, rows})}, attributes({{"trans_a", int64_t{0}}, {"trans_b", int64_t{0}}}));
  }

  int64_t product_ = 1;
  bool dynamic_ = false;  // what a model has as weights is given at run time
  std::map<std::string, std::string> values_;
  ir::Graph graph_;
  DType dtype_ = DType::f32;
};

}  // namespace

std::vector<Setting> settings_of(const std::string& family) {
  const auto found = table().find(family);
  return found == table().end() ? std::vector<Setting>{} : found->second;
}

Result<ir::Graph> problem_graph(const std::string& family, const std::vector<std::string>& assignments) {
  const auto settings = settings_of(family);
  if (settings.empty()) {
    std::string all;
    for (const auto& [name, unused] : table()) all += (all.empty() ? "" : ", ") + name;
    return user_error("unknown family '" + family + "'", "the families are " + all);
  }
  std::map<std::string, std::string> values;
  for (const auto& setting : settings) values[setting.name] = setting.otherwise;
  std::set<std::string> seen;
  for (const auto& assignment : assignments) {
    const auto equal = assignment.find('=');
    const std::string name = assignment.substr(0, equal);
    if (equal == std::string::npos || values.count(name) == 0) {
      std::string all;
      for (const auto& setting : settings) all += (all.empty() ? "" : ", ") + setting.name;
      return user_error("cannot understand '" + assignment + "'", "settings of " + family + " are " + all, "see `rtx tune " + family + "`");
    }
    if (!seen.insert(name).second) return user_error("'" + name + "' is set twice", "only one value can hold", "leave one out");
    values[name] = assignment.substr(equal + 1);
  }
  return Builder(std::move(values)).build(family);
}

}  // namespace rtx::tools
