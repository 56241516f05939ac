// Every family's first pick compiles for every CUDA arch with nothing spilled, and its launches fit the arch. No GPU is needed, and
// nothing runs: bodies may be as large as a model's. Skipped, with the reason, where there is no NVRTC.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backend/cuda/caps.h"
#include "backend/cuda/caps_occupancy.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/dialect.h"
#include "ir/text.h"
#include "kernels/family.h"

namespace rtx::kernels {
namespace {

namespace cuda = backend::cuda;

// Bodies of a family: what models ask for, then what is ugly. "$" becomes f32 and bf16, in the first also f16, which differs from bf16 in
// two conversions only.
const std::map<std::string, std::vector<std::string>>& bodies() {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"attention",
       {"q: $[4,32,2048,128]; k: $[4,32,2048,128]; v: $[4,32,2048,128]; a = attention(q, k, v, scale=0.0884, causal=1); return a",
        "q: $[1,12,128,64]; k: $[1,12,128,64]; v: $[1,12,128,64]; m: $[1,1,1,128]; a = attention(q, k, v, m, scale=0.125); return a",
        "q: bf16[2,16,4096,256]; k: bf16[2,4,4096,256]; v: bf16[2,4,4096,256]; a = attention(q, k, v, scale=0.0625); return a",
        "q: f16[4,64,2048,64]; k: f16[4,64,2048,64]; v: f16[4,64,2048,64]; a = attention(q, k, v, scale=0.125, causal=1, softcap=30.0); return a",
        "q: bf16[2,8,1024,96]; k: bf16[2,8,1024,96]; v: bf16[2,8,1024,96]; m: bool[2,1,1024,1024]; x: bf16[2,8,1024,96]; a = attention(q, k, v, m, scale=0.1); y = add(a, x); return y",
        "q: $[8,32,1,128]; k: $[8,32,4096,128]; v: $[8,32,4096,128]; a = attention(q, k, v, scale=0.0884); return a",
        "q: f32[2,3,17,5]; k: f32[2,3,33,5]; v: f32[2,3,33,7]; a = attention(q, k, v, scale=0.4); return a"}},
      {"gemm",
       {"a: $[8192,4096]; b: $[4096,12288]; y = matmul(a, b); return y",
        "a: $[128,384]; b: $[384,1536]; c: $[1536]; y = matmul(a, b); z = add(y, c); g = gelu(z); return g",
        "a: $[3,70]; b: $[133,70]; y = matmul(a, b, trans_b=1); return y", "a: bf16[127,257]; b: bf16[257,130]; y = matmul(a, b); return y",
        "a: bf16[4096,2048]; b: bf16[1024,4096]; y = matmul(a, b, trans_a=1, trans_b=1); return y",
        "a: f32[2,48,8192]; b: f32[2,8192,96]; y = matmul(a, b); return y", "a: bf16[1,4096]; b: bf16[4096,14336]; y = matmul(a, b); s = silu(y); return s",
        "a: f32[8,4096]; b: f32[4096,4096]; y = matmul(a, b, trans_b=1); return y", "a: i64[65,33]; b: i64[33,129]; y = matmul(a, b); return y",
        "a: f64[300,200]; b: f64[200,100]; y = matmul(a, b); return y"}},
      {"norm",
       {"x: $[8192,4096]; g: $[4096]; b: $[4096]; y = layer_norm(x, g, b, axis=1, epsilon=1e-5); return y",
        "x: $[8192,4096]; r: $[8192,4096]; g: $[4096]; h = add(x, r); y = rms_norm(h, g, axis=1, epsilon=1e-6); return y, h",
        "x: $[128,384]; g: $[384]; b: $[384]; y = layer_norm(x, g, b, axis=1, epsilon=1e-12); return y",
        "x: $[5,1009]; g: $[1009]; y = rms_norm(x, g, axis=1, epsilon=1e-6); return y"}},
      {"softmax",
       {"x: $[4,32,2048,2048]; y = softmax(x, axis=3); return y",
        "x: f32[2,3,5,21]; m: f32[2,1,1,21]; c: const f32[] {0.125}; s = mul(x, c); h = add(s, m); y = softmax(h, axis=3); return y",
        "x: $[5,1009]; y = log_softmax(x, axis=1); return y", "x: f32[3,5,130]; y = softmax(x, axis=1); return y"}},
      {"rotary",
       {"x: $[2,32,4096,128]; c: $[1,4096,64]; s: $[1,4096,64]; y = rotary(x, c, s, rotary_dim=128, interleaved=0); return y",
        "x: $[2,3,5,40]; c: $[1,5,16]; s: $[1,5,16]; y = rotary(x, c, s, rotary_dim=32, interleaved=1); return y"}},
      {"reduce",
       {"x: $[8192,4096]; y = reduce_sum(x, axes=[1], keepdims=0); return y", "x: $[8192,4096]; y = reduce_mean(x, axes=[0], keepdims=0); return y",
        "x: f32[600,601]; y = reduce_max(x, axes=[0,1], keepdims=0); return y", "x: i32[700,301]; y = reduce_sum(x, axes=[1], keepdims=1); return y"}},
      {"pointwise",
       {"x: $[8192,16384]; g = gelu(x); return g", "x: $[8192,14336]; u: $[8192,14336]; s = silu(x); y = mul(s, u); return y",
        "x: $[4,1,9]; y: $[5,1]; r = add(x, y); e = exp(r); l = log(e); t = tanh(l); return t", "x: f32[67]; y: f32[67]; p = pow(x, y); q = erf(p); return q",
        "x: f64[33]; e = exp(x); t = tanh(e); return t"}},
      {"movement",
       {"x: $[2048,4096]; r = transpose(x, perm=[1,0]); return r", "x: $[4,2048,32,128]; r = transpose(x, perm=[0,2,1,3]); return r",
        "x: f32[10,7]; r = slice(x, starts=[9,6], steps=[-1,-2]): [10,4]; return r", "x: f16[3,1]; r = expand(x): [2,3,19]; return r"}},
      {"loopnest",
       {"a: $[7,13]; b: $[13,9]; c = matmul(a, b); return c", "x: f64[3,5,7]; y = softmax(x, axis=1); return y",
        "x: f32[3,5,7]; g: f32[7]; b: f32[7]; (y, m, v) = layer_norm(x, g, b, axis=2, epsilon=1e-05); return y, m, v",
        "x: i64[3,4,5]; y = reduce_sum(x, axes=[0,2], keepdims=1); return y"}},
  };
  return table;
}

