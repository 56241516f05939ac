// The vendor's libraries on a GPU, where one and they are here (RTX_VENDOR_LIBRARIES names their folders):
// every form that the baseline and the peers of a bench ask for gives the values that the graph means,
// directly and out of a recording.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "backend/cuda/compile_library.h"
#include "backend/cuda/device.h"
#include "backend/cuda/library_search.h"
#include "base/text.h"
#include "ir/text.h"
#include "reference/reference.h"

namespace rtx::backend::cuda {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

class CudaLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    auto driver = Driver::open();
    if (!driver.ok()) GTEST_SKIP() << driver.error().text();
    auto made = make_device(*driver, 0);
    if (!made.ok()) GTEST_SKIP() << made.error().text();
    device = *made;
  }
  void TearDown() override {
    for (void* memory : taken) device->release(memory);
  }
  std::string path(const LibraryNames& names) {
    LibrarySearch search;
    search.folders = split(variable("RTX_VENDOR_LIBRARIES"), ':');
    search.roots = {variable("CUDA_HOME"), variable("CUDA_PATH")};
    auto found = find_library(search, names);
    return found.ok() ? *found : std::string();
  }
  void* memory(int64_t bytes) {
    auto made = device->allocate(bytes);
    EXPECT_TRUE(made.ok()) << made.error().text();
    if (!made.ok()) return nullptr;
    taken.push_back(*made);
    return *made;
  }

  // Empty where the plan's results are the graph's within `tolerance` of the reference's norm, run at once
  // and from a recording.
  std::string disagreement(const std::string& text, const std::optional<KernelPlan>& plan, double tolerance) {
    if (!plan) return "no plan";
    const ir::Graph body = ir::parse_or_die(text);
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    std::vector<ir::HostTensor> inputs;
    std::vector<void*> places;
    for (const auto id : body.inputs) {
      auto& tensor = inputs.emplace_back(body.value(id).dtype, body.extents(id));
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, normal(random));
      places.push_back(memory(tensor.byte_size()));
      if (auto ok = device->copy_in(places.back(), tensor.bytes(), tensor.byte_size(), nullptr); !ok.ok())
        return ok.error().text();
    }
    ir::HostTensor out(body.value(body.outputs[0]).dtype, body.extents(body.outputs[0]));
    void* result = memory(out.byte_size());
    std::vector<void*> workspace;
    for (const int64_t bytes : plan->workspace_bytes) workspace.push_back(memory(bytes));
    auto module = device->load(std::as_bytes(std::span(plan->text)), plan->name);
    if (!module.ok()) return module.error().text();
    auto function = device->function(**module, plan->steps[0].entry);
    if (!function.ok()) return function.error().text();
    std::vector<void*> arguments;
    for (const auto& ref : plan->steps[0].arguments)
      arguments.push_back(ref.kind == BufferKind::input    ? places[static_cast<size_t>(ref.index)]
                          : ref.kind == BufferKind::output ? result
                                                           : workspace[static_cast<size_t>(ref.index)]);
    const auto launch = [&](Stream stream) {
      return device->launch(*function, {1, 1, 1}, {1, 1, 1}, 0, arguments.data(),
                            static_cast<int>(arguments.size()), stream);
    };
    const auto wanted = reference::run(body, inputs);
    if (!wanted.ok()) return wanted.error().text();
    const auto& reals = (*wanted)[0].reals;
    const auto compare = [&](const char* when) -> std::string {
      if (auto ok = device->copy_out(out.mutable_bytes(), result, out.byte_size(), nullptr); !ok.ok())
        return ok.error().text();
      double difference = 0, norm = 0;
      for (int64_t i = 0; i < out.count(); ++i) {
        const double r = reals[static_cast<size_t>(i)], d = out.get_double(i) - r;
        difference += d * d, norm += r * r;
      }
      const double error = std::sqrt(difference / norm);
      return error <= tolerance ? std::string()
                                : std::string(when) + ": relative error " + std::to_string(error);
    };
    if (auto ok = device->fill(result, std::byte{0xff}, out.byte_size(), nullptr); !ok.ok())
      return ok.error().text();
    if (auto ok = launch(nullptr); !ok.ok()) return ok.error().text();
    if (std::string wrong = compare("at once"); !wrong.empty()) return wrong;
    if (auto ok = device->fill(result, std::byte{0xff}, out.byte_size(), nullptr); !ok.ok())
      return ok.error().text();
    auto recording = device->capture(launch);
    if (!recording.ok()) return recording.error().text();
    if (auto ok = device->replay(**recording, nullptr); !ok.ok()) return ok.error().text();
    return compare("from a recording");
  }

  std::shared_ptr<Device> device;
  std::vector<void*> taken;
};

struct Form {
  std::string text;
  double tolerance;
};

const std::string kNt = "y = matmul(a, b, trans_a=0, trans_b=1); ";

