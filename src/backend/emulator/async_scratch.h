#pragma once
// A group's scratch as boxes and products see it. The machine's asynchronous units need not see what threads wrote until a proxy
// fence, so there is a second copy of scratch: boxes arrive in both, a fence of a whole wave brings the second up to date, and an
// asynchronous read of bytes in which the two differ is a fault. Beside it, of each 16 bytes: who still reads them, how they came.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/emulator/collective.h"

namespace rtx::backend::emulator {

class AsyncScratch {
 public:
  static constexpr size_t kChunk = 16;

  // A new group: both copies are as nobody wrote them. Costs nothing until something asynchronous happens.
  void begin(SharedMemory scratch) { scratch_ = scratch, in_use_ = false; }
  const SharedMemory& scratch() const { return scratch_; }
  size_t offset_of(const void* at) const { return static_cast<size_t>(static_cast<const std::byte*>(at) - scratch_.at); }

  // A box of `bytes` at `offset` is on its way, asked for in `line`; then it is there (the caller wrote both copies).
  std::string expect_box(size_t offset, size_t bytes, int line);
  void box_arrived(size_t offset, size_t bytes, int swizzle);
  std::byte* second(size_t offset) {
    use();
    return second_ + offset;
  }
  // All lanes of a wave fenced what they wrote.
  void publish();

  // May bytes that a box is stored from be read; may chunks (offsets) be read by a product of `line` that takes them for swizzled so?
  std::string check_store(size_t offset, size_t bytes);
  std::string check_product(const std::vector<uint32_t>& chunks, int swizzle);
  void begin_reading(const std::vector<uint32_t>& chunks, int line);
  void end_reading(const std::vector<uint32_t>& chunks);

 private:
  struct Chunk {
    int16_t swizzle = -1;     // bytes, as a box brought it; -1: threads wrote it, or nobody
    uint16_t readers = 0;     // products that were issued and not waited for
    uint16_t on_the_way = 0;  // boxes
    int line = 0, reader = 0;  // of the box; of the last product
  };
  void use();
  bool differs(size_t offset) const;

  SharedMemory scratch_;
  std::unique_ptr<std::byte[]> memory_;
  size_t capacity_ = 0;
  std::byte* second_ = nullptr;
  std::vector<Chunk> chunks_;
  bool in_use_ = false;
};

}  // namespace rtx::backend::emulator