std::vector<std::string> expanded(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const auto& text : texts)
    for (const char* type : {"f32", "bf16", "f16"}) {
      if (std::string_view(type) == "f16" && &text != &texts.front()) continue;
      std::string one;
      for (const char c : text) one += c == '$' ? std::string(type) : std::string(1, c);
      if (std::find(out.begin(), out.end(), one) == out.end()) out.push_back(one);
    }
  return out;
}

backend::Compiler& compiler() {
  static const auto made = cuda::make_compiler(cuda::testing::options_here());
  return *made;
}

Result<backend::KernelPlan> first_pick(const AnyFamily& family, const std::string& text, const backend::Caps& caps) {
  RTX_TRY(const ir::Graph body, ir::parse(text));
  RTX_TRY(const auto problem, family.bind(body));
  const auto candidates = problem->candidates(caps);
  if (candidates.empty()) return user_error("no legal parameters");
  return problem->emit(candidates.front().parameters, caps, cuda::make_dialect(caps));
}

// What is wrong with the plan on this arch; empty when nothing is.
std::string trouble(const backend::KernelPlan& plan, const backend::Caps& caps) {
  const auto binary = cuda::testing::compile(compiler(), plan.text, caps.arch);
  if (!binary.ok()) return binary.error().text();
  std::string out;
  for (const auto* launches : {&plan.prepare, &plan.steps})
    for (const auto& launch : *launches) {
      const auto found = std::find_if(binary->resources.begin(), binary->resources.end(), [&](const auto& entry) { return entry.entry == launch.entry; });
      if (found == binary->resources.end()) {
        out += "the binary has no entry " + launch.entry + "\n";
        continue;
      }
      if (launch.grid.y != 1 || launch.grid.z != 1 || launch.group.y != 1 || launch.group.z != 1) out += launch.entry + " has more than one dimension of groups or threads\n";
      if (launch.grid.x > 0x7fffffff) out += launch.entry + " has more groups than a grid may\n";
      const auto fits = cuda::occupancy(*found, static_cast<int>(launch.group.x), launch.scratch_bytes, caps);
      if (!fits.ok()) out += fits.error().text() + "\n";
    }
  return out;
}

