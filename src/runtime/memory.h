#pragma once
// Buffers of a Program or an Execution: from the caller's allocator where one is given, else from the device; released together.
#include <memory>
#include <string>
#include <vector>

#include "backend/device.h"
#include "runtime/program.h"

namespace rtx::runtime {

class Memory {
 public:
  Memory(std::shared_ptr<backend::Device> device, Allocator allocator) : device_(std::move(device)), allocator_(std::move(allocator)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();

  // At least one byte, aligned to 64. `what` names the buffer in the error.
  Result<void*> take(int64_t bytes, const std::string& what);
  int64_t taken() const { return taken_; }

 private:
  struct Block {
    void* pointer = nullptr;
    int64_t bytes = 0;
  };
  std::shared_ptr<backend::Device> device_;
  Allocator allocator_;
  std::vector<Block> blocks_;
  int64_t taken_ = 0;
};

}  // namespace rtx::runtime
