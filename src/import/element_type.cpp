#include "import/element_type.h"

namespace rtx::import {
namespace {

using ir::DType;

struct ElementType {
  int32_t onnx;
  const char* name;
  std::optional<DType> dtype;
};

const ElementType kElementTypes[] = {
    {1, "f32", DType::f32},
    {2, "u8", DType::u8},
    {3, "i8", DType::i8},
    {4, "u16", DType::u16},
    {5, "i16", DType::i16},
    {6, "i32", DType::i32},
    {7, "i64", DType::i64},
    {8, "string", {}},
    {9, "bool", DType::boolean},
    {10, "f16", DType::f16},
    {11, "f64", DType::f64},
    {12, "u32", DType::u32},
    {13, "u64", DType::u64},
    {14, "complex64", {}},
    {15, "complex128", {}},
    {16, "bf16", DType::bf16},
    {17, "f8e4m3fn", {}},
    {18, "f8e4m3fnuz", {}},
    {19, "f8e5m2", {}},
    {20, "f8e5m2fnuz", {}},
    {21, "u4", {}},
    {22, "i4", {}},
    {23, "f4e2m1", {}},
    {24, "f8e8m0", {}},
    {25, "u2", {}},
    {26, "i2", {}},
};

}  // namespace

std::optional<DType> dtype_from_onnx(int32_t data_type) {
  for (const ElementType& row : kElementTypes)
    if (row.onnx == data_type) return row.dtype;
  return {};
}

int32_t dtype_to_onnx(DType dtype) {
  for (const ElementType& row : kElementTypes)
    if (row.dtype == dtype) return row.onnx;
  return 0;
}

std::string onnx_dtype_name(int32_t data_type) {
  for (const ElementType& row : kElementTypes)
    if (row.onnx == data_type) return row.name;
  return "type " + std::to_string(data_type);
}

}  // namespace rtx::import
