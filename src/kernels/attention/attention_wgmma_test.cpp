// Attention by warpgroup products: what it takes and refuses, where operands stand, and how it deals tiles.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/cuda/caps.h"
#include "ir/text.h"
#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {
namespace {

backend::Caps hopper() { return *backend::cuda::caps_of_arch("sm_90a"); }
Problem problem_of(const std::string& text) { return *Attention::problem(ir::parse_or_die(text)); }

std::string attention_of(const std::string& type, int64_t batch, int64_t heads, int64_t key_heads, int64_t queries, int64_t keys, int64_t depth, const std::string& attributes,
                 const std::string& mask = {}) {
  const auto operand = [&](const char* name, int64_t count, int64_t rows) {
    return std::string(name) + ": " + type + "[" + std::to_string(batch) + "," + std::to_string(count) + "," + std::to_string(rows) + "," + std::to_string(depth) + "]; ";
  };
  return operand("q", heads, queries) + operand("k", key_heads, keys) + operand("v", key_heads, keys) + (mask.empty() ? "" : "m: " + mask + "; ") + "a = attention(q, k, v" +
         (mask.empty() ? "" : ", m") + ", " + attributes + "); return a";
}

TEST(AttentionWgmma, the_first_pick_is_warpgroups_where_there_are_rows_for_them) {
  const auto pick = [](const std::string& text, const char* arch) {
    const auto caps = *backend::cuda::caps_of_arch(arch);
    return Attention::space(problem_of(text), caps).preferred();
  };
  for (const int64_t depth : {64, 80, 96, 128, 192, 256})
    for (const char* attributes : {"scale=0.1", "scale=0.1, causal=1"}) {
      const std::string text = attention_of("bf16", 2, 8, 2, 1024, 1024, depth, attributes);
      EXPECT_EQ(pick(text, "sm_90a").mma, 2) << text;
      EXPECT_EQ(pick(text, "sm_80").mma, 1) << text;
      EXPECT_EQ(pick(text, "sm_120").mma, 1) << text;
    }
  EXPECT_EQ(pick(attention_of("bf16", 4, 32, 32, 4096, 4096, 128, "scale=0.1"), "sm_90a").block_q, 128);
  EXPECT_EQ(pick(attention_of("bf16", 4, 32, 32, 4096, 4096, 64, "scale=0.1"), "sm_90a").block_q, 192);
  EXPECT_EQ(pick(attention_of("bf16", 8, 32, 8, 1, 4096, 128, "scale=0.1"), "sm_90a").mma, 1);
  EXPECT_EQ(pick(attention_of("f32", 2, 8, 8, 1024, 1024, 64, "scale=0.1"), "sm_90a").mma, 0);
}

TEST(AttentionWgmma, refuses_what_views_cannot_bring) {
  const auto why = [](const std::string& text) { return wgmma_refusal(problem_of(text), hopper()); };
  EXPECT_EQ(why(attention_of("f16", 1, 2, 2, 70, 70, 64, "scale=0.1")), "");
  EXPECT_EQ(why(attention_of("f16", 1, 2, 2, 70, 70, 60, "scale=0.1")), "rows of q, k or v do not start at multiples of 16 bytes");
  EXPECT_EQ(why(attention_of("f16", 1, 2, 2, 70, 70, 264, "scale=0.1")), "rows are wider than 256");
  EXPECT_EQ(why("q: f16[1,2,70,64]; past: f16[1,2,60,64]; new: f16[1,2,10,64]; v: f16[1,2,70,64]; k = concat(past, new, axis=2); a = attention(q, k, v, scale=0.1); return a"),
            "q, k or v is not read in place");
  EXPECT_EQ(wgmma_refusal(problem_of(attention_of("f16", 1, 2, 2, 70, 70, 64, "scale=0.1")), *backend::cuda::caps_of_arch("sm_120")), "the device has no wgmma");
}

TEST(AttentionWgmma, a_slice_of_a_projection_has_a_layout) {
  const Problem p = problem_of(
      "p: f16[2,9,144]; ks = slice(p, starts=[0,0,48], steps=[1,1,1]): [2,9,48]; kr = reshape(ks): [2,9,3,16]; k = transpose(kr, perm=[0,2,1,3]); q: f16[2,3,7,16]; v: f16[2,3,9,16]; "
      "a = attention(q, k, v, scale=0.1); t = transpose(a, perm=[0,2,1,3]); y = reshape(t): [2,7,48]; return y");
  const auto k = layout_of(p.k, p, kKey, kDepth);
  ASSERT_TRUE(k.has_value());
  EXPECT_EQ(k->offset, 48);
  EXPECT_EQ(k->along, 1);
  EXPECT_EQ(k->row, 144);
  EXPECT_EQ(k->head, 16);
  EXPECT_EQ(k->batch, 9 * 144);
  EXPECT_TRUE(has_view(*k, p.depth));
  const auto result = result_layout_of(p);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->row, 48);
  EXPECT_EQ(result->head, 16);
  EXPECT_EQ(result->batch, 7 * 48);
}

TEST(AttentionWgmma, schedules_deal_every_tile_once_and_evenly) {
  for (const char* attributes : {"scale=0.1, causal=1", "scale=0.1, causal=1, causal_offset=100", "scale=0.1, window_left=300", "scale=0.1"})
    for (const int64_t queries : {100, 1000, 4096}) {
      const Problem p = problem_of(attention_of("bf16", 2, 16, 4, queries, queries + 100, 128, attributes));
      const Params params{.mma = 2, .block_q = 128, .block_k = 128, .waves = 12, .stages = 2};
      const auto lists = schedule_of(p, params, hopper());
      const int64_t tiles = tiling_of(p, params, hopper()).groups();
      std::vector<int> all;
      size_t most = 0;
      for (const auto& list : lists) {
        EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
        all.insert(all.end(), list.begin(), list.end());
        most = std::max(most, list.size());
      }
      std::sort(all.begin(), all.end());
      std::vector<int> expected(static_cast<size_t>(tiles));
      std::iota(expected.begin(), expected.end(), 0);
      EXPECT_EQ(all, expected);
      EXPECT_EQ(static_cast<int64_t>(lists.size()), std::min<int64_t>(132, tiles));
      if (even_tiles(p)) { EXPECT_EQ(static_cast<int64_t>(most), ceil_div(tiles, 132)); }
    }
}

}  // namespace
}  // namespace rtx::kernels::attention
