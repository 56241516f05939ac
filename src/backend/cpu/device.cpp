#include "backend/cpu/device.h"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/cpu/identify.h"
#include "backend/cpu/shared_object.h"
#include "backend/cpu/thread_pool.h"
#include "backend/embedded.h"

namespace rtx::backend::cpu {

namespace {

class SharedObject final : public Module {
 public:
  explicit SharedObject(void* handle) : handle_(handle) {}
  ~SharedObject() override { dlclose(handle_); }
  void* handle() const { return handle_; }

 private:
  void* handle_;
};

Error load_failed(const std::string& name, const std::string& why) {
  return error_of(ErrorKind::device, "cannot load kernel " + name, why);
}

class CpuDevice final : public Device {
 public:
  CpuDevice(int threads, const std::string& arch) : caps_(identify(threads)), pool_(caps_.cores) {
    if (!arch.empty() && arch != caps_.arch && runs_on(arch, caps_)) {
      caps_.arch = arch;
      caps_.vector_bits = arch == "x86-64-v3" ? 256 : 128;
      caps_.vector_registers = 16;
      caps_.features.erase("avx512f");
      caps_.features.erase("avx512-v4");
    }
  }

  const Caps& caps() const override { return caps_; }

  Result<std::unique_ptr<Module>> load(std::span<const std::byte> binary, const std::string& name) override {
    RTX_TRY(void* handle, open_shared_object(binary, name));
    return std::unique_ptr<Module>(std::make_unique<SharedObject>(handle));
  }

  Result<Function> function(Module& module, const std::string& entry) override {
    void* symbol = dlsym(static_cast<SharedObject&>(module).handle(), entry.c_str());
    if (!symbol) return load_failed(entry, "the binary has no such entry");
    return Function{symbol};
  }

  Status launch(Function function, Dim3 grid, Dim3, int64_t scratch_bytes, void* const* arguments, int, Stream, std::span<const TensorView>) override {
    if (!pool_.run(reinterpret_cast<Kernel>(function.handle), arguments, grid.count(), scratch_bytes))
      return error_of(ErrorKind::device, "cannot launch a kernel", "no memory for " + std::to_string(scratch_bytes) + " bytes of scratch");
    return success();
  }
  Status synchronize(Stream) override { return success(); }

  Result<void*> allocate(int64_t bytes) override {
    const auto rounded = (static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 63) / 64 * 64;
    void* pointer = bytes < 0 ? nullptr : std::aligned_alloc(64, rounded);
    if (!pointer) return error_of(ErrorKind::device, "cannot allocate " + std::to_string(bytes) + " bytes", "memory is exhausted");
    return pointer;
  }
  void release(void* pointer) override { std::free(pointer); }
  Status copy_in(void* device, const void* host, int64_t bytes, Stream) override {
    if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
    return success();
  }
  Status copy_out(void* host, const void* device, int64_t bytes, Stream) override { return copy_in(host, device, bytes, nullptr); }
  Status fill(void* device, std::byte value, int64_t bytes, Stream) override {
    if (bytes > 0) std::memset(device, static_cast<int>(value), static_cast<size_t>(bytes));
    return success();
  }
  bool host_addressable() const override { return true; }

  Result<double> time(Stream, const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    RTX_CHECK(work());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Status flush_caches(Stream) override {
    if (flush_.empty()) flush_.resize(static_cast<size_t>(std::min<int64_t>(2 * caps_.l3_bytes, 256 << 20)), 1);
    for (size_t i = 0; i < flush_.size(); i += 64) flush_[i] = static_cast<char>(flush_[i] + 1);
    return success();
  }

 private:
  Caps caps_;
  ThreadPool pool_;
  std::vector<char> flush_;
};

}  // namespace

std::shared_ptr<Device> make_device(int threads, const std::string& arch) { return std::make_shared<CpuDevice>(threads, arch); }

}  // namespace rtx::backend::cpu

namespace rtx::backend {

std::shared_ptr<Device> embedded_device(int threads) { return cpu::make_device(threads); }

}  // namespace rtx::backend
