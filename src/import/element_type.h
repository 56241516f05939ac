#pragma once
// TensorProto.DataType <-> ir::DType. Newer types than the packaged schema knows have their names here too,
// for messages.
#include <cstdint>
#include <optional>
#include <string>

#include "ir/dtype.h"

namespace rtx::import {

std::optional<ir::DType> dtype_from_onnx(int32_t data_type);
int32_t dtype_to_onnx(ir::DType dtype);
std::string onnx_dtype_name(int32_t data_type);  // "f32", "f8e4m3fn", "string", "type 99"

}  // namespace rtx::import
