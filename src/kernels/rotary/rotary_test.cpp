#include "kernels/rotary/rotary.h"

#include <gtest/gtest.h>

#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using rotary::Rotary;
using testing::TestCase;

TEST(Rotary, halves_and_neighbours_turn_and_the_rest_passes) {
  std::vector<TestCase> cases;
  for (const std::string form : {"0", "1"})
    for (const int turned : {0, 2, 6, 16, 34, 64})
      for (const int rest : {0, 3, 20}) {
        if (turned + rest == 0) continue;
        const std::string half = std::to_string(turned / 2), columns = std::to_string(turned + rest);
        cases.push_back({.text = "x: f32[2,3,5," + columns + "]; c: f32[1,5," + half + "]; s: f32[1,5," + half + "]; y = rotary(x, c, s, interleaved=" + form +
                                 ", rotary_dim=" + std::to_string(turned) + "); return y"});
      }
  EXPECT_EQ(testing::check_everywhere<Rotary>(cases), "");
}

TEST(Rotary, angles_may_differ_by_batch_and_types_may_be_half) {
  EXPECT_EQ(testing::check_everywhere<Rotary>({{.text = "x: f32[2,3,5,16]; c: f32[2,5,8]; s: f32[2,5,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=0); return y"},
                                    {.text = "x: f16[2,3,5,16]; c: f16[1,5,8]; s: f16[1,5,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=1); return y"},
                                    {.text = "x: bf16[2,3,5,40]; c: bf16[1,5,16]; s: bf16[1,5,16]; y = rotary(x, c, s, rotary_dim=32, interleaved=0); return y"}}),
            "");
}

TEST(Rotary, operands_and_results_are_read_and_stored_where_they_stand) {
  EXPECT_EQ(testing::check_everywhere<Rotary>({{.text = "p: f32[2,5,96]; t = slice(p, starts=[0,0,32], steps=[1,1,1]): [2,5,48]; r = reshape(t): [2,5,3,16]; x = transpose(r, perm=[0,2,1,3]); "
                                             "c: f32[1,5,8]; s: f32[1,5,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=0); return y"},
                                    {.text = "x: f32[2,3,5,16]; t: f32[9,8]; i: i64[1,5]; c = gather(t, i, axis=0); s: f32[1,5,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=0); "
                                             "z = transpose(y, perm=[0,1,3,2]); return z"},
                                    {.text = "x: f32[1,2,3,8]; c: f32[1,3,4]; s: f32[1,3,4]; y = rotary(x, c, s, rotary_dim=8, interleaved=1); h = cast(y): f16; return h"}}),
            "");
}

TEST(Rotary, empty_tensors_and_all_candidates) {
  EXPECT_EQ(testing::check_everywhere<Rotary>("x: f32[0,3,5,16]; c: f32[1,5,8]; s: f32[1,5,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=0); return y"), "");
  EXPECT_EQ(testing::check_candidates<Rotary>("x: f32[2,7,11,24]; c: f32[1,11,8]; s: f32[1,11,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=0); return y"), "");
}

TEST(Rotary, refusals_say_why) {
  const auto family = erase<Rotary>();
  EXPECT_NE(testing::refusal(*family, "x: f64[2,3,5,16]; c: f64[1,5,8]; s: f64[1,5,8]; y = rotary(x, c, s, rotary_dim=16, interleaved=0); return y").find("does not take f64"),
            std::string::npos);
  EXPECT_NE(testing::refusal(*family, "x: f32[3]; y = relu(x); return y").find("no anchor"), std::string::npos);
}

}  // namespace
}  // namespace rtx::kernels
