#include "reference/test_help.h"

namespace rtx::reference {
namespace {

// q = 0 everywhere, v[j] = j: each row gives the mean of the keys it sees.
Numbers means(int64_t queries, int64_t keys, const std::string& attributes) {
  const std::string text = "q: f64[1,1," + std::to_string(queries) + ",1]; k: f64[1,1," + std::to_string(keys) + ",1]; v: f64[1,1," + std::to_string(keys) +
                           ",1]; y = attention(q, k, v, scale=1.0" + attributes + "); return y";
  return first(text, {{0}, {1}, keys == 1 ? Numbers{0} : counting(keys)});
}

TEST(Attention, is_the_written_out_formula) {
  const double e1 = std::exp(0.5 * (1 * 1 + 2 * 3));
  const double e2 = std::exp(0.5 * (1 * -1 + 2 * 2));
  const Numbers y = first("q: f64[1,1,1,2]; k: f64[1,1,2,2]; v: f64[1,1,2,1]; y = attention(q, k, v, scale=0.5); return y",
                          {{1, 2}, {1, 3, -1, 2}, {10, 20}});
  expect_near(y, {(10 * e1 + 20 * e2) / (e1 + e2)}, 1e-13);
}

TEST(Attention, softcap_bounds_the_scores_before_the_mask) {
  const double e1 = std::exp(2 * std::tanh(4.0 / 2) + 0.5);
  const double e2 = std::exp(2 * std::tanh(-4.0 / 2));
  const Numbers y = first(R"(q: f64[1,1,1,1]; k: f64[1,1,3,1]; v: f64[1,1,3,1]; m: f64[3];
                             y = attention(q, k, v, m, scale=1.0, softcap=2.0); return y)",
                          {{4}, {1, -1, 5}, {1, 2, 100}, {0.5, 0, -kInf}});
  expect_near(y, {(e1 + 2 * e2) / (e1 + e2)}, 1e-13);
}

TEST(Attention, a_fully_masked_row_gives_zero_or_nan_as_asked) {  // P38
  const std::string text = "q: f32[1,1,4,2]; k: f32[1,1,4,2]; v: f32[1,1,4,2]; m: ";
  Numbers truth(16, 1);
  Numbers additive(16, 0);
  for (size_t j = 4; j < 8; ++j) truth[j] = 0, additive[j] = -kInf;
  const std::vector<Numbers> qkv{counting(8, 0.1, 0.1), counting(8, 0.2, -0.1), counting(8)};
  for (const std::string causal : {"", ", causal=1"}) {
    const auto with = [&](const std::string& type, const Numbers& mask, const std::string& more) {
      return first(text + type + "[4,4]; y = attention(q, k, v, m, scale=1.0" + causal + more + "); return y", {qkv[0], qkv[1], qkv[2], mask});
    };
    const Numbers unmasked = first("q: f32[1,1,4,2]; k: f32[1,1,4,2]; v: f32[1,1,4,2]; y = attention(q, k, v, scale=1.0" + causal + "); return y", qkv);
    Numbers wanted = unmasked;
    wanted[2] = wanted[3] = 0;
    expect_near(with("bool", truth, ""), wanted);
    expect_near(with("f32", additive, ""), wanted);
    wanted[2] = wanted[3] = kNan;
    expect_near(with("f32", additive, ", empty_row_nan=1"), wanted);
    EXPECT_GT(std::abs(unmasked[2]), 0.1);
  }
}

TEST(Attention, very_negative_logits_are_still_logits) {  // P39
  Numbers q(64, 0);
  q[0] = -245;
  Numbers k(33 * 64, 0);
  for (size_t j = 0; j < 33; ++j) k[j * 64] = 245;
  expect_near(first("q: f32[1,1,1,64]; k: f32[1,1,33,64]; v: f32[1,1,33,1]; y = attention(q, k, v, scale=1.0); return y", {q, k, counting(33)}), {16});
}

TEST(Attention, every_key_count_weighs_equally) {  // P41
  for (int64_t keys : {1, 2, 15, 17, 63, 65, 127, 129, 1000, 1025}) {
    expect_near(means(1, keys, ""), {static_cast<double>(keys - 1) / 2}, 1e-10);
    const std::string text = "q: f32[1,1,1,4]; k: f32[1,1," + std::to_string(keys) + ",4]; v: f32[1,1," + std::to_string(keys) +
                             ",1]; y = attention(q, k, v, scale=0.5); return y";
    expect_near(first(text, {{0}, {3}, {1}}), {1}, 1e-14);
  }
}

TEST(Attention, windows_and_causal_corners_count_themselves) {  // P43
  expect_near(means(7, 7, ", causal=1, window_left=3"), {0, 0.5, 1, 1.5, 2.5, 3.5, 4.5});
  expect_near(means(3, 5, ", causal=1, causal_offset=2"), {1, 1.5, 2});
  expect_near(means(5, 3, ", causal=1, causal_offset=-2"), {0, 0, 0, 0.5, 1});
  expect_near(means(3, 5, ", causal=1"), {0, 0.5, 1});
  expect_near(means(5, 5, ", window_right=1"), {0.5, 1, 1.5, 2, 2});
  expect_near(means(2, 4, ", causal=1, causal_offset=9223372036854775807, window_left=9223372036854775807"), {1.5, 2});
}

TEST(Attention, query_heads_share_key_heads_in_order) {  // P44
  Numbers v;
  for (int head = 0; head < 2; ++head) v.insert(v.end(), 3, head + 1);
  const Numbers y = first("q: f32[1,8,1,2]; k: f32[1,2,3,2]; v: f32[1,2,3,1]; y = attention(q, k, v, scale=1.0, causal=1, causal_offset=2, window_left=1); return y",
                          {{0}, {1}, v});
  expect_near(y, {1, 1, 1, 1, 2, 2, 2, 2});
  EXPECT_FALSE(ir::parse("q: f32[1,7,1,2]; k: f32[1,2,3,2]; y = attention(q, k, k, scale=1.0); return y").ok());
}

TEST(Attention, what_lies_behind_the_valid_length_is_never_read) {
  const Numbers y = first("q: f64[2,1,1,1]; k: f64[2,1,3,1]; v: f64[2,1,3,1]; n: i64[2]; y = attention(q, k, v, _, n, scale=1.0); return y",
                          {{0}, {1, 1, kNan, kNan, kNan, kNan}, {1, 2, kNan, kNan, kNan, kNan}, {2, 0}});
  expect_near(y, {1.5, 0});
}

TEST(Attention, zero_sizes_are_ordinary) {
  expect_near(first("q: f32[1,2,3,4]; k: f32[1,2,0,4]; v: f32[1,2,0,1]; y = attention(q, k, v, scale=1.0); return y", {{1}, {}, {}}), Numbers(6, 0));
  expect_near(first("q: f32[0,2,3,4]; k: f32[0,2,1,4]; y = attention(q, k, k, scale=1.0); return y", {{}, {}}), {});
}

}  // namespace
}  // namespace rtx::reference
