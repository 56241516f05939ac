#pragma once
// What the emulator's tests are written with: one compiled text of kernels a file, buffers as vectors, launches by name.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/emulator/device.h"

namespace rtx::backend::emulator {

class Rig {
 public:
  // `kernels` in the words of docs/adr/0010, behind the dialect's preludes.
  explicit Rig(const std::string& kernels, Options options = checked());
  ~Rig();
  static Options checked() {
    Options options;
    options.check = true;
    options.threads = 2;
    return options;
  }

  Device& device() { return *device_; }
  // Device memory with these elements; lives as long as the rig.
  template <class T>
  void* put(const std::vector<T>& from) {
    return put_bytes(from.data(), static_cast<int64_t>(from.size() * sizeof(T)));
  }
  template <class T>
  std::vector<T> get(void* from, size_t count) {
    std::vector<T> out(count);
    get_bytes(out.data(), from, static_cast<int64_t>(count * sizeof(T)));
    return out;
  }
  struct Shape {
    int64_t groups = 1;
    int threads = 32;
    int64_t scratch = 0;
  };
  // The error's text, empty when the launch went well.
  std::string launch(const std::string& kernel, Shape shape, const std::vector<void*>& arguments, const std::vector<TensorView>& views = {});

 private:
  void* put_bytes(const void* from, int64_t bytes);
  void get_bytes(void* to, const void* from, int64_t bytes);

  std::shared_ptr<Device> device_;
  std::unique_ptr<Module> module_;
  std::vector<void*> memory_;
};

// A sentence that must stand in an error's text.
#define EXPECT_SAYS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

}  // namespace rtx::backend::emulator
