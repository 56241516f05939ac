// The GPU kernels of attention on the emulator (RTX_TEST_GPU=cuda: on a device): the same questions as attention_test.cpp asks of
// the CPU's, and those that only tiles, fragments and splits raise.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/family_testing.h"

namespace rtx::kernels::attention {
namespace {

using testing::TestCase;

struct Shape {
  int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 8, width = 8;
};

std::string body(const Shape& s, const std::string& attributes, const std::string& type = "f32", const std::string& mask = {}) {
  const auto operand = [&](const char* name, int64_t heads, int64_t rows, int64_t width) {
    return std::string(name) + ": " + type + "[" + std::to_string(s.batch) + "," + std::to_string(heads) + "," + std::to_string(rows) + "," + std::to_string(width) + "]; ";
  };
  return operand("q", s.heads, s.queries, s.depth) + operand("k", s.key_heads, s.keys, s.depth) + operand("v", s.key_heads, s.keys, s.width) +
         (mask.empty() ? "" : "m: " + mask + "; ") + "a = attention(q, k, v" + (mask.empty() ? "" : ", m") + ", " + attributes + "); return a";
}

std::string check(std::vector<TestCase> cases) {
  // Weights are rounded to bf16 before they meet the values; of so few results some are unlucky.
  for (TestCase& test : cases)
    if (test.text.find("bf16") != std::string::npos) test.scale *= 5;
  return testing::check<Attention>(cases, testing::Target::emulated);
}

TEST(AttentionGpu, agrees_at_ugly_sizes) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const int64_t keys : {1, 2, 15, 17, 63, 65, 127, 129}) {
    cases.push_back({.text = body({1, 2, 2, 7, keys, 12, 20}, "scale=0.25")});
    cases.push_back({.text = body({1, 2, 2, 33, keys, 16, 16}, "scale=0.25", "f16")});
  }
  for (const int64_t queries : {1, 2, 15, 17, 63, 65, 127, 129}) cases.push_back({.text = body({1, 1, 1, queries, 40, 32, 32}, "scale=0.2", "f16")});
  cases.push_back({.text = body({1, 1, 1, 17, 40, 32, 32}, "scale=0.2", "bf16"), .parameters = "mma=0 waves=4 stages=1 block_q=4 block_k=16"});
  for (const int64_t depth : {1, 8, 9, 40, 128, 256}) cases.push_back({.text = body({1, 1, 1, 9, 21, depth, depth + 1}, "scale=0.1")});
  for (const int64_t depth : {8, 9, 16, 40, 64, 80, 128, 256}) cases.push_back({.text = body({1, 1, 1, 18, 70, depth, depth + 8}, "scale=0.1", "f16")});
  for (const int64_t depth : {8, 40, 128}) cases.push_back({.text = body({1, 1, 1, 18, 70, depth, depth}, "scale=0.1", "bf16")});
  EXPECT_EQ(check(cases), "");
}

// Every way a tile is dealt to waves, and every depth of the pipeline, with a last tile and a last block that are not full.
TEST(AttentionGpu, every_tile_agrees) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  const std::string text = body({1, 4, 2, 150, 270, 64, 48}, "scale=0.2, causal=1, causal_offset=120", "f16");
  for (const char* parameters :
       {"block_q=128 block_k=64 waves=4 stages=1", "block_q=128 block_k=48 waves=4 stages=2", "block_q=128 block_k=32 waves=8 stages=3", "block_q=64 block_k=128 waves=4 stages=1",
        "block_q=32 block_k=64 waves=4 stages=2", "block_q=16 block_k=64 waves=4 stages=3", "block_q=16 block_k=128 waves=8 stages=1", "block_q=64 block_k=64 waves=8 stages=2 splits=2"})
    cases.push_back({.text = text, .parameters = std::string("mma=1 splits=1 turns=0 ") + parameters});
  for (const char* parameters : {"block_q=4 block_k=8", "block_q=8 block_k=64", "block_q=16 block_k=16", "block_q=32 block_k=32", "block_q=64 block_k=64", "block_q=64 block_k=8 splits=4"})
    cases.push_back({.text = body({1, 4, 2, 70, 150, 24, 40}, "scale=0.2, causal=1, causal_offset=80"), .parameters = std::string("splits=1 ") + parameters});
  cases.push_back({.text = body({1, 1, 1, 70, 100, 256, 256}, "scale=0.06", "bf16"), .parameters = "mma=1 block_q=64 block_k=64 waves=4 stages=1 turns=0 splits=1"});
  EXPECT_EQ(check(cases), "");
}

