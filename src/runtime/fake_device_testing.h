#pragma once
// A device whose kernels are functions of this file, found by entry name; it counts what is asked of it and fails when told to.
// And a small plan for it: y = x * factor + weight, where weight is packed (plus one) by a prepare step.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>

#include "backend/device.h"
#include "bundle/sample_testing.h"
#include "runtime/program.h"

namespace rtx::runtime::fake {

using Kernel = std::function<void(void* const* arguments, int64_t groups)>;

inline std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> table = {
      {"multiply", [](void* const* a, int64_t n) { for (int64_t i = 0; i < n; ++i) static_cast<float*>(a[2])[i] = static_cast<const float*>(a[0])[i] * *static_cast<const float*>(a[1]); }},
      {"add", [](void* const* a, int64_t n) { for (int64_t i = 0; i < n; ++i) static_cast<float*>(a[2])[i] = static_cast<const float*>(a[0])[i] + static_cast<const float*>(a[1])[i]; }},
      {"pack", [](void* const* a, int64_t n) { for (int64_t i = 0; i < n; ++i) static_cast<float*>(a[1])[i] = static_cast<const float*>(a[0])[i] + 1; }},
      {"accumulate", [](void* const* a, int64_t n) { for (int64_t i = 0; i < n; ++i) static_cast<float*>(a[1])[i] += static_cast<const float*>(a[0])[i]; }},
  };
  return table;
}

class FakeDevice final : public backend::Device {
 public:
  FakeDevice() {
    caps_.target = "fake";
    caps_.device = "fake device";
    caps_.arch = "fake-1";
    caps_.driver = "none";
  }
  backend::Caps& caps_to_change() { return caps_; }
  const backend::Caps& caps() const override { return caps_; }

  struct FakeModule final : backend::Module {};
  Result<std::unique_ptr<backend::Module>> load(std::span<const std::byte> binary, const std::string& name) override {
    ++loads;
    if (binary.empty()) return error_of(ErrorKind::device, "cannot load kernel " + name, "it is empty");
    return std::unique_ptr<backend::Module>(std::make_unique<FakeModule>());
  }
  Result<backend::Function> function(backend::Module&, const std::string& entry) override {
    const auto found = kernels().find(entry);
    if (found == kernels().end()) return error_of(ErrorKind::device, "no entry " + entry, "");
    return backend::Function{&found->second};
  }
  Status launch(backend::Function function, backend::Dim3 grid, backend::Dim3, int64_t, void* const* arguments, int count, backend::Stream,
                std::span<const backend::TensorView> views) override {
    for (int k = 0; k < count; ++k)
      if (reinterpret_cast<uintptr_t>(arguments[k]) % static_cast<uintptr_t>(alignment) != 0) return error_of(ErrorKind::device, "an argument is misaligned");
    if (!views.empty()) last_views = {views.begin(), views.end()};
    const int number = ++launches;
    if (fail_launch_from > 0 && number >= fail_launch_from) return error_of(ErrorKind::device, "cannot launch a kernel", "the device is gone");
    (*static_cast<const Kernel*>(function.handle))(arguments, grid.count());
    return success();
  }
  Status synchronize(backend::Stream) override { return success(); }
  Result<void*> allocate(int64_t bytes) override {
    ++allocations;
    return std::aligned_alloc(64, static_cast<size_t>((bytes + 63) / 64 * 64));
  }
  void release(void* pointer) override {
    ++releases;
    std::free(pointer);
  }
  Status copy_in(void* device, const void* host, int64_t bytes, backend::Stream) override {
    ++copies_in;
    if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
    return success();
  }
  Status copy_out(void* host, const void* device, int64_t bytes, backend::Stream stream) override { return copy_in(host, device, bytes, stream); }
  Status fill(void* device, std::byte value, int64_t bytes, backend::Stream) override {
    std::memset(device, static_cast<int>(value), static_cast<size_t>(bytes));
    return success();
  }
  bool host_addressable() const override { return host_memory; }
  int64_t argument_alignment() const override { return alignment; }
  Result<double> time(backend::Stream, const std::function<Status()>& work) override {
    RTX_CHECK(work());
    return seconds;
  }
  Status flush_caches(backend::Stream) override { return success(); }

  bool host_memory = true;
  double seconds = 0;  // that any work is said to take
  int64_t alignment = 1;  // what kernels need
  std::vector<backend::TensorView> last_views;  // of the last launch that had any
  int fail_launch_from = 0;  // this launch and all later ones fail; 0: none does
  std::atomic<int> loads{0}, launches{0}, allocations{0}, releases{0}, copies_in{0};

 private:
  backend::Caps caps_;
};

constexpr int64_t kElements = 32;

inline bundle::Plan plan() {
  using bundle::SlotKind;
  bundle::Plan p;
  p.model_name = "affine.onnx";
  p.identity = {"fake", "fake device", "fake-1", "none", bundle::kRuntimeAbi, "", ""};
  p.inputs = {{"x", ir::DType::f32, {4, 8}, {}, 0}};
  p.outputs = {{"y", ir::DType::f32, {4, 8}, {}, 0}};
  p.kernels.resize(1);
  p.kernels[0].name = "affine_f32_4x8";
  p.kernels[0].binary = bundle::sample::binary("code");
  auto constant = [](std::string name, std::vector<int64_t> extents, std::vector<float> values) {
    bundle::Constant c = bundle::sample::constant(std::move(name), std::move(extents), 0);
    auto bytes = std::make_shared<std::vector<float>>(std::move(values));
    c.bytes = reinterpret_cast<const std::byte*>(bytes->data());
    c.owner = bytes;
    return c;
  };
  std::vector<float> weight(kElements);
  for (int64_t i = 0; i < kElements; ++i) weight[static_cast<size_t>(i)] = static_cast<float>(i);
  p.constants = {constant("factor", {1}, {2.0f}), constant("weight", {4, 8}, weight)};
  p.prepared_bytes = {kElements * 4};
  p.prepare = {{0, "pack", {kElements, 1, 1}, {}, 0, {{SlotKind::constant, 1, 0}, {SlotKind::prepared, 0, 0}}, "pack weight"}};
  p.steps = {{0, "multiply", {kElements, 1, 1}, {}, 0, {{SlotKind::input, 0, 0}, {SlotKind::constant, 0, 0}, {SlotKind::arena, 64, 0}}, "scale"},
             {0, "add", {kElements, 1, 1}, {}, 0, {{SlotKind::arena, 0, 64}, {SlotKind::prepared, 0, 0}, {SlotKind::output, 0, 0}}, "shift"}};
  p.arena_bytes = 64 + kElements * 4;
  return p;
}

inline float expected(float x, int64_t i) { return x * 2.0f + static_cast<float>(i) + 1.0f; }

inline LoadOptions on(std::shared_ptr<FakeDevice> device) {
  LoadOptions options;
  options.device = std::move(device);
  options.allow_unsigned = true;
  options.key_directory = "/nonexistent";
  return options;
}

inline TensorView view(float* data) { return {data, ir::DType::f32, {4, 8}, {}}; }

}  // namespace rtx::runtime::fake
