#include "reference/test_help.h"

namespace rtx::reference {
namespace {

struct Unary {
  const char* op;
  Numbers inputs, wanted;
};

TEST(Pointwise, each_function_has_its_value) {
  const Unary rows[] = {
      {"neg(x)", {1, -2, kNan}, {-1, 2, kNan}},
      {"abs(x)", {-1.5, 2, -kInf}, {1.5, 2, kInf}},
      {"reciprocal(x)", {4, 0, -kInf}, {0.25, kInf, 0}},
      {"sqrt(x)", {9, 0, -1}, {3, 0, kNan}},
      {"exp(x)", {0, 1, -kInf}, {1, 2.718281828459045, 0}},
      {"log(x)", {1, 0, -1}, {0, -kInf, kNan}},
      {"erf(x)", {0, 1, -kInf}, {0, 0.8427007929497149, -1}},
      {"tanh(x)", {0, 0.5, kInf}, {0, 0.46211715726000976, 1}},
      {"sigmoid(x)", {0, 2, -kInf}, {0.5, 0.8807970779778823, 0}},
      {"silu(x)", {0, 1, -1}, {0, 0.7310585786300049, -0.2689414213699951}},
      {"silu(x, alpha=2.0)", {0, 1, -1}, {0, 0.8807970779778823, -0.11920292202211755}},
  };
  for (const auto& row : rows) {
    SCOPED_TRACE(row.op);
    expect_near(first("x: f64[3]; y = " + std::string(row.op) + "; return y", {row.inputs}), row.wanted, 1e-15);
  }
}

TEST(Pointwise, both_forms_of_gelu_are_told_apart) {  // P27
  const std::string x = "x: f32[5]; y = ";
  const Numbers inputs{-3, -2.699, -1, 1, 3};
  const Numbers exact = first(x + "gelu(x, tanh=0); return y", {inputs});
  const Numbers tanh_form = first(x + "gelu(x, tanh=1); return y", {inputs});
  expect_near(exact, {-0.00404969, exact[1], -0.15865525, 0.84134475, 2.99595031}, 5e-9);
  expect_near(tanh_form, {-0.00363739, tanh_form[1], -0.15880801, 0.84119199, 2.99636261}, 5e-9);
  EXPECT_NEAR(tanh_form[1] - exact[1], 4.732e-4, 1e-7);
  const std::string erf_graph = "d = mul(x, 0.7071067811865476); e = erf(d); o = add(e, 1); m = mul(x, o); y = mul(m, 0.5); return y";
  expect_near(first("x: f64[5]; " + erf_graph, {inputs}), first("x: f64[5]; y = gelu(x); return y", {inputs}), 1e-14);
  const std::string tanh_graph = R"(p = pow(x, 3); c = mul(p, 0.044715); s = add(x, c); u = mul(s, 0.7978845608028654); t = tanh(u);
                                    o = add(t, 1); m = mul(x, o); y = mul(m, 0.5); return y)";
  expect_near(first("x: f64[5]; " + tanh_graph, {inputs}), first("x: f64[5]; y = gelu(x, tanh=1); return y", {inputs}), 1e-14);
}

TEST(Pointwise, nan_passes_relu_clamp_max_and_min) {  // P28
  const Numbers x{kNan, -0.0, kInf, -kInf};
  expect_near(first("x: f32[4]; y = relu(x); return y", {x}), {kNan, 0, kInf, 0});
  expect_near(first("x: f32[4]; b: f32[1]; s = add(x, b); y = relu(s); return y", {x, {1}}), {kNan, 1, kInf, 0});
  expect_near(first("x: f32[4]; l = max(x, 0); y = min(l, 6); return y", {x}), {kNan, 0, 6, 0});
  expect_near(first("x: f32[4]; y = max(0, x); return y", {x}), {kNan, 0, kInf, 0});
  expect_near(first("x: f32[4]; y = min(0, x); return y", {x}), {kNan, 0, 0, -kInf});
  expect_near(first("x: f32[3]; y = reduce_max(x, axes=[0]); return y", {{1, kNan, 3}}), {kNan});
  expect_near(first("x: f32[3]; y = reduce_min(x, axes=[0]); return y", {{1, kNan, 3}}), {kNan});
}

TEST(Pointwise, binary_operators_broadcast_both_ways) {
  expect_near(first("a: f32[2,1]; b: f32[3]; y = sub(a, b); return y", {{10, 20}, {1, 2, 3}}), {9, 8, 7, 19, 18, 17});
  expect_near(first("a: f32[]; b: f32[2,2]; y = div(a, b); return y", {{1}, {1, 2, 4, 0}}), {1, 0.5, 0.25, kInf});
  expect_near(first("a: f32[2]; b: f32[2]; y = pow(a, b); return y", {{2, -8}, {10, 0.5}}), {1024, kNan});
  expect_near(first("a: f32[3]; b: f32[3]; y = mod(a, b, fmod=1); return y", {{-7, 7, 1}, {3, -3, 0}}), {-1, 1, kNan});
  expect_near(first("a: f32[0,3]; b: f32[1,3]; y = add(a, b); return y", {{}, {1, 2, 3}}), {});
}

TEST(Pointwise, integers_wrap_truncate_and_never_trap) {
  const auto byte = [](const char* op, Numbers a, Numbers b) { return first("a: i8[3]; b: i8[3]; y = " + std::string(op) + "; return y", {a, b}); };
  expect_near(byte("add(a, b)", {127, 1, -128}, {1, 2, -1}), {-128, 3, 127});
  expect_near(byte("sub(a, b)", {-128, 1, 0}, {1, 2, -128}), {127, -1, -128});
  expect_near(byte("mul(a, b)", {100, -3, 16}, {3, 3, 16}), {44, -9, 0});
  expect_near(byte("div(a, b)", {-7, 5, -128}, {2, 0, -1}), {-3, 0, -128});
  expect_near(byte("mod(a, b)", {-7, 7, 5}, {3, -3, 0}), {2, -2, 0});
  expect_near(byte("mod(a, b, fmod=1)", {-7, 7, -128}, {3, -3, -1}), {-1, 1, 0});
  expect_near(byte("pow(a, b)", {2, -1, 2}, {7, -3, -1}), {-128, -1, 0});
  expect_near(byte("max(a, b)", {1, -1, 0}, {0, 3, 0}), {1, 3, 0});
  expect_near(byte("less(a, b)", {1, -1, 0}, {0, 3, 0}), {0, 1, 0});
  expect_near(first("a: i8[2]; y = neg(a); return y", {{-128, 5}}), {-128, -5});
  expect_near(first("a: i8[2]; y = abs(a); return y", {{-128, -5}}), {-128, 5});
  expect_near(first("a: i32[2]; y = relu(a); return y", {{-4, 5}}), {0, 5});
  expect_near(first("a: i64[2]; b: i64[2]; y = div(a, b); return y", {{-9223372036854775808.0, 1}, {-1, 0}}), {-9223372036854775808.0, 0});
}

TEST(Pointwise, unsigned_64_bit_numbers_compare_and_divide_as_such) {
  const double big = 18446744073709549568.0;
  const std::string ab = "a: u64[2]; b: u64[2]; y = ";
  expect_near(first(ab + "greater(a, b); return y", {{big, 1}, {1, big}}), {1, 0});
  expect_near(first(ab + "max(a, b); return y", {{big, 1}, {1, big}}), {big, big});
  expect_near(first(ab + "div(a, b); return y", {{big, 1}, {2, big}}), {big / 2, 0});
  expect_near(first("a: u64[2]; y = cast(a): f64; return y", {{big, 1}}), {big, 1});
}

TEST(Pointwise, pow_takes_mixed_types_and_keeps_the_bases) {
  const auto out = run_text("a: f32[2]; b: i64[2]; y = pow(a, b); c: i32[2]; z = pow(c, a); return y, z", {{2, 0.5}, {-2, 3}, {4, 9}});
  ASSERT_TRUE(out.ok());
  expect_near(numbers_of((*out)[0]), {0.25, 0.125});
  EXPECT_EQ((*out)[1].dtype, ir::DType::i32);
  expect_near(numbers_of((*out)[1]), {16, 3});
}

TEST(Pointwise, comparisons_and_logic_give_booleans) {
  const std::string ab = "a: f32[3]; b: f32[3]; y = ";
  const std::vector<Numbers> values{{1, 2, kNan}, {1, 3, kNan}};
  expect_near(first(ab + "equal(a, b); return y", values), {1, 0, 0});
  expect_near(first(ab + "less(a, b); return y", values), {0, 1, 0});
  expect_near(first(ab + "less_equal(a, b); return y", values), {1, 1, 0});
  expect_near(first(ab + "greater(a, b); return y", values), {0, 0, 0});
  expect_near(first(ab + "greater_equal(a, b); return y", values), {1, 0, 0});
  const std::string pq = "a: bool[4]; b: bool[4]; y = ";
  const std::vector<Numbers> truth{{0, 0, 1, 1}, {0, 1, 0, 1}};
  expect_near(first(pq + "logical_and(a, b); return y", truth), {0, 0, 0, 1});
  expect_near(first(pq + "logical_or(a, b); return y", truth), {0, 1, 1, 1});
  expect_near(first(pq + "logical_xor(a, b); return y", truth), {0, 1, 1, 0});
  expect_near(first(pq + "equal(a, b); return y", truth), {1, 0, 0, 1});
  expect_near(first("a: bool[2]; y = logical_not(a); return y", {{0, 1}}), {1, 0});
}

TEST(Pointwise, where_takes_any_type_and_does_not_mix_branches) {
  expect_near(first("c: bool[2,1]; a: f32[2]; b: f32[]; y = where(c, a, b); return y", {{1, 0}, {1, kNan}, {5}}), {1, kNan, 5, 5});
  expect_near(first("c: bool[2]; a: bool[2]; b: bool[2]; y = where(c, a, b); return y", {{1, 0}, {1, 0}, {0, 1}}), {1, 1});
}

TEST(Pointwise, casts_truncate_saturate_wrap_and_keep_real_precision) {
  expect_near(first("a: f32[4]; y = cast(a): i8; return y", {{300, -1.9, kNan, -kInf}}), {127, -1, 0, -128});
  expect_near(first("a: f32[3]; y = cast(a): u8; return y", {{-3, 255.9, 7.9}}), {0, 255, 7});
  expect_near(first("a: i32[2]; y = cast(a): i8; return y", {{300, -129}}), {44, 127});
  expect_near(first("a: f32[3]; y = cast(a): bool; return y", {{0, 0.5, kNan}}), {0, 1, 1});
  expect_near(first("a: bool[2]; y = cast(a): f16; return y", {{0, 1}}), {0, 1});
  const std::string narrow = "a: f64[1]; h = cast(a): f16; y = cast(h): f64; return y";
  EXPECT_EQ(first(narrow, {{0.1}})[0], 0.1);                                    // a region rounds nothing inside
  EXPECT_EQ(first(narrow, {{0.1}}, {.round_each_op = true})[0], 0.0999755859375);  // node by node it does
}

TEST(Pointwise, each_result_is_rounded_once_in_the_node_by_node_reference) {
  const std::string text = "a: bf16[1]; b: bf16[1]; s = add(a, b); y = sub(s, a); return y";
  EXPECT_EQ(first(text, {{256}, {1}})[0], 1);
  EXPECT_EQ(first(text, {{256}, {1}}, {.round_each_op = true})[0], 0);
}

TEST(Pointwise, subnormals_are_kept) {  // P34
  const double tiny = static_cast<double>(1e-40f);
  expect_near(first("x: f32[1]; y = add(x, 0); return y", {{tiny}}), {tiny}, 0);
  expect_near(first("x: f32[1]; y = relu(x); return y", {{tiny}}), {tiny}, 0);
  EXPECT_EQ(first("x: f32[1]; y = mul(x, 4); return y", {{tiny}})[0], 4 * tiny);
}

}  // namespace
}  // namespace rtx::reference