TEST(AttentionGpu, heads_share_keys) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  // pains P44: q is 0, so each query head gives the v of its key head
  const auto fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i / 320 + 1) : 0.0; };
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16", "bf16"}) {
    cases.push_back({.text = body({2, 8, 2, 5, 19, 16, 16}, "scale=0.25, causal=1, causal_offset=14", type)});
    cases.push_back({.text = body({1, 8, 2, 1, 150, 32, 32}, "scale=0.25", type)});
    cases.push_back({.text = body({1, 6, 2, 40, 33, 16, 16}, "scale=0.25, causal=1", type)});
    for (const char* window : {"", ", window_left=16", ", window_right=16", ", window_left=8, window_right=8"})
      cases.push_back({.text = body({1, 8, 2, 40, 40, 8, 8}, std::string("scale=1.0") + window, type), .fill = fill});
  }
  EXPECT_EQ(check(cases), "");
}

TEST(AttentionGpu, few_rows_share_their_keys_among_groups) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const char* splits : {"1", "2", "8"}) {
    cases.push_back({.text = body({2, 8, 2, 1, 700, 64, 64}, "scale=0.125", "bf16"), .parameters = std::string("mma=1 block_q=16 block_k=64 waves=4 stages=3 splits=") + splits});
    cases.push_back({.text = body({2, 4, 2, 3, 300, 32, 20}, "scale=0.2, causal=1, causal_offset=297"), .parameters = std::string("block_q=8 block_k=16 splits=") + splits});
  }
  // Splits that have no key, and rows that see none.
  const auto length = [](size_t input, int64_t i) { return input == 3 ? (i == 0 ? 70.0 : i == 1 ? 0.0 : 500.0) : std::sin(static_cast<double>(i)); };
  for (const char* more : {"", ", empty_row_nan=1"})
    cases.push_back({.text = std::string("q: f16[3,2,1,16]; k: f16[3,2,500,16]; v: f16[3,2,500,16]; n: i64[3]; a = attention(q, k, v, _, n, scale=0.25") + more + "); return a",
                     .parameters = "mma=1 block_q=16 block_k=64 waves=4 stages=2 splits=4",
                     .fill = length});
  EXPECT_EQ(check(cases), "");
}

TEST(AttentionGpu, masks_broadcast_and_are_added_or_keep) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16"})
    for (const char* mask : {"f32[2,1,1,21]", "f32[9,21]", "f32[2,3,9,21]", "f32[1,1,9,1]", "bool[2,1,9,21]", "bool[21]", "bool[2,3,9,21]"})
      cases.push_back({.text = body({2, 3, 3, 9, 21, 16, 16}, "scale=0.25", type, mask)});
  cases.push_back({.text = body({2, 3, 3, 9, 70, 16, 16}, "scale=0.25", "f16", "f16[9,70]")});
  cases.push_back({.text = body({1, 2, 2, 20, 140, 16, 16}, "scale=0.25, causal=1, causal_offset=120", "bf16", "f32[20,140]")});
  cases.push_back({.text = "q: f16[2,2,5,8]; k: f16[2,2,7,8]; v: f16[2,2,7,8]; p: i64[2,7]; r = reshape(p): [2,1,1,7]; c = cast(r): f32; one: const f32[] {1}; "
                           "low: const f32[] {-10000}; d = sub(one, c); m = mul(d, low); a = attention(q, k, v, m, scale=0.5); return a",
                   .fill = [](size_t input, int64_t i) { return input == 3 ? static_cast<double>(i % 3 != 0) : std::sin(static_cast<double>(i)); }});
  EXPECT_EQ(check(cases), "");
}

// pains P43. q = 0 and v[j] = j: the result is the mean of the keys that are seen.
TEST(AttentionGpu, causal_corners_and_windows_count_the_right_keys) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  const auto add = [&](int64_t queries, int64_t keys, const std::string& attributes) {
    for (const char* type : {"f32", "f16"})
      cases.push_back({.text = body({1, 1, 1, queries, keys, 8, 1}, "scale=1.0, " + attributes, type), .fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i) : 0.0; }});
  };
  add(7, 7, "causal=1, window_left=3");
  add(3, 5, "causal=1, causal_offset=2");
  add(5, 3, "causal=1, causal_offset=-2");
  add(5, 3, "causal=1, causal_offset=-2, empty_row_nan=1");
  add(3, 5, "causal=1");
  add(150, 150, "window_left=64");
  add(150, 150, "window_right=64");
  add(150, 150, "window_left=3, window_right=5");
  add(150, 150, "causal=1, window_left=70");
  EXPECT_EQ(check(cases), "");
}

