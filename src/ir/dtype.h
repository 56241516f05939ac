#pragma once
// Element types. A row of the table says bits, kind and packing; f8 and 4-bit types will be further rows.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rtx::ir {

enum class DType : uint8_t { f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };

enum class DTypeKind : uint8_t { floating, signed_integer, unsigned_integer, boolean };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // "f32", "bool": the spelling of the text form, JSON and keys
  int bits;               // storage bits of one element
  DTypeKind kind;
  int mantissa_bits;  // explicit fraction bits of a floating type, else 0
};

const DTypeInfo& info(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
inline std::string_view name(DType dtype) { return info(dtype).name; }
inline int64_t bytes_of(DType dtype) { return info(dtype).bits / 8; }
inline bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }
inline bool is_integer(DType dtype) {
  return info(dtype).kind == DTypeKind::signed_integer || info(dtype).kind == DTypeKind::unsigned_integer;
}
// The type arithmetic is done in: f32 for f16 and bf16, the type itself otherwise.
DType compute_dtype(DType storage);

// Exact bit conversions, round to nearest even; NaN stays NaN, subnormals are kept.
float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);
uint16_t f64_to_f16(double value);  // rounds once
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
uint16_t f64_to_bf16(double value);  // rounds once

}  // namespace rtx::ir
