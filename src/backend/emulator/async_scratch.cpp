#include "backend/emulator/async_scratch.h"

#include <algorithm>
#include <cstring>

#include "backend/emulator/pattern.h"

namespace rtx::backend::emulator {

namespace {

std::string place(size_t offset) { return "scratch + " + std::to_string(offset); }

}  // namespace

void AsyncScratch::use() {
  if (in_use_) return;
  in_use_ = true;
  const size_t bytes = (scratch_.bytes + kChunk - 1) / kChunk * kChunk;
  if (bytes + kChunk > capacity_) {
    memory_.reset(new std::byte[bytes + kChunk]);
    capacity_ = bytes + kChunk;
    second_ = memory_.get() + (kChunk - reinterpret_cast<uintptr_t>(memory_.get()) % kChunk) % kChunk;
  }
  fill_pattern(second_, bytes);
  chunks_.assign(bytes / kChunk, Chunk());
}

bool AsyncScratch::differs(size_t offset) const { return std::memcmp(scratch_.at + offset, second_ + offset, std::min(kChunk, scratch_.bytes - offset)) != 0; }

std::string AsyncScratch::expect_box(size_t offset, size_t bytes, int line) {
  use();
  for (size_t k = offset / kChunk; k < (offset + bytes) / kChunk; ++k) {
    Chunk& chunk = chunks_[k];
    if (chunk.readers > 0) return "to " + place(k * kChunk) + ", which the product of line " + std::to_string(chunk.reader) + " may still read: nobody waited for it";
    if (chunk.on_the_way > 0) return "to " + place(k * kChunk) + ", where the box of line " + std::to_string(chunk.line) + " has not arrived";
    ++chunk.on_the_way;
    chunk.line = line;
  }
  return {};
}

void AsyncScratch::box_arrived(size_t offset, size_t bytes, int swizzle) {
  for (size_t k = offset / kChunk; k < (offset + bytes) / kChunk; ++k) {
    --chunks_[k].on_the_way;
    chunks_[k].swizzle = static_cast<int16_t>(swizzle);
  }
}

void AsyncScratch::publish() {
  use();
  constexpr size_t kBlock = 4096;
  for (size_t at = 0; at < scratch_.bytes; at += kBlock) {
    const size_t bytes = std::min(kBlock, scratch_.bytes - at);
    if (std::memcmp(scratch_.at + at, second_ + at, bytes) == 0) continue;
    for (size_t k = at; k < at + bytes; k += kChunk)
      if (differs(k)) chunks_[k / kChunk].swizzle = -1;
    std::memcpy(second_ + at, scratch_.at + at, bytes);
  }
}

std::string AsyncScratch::check_store(size_t offset, size_t bytes) {
  use();
  for (size_t k = offset; k < offset + bytes; k += kChunk) {
    if (chunks_[k / kChunk].on_the_way > 0) return "from " + place(k) + ", where the box of line " + std::to_string(chunks_[k / kChunk].line) + " has not arrived";
    if (differs(k)) return "from " + place(k) + ", which was written since a proxy_fence() of the whole wave that wrote it";
  }
  return {};
}

std::string AsyncScratch::check_product(const std::vector<uint32_t>& chunks, int swizzle) {
  use();
  for (const uint32_t k : chunks) {
    if (size_t{k} + kChunk > scratch_.bytes) return "reads " + place(k) + ", a group has " + std::to_string(scratch_.bytes) + " bytes";
    const Chunk& chunk = chunks_[k / kChunk];
    if (chunk.on_the_way > 0) return "reads " + place(k) + ", where the box of line " + std::to_string(chunk.line) + " has not arrived";
    if (differs(k)) return "reads " + place(k) + ", which was written since a proxy_fence() of the whole wave that wrote it";
    if (chunk.swizzle >= 0 && chunk.swizzle != swizzle)
      return "takes " + place(k) + " for swizzled by " + std::to_string(swizzle) + " bytes, the box of line " + std::to_string(chunk.line) + " brought it swizzled by " + std::to_string(chunk.swizzle);
  }
  return {};
}

void AsyncScratch::begin_reading(const std::vector<uint32_t>& chunks, int line) {
  for (const uint32_t k : chunks) {
    ++chunks_[k / kChunk].readers;
    chunks_[k / kChunk].reader = line;
  }
}
void AsyncScratch::end_reading(const std::vector<uint32_t>& chunks) {
  for (const uint32_t k : chunks) --chunks_[k / kChunk].readers;
}

}  // namespace rtx::backend::emulator
