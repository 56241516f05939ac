#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text.h"
#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using attention::Attention;
using testing::TestCase;

struct Shape {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 8, width = 8;
};

std::string body(const Shape& s, const std::string& attributes, const std::string& mask = {}, const std::string& type = "f32") {
  const auto operand = [&](const char* name, int64_t heads, int64_t rows, int64_t width) {
    return std::string(name) + ": " + type + "[" + std::to_string(s.batch) + "," + std::to_string(heads) + "," + std::to_string(rows) + "," + std::to_string(width) + "]; ";
  };
  return operand("q", s.heads, s.queries, s.depth) + operand("k", s.key_heads, s.keys, s.depth) + operand("v", s.key_heads, s.keys, s.width) +
         (mask.empty() ? "" : "m: " + mask + "; ") + "a = attention(q, k, v" + (mask.empty() ? "" : ", m") + ", " + attributes + "); return a";
}

TEST(Attention, agrees_at_ugly_sizes) {
  std::vector<TestCase> cases;
  for (const int64_t keys : {1, 2, 15, 17, 63, 65, 127, 129, 300})
    cases.push_back({.text = body({1, 2, 2, 7, keys, 12, 20}, "scale=0.25")});
  for (const int64_t queries : {1, 2, 4, 5, 33, 65}) cases.push_back({.text = body({2, 3, 3, queries, 40, 32, 32}, "scale=0.2")});
  for (const int64_t depth : {1, 3, 8, 9, 16, 64, 80}) cases.push_back({.text = body({1, 1, 1, 9, 21, depth, depth + 1}, "scale=0.3")});
  EXPECT_EQ(testing::check<Attention>(cases), "");
}

TEST(Attention, heads_share_keys) {
  EXPECT_EQ(testing::check<Attention>({{.text = body({2, 8, 2, 5, 19, 16, 16}, "scale=0.25")},
                                       {.text = body({1, 4, 1, 1, 150, 32, 32}, "scale=0.25")},
                                       {.text = body({1, 6, 2, 40, 33, 16, 16}, "scale=0.25, causal=1")},
                                       // pains P44: q is 0, so each query head gives the v of its key head
                                       {.text = body({1, 8, 2, 3, 5, 8, 8}, "scale=1.0"),
                                        .fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i / 40 + 1) : 0.0; }}}),
            "");
}

TEST(Attention, masks_broadcast_and_are_added_or_keep) {
  const Shape s{2, 3, 3, 9, 21, 16, 16};
  std::vector<TestCase> cases;
  for (const char* mask : {"f32[2,1,1,21]", "f32[9,21]", "f32[2,3,9,21]", "f32[1,1,9,1]", "bool[2,1,9,21]", "bool[21]", "bool[2,3,9,21]"})
    cases.push_back({.text = body(s, "scale=0.25", mask)});
  cases.push_back({.text = body({2, 3, 3, 9, 21, 16, 16}, "scale=0.25", "f16[9,21]", "f16")});
  cases.push_back({.text = body({1, 2, 2, 20, 140, 16, 16}, "scale=0.25, causal=1, causal_offset=120", "f32[20,140]")});
  EXPECT_EQ(testing::check<Attention>(cases), "");
}

// The mask of a padded batch, made from a 0 / 1 tensor as exporters write it.
TEST(Attention, a_mask_may_have_a_prologue) {
  EXPECT_EQ(testing::check<Attention>(std::vector<TestCase>{{.text = "q: f32[2,2,5,8]; k: f32[2,2,7,8]; v: f32[2,2,7,8]; p: i64[2,7]; r = reshape(p): [2,1,1,7]; c = cast(r): f32; one: const f32[] {1}; "
                                                "low: const f32[] {-10000}; d = sub(one, c); m = mul(d, low); a = attention(q, k, v, m, scale=0.5); return a",
                                        .fill = [](size_t input, int64_t i) { return input == 3 ? static_cast<double>(i % 3 != 0) : std::sin(static_cast<double>(i)); }}}),
            "");
}