// pains P38: -inf in an additive mask and false in a boolean one hide a row; it gives zeros, or NaN where asked.
TEST(AttentionGpu, fully_masked_rows_give_zero_or_nan_as_asked) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto float_mask = [](size_t input, int64_t i) { return input == 3 ? (i / 5 == 1 ? -INFINITY : 0.0) : std::cos(static_cast<double>(i)); };
  const auto bool_mask = [](size_t input, int64_t i) { return input == 3 ? static_cast<double>(i / 5 != 1) : std::cos(static_cast<double>(i)); };
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16"})
    for (const char* more : {"", ", empty_row_nan=1", ", causal=1"}) {
      cases.push_back({.text = body({1, 1, 1, 9, 5, 2, 2}, std::string("scale=1.0") + more, type, "f32[9,5]"), .fill = float_mask});
      cases.push_back({.text = body({1, 1, 1, 4, 5, 2, 2}, std::string("scale=1.0") + more, type, "bool[4,5]"), .fill = bool_mask});
    }
  EXPECT_EQ(check(cases), "");
}

// pains P39: a real logit of -60025 is not a mask. The mean of 0..32 is 16 exactly, which the body compares by itself.
TEST(AttentionGpu, very_low_scores_are_scores) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto fill = [](size_t input, int64_t i) { return input == 2 ? static_cast<double>(i) : i % 64 != 0 ? 0.0 : input == 0 ? -245.0 : 245.0; };
  EXPECT_EQ(check({{.text = "q: f32[1,1,6,64]; k: f32[1,1,33,64]; v: f32[1,1,33,1]; mean: const f32[] {16}; a = attention(q, k, v, scale=1.0); e = equal(a, mean); return e", .fill = fill},
                   {.text = "q: bf16[1,1,6,64]; k: bf16[1,1,33,64]; v: bf16[1,1,33,1]; mean: const bf16[] {16}; a = attention(q, k, v, scale=1.0); e = equal(a, mean); return e", .fill = fill},
                   {.text = "q: f16[1,1,6,64]; k: f16[1,1,33,64]; v: f16[1,1,33,1]; mean: const f16[] {16}; a = attention(q, k, v, scale=1.0); e = equal(a, mean); return e", .fill = fill}}),
            "");
}

// pains P41: exactly 1 at every length; a padded tail would give S / 64 ceil(S / 64).
TEST(AttentionGpu, keys_behind_the_last_one_never_count) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "bf16"})
    for (const int64_t keys : {1, 2, 15, 17, 63, 65, 127, 129, 1000, 1025}) {
      const std::string t(type), s = std::to_string(keys);
      cases.push_back({.text = "q: " + t + "[1,1,5,8]; k: " + t + "[1,1," + s + ",8]; v: " + t + "[1,1," + s + ",8]; one: const " + t + "[] {1}; a = attention(q, k, v, scale=1.0); e = equal(a, one); return e",
                       .fill = [](size_t input, int64_t) { return input == 2 ? 1.0 : 0.0; }});
    }
  EXPECT_EQ(check(cases), "");
}

// What lies behind the valid length may be anything, NaN too.
TEST(AttentionGpu, keys_beyond_the_valid_length_are_not_read) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto fill = [](size_t input, int64_t i) {
    if (input == 3) return i == 0 ? 3.0 : i == 1 ? 0.0 : 20.0;
    const int64_t batch = i / (2 * 20 * 8), row = i / 8 % 20;
    return input != 0 && batch == 0 && row >= 3 ? NAN : std::sin(static_cast<double>(i));
  };
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16"})
    for (const char* more : {"", ", causal=1, causal_offset=14"}) {
      const std::string t(type);
      cases.push_back({.text = "q: " + t + "[3,2,6,8]; k: " + t + "[3,2,20,8]; v: " + t + "[3,2,20,8]; n: i64[3]; a = attention(q, k, v, _, n, scale=0.5" + more + "); return a", .fill = fill});
    }
  EXPECT_EQ(check(cases), "");
}

TEST(AttentionGpu, scores_may_be_scaled_down_capped_and_negated) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  EXPECT_EQ(check({{.text = body({1, 2, 2, 9, 21, 16, 16}, "scale=2.0, softcap=5.0", "f32", "f32[9,21]")},
                   {.text = body({1, 2, 2, 9, 21, 16, 16}, "scale=2.0, softcap=5.0", "f16", "f32[9,21]")},
                   {.text = body({1, 2, 2, 2, 21, 16, 16}, "scale=2.0, softcap=5.0, causal=1", "f16")},
                   {.text = body({1, 2, 2, 20, 21, 16, 16}, "scale=-0.5", "f16")},
                   {.text = body({1, 2, 2, 20, 21, 16, 16}, "scale=0.0", "f16")}}),
            "");
}

