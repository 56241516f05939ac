#pragma once
#include <cstdlib>
#include <cstring>

#include "validate/validate.h"

namespace rtx::validate {

// A device whose kernels are functions of a test: faults are planted and must be found.
using Kernel = void (*)(void* const* arguments);
class HostModule final : public backend::Module {};
class HostDevice final : public backend::Device {
 public:
  explicit HostDevice(Kernel kernel) : kernel_(kernel) {}
  const backend::Caps& caps() const override { return caps_; }
  Result<std::unique_ptr<backend::Module>> load(std::span<const std::byte>, const std::string&) override { return std::unique_ptr<backend::Module>(std::make_unique<HostModule>()); }
  Result<backend::Function> function(backend::Module&, const std::string&) override { return backend::Function{reinterpret_cast<void*>(kernel_)}; }
  Status launch(backend::Function function, backend::Dim3, backend::Dim3, int64_t, void* const* arguments, int, backend::Stream, std::span<const backend::TensorView>) override {
    reinterpret_cast<Kernel>(function.handle)(arguments);
    return success();
  }
  Status synchronize(backend::Stream) override { return success(); }
  Result<void*> allocate(int64_t bytes) override { return std::malloc(static_cast<size_t>(bytes) + 64); }
  void release(void* pointer) override { std::free(pointer); }
  Status copy_in(void* to, const void* from, int64_t bytes, backend::Stream) override { return std::memcpy(to, from, static_cast<size_t>(bytes)), success(); }
  Status copy_out(void* to, const void* from, int64_t bytes, backend::Stream) override { return copy_in(to, from, bytes, nullptr); }
  Status fill(void* to, std::byte value, int64_t bytes, backend::Stream) override { return std::memset(to, static_cast<int>(value), static_cast<size_t>(bytes)), success(); }
  bool host_addressable() const override { return true; }
  Result<double> time(backend::Stream, const std::function<Status()>& work) override { return work().ok() ? 1.0 : 0.0; }
  Status flush_caches(backend::Stream) override { return success(); }

 private:
  backend::Caps caps_;
  Kernel kernel_;
};

}  // namespace rtx::validate