std::vector<Form> products() {
  std::vector<Form> out;
  for (const std::string type : {"bf16", "f16", "f32", "f64"}) {
    const double tolerance = type == "bf16" ? 4e-3 : type == "f16" ? 6e-4 : 1e-6;
    const auto of = [&](const std::string& name, const std::string& shape) {
      return name + ": " + type + "[" + shape + "]; ";
    };
    const auto add = [&](const std::string& text) { out.push_back({text, tolerance}); };
    const std::string in = of("a", "96,128") + of("b", "80,128"), bias = of("c", "80"),
                      residual = of("r", "96,80");
    add(in + kNt + "return y");
    add(of("a", "96,128") + of("b", "128,80") + "y = matmul(a, b, trans_a=0, trans_b=0); return y");
    add(of("a", "128,96") + of("b", "128,80") + "y = matmul(a, b, trans_a=1, trans_b=0); return y");
    add(of("a", "2,3,33,64") + of("b", "2,3,40,64") + kNt + "return y");
    add(of("a", "2,3,33,64") + of("b", "2,1,40,64") + kNt + "return y");
    add(of("a", "1,128") + of("b", "80,128") + kNt + "return y");
    add(in + residual + kNt + "z = add(y, r); return z");
    if (type == "f64") continue;  // the library has no such epilogues in f64
    add(in + bias + kNt + "z = add(y, c); return z");
    add(in + bias + kNt + "z = add(y, c); g = gelu(z, tanh=1); return g");
    add(in + bias + kNt + "z = add(y, c); g = relu(z); return g");
    add(in + bias + residual + kNt + "z = add(y, c); g = add(z, r); return g");
  }
  return out;
}

std::vector<Form> attentions() {
  struct Case {
    const char *q, *k, *attributes;
  };
  constexpr Case cases[] = {
      {"2,4,128,128", "2,4,128,128", ""},
      {"2,4,128,128", "2,4,128,128", ", causal=1"},
      {"1,8,256,128", "1,2,256,128", ", causal=1"},  // heads share keys
      {"1,8,256,128", "1,2,256,128", ""},
      {"2,4,200,64", "2,4,200,64", ""},
      {"2,4,200,64", "2,4,200,64", ", causal=1"},
      {"1,2,192,256", "1,2,192,256", ""},
      {"1,2,192,256", "1,2,192,256", ", causal=1"},
      {"1,2,301,128", "1,2,301,128", ", causal=1"},
      {"2,8,1,128", "2,2,512,128", ""},  // decode
      {"2,8,8,128", "2,1,512,128",
       ", causal=1, causal_offset=504"},  // some tokens, the diagonal at the last key
      {"2,8,16,128", "2,1,512,128", ", causal=1, causal_offset=496"},
  };
  std::vector<Form> out;
  for (const std::string type : {"bf16", "f16"})
    for (const auto& one : cases) {
      const std::string q(one.q), shape = type + "[";
      const double scale = 1 / std::sqrt(std::stod(q.substr(q.rfind(',') + 1)));
      out.push_back({"q: " + shape + q + "]; k: " + shape + one.k + "]; v: " + shape + one.k +
                         "]; y = attention(q, k, v, scale=" + std::to_string(scale) + one.attributes +
                         "); return y",
                     type == "bf16" ? 8e-3 : 1.5e-3});
    }
  return out;
}

TEST(CudaLibraryForms, each_has_a_plan_of_one_call) {
  for (const auto& form : products()) {
    const auto plan = library_matmul(ir::parse_or_die(form.text), "/nowhere");
    ASSERT_TRUE(plan.has_value()) << form.text;
    EXPECT_EQ(plan->steps.size(), 1u);
  }
  for (const auto& form : attentions())
    EXPECT_TRUE(library_attention(ir::parse_or_die(form.text), "/nowhere").has_value()) << form.text;
}

TEST_F(CudaLibraries, cublaslt_computes_every_form_of_product) {
  const std::string library = path(cublaslt_names());
  if (library.empty()) GTEST_SKIP() << "no cuBLASLt here";
  for (const auto& form : products())
    EXPECT_EQ(disagreement(form.text, library_matmul(ir::parse_or_die(form.text), library), form.tolerance),
              "")
        << form.text;
  const std::string text = "a: f32[96,128]; b: f32[80,128]; " + kNt + "return y";
  const auto tf32 = library_matmul(ir::parse_or_die(text), library, true);
  EXPECT_EQ(disagreement(text, tf32, 1e-3), "");
  EXPECT_NE(disagreement(text, tf32, 1e-6), "") << "tf32 was asked for, f32 was computed";
}

TEST_F(CudaLibraries, cudnn_computes_every_form_of_attention) {
  const std::string library = path(cudnn_names());
  if (library.empty()) GTEST_SKIP() << "no cuDNN here";
  for (const auto& form : attentions())
    EXPECT_EQ(
        disagreement(form.text, library_attention(ir::parse_or_die(form.text), library), form.tolerance), "")
        << form.text;
}

}  // namespace
}  // namespace rtx::backend::cuda
