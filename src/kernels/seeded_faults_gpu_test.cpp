// Faults put into the text of the families' own kernels, one at a time: as emitted a kernel is right, with
// the fault it is caught. What breaks a rule of the machine is named by the emulator; what only computes
// something else differs from the reference. A kind of fault that nothing notices here would be noticed by
// nobody before a user.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/family_testing.h"

namespace rtx::kernels {
namespace {

using testing::Target;
using testing::TestCase;

struct Kernel {
  const char* family;
  const char* text;
  const char* parameters;  // empty: the preferred point
};
const Kernel kChain = {"pointwise", "x: f32[5,67]; y: f32[67]; r = add(x, y); e = exp(r); return e", ""};
const Kernel kTurn = {"movement", "x: f16[70,67]; r = transpose(x, perm=[1,0]); return r", ""};
const Kernel kSoftmax = {"softmax", "x: f32[3,700]; y = softmax(x, axis=1); return y", ""};
const Kernel kNorm = {"norm",
                      "x: f16[5,701]; g: f16[701]; y = rms_norm(x, g, axis=1, epsilon=1e-6); return y", ""};
const Kernel kSums = {"reduce", "x: f32[600,61]; y = reduce_sum(x, axes=[0], keepdims=0); return y", ""};
const Kernel kRotary = {"rotary",
                        "x: f16[2,3,5,40]; c: f16[1,5,16]; s: f16[1,5,16]; y = rotary(x, c, s, "
                        "rotary_dim=32, interleaved=1); return y",
                        ""};
const Kernel kNest = {"loopnest", "a: f32[7,13]; b: f32[13,9]; c = matmul(a, b); return c", ""};
const Kernel kProduct = {
    "gemm", "a: bf16[72,264]; b: bf16[264,40]; y = matmul(a, b); return y",
    "loop=1 block_m=32 block_n=32 block_k=32 waves_m=1 waves_n=2 waves_k=1 stages=3 split=1"};
const Kernel kWarpgroups = {"gemm", "a: bf16[72,520]; b: bf16[520,72]; y = matmul(a, b); return y",
                            "loop=3 block_m=64 block_n=64 block_k=64 schedule=0 waves_m=1 waves_n=1 "
                            "waves_k=1 stages=2 split=1 finish=1 raster=8"};
constexpr const char* kAttentionText =
    "q: f16[1,2,70,64]; k: f16[1,1,330,64]; v: f16[1,1,330,64]; a = attention(q, k, v, scale=0.2); return a";
const Kernel kAttention = {"attention", kAttentionText,
                           "mma=1 block_q=64 block_k=64 waves=4 stages=1 turns=0 splits=1"};
const Kernel kAttentionWarpgroups = {"attention", kAttentionText,
                                     "mma=2 block_q=64 block_k=64 waves=8 stages=2 turns=0 splits=1"};

struct Fault {
  const char* name;
  const Kernel& kernel;
  const char* after;  // the first place behind this
  const char* from;   // where the text says this
  const char* to;     // says this instead
  const char* says;   // what the complaint contains
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

const char* const kRace = "a barrier is missing";
const char* const kUnset = "nan, expected";  // memory that nobody wrote
const char* const kWrong = "norm error";

const Fault kFaults[] = {
    // stores and loads one element off
    {"a_chain_stores_one_element_off", kChain, "\nKERNEL(", "store(b2 + v0 * 67 + i,",
     "store(b2 + v0 * 67 + i + 1,", "outside of a buffer"},
    {"a_norm_stores_one_element_off", kNorm, "\nKERNEL(", "store(out0 + r * 701 + i_1,",
     "store(out0 + r * 701 + i_1 - 1,", "outside of a buffer"},
    {"a_sum_stores_its_parts_one_place_off", kSums, "\nKERNEL(", "partial[part * 61 + o] = total",
     "partial[part * 61 + o + 1] = total", "outside of a buffer"},
    {"a_loop_nest_stores_one_element_off", kNest, "\nKERNEL(", "store(y0 + row * 9 + j, x)",
     "store(y0 + row * 9 + j + 1, x)", "outside of a buffer"},
    {"a_rotation_reads_the_next_angle", kRotary, "\nKERNEL(", "load<vec<f32, 4>>(in1 + (r % 5) * 16 + i)",
     "load<vec<f32, 4>>(in1 + (r % 5) * 16 + i + 1)", kWrong},
    {"a_product_stores_its_box_one_column_off", kWarpgroups, "struct InView", "store_view(view, box, n, m);",
     "store_view(view, box, n + 1, m);", kUnset},
    {"attention_stores_its_rows_one_row_off", kAttentionWarpgroups, "\nKERNEL_VIEWS(",
     "(first + part * 64) / 2, kv, b", "(first + part * 64) / 2 + 1, kv, b", kUnset},
    // barriers left out
    {"a_turned_tile_is_read_without_a_barrier", kTurn, "\nKERNEL(", "barrier();", "", kRace},
    {"a_row_is_summed_without_a_barrier", kSoftmax, "\nKERNEL(", "team_barrier<TEAM>();", "", kUnset},
    {"a_group_combines_its_waves_without_a_barrier", kSoftmax, "places[thread() / WAVE] = x;", "barrier();",
     "", kUnset},
    {"a_groups_places_are_written_without_a_barrier", kSoftmax, "constexpr int waves = THREADS / WAVE;",
     "barrier();", "", kRace},
    {"a_first_block_is_read_without_a_barrier", kProduct,
     "UNROLL for (int s = 0; s < P::STAGES - 1; ++s) copy();", "barrier();", "", kRace},
    {"a_block_is_read_without_a_barrier", kProduct, "all have read the last of this one", "barrier();", "",
     kRace},
    {"keys_are_read_without_a_barrier", kAttention, "load_values(block, 0);", "barrier();", "", kRace},
    {"values_are_read_without_a_barrier", kAttention, "load_values(block, 0);", "barrier();", "", kRace},
    {"a_box_of_a_product_is_stored_without_a_barrier", kWarpgroups, "struct InView",
     "proxy_fence();\n        barrier(own, 128);", "proxy_fence();", "stores a box"},
    {"a_box_of_attention_is_stored_without_a_barrier", kAttentionWarpgroups, "\nKERNEL_VIEWS(",
     "proxy_fence();\n      barrier(2 + part, 128);", "proxy_fence();", "stores a box"},
    // copies that nobody waits for, stages that are given back too early, the other phase
    {"a_block_is_read_before_it_came", kProduct, "all have read the last of this one",
     "copy_async_wait<P::STAGES - 2>();", "", "never waited for its copy"},
    {"keys_are_read_before_they_came", kAttention, "\nKERNEL(", "copy_async_wait<0>();", "", kUnset},
    {"a_stage_of_a_product_is_given_back_under_it", kWarpgroups, "wgmma_commit();",
     "wgmma_wait<1>();\n    if (first && step > 0) mbarrier_arrive(empty + before);",
     "if (first) mbarrier_arrive(empty + at.stage);\n    wgmma_wait<1>();", "may still read"},
    {"values_are_given_back_under_their_product", kAttentionWarpgroups,
     "tile_rows.weighed() && from - 64 >= start) {\n          auto after = ring;",
     "wgmma_wait<0>();\n        if (leads) mbarrier_arrive(values_empty + before.stage);",
     "if (leads) mbarrier_arrive(values_empty + before.stage);\n        wgmma_wait<0>();", "may still read"},
    {"a_product_waits_for_the_other_phase", kWarpgroups, "DEVICE void multiply_tile",
     "mbarrier_wait(full + at.stage, at.parity);", "mbarrier_wait(full + at.stage, at.parity ^ 1);",
     "none can go on"},
    {"a_product_is_not_fenced", kWarpgroups, "DEVICE void multiply_tile", "wgmma_fence();", "",
     "wgmma_fence()"},
    // proxy fences
    {"a_box_of_a_product_is_stored_without_a_proxy_fence", kWarpgroups, "struct InView", "proxy_fence();", "",
     "proxy_fence()"},
    {"a_box_of_attention_is_stored_without_a_proxy_fence", kAttentionWarpgroups, "\nKERNEL_VIEWS(",
     "proxy_fence();", "", "proxy_fence()"},
    // lanes
    {"a_sum_of_a_wave_asks_the_wrong_lane", kNorm, "DEVICE T wave_reduce(T x, F f)", "shuffle_xor(x, by)",
     "shuffle_xor(x, by ^ 1)", kWrong},
    {"a_maximum_of_a_wave_asks_the_wrong_lane", kSoftmax, "DEVICE T wave_reduce(T x, F f)",
     "shuffle_xor(x, by)", "shuffle_xor(x, by ^ 1)", kWrong},
    // rows of fragments
    {"a_product_leaves_its_sums_in_the_wrong_row", kProduct, "DEVICE void mma_tile",
     "staged + wave_lane() / 4 * G::pitch", "staged + (wave_lane() / 4 ^ 1) * G::pitch", kWrong},
    {"a_warpgroup_stores_its_sums_in_the_wrong_row", kWarpgroups, "struct InView", "line + wave_lane() % 16",
     "line + (wave_lane() % 16 ^ 8)", kWrong},
    {"a_warpgroup_stores_its_sums_by_the_wrong_swizzle", kWarpgroups, "struct InView", "(chunk ^ (to & 7))",
     "(chunk ^ (to & 3))", kUnset},
};

TestCase case_of(const Kernel& kernel) { return {.text = kernel.text, .parameters = kernel.parameters}; }

class SeededFault : public ::testing::TestWithParam<Fault> {};

TEST_P(SeededFault, is_caught) {
  RTX_NEEDS_TARGET(Target::emulated);
  if (std::getenv("RTX_TEST_GPU"))
    GTEST_SKIP() << "a device does not say what broke, and might not survive it";
  const Fault& fault = GetParam();
  TestCase test = case_of(fault.kernel);
  bool put = false;
  test.change = [&](std::string& text) {
    const size_t behind = text.find(fault.after);
    const size_t at = behind == std::string::npos ? behind : text.find(fault.from, behind);
    if (at == std::string::npos) return;
    text.replace(at, std::string_view(fault.from).size(), fault.to);
    put = true;
  };
  const std::string said = testing::check(*family(fault.kernel.family), {test}, Target::emulated);
  ASSERT_TRUE(put) << "the text has no longer \"" << fault.from << "\" behind \"" << fault.after << "\"";
  EXPECT_NE(said, "");
  EXPECT_EQ(said.find("compiler refused"), std::string::npos) << said;
  EXPECT_NE(said.find(fault.says), std::string::npos) << said;
}
INSTANTIATE_TEST_SUITE_P(Kernels, SeededFault, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(SeededFaults, the_same_kernels_are_right_as_emitted) {
  RTX_NEEDS_TARGET(Target::emulated);
  std::vector<const Kernel*> seen;
  for (const Fault& fault : kFaults) {
    if (std::find(seen.begin(), seen.end(), &fault.kernel) != seen.end()) continue;
    seen.push_back(&fault.kernel);
    EXPECT_EQ(testing::check(*family(fault.kernel.family), {case_of(fault.kernel)}, Target::emulated), "");
  }
}

}  // namespace
}  // namespace rtx::kernels
