#include "runtime/memory.h"

#include <algorithm>

namespace rtx::runtime {

constexpr int64_t kAlignment = 64;

Result<void*> Memory::take(int64_t bytes, const std::string& what) {
  bytes = std::max<int64_t>(bytes, 1);
  if (!allocator_.allocate) {
    auto got = device_->allocate(bytes);
    if (!got.ok()) return std::move(got).error().in(what + ", " + std::to_string(bytes) + " bytes");
    blocks_.push_back({*got, bytes});
    taken_ += bytes;
    return *got;
  }
  void* pointer = allocator_.allocate(bytes, kAlignment);
  if (!pointer)
    return error_of(ErrorKind::device, "memory is exhausted", "the caller's allocator gave none for " + what + ", " + std::to_string(bytes) + " bytes");
  blocks_.push_back({pointer, bytes});
  taken_ += bytes;
  if (reinterpret_cast<uintptr_t>(pointer) % kAlignment != 0)
    return error_of(ErrorKind::user, "the caller's allocator does not keep its alignment", what + ": asked for " + std::to_string(kAlignment) + " bytes",
                    "return memory aligned as asked");
  return pointer;
}

Memory::~Memory() {
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    if (allocator_.allocate)
      allocator_.release(block->pointer, block->bytes);
    else
      device_->release(block->pointer);
  }
}

}  // namespace rtx::runtime