class CudaFirstPick : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaFirstPick, compiles_for_every_arch_with_nothing_spilled_and_fits_it) {
  RTX_NEEDS_NVRTC();
  const AnyFamily* family = kernels::family(GetParam());
  ASSERT_NE(family, nullptr);
  const auto table = bodies().find(GetParam());
  ASSERT_NE(table, bodies().end()) << "no bodies of " << GetParam() << " are in the table of this test";
  for (const auto& text : expanded(table->second)) {
    for (const auto& arch : cuda::known_arches()) {
      const backend::Caps caps = *cuda::caps_of_arch(arch);
      const auto plan = first_pick(*family, text, caps);
      if (!plan.ok()) {
        ADD_FAILURE() << text << "\n" << plan.error().text();
        break;
      }
      if (const std::string wrong = trouble(*plan, caps); !wrong.empty()) ADD_FAILURE() << text << "\n" << arch << ", " << plan->name << ": " << wrong;
    }
  }
}

// Words that only a device header of an arch-specific set has, or only a kernel that calls for it.
const char* const kHopperWords[] = {"wgmma", "setmaxnreg", "registers_grow", "registers_shrink", "cp.async.bulk", "mbarrier", "load_view", "store_view",
                                    "KERNEL_VIEWS", "cluster", "proxy_fence", "fence.proxy"};

// Candidates all over the space, not the first pick alone: the tuner may choose any. Nothing is compiled, so this runs without NVRTC too.
TEST_P(CudaFirstPick, no_text_speaks_of_the_hopper_set_where_the_arch_has_none) {
  const AnyFamily* family = kernels::family(GetParam());
  ASSERT_NE(family, nullptr);
  for (const auto& text : expanded(bodies().at(GetParam()))) {
    const auto body = ir::parse(text);
    ASSERT_TRUE(body.ok()) << text << "\n" << body.error().text();
    const auto problem = family->bind(*body);
    ASSERT_TRUE(problem.ok()) << text << "\n" << problem.error().text();
    for (const auto& arch : cuda::known_arches()) {
      const backend::Caps caps = *cuda::caps_of_arch(arch);
      if (caps.has("wgmma")) continue;
      const auto candidates = (*problem)->candidates(caps);
      for (size_t k = 0; k < candidates.size(); k += candidates.size() / 64 + 1) {
        const std::string& parameters = candidates[k].parameters;
        const auto plan = (*problem)->emit(parameters, caps, cuda::make_dialect(caps));
        ASSERT_TRUE(plan.ok()) << text << "\n" << parameters << ": " << plan.error().text();
        for (const char* word : kHopperWords)
          ASSERT_EQ(plan->text.find(word), std::string::npos) << word << " in the text for " << arch << " of\n" << text << "\n" << parameters;
        for (const auto& launch : plan->steps) ASSERT_TRUE(launch.views.empty()) << text << "\n" << arch << ", " << parameters;
      }
    }
  }
}

// The same words do stand in texts for the arch that has the set; otherwise the test above would look for nothing.
TEST(CudaHopperWords, stand_in_the_text_of_a_product_by_warpgroups) {
  const backend::Caps caps = *cuda::caps_of_arch("sm_90a");
  const auto plan = first_pick(*kernels::family("gemm"), "a: bf16[8192,4096]; b: bf16[4096,12288]; y = matmul(a, b); return y", caps);
  ASSERT_TRUE(plan.ok()) << plan.error().text();
  for (const char* word : kHopperWords) EXPECT_NE(plan->text.find(word), std::string::npos) << word;
  EXPECT_FALSE(plan->steps.front().views.empty());
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& family : families()) out.emplace_back(family->name());
  return out;
}
INSTANTIATE_TEST_SUITE_P(Families, CudaFirstPick, ::testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace rtx::kernels
