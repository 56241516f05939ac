// Products through a cuBLASLt of a few lines that computes them on the host: what is asked of the library is what the graph means.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "backend/cuda/compile_library.h"
#include "backend/cuda/library_call.h"
#include "backend/cuda/library_testing.h"
#include "reference/reference.h"

namespace rtx::backend::cuda {
namespace {

// f32, columns first. Four heuristics: the first is slow, the second fails when it runs, the third says it cannot, the fourth is fast.
constexpr const char* kFake = R"(
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <unistd.h>
typedef unsigned long size_t_;
typedef struct { int ta, tb; unsigned epilogue; const float* bias; int compute; } Matmul;
typedef struct { long rows, cols, ld, stride; int batch; } Layout;
typedef struct { unsigned long data[8]; unsigned long workspace; int state; float waves; int reserved[4]; } Heuristic;
int handles = 0;
unsigned alignment[4];
int cublasLtCreate(void** h) { *h = malloc(8); ++handles; return 0; }
int cublasLtDestroy(void* h) { free(h); --handles; return 0; }
unsigned long cublasLtGetVersion() { return 130000; }
const char* cublasLtGetStatusString(int s) { return "fake fault"; }
int cublasLtMatrixLayoutCreate(Layout** l, int type, unsigned long rows, unsigned long cols, long ld) {
  *l = calloc(1, sizeof(Layout)); (*l)->rows = rows; (*l)->cols = cols; (*l)->ld = ld; (*l)->batch = 1; return 0; }
int cublasLtMatrixLayoutDestroy(Layout* l) { free(l); return 0; }
int cublasLtMatrixLayoutSetAttribute(Layout* l, int a, const void* v, unsigned long n) {
  if (a == 5 && n == 4) l->batch = *(const int*)v; else if (a == 6 && n == 8) l->stride = *(const long*)v; else return 7; return 0; }
int cublasLtMatmulDescCreate(Matmul** m, int compute, int scale) { *m = calloc(1, sizeof(Matmul)); (*m)->compute = compute; return scale ? 7 : 0; }
int cublasLtMatmulDescDestroy(Matmul* m) { free(m); return 0; }
int cublasLtMatmulDescSetAttribute(Matmul* m, int a, const void* v, unsigned long n) {
  if (a == 3 && n == 4) m->ta = *(const int*)v; else if (a == 4 && n == 4) m->tb = *(const int*)v; else if (a == 7 && n == 4) m->epilogue = *(const unsigned*)v;
  else if (a == 8 && n == 8) m->bias = *(const float* const*)v; else return 7; return 0; }
int cublasLtMatmulPreferenceCreate(void** p) { *p = malloc(8); return 0; }
int cublasLtMatmulPreferenceDestroy(void* p) { free(p); return 0; }
int cublasLtMatmulPreferenceSetAttribute(void* p, int a, const void* v, unsigned long n) {
  if (a == 1 && n == 8) return 0; if (a >= 5 && a <= 8 && n == 4) { alignment[a - 5] = *(const unsigned*)v; return 0; } return 7; }
int cublasLtMatmulAlgoGetHeuristic(void* h, Matmul* m, Layout* a, Layout* b, Layout* c, Layout* d, void* p, int asked, Heuristic* r, int* n) {
  if (asked != 16) return 7;
  for (int i = 0; i < 4; ++i) { memset(&r[i], 0, sizeof r[i]); r[i].data[0] = i; r[i].state = i == 2 ? 15 : 0; }
  *n = 4; return 0; }
static float at(const float* p, const Layout* l, int t, long i, long j) { return t ? p[j + i * l->ld] : p[i + j * l->ld]; }
int cublasLtMatmul(void* h, Matmul* m, const float* alpha, const float* a, Layout* la, const float* b, Layout* lb, const float* beta, const float* c, Layout* lc,
                   float* d, Layout* ld, const unsigned long* algorithm, void* workspace, unsigned long bytes, void* stream) {
  if (algorithm[0] == 1) return 13;
  if (algorithm[0] == 2) abort();
  if (algorithm[0] == 0) usleep(3000);
  if (workspace == 0) return 7;
  long k = m->ta ? la->rows : la->cols;
  for (int g = 0; g < ld->batch; ++g)
    for (long j = 0; j < ld->cols; ++j)
      for (long i = 0; i < ld->rows; ++i) {
        float sum = 0;
        for (long t = 0; t < k; ++t) sum += at(a + g * la->stride, la, m->ta, i, t) * at(b + g * lb->stride, lb, m->tb, t, j);
        sum *= *alpha;
        if (*beta) sum += *beta * c[g * lc->stride + i + j * lc->ld];
        if (m->epilogue & 4) sum += m->bias[i];
        if (m->epilogue & 32) sum = 0.5f * sum * (1 + tanhf(0.7978845608f * (sum + 0.044715f * sum * sum * sum)));
        if (m->epilogue & 2) sum = sum > 0 ? sum : 0;
        d[g * ld->stride + i + j * ld->ld] = sum;
      }
  return 0;
}
)";

std::string fake() {
  static const std::string path = testing::make_library("fake_cublaslt", kFake);
  return path;
}

ir::Attributes transposes(int64_t a, int64_t b) { return {{{"trans_a", a}, {"trans_b", b}}}; }

// Runs the plan on random inputs and compares with the interpreter.
void expect_agreement(const ir::Graph& body) {
  const auto plan = library_matmul(body, fake());
  ASSERT_TRUE(plan.has_value());
  testing::HostDevice device;
  auto call = make_library_call(plan->text, device);
  ASSERT_TRUE(call.ok()) << call.error().text();
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<ir::HostTensor> inputs;
  for (const auto id : body.inputs) {
    auto& tensor = inputs.emplace_back(body.value(id).dtype, body.extents(id));
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, normal(random));
  }
  ir::HostTensor out(body.value(body.outputs[0]).dtype, body.extents(body.outputs[0]));
  std::vector<char> workspace(64);
  std::vector<void*> arguments;
  for (const auto& ref : plan->steps[0].arguments)
    arguments.push_back(ref.kind == BufferKind::input ? inputs[static_cast<size_t>(ref.index)].mutable_bytes() : ref.kind == BufferKind::output ? out.mutable_bytes() : static_cast<void*>(workspace.data()));
  const Status ran = (*call)->run(arguments.data(), static_cast<int>(arguments.size()), nullptr);
  ASSERT_TRUE(ran.ok()) << ran.error().text();
  EXPECT_EQ((*call)->choice(), "heuristic 3 of 3");  // the one that said it cannot is not among them
  const auto wanted = reference::run(body, inputs);
  ASSERT_TRUE(wanted.ok()) << wanted.error().text();
  const auto& reals = (*wanted)[0].reals;
  for (int64_t i = 0; i < out.count(); ++i) ASSERT_NEAR(out.get_double(i), reals[static_cast<size_t>(i)], 1e-4 * (1 + std::abs(reals[static_cast<size_t>(i)]))) << i;
}

