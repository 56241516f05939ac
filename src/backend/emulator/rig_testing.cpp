#include "backend/emulator/rig_testing.h"

#include <cstdlib>

#include "backend/emulator/compile.h"
#include "backend/emulator/dialect.h"
#include "codegen/source.h"

namespace rtx::backend::emulator {

Rig::Rig(const std::string& kernels, Options options) : device_(*make_device(options)) {
  codegen::Source source(make_dialect(device_->caps()), "test", "backend/emulator tests", "none", "0 Mflop");
  source.line(kernels);
  cpu::CompilerOptions settings;
  if (const char* path = std::getenv("PATH")) settings.path = path;
  auto binary = emulator::make_compiler(settings)->compile({"test", source.take(), device_->caps().arch, {}, 60});
  EXPECT_TRUE(binary.ok()) << binary.error().text();
  if (!binary.ok()) std::abort();
  auto module = device_->load(binary->bytes, "test");
  EXPECT_TRUE(module.ok()) << module.error().text();
  if (!module.ok()) std::abort();
  module_ = *std::move(module);
}

Rig::~Rig() {
  for (void* pointer : memory_) device_->release(pointer);
}

std::string Rig::launch(const std::string& kernel, Shape shape, const std::vector<void*>& arguments, const std::vector<TensorView>& views) {
  auto function = device_->function(*module_, kernel);
  if (!function.ok()) return function.error().text();
  const Status done = device_->launch(*function, {shape.groups, 1, 1}, {shape.threads, 1, 1}, shape.scratch, arguments.data(),
                                      static_cast<int>(arguments.size()), nullptr, views);
  return done.ok() ? std::string() : done.error().text();
}

void* Rig::put_bytes(const void* from, int64_t bytes) {
  auto memory = device_->allocate(bytes);
  EXPECT_TRUE(memory.ok());
  memory_.push_back(*memory);
  EXPECT_TRUE(device_->copy_in(*memory, from, bytes, nullptr).ok());
  return *memory;
}
void Rig::get_bytes(void* to, const void* from, int64_t bytes) { EXPECT_TRUE(device_->copy_out(to, from, bytes, nullptr).ok()); }

}  // namespace rtx::backend::emulator
