// Products of warpgroups on tensor views: what the rules let through, and that every kind of tile, schedule, transpose and way out
// compiles with nothing spilled or serialised.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "backend/cuda/caps.h"
#include "backend/cuda/compile_testing.h"
#include "backend/cuda/dialect.h"
#include "ir/text.h"
#include "kernels/family_testing.h"
#include "kernels/gemm/gpu.h"

namespace rtx::kernels::gemm::gpu {
namespace {

namespace cuda = backend::cuda;

Problem problem(const std::string& text) {
  auto made = Family::problem(ir::parse_or_die(text));
  EXPECT_TRUE(made.ok()) << text;
  return made.ok() ? *made : Problem{};
}
const backend::Caps& hopper() {
  static const backend::Caps caps = *cuda::caps_of_arch("sm_90a");
  return caps;
}
bool takes(const std::string& text) { return may_use_wgmma(problem(text), hopper()); }

TEST(GemmWgmma, views_take_lines_and_batches_that_begin_at_16_bytes) {
  EXPECT_TRUE(takes("a: bf16[7,64]; b: bf16[64,8]; y = matmul(a, b); return y"));
  EXPECT_TRUE(takes("a: bf16[1,64]; b: bf16[64,8]; y = matmul(a, b); return y"));
  EXPECT_TRUE(takes("a: f16[64,72]; b: f16[8,64]; y = matmul(a, b, trans_a=1, trans_b=1); return y"));
  EXPECT_TRUE(takes("a: bf16[40,48] strides [64,1] offset 8; b: bf16[48,40] strides [1,56] offset 16; y = matmul(a, b); return y"));
  EXPECT_TRUE(takes("a: bf16[3,5,64]; b: bf16[3,64,16]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: bf16[7,68]; b: bf16[68,8]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: bf16[8,64]; b: bf16[64,9]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: bf16[40,48] strides [64,1] offset 4; b: bf16[48,40]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: bf16[40,48] strides [128,2]; b: bf16[48,40]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: bf16[40,48] strides [0,1]; b: bf16[48,40]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: f32[8,64]; b: f32[64,8]; y = matmul(a, b); return y"));
  EXPECT_FALSE(takes("a: bf16[8,0]; b: bf16[0,8]; y = matmul(a, b); return y"));
  // Heads between the rows: the batch is no single step.
  EXPECT_FALSE(takes("x: bf16[2,6,32]; y: bf16[2,6,32]; q = reshape(x): [2,6,4,8]; k = reshape(y): [2,6,4,8]; qt = transpose(q, perm=[0,2,1,3]);"
                     " kt = transpose(k, perm=[0,2,3,1]); s = matmul(qt, kt); return s"));
  for (const auto& arch : cuda::known_arches())
    EXPECT_EQ(may_use_wgmma(problem("a: bf16[7,64]; b: bf16[64,8]; y = matmul(a, b); return y"), *cuda::caps_of_arch(arch)), arch == "sm_90a") << arch;
}

TEST(GemmWgmma, a_view_says_where_an_operand_lies) {
  const Problem p = problem("a: bf16[3,5,64]; b: bf16[3,16,64]; y = matmul(a, b, trans_b=1); return y");
  const auto a = view_of_a(p, 128), b = view_of_b(p, 64);
  ASSERT_TRUE(a && b);
  EXPECT_TRUE(a->along_k && a->batches && b->along_k && b->batches);
  EXPECT_EQ(a->tensor.extents, (std::vector<int64_t>{64, 5, 3}));
  EXPECT_EQ(a->tensor.strides_bytes, (std::vector<int64_t>{128, 640}));
  EXPECT_EQ(a->tensor.box, (std::vector<int64_t>{64, 128, 1}));
  const Problem q = problem("a: f16[64,40]; b: f16[64,24] strides [32,1] offset 8; y = matmul(a, b, trans_a=1); return y");
  const auto c = view_of_a(q, 128), d = view_of_b(q, 64);
  ASSERT_TRUE(c && d);
  EXPECT_FALSE(c->along_k || d->along_k || c->batches);
  EXPECT_EQ(c->tensor.extents, (std::vector<int64_t>{40, 64}));
  EXPECT_EQ(c->tensor.box, (std::vector<int64_t>{64, 64}));
  EXPECT_EQ(d->tensor.strides_bytes, (std::vector<int64_t>{64}));
  EXPECT_EQ(d->tensor.byte_offset, 16);
}

TEST(GemmWgmma, a_view_of_the_result_needs_one_16_bit_store_of_whole_rows) {
  const auto has = [](const std::string& epilogue, const std::string& more = "") {
    return view_of_c(problem("a: bf16[40,64]; b: bf16[64,32]; " + more + "y = matmul(a, b); " + epilogue)).has_value();
  };
  EXPECT_TRUE(has("return y"));
  EXPECT_TRUE(has("z = add(y, c); return z", "c: bf16[32]; "));
  EXPECT_TRUE(has("z = mul(y, c); return z", "c: bf16[40,1]; "));
  EXPECT_TRUE(has("z = add(y, r); return z", "r: bf16[40,32]; "));
  EXPECT_FALSE(has("z = add(y, r); s = mul(z, q); return s", "r: bf16[40,32]; q: bf16[40,32]; "));
  EXPECT_FALSE(has("z = relu(y); return y, z"));
  EXPECT_FALSE(has("z = cast(y): f32; return z"));
  EXPECT_FALSE(has("z = transpose(y, perm=[1,0]); return z"));
}

TEST(GemmWgmma, what_is_added_comes_through_a_view_where_one_can_say_where_it_lies) {
  const auto brought = [](const std::string& inputs, const std::string& epilogue) {
    return view_of_other(problem("a: bf16[40,64]; b: bf16[64,32]; " + inputs + "y = matmul(a, b); " + epilogue)).has_value();
  };
  EXPECT_TRUE(brought("r: bf16[40,32]; ", "z = add(y, r); return z"));
  EXPECT_TRUE(brought("r: bf16[40,32] strides [48,1] offset 8; ", "z = mul(y, r); return z"));
  EXPECT_FALSE(brought("r: bf16[32]; ", "z = add(y, r); return z"));
  EXPECT_FALSE(brought("r: f32[40,32]; ", "c = cast(y): f32; z = add(c, r); o = cast(z): bf16; return o"));
  EXPECT_FALSE(brought("r: bf16[40,32] strides [1,40]; ", "z = add(y, r); return z"));
  EXPECT_FALSE(brought("r: bf16[40,32] strides [36,1]; ", "z = add(y, r); return z"));
}

TEST(GemmWgmma, the_first_pick_of_large_products_fills_whole_waves) {
  const auto first = [](int64_t m, int64_t n, int64_t k) {
    const Params x = Family::space(problem("a: bf16[" + std::to_string(m) + "," + std::to_string(k) + "]; b: bf16[" + std::to_string(n) + "," + std::to_string(k) +
                                           "]; y = matmul(a, b, trans_b=1); return y"), hopper()).preferred();
    return std::to_string(x.block_m) + "x" + std::to_string(x.block_n) + (x.schedule == 1 ? " ping-pong" : "") + (x.split > 1 ? " split" : "");
  };
  EXPECT_EQ(first(4096, 4096, 4096), "128x128 ping-pong");
  EXPECT_EQ(first(8192, 8192, 8192), "128x192 ping-pong");
}

TEST(GemmWgmma, rules_name_what_they_exclude) {
  const Problem p = problem("a: bf16[4096,4096]; b: bf16[4096,4096]; y = matmul(a, b); return y");
  const auto space = Family::space(p, hopper());
  const Params legal{.loop = int64_t(Loop::wgmma), .block_m = 128, .block_n = 128, .block_k = 64, .waves_m = 2, .waves_n = 1, .stages = 4, .finish = 1};
  EXPECT_EQ(space.broken_rule(legal), "");
  Params x = legal;
  x.block_n = 96;
  EXPECT_EQ(space.broken_rule(x), "a tile on tensor views has 64, 128, 192 or 256 rows and columns, and blocks of K of 64");
  x = legal, x.waves_m = 3;
  EXPECT_EQ(space.broken_rule(x), "1 to 3 warpgroups share a tile's rows evenly, or 2 take turns");
  x = legal, x.block_m = 128, x.block_n = 256, x.schedule = 1;
  EXPECT_EQ(space.broken_rule(x), "sums of a thread leave room in the registers of its warpgroup");
  x = legal, x.block_m = x.block_n = 256, x.stages = 3;
  EXPECT_EQ(space.broken_rule(x), "sums of a thread leave room in the registers of its warpgroup");
  x = legal, x.block_n = 192, x.block_m = 256, x.stages = 3, x.finish = 0;
  EXPECT_EQ(space.broken_rule(x), "what is computed beside the sums, or by rows from 128 of them a thread at most, fits the registers");
  x = legal, x.stages = 8;
  EXPECT_EQ(space.broken_rule(x), "scratch fits what a group may have");
  x = legal, x.stages = 1;
  EXPECT_EQ(space.broken_rule(x), "a ring has 2 to 8 stages");
  x = legal, x.split = 2;
  EXPECT_EQ(space.broken_rule(x), "results leave through a view where there is one 16-bit store of whole rows, and what else varies with row and column comes through one");
}

// A problem and some points of its space.
struct Variant {
  const char* text;
  std::vector<const char*> points;
};
TEST(GemmWgmma, every_kind_of_kernel_compiles_with_nothing_spilled) {
  RTX_NEEDS_NVRTC();
  const Variant variants[] = {
      {"a: bf16[4096,4096]; b: bf16[4096,4096]; y = matmul(a, b, trans_b=1); return y",
       {"block_m=128 block_n=256 schedule=0 waves_m=2 finish=1 raster=-16 stages=4", "block_m=128 block_n=192 schedule=1 waves_m=2 finish=1 raster=8 stages=4",
        "block_m=256 block_n=192 schedule=0 waves_m=2 finish=1 raster=8 stages=3", "block_m=192 block_n=192 schedule=0 waves_m=3 finish=0 raster=8 stages=3",
        "block_m=128 block_n=128 schedule=0 waves_m=2 finish=0 raster=8 stages=4 split=2"}},
      {"a: f16[4096,4096]; b: f16[4096,4096]; c: f16[4096]; r: f16[4096,4096]; y = matmul(a, b); z = add(y, c); s = add(z, r); return s",
       {"block_m=128 block_n=128 schedule=1 waves_m=2 finish=0 raster=8 stages=5"}},
      {"a: bf16[4096,4096]; b: bf16[4096,4096]; c: bf16[4096]; y = matmul(a, b, trans_a=1); z = add(y, c); g = gelu(z); return g",
       {"block_m=128 block_n=256 schedule=0 waves_m=2 finish=0 raster=8 stages=4"}},
      {"a: bf16[512,512]; b: bf16[512,512]; c: bf16[512]; y = matmul(a, b, trans_a=1, trans_b=1); z = add(y, c); g = relu(z); return g",
       {"block_m=64 block_n=64 schedule=0 waves_m=1 finish=1 raster=8 stages=8"}},
      {"a: bf16[4096,4096]; b: bf16[4096,8192]; y = matmul(a, b); r = reshape(y): [4096,512,2,8]; gs = slice(r, starts=[0,0,0,0], steps=[1,1,1,1]): [4096,512,1,8]; g = reshape(gs): [4096,4096];"
       " us = slice(r, starts=[0,0,1,0], steps=[1,1,1,1]): [4096,512,1,8]; u = reshape(us): [4096,4096]; s = silu(g); z = mul(s, u); return z",
       {"block_m=128 block_n=128 schedule=1 waves_m=2 finish=1 raster=8 stages=5", "block_m=128 block_n=256 schedule=0 waves_m=2 finish=1 raster=8 stages=4",
        "block_m=256 block_n=128 schedule=0 waves_m=2 finish=1 raster=8 stages=4", "block_m=128 block_n=192 schedule=0 waves_m=2 finish=0 raster=8 stages=4"}},
  };
  const auto compiler = cuda::make_compiler(cuda::testing::options_here());
  for (const auto& variant : variants)
    for (const char* point : variant.points) {
      const Problem p = problem(variant.text);
      const auto space = Family::space(p, hopper());
      Params x;
      ASSERT_TRUE(space.parse(std::string("loop=3 block_k=64 waves_n=1 waves_k=1 split=1 ") + point, &x));
      ASSERT_EQ(space.broken_rule(x), "") << point;
      const auto plan = Family::emit(p, x, hopper(), cuda::make_dialect(hopper()));
      ASSERT_TRUE(plan.ok()) << plan.error().text();
      const auto binary = cuda::testing::compile(*compiler, plan->text, "sm_90a");
      EXPECT_TRUE(binary.ok()) << variant.text << "\n" << point << "\n" << (binary.ok() ? "" : binary.error().text());
    }
}

// A line of tests/shrunken/gemm as a case; an empty text where the line is not one.
testing::TestCase shrunken(const std::string& line) {
  std::istringstream words(line);
  std::string type, sizes, layout, epilogue;
  int64_t batches = 0;
  words >> type >> batches >> sizes >> layout >> epilogue;
  std::replace(sizes.begin(), sizes.end(), 'x', ' ');
  std::istringstream extents(sizes);
  std::string m, n, k, rest;
  if (!(extents >> m >> n >> k) || layout.size() != 2 || epilogue.empty() || epilogue.back() != ':') return {};
  epilogue.pop_back();
  std::getline(words, rest);
  const auto matrix = [&](const std::string& r, const std::string& c, bool turned) {
    return type + "[" + (batches > 1 ? std::to_string(batches) + "," : "") + (turned ? c + "," + r : r + "," + c) + "]";
  };
  const bool ta = layout[0] == 'T', tb = layout[1] == 'T';
  std::string inputs = "a: " + matrix(m, k, ta) + "; b: " + matrix(k, n, tb) + "; ";
  const std::string more = epilogue == "bias" || epilogue == "gelu" ? "c: " + type + "[" + n + "]; " : epilogue == "scale" ? "c: " + type + "[" + m + ",1]; "
                           : epilogue == "residual" || epilogue == "gate" ? "c: " + matrix(m, n, false) + "; " : "";
  const std::string product = "y = matmul(a, b, trans_a=" + std::to_string(ta) + ", trans_b=" + std::to_string(tb) + "); ";
  const std::map<std::string, std::string> ends = {
      {"plain", "return y"},
      {"bias", "z = add(y, c); return z"},
      {"scale", "z = mul(y, c); return z"},
      {"relu", "z = relu(y); return z"},
      {"gelu", "z = add(y, c); g = gelu(z); return g"},
      {"residual", "z = add(y, c); return z"},
      {"gate", "s = silu(y); g = mul(s, c); return g, y"},
      {"heads", "r = reshape(y): [" + m + ",4," + std::to_string(std::atoi(n.c_str()) / 4) + "]; t = transpose(r, perm=[1,0,2]); return t"},
      {"f32", "z = cast(y): f32; return z"},
      {"turns", [&] {
         const int64_t half = std::atoll(n.c_str()) / 2;
         const std::string b = batches > 1 ? std::to_string(batches) + "," : "", zeros = batches > 1 ? "0,0," : "0,", ones = batches > 1 ? "1,1," : "1,";
         const auto factor = [&](const char* name, const char* part) {
           return std::string(name) + "s = slice(r, starts=[" + zeros + "0," + part + ",0], steps=[" + ones + "1,1,1]): [" + b + m + "," + std::to_string(half / 8) + ",1,8]; " + name + " = reshape(" + name +
                  "s): [" + b + m + "," + std::to_string(half) + "]; ";
         };
         return "r = reshape(y): [" + b + m + "," + std::to_string(half / 8) + ",2,8]; " + factor("g", "0") + factor("u", "1") + "s = silu(g); z = mul(s, u); return z";
       }()},
  };
  const auto end = ends.find(epilogue);
  if (end == ends.end()) return {};
  testing::TestCase test;
  test.text = inputs + more + product + end->second;
  test.parameters = "loop=3 block_k=64 waves_n=1 waves_k=1 split=1 raster=8" + rest;
  return test;
}

std::vector<testing::TestCase> shrunken_list() {
  std::ifstream file("tests/shrunken/gemm");
  std::vector<testing::TestCase> out;
  for (std::string line; std::getline(file, line);)
    if (!line.empty() && line[0] != '#') out.push_back(shrunken(line));
  return out;
}

TEST(GemmWgmma, the_shrunken_list_is_legal_and_covers_the_space) {
  const auto list = shrunken_list();
  EXPECT_GE(list.size(), 40u);
  for (const auto& test : list) {
    ASSERT_NE(test.text, "");
    const auto space = Family::space(problem(test.text), hopper());
    Params x;
    ASSERT_TRUE(space.parse(test.parameters, &x)) << test.parameters;
    EXPECT_EQ(space.broken_rule(x), "") << test.text << "\n" << test.parameters;
  }
}

// A quarter of the list each: they run side by side.
class GemmShrunken : public ::testing::TestWithParam<size_t> {};
TEST_P(GemmShrunken, every_line_agrees_with_the_reference) {
  RTX_NEEDS_TARGET(testing::Target::emulated);
  std::vector<testing::TestCase> mine;
  const auto list = shrunken_list();
  for (size_t i = GetParam(); i < list.size(); i += 4) mine.push_back(list[i]);
  EXPECT_EQ(testing::check<Family>(mine, testing::Target::emulated), "");
}
INSTANTIATE_TEST_SUITE_P(Quarters, GemmShrunken, ::testing::Range<size_t>(0, 4));

}  // namespace
}  // namespace rtx::kernels::gemm::gpu
