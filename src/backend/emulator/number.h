#pragma once
// Storage codes to f32, as the machine's products read them.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace rtx::backend::emulator {

inline float from_word(uint32_t code) {
  float number;
  std::memcpy(&number, &code, 4);
  return number;
}
inline float from_f16(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  float number = from_word(magnitude) * 0x1p112f;
  uint32_t code;
  std::memcpy(&code, &number, 4);
  if (magnitude >= 0x0f800000u) code = magnitude | 0x7f800000u;
  return from_word(code | (bits & 0x8000u) << 16);
}
// Four bits of exponent, bias 7, no infinity.
inline float from_e4m3(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  const float size = exponent ? std::ldexp(static_cast<float>(8 + mantissa), exponent - 10) : std::ldexp(static_cast<float>(mantissa), -9);
  return code & 0x80 ? -size : size;
}

}  // namespace rtx::backend::emulator
