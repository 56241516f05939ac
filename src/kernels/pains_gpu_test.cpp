// Pains of others that need more memory than a reference could compute with: offsets beyond 2^31 on a GPU (RTX_TEST_GPU=cuda), and in
// the emulator where few groups reach them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "backend/all_compile.h"
#include "backend/all_device.h"
#include "ir/text.h"
#include "kernels/family.h"

namespace rtx::kernels {
namespace {

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// A family's first pick for a body, with memory for its inputs and outputs; nothing is compared here.
class Large : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string target = variable("RTX_TEST_GPU", "cuda-emulated");
    on_gpu = target == "cuda";
    for (const auto& side : backend::all_devices())
      if (side.target == target) {
        auto made = side.device(2, "", 0);
        if (!made.ok()) GTEST_SKIP() << made.error().text();
        device = *made;
      }
    for (const auto& side : backend::all_compilers())
      if (side.target == target) {
        backend::CompileSettings settings;
        settings.path = variable("PATH", "/usr/bin:/bin");
        settings.temporary = ::testing::TempDir();
        settings.nvrtc = variable("RTX_NVRTC");
        compiler = side.compiler(settings);
        dialect = side.dialect(device->caps());
      }
    ASSERT_TRUE(device && compiler);
  }
  void TearDown() override {
    for (void* memory : memory_) device->release(memory);
  }

  // Memory for all tensors of the body; false, with the test skipped, where the device has none.
  bool open(const std::string& text, const std::string& family_name) {
    auto graph = ir::parse(text, {});
    EXPECT_TRUE(graph.ok()) << graph.error().text();
    body = *std::move(graph);
    auto problem = family(family_name)->bind(body);
    EXPECT_TRUE(problem.ok()) << problem.error().text();
    const auto candidates = (*problem)->candidates(device->caps());
    EXPECT_FALSE(candidates.empty());
    auto emitted = (*problem)->emit(candidates.front().parameters, device->caps(), dialect);
    EXPECT_TRUE(emitted.ok()) << emitted.error().text();
    plan = *std::move(emitted);
    auto binary = compiler->compile({plan.name, plan.text, device->caps().arch, {}, 60});
    EXPECT_TRUE(binary.ok()) << binary.error().text();
    auto loaded = device->load(binary->bytes, plan.name);
    EXPECT_TRUE(loaded.ok()) << loaded.error().text();
    module = *std::move(loaded);
    std::string trouble;
    for (const auto& [ids, pointers] : {std::pair{&body.inputs, &inputs}, {&body.outputs, &outputs}})
      for (const auto id : *ids) pointers->push_back(take(ir::element_count(body.extents(id)) * ir::bytes_of(body.value(id).dtype), &trouble));
    for (const int64_t bytes : plan.workspace_bytes) workspace_.push_back(take(bytes, &trouble));
    if (!trouble.empty()) missing = trouble;
    return trouble.empty();
  }
  void put(void* to, int64_t at, const void* from, int64_t bytes) {
    const auto copied = device->copy_in(static_cast<std::byte*>(to) + at, from, bytes, nullptr);
    EXPECT_TRUE(copied.ok()) << copied.error().text();
  }
  template <class T>
  std::vector<T> get(const void* from, int64_t at, size_t count) {
    std::vector<T> out(count);
    const auto copied = device->copy_out(out.data(), static_cast<const std::byte*>(from) + at, static_cast<int64_t>(count * sizeof(T)), nullptr);
    EXPECT_TRUE(copied.ok()) << copied.error().text();
    return out;
  }
  void fill(void* memory, int value, int64_t bytes) { EXPECT_TRUE(device->fill(memory, static_cast<std::byte>(value), bytes, nullptr).ok()); }
  void run() {
    ASSERT_TRUE(plan.prepare.empty());
    for (const auto& launch : plan.steps) {
      auto function = device->function(*module, launch.entry);
      ASSERT_TRUE(function.ok()) << function.error().text();
      std::vector<void*> arguments;
      for (const auto& ref : launch.arguments)
        arguments.push_back((ref.kind == backend::BufferKind::input ? inputs : ref.kind == backend::BufferKind::output ? outputs : workspace_).at(static_cast<size_t>(ref.index)));
      const auto launched = device->launch(*function, launch.grid, launch.group, launch.scratch_bytes, arguments.data(), static_cast<int>(arguments.size()), nullptr, launch.views);
      ASSERT_TRUE(launched.ok()) << launched.error().text();
    }
    const auto done = device->synchronize(nullptr);
    ASSERT_TRUE(done.ok()) << done.error().text();
  }

