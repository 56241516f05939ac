// Weights of several products in one: what goes together, and what must not.
#include "fuse/expectation_testing.h"

namespace rtx::fuse {
namespace {

size_t count(std::string_view text, ir::Op op, const RecogniseOptions& options = {}) {
  const ir::Graph graph = recognise(ir::parse_or_die(text), options);
  EXPECT_TRUE(ir::verify(graph).ok());
  return static_cast<size_t>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const ir::Node& node) { return node.op == op; }));
}

const std::string kWeights = "x: f32[1,4,4]; wq: const f32[4,4] {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}; wk: const f32[4,4] {2,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}; "
                             "wv: const f32[4,4] {3,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16}; ";
std::string heads(const char* name, const char* of) {
  const std::string n(name);
  return n + "r = reshape(" + of + "): [1,4,2,2]; " + n + "h = transpose(" + n + "r, perm=[0,2,1,3]); ";
}
const std::string kHeads = heads("q", "q") + heads("k", "k") + heads("v", "v") + "o = attention(qh, kh, vh, scale=1.0); ";

TEST(Columns, products_in_front_of_an_attention_are_one) {
  const std::string products = "q = matmul(x, wq); k = matmul(x, wk); v = matmul(x, wv); ";
  EXPECT_EQ(count(kWeights + products + kHeads + "return o", ir::Op::matmul), 1U);
  EXPECT_EQ(count(kWeights + products + kHeads + "return o", ir::Op::matmul, {.attention = false}), 5U) << "the baseline has all of them, and the two of attention";
}

TEST(Columns, products_that_go_into_caches_are_one_as_well) {
  const std::string text = kWeights +
                           "c: f32[1,2,9,2]; d: f32[1,2,9,2]; at: i64[1]; q = matmul(x, wq); k = matmul(x, "
                           "wk); v = matmul(x, wv); " +
                           heads("q", "q") + heads("k", "k") + heads("v", "v") +
                           "nk = tensor_scatter(c, kh, at, axis=2); nv = tensor_scatter(d, vh, at, axis=2); "
                           "o = attention(qh, nk, nv, scale=1.0); return o, nk, nv";
  EXPECT_EQ(count(text, ir::Op::matmul), 1U);
}

TEST(Columns, biases_stand_side_by_side_too) {
  const std::string text = kWeights + "b: const f32[4] {1,2,3,4}; c: const f32[4] {5,6,7,8}; d: const f32[4] {9,10,11,12}; p = matmul(x, wq); q = add(p, b); s = matmul(x, wk); k = add(s, c); t = matmul(x, wv); v = add(t, d); " +
                           kHeads + "return o";
  EXPECT_EQ(count(text, ir::Op::matmul), 1U);
  EXPECT_EQ(count(text, ir::Op::add), 1U);
}

TEST(Columns, products_of_others_stay_apart) {
  // Another operand, a product that is a result, weights with a second reader, a bias on one only, weights that are inputs.
  EXPECT_EQ(count(kWeights + "z: f32[1,4,4]; q = matmul(z, wq); k = matmul(x, wk); v = matmul(x, wv); " + kHeads + "return o", ir::Op::matmul), 2U);
  EXPECT_EQ(count(kWeights + "q = matmul(x, wq); k = matmul(x, wk); v = matmul(x, wv); " + kHeads + "return o, q", ir::Op::matmul), 2U);
  EXPECT_EQ(count(kWeights + "q = matmul(x, wq); k = matmul(x, wk); v = matmul(x, wv); y = add(x, wq); " + kHeads + "return o, y", ir::Op::matmul), 2U);
  EXPECT_EQ(count(kWeights + "b: const f32[4] {1,2,3,4}; p = matmul(x, wq); q = add(p, b); k = matmul(x, wk); v = matmul(x, wv); " + kHeads + "return o", ir::Op::matmul), 2U);
  EXPECT_EQ(count("x: f32[1,4,4]; wq: f32[4,4]; wk: f32[4,4]; wv: f32[4,4]; q = matmul(x, wq); k = matmul(x, wk); v = matmul(x, wv); " + kHeads + "return o", ir::Op::matmul), 3U);
  // An epilogue of its own is worth more than one launch less.
  EXPECT_EQ(count(kWeights + "q = matmul(x, wq); k = matmul(x, wk); a = tanh(q); b = relu(k); return a, b", ir::Op::matmul), 2U);
}

std::string numbers(int64_t count, int64_t first) {
  std::string out;
  for (int64_t i = 0; i < count; ++i) out += (i ? "," : "") + std::to_string(first + i);
  return "{" + out + "}";
}

