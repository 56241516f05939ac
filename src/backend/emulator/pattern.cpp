#include "backend/emulator/pattern.h"

#include <cstdint>
#include <cstring>

namespace rtx::backend::emulator {

namespace {

constexpr uint64_t kWord = 0x7ff77ff77ff77ff7u;

// By the address's parity, so that a zone may start anywhere.
unsigned char byte_at(const void* at) { return reinterpret_cast<uintptr_t>(at) % 2 ? 0x7f : 0xf7; }

}  // namespace

void fill_pattern(void* at, size_t bytes) {
  auto* p = static_cast<unsigned char*>(at);
  auto* const end = p + bytes;
  for (; p < end && reinterpret_cast<uintptr_t>(p) % 8 != 0; ++p) *p = byte_at(p);
  for (; p + 8 <= end; p += 8) std::memcpy(p, &kWord, 8);
  for (; p < end; ++p) *p = byte_at(p);
}

size_t find_change(const void* at, size_t bytes) {
  const auto* const first = static_cast<const unsigned char*>(at);
  const auto* p = first;
  const auto* const end = p + bytes;
  for (; p < end && reinterpret_cast<uintptr_t>(p) % 8 != 0; ++p)
    if (*p != byte_at(p)) return static_cast<size_t>(p - first);
  for (; p + 64 <= end; p += 64) {
    uint64_t words[8], changed = 0;
    std::memcpy(words, p, 64);
    for (const uint64_t word : words) changed |= word ^ kWord;
    if (changed) break;
  }
  for (; p < end; ++p)
    if (*p != byte_at(p)) return static_cast<size_t>(p - first);
  return bytes;
}

size_t find_last_change(const void* at, size_t bytes) {
  const auto* const first = static_cast<const unsigned char*>(at);
  for (size_t k = bytes; k-- > 0;)
    if (first[k] != byte_at(first + k)) return k;
  return bytes;
}

}  // namespace rtx::backend::emulator
