#pragma once
// For tests: what a family's kernel is run on, inputs drawn or chosen by a test case, and device memory between guard bytes.
#include <cstring>
#include <memory>
#include <vector>

#include "backend/device.h"
#include "kernels/family_testing.h"

namespace rtx::kernels::testing {

std::vector<ir::HostTensor> make_inputs(const ir::Graph& body, const TestCase& test);

// Device memory with guards inside it, and its copy on the host.
class Guarded {
 public:
  static constexpr int64_t kGuard = 256;
  static Result<std::unique_ptr<Guarded>> make(backend::Device& device, int64_t bytes, int64_t shift) {
    std::unique_ptr<Guarded> out(new Guarded(device, bytes, shift));
    RTX_TRY(out->memory_, device.allocate(static_cast<int64_t>(out->host_.size())));
    return out;
  }
  Guarded(const Guarded&) = delete;
  ~Guarded() {
    if (memory_) device_.release(memory_);
  }
  void* pointer() const { return static_cast<unsigned char*>(memory_) + start_; }
  unsigned char* data() { return host_.data() + start_; }
  Status upload() { return device_.copy_in(memory_, host_.data(), static_cast<int64_t>(host_.size()), nullptr); }
  Status download() { return device_.copy_out(host_.data(), memory_, static_cast<int64_t>(host_.size()), nullptr); }
  bool intact() const {
    for (size_t k = 0; k < host_.size(); ++k)
      if ((static_cast<int64_t>(k) < start_ || static_cast<int64_t>(k) >= start_ + bytes_) && host_[k] != 0xA5) return false;
    return true;
  }

 private:
  Guarded(backend::Device& device, int64_t bytes, int64_t shift) : device_(device), bytes_(bytes), start_(kGuard + shift) {
    host_.assign(static_cast<size_t>(kGuard * 2 + bytes + 128), 0xA5);
    std::memset(data(), 0xFF, static_cast<size_t>(bytes));  // NaN in every floating type
  }
  backend::Device& device_;
  int64_t bytes_ = 0, start_ = 0;
  std::vector<unsigned char> host_;
  void* memory_ = nullptr;
};

// Elements of a buffer that a value's layout reaches.
int64_t span_of(const ir::Graph& body, ir::ValueId id);
// Copies between a dense tensor and a strided buffer.
void move_elements(const ir::Graph& body, ir::ValueId id, std::byte* dense, unsigned char* buffer, bool into_buffer);

}  // namespace rtx::kernels::testing