TEST(Columns, a_product_and_its_gate_take_turns) {
  const std::string two = "x: f32[3,2]; g: const f32[2,8] " + numbers(16, 0) + "; u: const f32[2,8] " + numbers(16, 100) + "; a = matmul(x, g); b = matmul(x, u); s = silu(a); y = mul(s, b); return y";
  EXPECT_EQ(count(two, ir::Op::matmul), 1U);
  const ir::Graph graph = recognise(ir::parse_or_die("x: f32[3,2]; w: const f32[2,32] " + numbers(64, 0) + "; p = matmul(x, w); a = slice(p, starts=[0,16], steps=[1,1]): [3,16]; b = slice(p, starts=[0,0], steps=[1,1]): "
                                                     "[3,16]; s = silu(a); y = mul(b, s); return y"));
  ASSERT_TRUE(ir::verify(graph).ok());
  const auto& weight = *graph.value(graph.nodes[0].inputs[1]).constant;
  std::vector<double> first_row;
  for (int64_t i = 0; i < 32; ++i) first_row.push_back(weight.get_double(i));
  EXPECT_EQ(first_row, (std::vector<double>{16, 17, 18, 19, 20, 21, 22, 23, 0, 1, 2, 3, 4, 5, 6, 7, 24, 25, 26, 27, 28, 29, 30, 31, 8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Columns, factors_that_do_not_fit_take_no_turns) {
  const auto turns = [](const std::string& rest, const char* columns = "[2,16]") {
    const ir::Graph graph = recognise(ir::parse_or_die("x: f32[3,2]; w: const f32" + std::string(columns) + " " + numbers(std::string(columns) == "[2,16]" ? 32 : 24, 0) + "; p = matmul(x, w); " + rest));
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const ir::Node& node) { return node.op == ir::Op::reshape; });
  };
  const std::string halves = "a = slice(p, starts=[0,0], steps=[1,1]): [3,8]; b = slice(p, starts=[0,8], steps=[1,1]): [3,8]; ";
  EXPECT_TRUE(turns(halves + "s = silu(a); y = mul(s, b); return y"));
  EXPECT_FALSE(turns(halves + "s = silu(a); y = mul(s, b); return y, b")) << "a factor that is a result";
  EXPECT_FALSE(turns(halves + "s = silu(a); y = mul(s, b); return y, p")) << "a product that is one";
  EXPECT_FALSE(turns(halves + "s = silu(a); y = mul(s, b); z = exp(a); return y, z")) << "a factor that is read elsewhere";
  EXPECT_FALSE(turns("a = slice(p, starts=[0,0], steps=[1,1]): [3,8]; b = slice(p, starts=[0,4], steps=[1,1]): [3,8]; s = silu(a); y = mul(s, b); return y")) << "halves that overlap";
  EXPECT_FALSE(turns("a = slice(p, starts=[0,0], steps=[1,1]): [3,6]; b = slice(p, starts=[0,6], steps=[1,1]): [3,6]; s = silu(a); y = mul(s, b); return y", "[2,12]")) << "not in eights";
}

TEST(Columns, rotary_of_neighbouring_heads_is_one) {
  const auto text = [](const char* start) {
    const auto part = [](const std::string& name, const std::string& at, int heads) {
      return name + "s = slice(y, starts=[0,0," + at + "], steps=[1,1,1]): [1,3," + std::to_string(4 * heads) + "]; " + name + "r = reshape(" + name + "s): [1,3," + std::to_string(heads) + ",4]; " + name +
             "h = transpose(" + name + "r, perm=[0,2,1,3]); " + name + " = rotary(" + name + "h, c, t, interleaved=0, rotary_dim=4); ";
    };
    return "y: f32[1,3,24]; c: f32[1,3,2]; t: f32[1,3,2]; " + part("q", "0", 2) + part("k", start, 2) + "return q, k";
  };
  EXPECT_EQ(count(text("8"), ir::Op::rotary), 1U);
  EXPECT_EQ(count(text("16"), ir::Op::rotary), 2U) << "not neighbours";
  // One row of each sequence: nothing is transposed there.
  EXPECT_EQ(count("y: f32[2,1,16]; c: f32[2,1,2]; t: f32[2,1,2]; qs = slice(y, starts=[0,0,0], "
                  "steps=[1,1,1]): [2,1,8]; "
                  "qh = reshape(qs): [2,2,1,4]; q = rotary(qh, c, t, interleaved=0, rotary_dim=4); "
                  "ks = slice(y, starts=[0,0,8], steps=[1,1,1]): [2,1,4]; kh = reshape(ks): [2,1,1,4]; "
                  "k = rotary(kh, c, t, interleaved=0, rotary_dim=4); return q, k",
                  ir::Op::rotary),
            1U);
}

}  // namespace
}  // namespace rtx::fuse
