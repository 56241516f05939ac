#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/cpu/compile.h"
#include "backend/cpu/device.h"

namespace rtx::backend::cpu {
namespace {

TEST(CpuDevice, modules_loaded_side_by_side_keep_their_own_code) {
  CompilerOptions options;
  if (const char* path = std::getenv("PATH")) options.path = path;
  const auto compiler = make_compiler(options);
  const auto device = make_device(1);
  std::vector<std::unique_ptr<Module>> modules;
  for (int i = 0; i < 3; ++i) {
    const std::string text = "extern \"C\" void answer(void* const* args, long, long, void*) { *static_cast<int*>(args[0]) = " + std::to_string(i) + "; }\n";
    auto binary = compiler->compile({"answer", text, device->caps().arch, {}, 60});
    ASSERT_TRUE(binary.ok()) << binary.error().text();
    auto module = device->load(binary->bytes, "answer" + std::string(i == 0 ? 0 : 500, 'x'));  // problems of many axes have long names
    ASSERT_TRUE(module.ok()) << module.error().text();
    modules.push_back(*std::move(module));
  }
  for (int i = 0; i < 3; ++i) {
    auto function = device->function(*modules[size_t(i)], "answer");
    ASSERT_TRUE(function.ok());
    int answer = -1;
    void* arguments[] = {&answer};
    ASSERT_TRUE(device->launch(*function, {1, 1, 1}, {1, 1, 1}, 0, arguments, 1, nullptr).ok());
    EXPECT_EQ(answer, i);
  }
}

}  // namespace
}  // namespace rtx::backend::cpu