ir::Graph product(std::vector<int64_t> a, std::vector<int64_t> b, bool ta, bool tb) {
  ir::Graph graph;
  const auto x = graph.add_input("a", ir::DType::f32, ir::to_shape(a)), w = graph.add_input("b", ir::DType::f32, ir::to_shape(b));
  graph.outputs = {graph.add_node(ir::Op::matmul, {x, w}, transposes(ta, tb))};
  return graph;
}

TEST(LibraryMatmul, all_four_transposes_are_the_graphs) {
  expect_agreement(product({5, 7}, {7, 3}, false, false));
  expect_agreement(product({5, 7}, {3, 7}, false, true));
  expect_agreement(product({7, 5}, {7, 3}, true, false));
  expect_agreement(product({7, 5}, {3, 7}, true, true));
}

TEST(LibraryMatmul, batches_broadcast_by_stride) {
  expect_agreement(product({2, 3, 5, 7}, {2, 3, 7, 4}, false, false));
  expect_agreement(product({2, 3, 5, 7}, {7, 4}, false, false));           // all rows at once
  expect_agreement(product({2, 3, 5, 7}, {3, 7, 4}, false, false));        // one operand repeats: a list of calls
  expect_agreement(product({1, 3, 5, 7}, {2, 1, 4, 7}, false, true));
  expect_agreement(product({2, 3, 7, 5}, {2, 3, 7, 4}, true, false));
}

