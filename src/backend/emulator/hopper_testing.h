#pragma once
// Numbers and views of the Hopper set's tests.
#include <cstring>

#include "backend/emulator/rig_testing.h"

namespace rtx::backend::emulator {

inline double bf16_value(uint16_t code) {
  const uint32_t wide = static_cast<uint32_t>(code) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

// Numbers of about 1 with both signs, in no order.
inline std::vector<uint16_t> bf16_codes(size_t count, uint32_t seed) {
  std::vector<uint16_t> out(count);
  for (auto& code : out) {
    seed = seed * 1664525u + 1013904223u;
    code = static_cast<uint16_t>((0x3e80 + (seed >> 24)) | (seed >> 8 & 0x8000u));
  }
  return out;
}

// A row-major matrix of 16-bit numbers, boxes of 64 columns, swizzled by 128 bytes.
inline TensorView matrix_view(int argument, int64_t rows, int64_t columns, int64_t box_rows) {
  TensorView view;
  view.argument = argument;
  view.element = ViewElement::bf16;
  view.extents = {columns, rows}, view.strides_bytes = {columns * 2}, view.box = {64, box_rows};
  view.swizzle = 128;
  return view;
}

}  // namespace rtx::backend::emulator