// pains P43. q = 0 and v[j] = j: the result is the mean of the keys that are seen.
TEST(Attention, causal_corners_and_windows_count_the_right_keys) {
  std::vector<TestCase> cases;
  const auto add = [&](int64_t queries, int64_t keys, const std::string& attributes) {
    cases.push_back({.text = body({1, 1, 1, queries, keys, 8, 1}, "scale=1.0, " + attributes),
                     .fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i) : 0.0; }});
  };
  add(7, 7, "causal=1, window_left=3");
  add(3, 5, "causal=1, causal_offset=2");
  add(5, 3, "causal=1, causal_offset=-2");
  add(5, 3, "causal=1, causal_offset=-2, empty_row_nan=1");
  add(3, 5, "causal=1");
  add(300, 300, "window_left=64");
  add(300, 300, "window_right=64");
  add(300, 300, "window_left=3, window_right=5");
  add(300, 300, "causal=1, window_left=130");
  EXPECT_EQ(testing::check<Attention>(cases), "");
}

// pains P38: -inf in an additive mask and false in a boolean one hide a row; it gives zeros, or NaN where asked.
TEST(Attention, fully_masked_rows_give_zero_or_nan_as_asked) {
  const auto float_mask = [](size_t input, int64_t i) { return input == 3 ? (i / 5 == 1 ? -INFINITY : 0.0) : std::cos(static_cast<double>(i)); };
  const auto bool_mask = [](size_t input, int64_t i) { return input == 3 ? static_cast<double>(i / 5 != 1) : std::cos(static_cast<double>(i)); };
  std::vector<TestCase> cases;
  for (const char* more : {"", ", empty_row_nan=1", ", causal=1"})
    for (const int64_t queries : {4, 9}) {
      const Shape s{1, 1, 1, queries, 5, 2, 2};
      const std::string q = std::to_string(queries);
      cases.push_back({.text = body(s, std::string("scale=1.0") + more, "f32[" + q + ",5]"), .fill = float_mask});
      cases.push_back({.text = body(s, std::string("scale=1.0") + more, "bool[" + q + ",5]"), .fill = bool_mask});
    }
  EXPECT_EQ(testing::check<Attention>(cases), "");
}

// pains P39: a real logit of -60025 is not a mask. The mean of 0..32 is 16 exactly, which the body compares by itself.
TEST(Attention, very_low_scores_are_scores) {
  EXPECT_EQ(testing::check<Attention>(std::vector<TestCase>{{.text = "q: f32[1,1,6,64]; k: f32[1,1,33,64]; v: f32[1,1,33,1]; mean: const f32[] {16}; a = attention(q, k, v, scale=1.0); e = equal(a, mean); return e",
                                        .fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i) : i % 64 != 0 ? 0.0 : input == 0 ? -245.0 : 245.0; }}}),
            "");
}

// pains P41: exactly 1 at every length; a padded tail would give S / 64 ceil(S / 64).
TEST(Attention, keys_behind_the_last_one_never_count) {
  std::vector<TestCase> cases;
  for (const int64_t keys : {1, 2, 15, 17, 63, 65, 127, 129, 1000, 1025})
    for (const int64_t queries : {1, 5})
      cases.push_back({.text = "q: f32[1,1," + std::to_string(queries) + ",8]; k: f32[1,1," + std::to_string(keys) + ",8]; v: f32[1,1," + std::to_string(keys) +
                               ",8]; one: const f32[] {1}; a = attention(q, k, v, scale=1.0); e = equal(a, one); return e",
                       .fill = [](size_t input, int64_t) { return input == 2 ? 1.0 : 0.0; }});
  EXPECT_EQ(testing::check<Attention>(cases), "");
}

// What lies behind the valid length may be anything, NaN too.
TEST(Attention, keys_beyond_the_valid_length_are_not_read) {
  const auto fill = [](size_t input, int64_t i) {
    if (input == 3) return i == 0 ? 3.0 : i == 1 ? 0.0 : 20.0;
    const int64_t batch = i / (2 * 20 * 8), row = i / 8 % 20;
    return input != 0 && batch == 0 && row >= 3 ? NAN : std::sin(static_cast<double>(i));
  };
  std::vector<TestCase> cases;
  for (const char* queries : {"1", "6"})
    for (const char* more : {"", ", causal=1, causal_offset=14"})
      cases.push_back({.text = std::string("q: f32[3,2,") + queries + ",8]; k: f32[3,2,20,8]; v: f32[3,2,20,8]; n: i64[3]; a = attention(q, k, v, _, n, scale=0.5" + more + "); return a", .fill = fill});
  EXPECT_EQ(testing::check<Attention>(cases), "");
}