ir::Graph with_tail(bool bias, const char* activation, bool residual, bool bias_first = false) {
  ir::Graph graph = product({6, 8}, {5, 8}, false, true);
  auto y = graph.outputs[0];
  if (bias) {
    const auto b = graph.add_input("bias", ir::DType::f32, ir::to_shape({5}));
    y = graph.add_node(ir::Op::add, bias_first ? std::vector<ir::ValueId>{b, y} : std::vector<ir::ValueId>{y, b});
  }
  if (std::string(activation) == "relu") y = graph.add_node(ir::Op::relu, {y});
  if (std::string(activation) == "gelu") y = graph.add_node(ir::Op::gelu, {y}, {{{"tanh", int64_t{1}}}});
  if (residual) y = graph.add_node(ir::Op::add, {graph.add_input("residual", ir::DType::f32, ir::to_shape({6, 5})), y});
  graph.outputs = {y};
  return graph;
}

TEST(LibraryMatmul, what_the_librarys_epilogue_computes_is_asked_of_it) {
  expect_agreement(with_tail(true, "", false));
  expect_agreement(with_tail(true, "", false, true));
  expect_agreement(with_tail(true, "gelu", false));
  expect_agreement(with_tail(true, "relu", false));
  expect_agreement(with_tail(false, "gelu", false));
  expect_agreement(with_tail(false, "", true));
  expect_agreement(with_tail(true, "", true));
}

TEST(LibraryMatmul, what_it_does_not_compute_gets_no_plan) {
  EXPECT_FALSE(library_matmul(with_tail(true, "gelu", true), fake()));  // GELU before the residual is not the library's order
  ir::Graph erf = product({6, 8}, {5, 8}, false, true);
  erf.outputs = {erf.add_node(ir::Op::gelu, {erf.outputs[0]}, {{{"tanh", int64_t{0}}}})};
  EXPECT_FALSE(library_matmul(erf, fake()));
  ir::Graph seen = product({6, 8}, {5, 8}, false, true);  // the product itself is a result too
  const auto y = seen.outputs[0];
  seen.outputs = {seen.add_node(ir::Op::relu, {y}), y};
  EXPECT_FALSE(library_matmul(seen, fake()));
  ir::Graph integers;
  const auto a = integers.add_input("a", ir::DType::i32, ir::to_shape({2, 2})), b = integers.add_input("b", ir::DType::i32, ir::to_shape({2, 2}));
  integers.outputs = {integers.add_node(ir::Op::matmul, {a, b}, transposes(0, 0))};
  EXPECT_FALSE(library_matmul(integers, fake()));
  EXPECT_FALSE(library_matmul(product({0, 7}, {7, 3}, false, false), fake()));
}

TEST(LibraryMatmul, a_text_that_cannot_be_read_says_why) {
  testing::HostDevice device;
  const auto why = [&](const std::string& text) {
    const auto call = make_library_call(text, device);
    return call.ok() ? std::string("it loads") : call.error().why;
  };
  const std::string begin = std::string(kLibraryCall) + "call matmul\nlibrary " + fake() + "\n";
  EXPECT_EQ(why(std::string(kLibraryCall) + "call teleport\n"), "there is no call 'teleport'");
  EXPECT_EQ(why(begin + "type f8\nepilogue none\n"), "a product of type 'f8'");
  EXPECT_EQ(why(begin + "type f32\nepilogue none\nm 4\nn four\nk 4\n"), "n is 'four', not a number");
  EXPECT_EQ(why(begin + "type f32\nepilogue none\nm 4\nn 0\nk 4\n"), "a product of impossible sizes");
  EXPECT_EQ(why(begin + "alone\n"), "the line 'alone' has no value");
}

TEST(LibraryMatmul, arguments_that_stand_worse_than_those_it_was_chosen_for_are_chosen_for_anew) {
  const auto plan = library_matmul(product({4, 4}, {4, 4}, false, false), fake());
  testing::HostDevice device;
  auto call = make_library_call(plan->text, device);
  ASSERT_TRUE(call.ok());
  alignas(256) static float memory[4][256] = {};
  char workspace[8];
  const auto run = [&](int shift) {
    void* arguments[] = {memory[0] + shift, memory[1], memory[2], workspace};
    return (*call)->run(arguments, 4, nullptr).ok();
  };
  ASSERT_TRUE(run(0));
  const int flushes = device.flushes;
  ASSERT_TRUE(run(64));  // as well
  EXPECT_EQ(device.flushes, flushes);
  ASSERT_TRUE(run(1));
  void* too_few[] = {memory[0], memory[1]};
  EXPECT_FALSE((*call)->run(too_few, 2, nullptr).ok());
}

}  // namespace
}  // namespace rtx::backend::cuda