  bool on_gpu = false;
  std::shared_ptr<backend::Device> device;
  std::unique_ptr<backend::Compiler> compiler;
  codegen::Dialect dialect;
  ir::Graph body;
  backend::KernelPlan plan;
  std::unique_ptr<backend::Module> module;
  std::vector<void*> inputs, outputs;
  std::string missing;

 private:
  void* take(int64_t bytes, std::string* trouble) {
    auto got = device->allocate(bytes);
    if (!got.ok()) return *trouble = got.error().text(), nullptr;
    memory_.push_back(*got);
    return *got;
  }
  std::vector<void*> memory_, workspace_;
};
using Pains = Large;

// 2147484160 elements: the last row starts 4294967296 bytes, and 2^31 elements, behind the first.
TEST_F(Pains, p33_a_an_rms_norm_of_more_than_2_to_31_elements_reaches_its_last_row) {
  if (!on_gpu) GTEST_SKIP() << "4 million rows are for a GPU: RTX_TEST_GPU=cuda";
  constexpr int64_t rows = 4194305, columns = 512, bytes = rows * columns * 2;
  if (!open("x: f16[4194305,512]; w: f16[512]; y = rms_norm(x, w, axis=1, epsilon=1e-6); return y", "norm")) GTEST_SKIP() << missing;
  fill(inputs[0], 0x3C, bytes);  // 0x3C3C is 1.0586: any row of one value is normed to 1
  fill(outputs[0], 0xFF, bytes);
  const std::vector<uint16_t> ones(columns, 0x3C00);
  put(inputs[1], 0, ones.data(), columns * 2);
  run();
  for (const int64_t row : {int64_t{0}, int64_t{1}, rows / 2 - 1, rows / 2, rows - 2, rows - 1}) EXPECT_EQ(get<uint16_t>(outputs[0], row * columns * 2, columns), ones) << "row " << row;
}

// Rows 239673 and 239674 stand on both sides of 2^31 elements; the emulator has the memory for as long as nobody touches it.
TEST_F(Pains, p33_b_a_gather_finds_rows_beyond_2_to_31_elements) {
  constexpr int64_t rows = 262144, columns = 8960;
  const std::vector<int64_t> wanted = {239673, 239674, 262143};
  if (!open("x: f32[262144,8960]; i: i64[3]; y = gather(x, i, axis=0); return y", "movement")) GTEST_SKIP() << missing;
  if (on_gpu) fill(inputs[0], 0xFF, rows * columns * 4);
  for (const int64_t row : wanted) {
    const std::vector<float> numbers(columns, static_cast<float>(row));
    put(inputs[0], row * columns * 4, numbers.data(), columns * 4);
  }
  put(inputs[1], 0, wanted.data(), 24);
  run();
  for (size_t k = 0; k < wanted.size(); ++k)
    EXPECT_EQ(get<float>(outputs[0], static_cast<int64_t>(k) * columns * 4, columns), std::vector<float>(columns, static_cast<float>(wanted[k]))) << "row " << wanted[k];
}

TEST_F(Pains, p33_c_a_sum_of_more_than_2_to_31_bytes_reaches_its_last_one) {
  if (!on_gpu) GTEST_SKIP() << "2 billion elements are for a GPU: RTX_TEST_GPU=cuda";
  constexpr int64_t count = (int64_t{1} << 31) + 16;
  if (!open("x: i8[2147483664]; y: i8[2147483664]; z = add(x, y); return z", "pointwise")) GTEST_SKIP() << missing;
  fill(inputs[0], 1, count), fill(inputs[1], 2, count), fill(outputs[0], 0x55, count);
  run();
  for (const int64_t at : {int64_t{0}, (int64_t{1} << 31) - 64, count - 64}) EXPECT_EQ(get<int8_t>(outputs[0], at, 64), std::vector<int8_t>(64, 3)) << "from " << at;
}

}  // namespace
}  // namespace rtx::kernels