TEST(Attention, scores_may_be_soft_capped_before_the_mask) {
  EXPECT_EQ(testing::check<Attention>({{.text = body({1, 2, 2, 9, 21, 16, 16}, "scale=2.0, softcap=5.0", "f32[9,21]")},
                                       {.text = body({1, 2, 2, 2, 21, 16, 16}, "scale=2.0, softcap=5.0, causal=1")}}),
            "");
}

TEST(Attention, half_types_and_nan) {
  EXPECT_EQ(testing::check<Attention>({{.text = body({1, 2, 1, 20, 40, 32, 32}, "scale=0.18", "", "f16")},
                                       {.text = body({1, 2, 1, 20, 40, 32, 32}, "scale=0.18, causal=1", "", "bf16")},
                                       {.text = body({1, 2, 2, 1, 40, 32, 32}, "scale=0.18", "", "bf16")},
                                       {.text = body({1, 3, 3, 6, 5, 2, 2}, "scale=1.0"), .fill = [](size_t input, int64_t i) { return input == 0 && i == 5 ? NAN : std::sin(static_cast<double>(i)); }}}),
            "");
}

TEST(Attention, a_fused_projection_is_read_and_written_in_place) {
  const std::string projected = "p: f32[2,9,72]; ";
  const auto part = [](const char* name, int start) {
    const std::string n(name);
    return n + "s = slice(p, starts=[0,0," + std::to_string(start) + "], steps=[1,1,1]): [2,9,24]; " + n + "r = reshape(" + n + "s): [2,9,3,8]; " + n + " = transpose(" + n + "r, perm=[0,2,1,3]); ";
  };
  EXPECT_EQ(testing::check<Attention>({{.text = projected + part("q", 0) + part("k", 24) + part("v", 48) +
                                                "a = attention(q, k, v, scale=0.35, causal=1); t = transpose(a, perm=[0,2,1,3]); y = reshape(t): [2,9,24]; return y"},
                                       {.text = "q: f32[1,2,5,8]; k: f32[1,2,8,7]; v: f32[1,2,7,6]; b: f32[8]; x: f32[1,2,5,6]; kt = transpose(k, perm=[0,1,3,2]); kb = add(kt, b); a = attention(q, kb, v, scale=0.35); y = add(a, x); return y"},
                                       {.text = "q: f32[1,2,3,8]; past: f32[1,2,6,8]; new: f32[1,2,3,8]; v: f32[1,2,9,8]; k = concat(past, new, axis=2); a = attention(q, k, v, scale=0.35, causal=1, causal_offset=6); return a"}}),
            "");
}

TEST(Attention, empty_operands_give_empty_or_empty_rows) {
  EXPECT_EQ(testing::check<Attention>({{.text = body({0, 2, 2, 3, 4, 8, 8}, "scale=1.0")},
                                       {.text = body({1, 2, 2, 0, 4, 8, 8}, "scale=1.0")},
                                       {.text = body({1, 2, 2, 3, 0, 8, 8}, "scale=1.0")},
                                       {.text = body({1, 2, 2, 9, 0, 8, 8}, "scale=1.0, empty_row_nan=1")}}),
            "");
}

TEST(Attention, all_candidates_give_the_same_bits) {
  EXPECT_EQ(testing::check_candidates<Attention>(body({1, 2, 1, 150, 270, 24, 40}, "scale=0.2, causal=1, causal_offset=120, window_left=200")), "");
}

TEST(Attention, the_pattern_leaves_a_bias_to_the_producer_of_its_operand) {
  const auto accepts = [](const std::string& text) { return Attention::pattern().accepts(ir::parse_or_die(text)).ok(); };
  const std::string start = "q: f32[1,2,5,8]; k: f32[1,2,7,8]; v: f32[1,7,2,8]; b: f32[8]; ";
  EXPECT_TRUE(accepts(start + "t = transpose(v, perm=[0,2,1,3]); a = attention(q, k, t, scale=1.0); return a"));
  EXPECT_FALSE(accepts(start + "kb = add(k, b); t = transpose(v, perm=[0,2,1,3]); a = attention(q, kb, t, scale=1.0); return a"));
}

TEST(Attention, refusals_say_why) {
  const auto family = erase<Attention>();
  EXPECT_NE(testing::refusal(*family, body({1, 1, 1, 3, 4, 8, 8}, "scale=1.0", "", "f64")).find("does not take f64"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, body({1, 1, 1, 3, 4, 2000, 8}, "scale=1.0")).find("too wide"), std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: f32[3]; y = relu(x); return y").find("no anchor"), std::string::npos);
}

}  // namespace
}  // namespace rtx::kernels
