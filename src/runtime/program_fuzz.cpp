// Any manifest into a Program and its Execution, on a device whose kernels do nothing: what the bundle reader lets through must set up
// and run without leaving its memory. Inputs are manifests, as those of bundle_fuzz whose first byte is 0.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "bundle/manifest.h"
#include "runtime/binding.h"
#include "runtime/fake_device_testing.h"

namespace {

using namespace rtx;

// Refuses what a small machine would; writes nothing.
class IdleDevice final : public backend::Device {
 public:
  const backend::Caps& caps() const override { return caps_; }
  Result<std::unique_ptr<backend::Module>> load(std::span<const std::byte>, const std::string&) override {
    return std::unique_ptr<backend::Module>(std::make_unique<backend::Module>());
  }
  Result<backend::Function> function(backend::Module&, const std::string&) override { return backend::Function{}; }
  Status launch(backend::Function, backend::Dim3, backend::Dim3, int64_t, void* const*, int, backend::Stream, std::span<const backend::TensorView>) override { return success(); }
  Status synchronize(backend::Stream) override { return success(); }
  Result<void*> allocate(int64_t bytes) override {
    if (bytes > 1 << 20) return error_of(ErrorKind::device, "memory is exhausted", "");
    return std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64));
  }
  void release(void* pointer) override { std::free(pointer); }
  Status copy_in(void* device, const void* host, int64_t bytes, backend::Stream) override {
    if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
    return success();
  }
  Status copy_out(void* host, const void* device, int64_t bytes, backend::Stream stream) override { return copy_in(host, device, bytes, stream); }
  Status fill(void* device, std::byte value, int64_t bytes, backend::Stream) override {
    if (bytes > 0) std::memset(device, static_cast<int>(value), static_cast<size_t>(bytes));
    return success();
  }
  bool host_addressable() const override { return host_memory; }
  Result<double> time(backend::Stream, const std::function<Status()>&) override { return 0.0; }
  Status flush_caches(backend::Stream) override { return success(); }

  backend::Caps caps_;
  bool host_memory = true;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  void* memory = nullptr;
  if (posix_memalign(&memory, 64, size) != 0) return 0;
  const std::shared_ptr<void> owner(memory, std::free);
  std::memcpy(memory, data + 1, size - 1);
  auto decoded = bundle::decode_manifest({static_cast<const std::byte*>(memory), size - 1}, 1 << 22);
  if (!decoded.ok()) return 0;
  bundle::Plan& plan = decoded->plan;
  std::vector<std::byte> constants(1 << 16);
  for (auto& constant : plan.constants) {
    if (constant.byte_size > static_cast<int64_t>(constants.size())) return 0;
    constant.bytes = constants.data();
  }

  const auto device = std::make_shared<IdleDevice>();
  device->host_memory = (data[0] & 8) == 0;
  device->caps_.target = plan.identity.target;
  device->caps_.device = plan.identity.device;
  device->caps_.arch = plan.identity.arch;
  device->caps_.driver = plan.identity.driver;
  runtime::LoadOptions options;
  options.device = device;
  auto program = runtime::Program::from_plan(std::move(plan), options);
  if (!program.ok()) return 0;
  auto execution = (*program)->create_execution();
  if (!execution.ok()) return 0;

  // Every input in a buffer of exactly its size; every second output in one of its own.
  std::vector<std::unique_ptr<std::byte[]>> buffers;
  const auto bind = [&](const bundle::TensorInfo& info, std::vector<runtime::Binding>& bindings) {
    const int64_t bytes = runtime::byte_count(info);
    if (bytes > 1 << 20) return false;
    buffers.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
    bindings.push_back({info.name, {buffers.back().get(), info.dtype, info.extents, info.strides}});
    return true;
  };
  std::vector<runtime::Binding> inputs, outputs;
  for (const auto& info : (*program)->plan().inputs)
    if (!bind(info, inputs)) return 0;
  bool second = (data[0] & 16) != 0;
  for (const auto& info : (*program)->plan().outputs)
    if ((second = !second) && !bind(info, outputs)) return 0;
  (void)(*execution)->run(inputs, outputs);
  (void)(*execution)->run(inputs, {});
  for (const auto& info : (*program)->plan().outputs) {
    const auto view = (*execution)->output(info.name);
    const int64_t bytes = runtime::byte_count(info);
    if (!view.ok() || bytes == 0) continue;
    const auto* first = static_cast<const volatile unsigned char*>(view->data);
    (void)first[0];
    (void)first[bytes - 1];
  }
  return 0;
}
