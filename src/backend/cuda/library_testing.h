#pragma once
// A device of host memory for tests of library calls, and a way to make a library of a few lines of C.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "backend/device.h"

namespace rtx::backend::cuda::testing {

class HostDevice final : public Device {
 public:
  const Caps& caps() const override { return caps_; }
  Result<std::unique_ptr<Module>> load(std::span<const std::byte>, const std::string&) override { return error_of(ErrorKind::device, "no kernels here"); }
  Result<Function> function(Module&, const std::string&) override { return error_of(ErrorKind::device, "no kernels here"); }
  Status launch(Function, Dim3, Dim3, int64_t, void* const*, int, Stream, std::span<const TensorView>) override { return error_of(ErrorKind::device, "no kernels here"); }
  Status synchronize(Stream) override { return success(); }
  Result<void*> allocate(int64_t bytes) override { return std::malloc(static_cast<size_t>(bytes)); }
  void release(void* pointer) override { std::free(pointer); }
  Status copy_in(void* to, const void* from, int64_t bytes, Stream) override { return std::memcpy(to, from, static_cast<size_t>(bytes)), success(); }
  Status copy_out(void* to, const void* from, int64_t bytes, Stream) override { return std::memcpy(to, from, static_cast<size_t>(bytes)), success(); }
  Status fill(void* to, std::byte value, int64_t bytes, Stream) override { return std::memset(to, static_cast<int>(value), static_cast<size_t>(bytes)), success(); }
  bool host_addressable() const override { return true; }
  Result<double> time(Stream, const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    RTX_CHECK(work());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  Status flush_caches(Stream) override { return ++flushes, success(); }

  int flushes = 0;

 private:
  Caps caps_;
};

// Path of a shared object made of this C text.
inline std::string make_library(const std::string& name, const std::string& text) {
  const std::string base = ::testing::TempDir() + std::to_string(getpid()) + name;  // other tests make theirs at the same time
  std::ofstream(base + ".c") << text;
  EXPECT_EQ(std::system(("cc -w -shared -fPIC -o " + base + ".so " + base + ".c").c_str()), 0);
  return base + ".so";
}

}  // namespace rtx::backend::cuda::testing
