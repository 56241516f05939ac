#include "ir/dtype.h"

#include <array>
#include <bit>
#include <cmath>

namespace rtx::ir {
namespace {

constexpr std::array<DTypeInfo, 13> kDTypes{{
    {DType::f64, "f64", 64, DTypeKind::floating, 52},
    {DType::f32, "f32", 32, DTypeKind::floating, 23},
    {DType::f16, "f16", 16, DTypeKind::floating, 10},
    {DType::bf16, "bf16", 16, DTypeKind::floating, 7},
    {DType::i8, "i8", 8, DTypeKind::signed_integer, 0},
    {DType::i16, "i16", 16, DTypeKind::signed_integer, 0},
    {DType::i32, "i32", 32, DTypeKind::signed_integer, 0},
    {DType::i64, "i64", 64, DTypeKind::signed_integer, 0},
    {DType::u8, "u8", 8, DTypeKind::unsigned_integer, 0},
    {DType::u16, "u16", 16, DTypeKind::unsigned_integer, 0},
    {DType::u32, "u32", 32, DTypeKind::unsigned_integer, 0},
    {DType::u64, "u64", 64, DTypeKind::unsigned_integer, 0},
    {DType::boolean, "bool", 8, DTypeKind::boolean, 0},
}};

// A double as a small float of `exponent_bits` and `fraction_bits`, rounded once to nearest even. The carry of the rounding
// runs from the fraction into the exponent by itself, and from the largest finite value into infinity.
uint16_t encode_small(double value, int exponent_bits, int fraction_bits) {
  const auto bits = std::bit_cast<uint64_t>(value);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto sign = static_cast<uint16_t>(bits >> 63 << 15);
  const auto infinity = static_cast<uint16_t>(((1 << exponent_bits) - 1) << fraction_bits);
  const int exponent = static_cast<int>(bits >> 52 & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff) {
    if (fraction == 0) return static_cast<uint16_t>(sign | infinity);
    const auto payload = static_cast<uint16_t>(fraction >> (52 - fraction_bits));
    return static_cast<uint16_t>(sign | infinity | 1u << (fraction_bits - 1) | payload);
  }
  if (exponent == 0) return sign;  // a double's subnormals are below half of every small float's
  const int unbiased = exponent - 1023;
  const int lowest = 1 - bias;
  const bool normal = unbiased >= lowest;
  const int shift = 52 - fraction_bits + (normal ? 0 : lowest - unbiased);
  if (shift > 53) return sign;
  const uint64_t significand = fraction | uint64_t{1} << 52;
  uint64_t rounded = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1))) ++rounded;
  if (normal) {
    rounded += static_cast<uint64_t>(unbiased + bias - 1) << fraction_bits;  // the hidden bit adds the missing one
    if (rounded >= infinity) return static_cast<uint16_t>(sign | infinity);
  }
  return static_cast<uint16_t>(sign | rounded);
}

}  // namespace

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

DType compute_dtype(DType storage) {
  return storage == DType::f16 || storage == DType::bf16 ? DType::f32 : storage;
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t f32_to_f16(float value) { return encode_small(static_cast<double>(value), 5, 10); }
uint16_t f64_to_f16(double value) { return encode_small(value, 5, 10); }

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t f64_to_bf16(double value) { return encode_small(value, 8, 7); }

}  // namespace rtx::ir
