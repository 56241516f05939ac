#pragma once
// The emulator's tensor maps, and boxes of them to and from a group's scratch.
#include <cstddef>
#include <cstdint>

#include "backend/tensor_view.h"

namespace rtx::backend::emulator {

// What VIEW(i) points at.
struct alignas(64) TensorMap {
  std::byte* base = nullptr;
  int64_t strides[4] = {};
  uint32_t extents_less_1[5] = {};
  uint32_t box[5] = {};
  uint8_t rank = 0, element_bytes = 0, swizzle = 0, rounds_to_tf32 = 0;

  size_t row_bytes() const { return size_t{box[0]} * element_bytes; }
  size_t box_bytes() const;
};
static_assert(sizeof(TensorMap) == kTensorMapBytes);

TensorMap make_map(const TensorView& view, void* argument);

// A swizzle is a function of the address: chunk bits 4 to 6 (5, 4) are changed by bits 7 and up.
inline uintptr_t swizzled(uintptr_t address, int swizzle) {
  const uintptr_t mask = swizzle == 0 ? 0 : static_cast<uintptr_t>(swizzle / 16 - 1);
  return address ^ ((address >> 7 & mask) << 4);
}

// From memory into `to` and, at the same places, into `also`; what lies outside of the tensor is zero.
void load_box(const TensorMap& map, const int* at, std::byte* to, std::byte* also);
void store_box(const TensorMap& map, const int* at, const std::byte* from);

}  // namespace rtx::backend::emulator
