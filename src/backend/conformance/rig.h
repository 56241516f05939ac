#pragma once
// What the checks are written with: device memory that frees itself, typed copies, and early returns with a
// sentence.
#include <cstddef>
#include <string>
#include <vector>

#include "backend/conformance/conformance.h"

// Leaves the check with the error's text, or with a sentence.
#define RTX_DONE_OR_RETURN(status)                                                             \
  do {                                                                                         \
    if (const auto& rtx_status = (status); !rtx_status.ok()) return rtx_status.error().text(); \
  } while (false)
#define RTX_HOLDS_OR_RETURN(condition, sentence) \
  do {                                           \
    if (!(condition)) return (sentence);         \
  } while (false)

namespace rtx::backend::conformance {

// Device memory of one check; `pointer` is null when it could not be had, and then `error` says why.
class Memory {
 public:
  Memory(Device& device, int64_t bytes) : device_(device) {
    auto got = device.allocate(bytes);
    if (got.ok())
      pointer = *got;
    else
      error = got.error().text();
  }
  ~Memory() {
    if (pointer) device_.release(pointer);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* pointer = nullptr;
  std::string error;

 private:
  Device& device_;
};

template <class T>
Status write(Device& device, const Memory& to, const std::vector<T>& from) {
  return device.copy_in(to.pointer, from.data(), static_cast<int64_t>(from.size() * sizeof(T)), nullptr);
}
template <class T>
Status read(Device& device, std::vector<T>* to, const Memory& from) {
  RTX_CHECK(device.copy_out(to->data(), from.pointer, static_cast<int64_t>(to->size() * sizeof(T)), nullptr));
  return device.synchronize(nullptr);
}

// The suite in its parts; checks() lists them in this order.
std::vector<Check> identity_checks();
std::vector<Check> memory_checks();
std::vector<Check> module_checks();
std::vector<Check> launch_checks();

}  // namespace rtx::backend::conformance