TEST(AttentionGpu, nan_stays_in_its_row) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto fill = [](size_t input, int64_t i) { return input == 0 && i == 5 ? NAN : std::sin(static_cast<double>(i)); };
  EXPECT_EQ(check({{.text = body({1, 3, 3, 6, 5, 2, 2}, "scale=1.0"), .fill = fill}, {.text = body({1, 3, 3, 20, 5, 2, 2}, "scale=1.0", "f16"), .fill = fill}}), "");
}

TEST(AttentionGpu, operands_are_read_where_they_stand_at_any_offset) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  const auto part = [](const char* name, int start) {
    const std::string n(name);
    return n + "s = slice(p, starts=[0,0," + std::to_string(start) + "], steps=[1,1,1]): [2,9,48]; " + n + "r = reshape(" + n + "s): [2,9,3,16]; " + n + " = transpose(" + n + "r, perm=[0,2,1,3]); ";
  };
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16"})
    for (const bool unaligned : {false, true})
      for (const int shift : {0, 3}) {
        const std::string t(type);
        cases.push_back({.text = "p: " + t + "[2,9,150]; " + part("q", 0) + part("k", 48 + shift) + part("v", 96) +
                                 "a = attention(q, k, v, scale=0.35, causal=1); t = transpose(a, perm=[0,2,1,3]); y = reshape(t): [2,9,48]; return y",
                         .unaligned = unaligned});
        cases.push_back({.text = body({2, 2, 2, 20, 70, 24, 16}, "scale=0.3", t), .unaligned = unaligned});
      }
  EXPECT_EQ(check(cases), "");
}

// A cache that is concatenated, a transposed key, a rotation and a bias on the way in, a residual sum on the way out.
TEST(AttentionGpu, prologues_and_epilogues_are_evaluated_on_the_way) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16"}) {
    const std::string t(type);
    cases.push_back({.text = "q: " + t + "[1,2,5,8]; k: " + t + "[1,2,8,7]; v: " + t + "[1,2,7,6]; b: " + t + "[8]; x: " + t +
                             "[1,2,5,6]; kt = transpose(k, perm=[0,1,3,2]); kb = add(kt, b); a = attention(q, kb, v, scale=0.35); y = add(a, x); return y"});
    cases.push_back({.text = "q: " + t + "[1,2,30,16]; past: " + t + "[1,2,60,16]; new: " + t + "[1,2,30,16]; v: " + t +
                             "[1,2,90,16]; k = concat(past, new, axis=2); a = attention(q, k, v, scale=0.25, causal=1, causal_offset=60); return a"});
    cases.push_back({.text = "q: " + t + "[1,2,20,24]; k: " + t + "[1,2,20,24]; v: " + t + "[1,2,20,24]; b: " + t +
                             "[24]; qb = add(q, b); vb = mul(v, b); a = attention(qb, k, vb, scale=0.25); c = relu(a); return c"});
  }
  // A wider result gets weights that are not rounded.
  cases.push_back({.text = "q: bf16[1,2,20,24]; k: bf16[1,2,20,24]; v: bf16[1,2,20,24]; a = attention(q, k, v, scale=0.25); c = cast(a): f32; return c"});
  EXPECT_EQ(check(cases), "");
}

TEST(AttentionGpu, empty_operands_give_empty_or_empty_rows) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<TestCase> cases;
  for (const char* type : {"f32", "f16"}) {
    cases.push_back({.text = body({1, 2, 2, 3, 0, 8, 8}, "scale=1.0", type)});
    cases.push_back({.text = body({1, 2, 2, 9, 0, 8, 8}, "scale=1.0, empty_row_nan=1", type)});
    cases.push_back({.text = body({1, 2, 2, 3, 4, 0, 8}, "scale=1.0", type)});
  }
  cases.push_back({.text = body({0, 2, 2, 3, 4, 8, 8}, "scale=1.0")});
  cases.push_back({.text = body({1, 2, 2, 0, 4, 8, 8}, "scale=1.0", "f16")});
  EXPECT_EQ(check(cases), "");
}

TEST(AttentionGpu, candidates_of_a_class_give_the_same_bits) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  for (const char* type : {"f32", "f16"}) {
    EXPECT_EQ(testing::check_candidates<Attention>(body({1, 4, 2, 70, 140, 32, 16}, "scale=0.2, causal=1, causal_offset=60, window_left=100", type), 9, testing::Target::emulated), "") << type;
  }
}

}  // namespace
}  // namespace rtx::kernels::attention
