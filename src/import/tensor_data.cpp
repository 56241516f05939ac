// TensorProto -> HostTensor: raw bytes, typed fields, external files.
#include <charconv>
#include <cstring>

#include "import/element_type.h"
#include "import/failure.h"
#include "import/model_file.h"

namespace rtx::import {
namespace {

using ir::DType;
using ir::HostTensor;

std::vector<int64_t> dims_of(const onnx::TensorProto& proto, int64_t element_bytes) {
  std::vector<int64_t> extents(proto.dims().begin(), proto.dims().end());
  int64_t count = 1;
  bool empty = false;
  for (int64_t extent : extents) {
    if (extent < 0) fail("tensor '" + proto.name() + "' has a negative dimension, " + ir::text(extents));
    if (extent == 0) empty = true;
  }
  for (int64_t extent : extents) {
    if (extent != 0 && __builtin_mul_overflow(count, extent, &count))
      fail("tensor '" + proto.name() + "' has an impossible size, " + ir::text(extents));
  }
  int64_t bytes = 0;
  if (!empty && (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > (int64_t{1} << 46)))
    fail("tensor '" + proto.name() + "' has an impossible size, " + ir::text(extents));
  return extents;
}

int64_t element_product(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (int64_t extent : extents) count *= extent;
  return count;
}

void check_size(const onnx::TensorProto& proto, const std::vector<int64_t>& extents, int64_t wanted,
                int64_t found, const char* unit) {
  if (wanted != found)
    fail("tensor '" + proto.name() + "' " + ir::text(extents) + " needs " + std::to_string(wanted) + " " +
         unit + ", the file gives " + std::to_string(found));
}

// Bytes as they lie; copied only where the address does not suit the type.
HostTensor refer(DType dtype, std::vector<int64_t> extents, const std::shared_ptr<const void>& owner,
                 const void* bytes) {
  if (reinterpret_cast<uintptr_t>(bytes) % static_cast<uintptr_t>(ir::bytes_of(dtype)) == 0)
    return {dtype, std::move(extents), owner, bytes};
  HostTensor copy(dtype, std::move(extents));
  if (copy.byte_size() > 0) std::memcpy(copy.mutable_bytes(), bytes, static_cast<size_t>(copy.byte_size()));
  return copy;
}

// A bool is any non-zero byte in files, exactly 1 in our tensors.
HostTensor normalised(HostTensor tensor) {
  if (tensor.dtype() != DType::boolean) return tensor;
  bool clean = true;
  for (int64_t i = 0; i < tensor.count() && clean; ++i) clean = static_cast<uint8_t>(tensor.bytes()[i]) <= 1;
  if (clean) return tensor;
  std::byte* bytes = tensor.mutable_bytes();
  for (int64_t i = 0; i < tensor.count(); ++i) bytes[i] = std::byte{bytes[i] != std::byte{0}};
  return tensor;
}

int64_t decimal(const onnx::TensorProto& proto, const std::string& key, const std::string& text) {
  int64_t value = -1;
  const auto [end, mistake] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (mistake != std::errc() || end != text.data() + text.size() || value < 0)
    fail("tensor '" + proto.name() + "': external data gives " + key + " = '" + text +
         "', which is not a size");
  return value;
}

HostTensor external_tensor(const onnx::TensorProto& proto, DType dtype, std::vector<int64_t> extents,
                           ExternalFiles* files) {
  std::string location;
  int64_t offset = 0;
  int64_t length = -1;
  for (const auto& entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = decimal(proto, "offset", entry.value());
    if (entry.key() == "length") length = decimal(proto, "length", entry.value());
  }
  if (files == nullptr)
    fail("tensor '" + proto.name() + "' keeps its data in another file, which is not read here");
  auto opened = files->open(location);
  if (!opened.ok())
    fail("tensor '" + proto.name() + "': " + opened.error().what + ": " + opened.error().why,
         opened.error().fix);
  const auto& file = *opened;
  const int64_t wanted = element_product(extents) * ir::bytes_of(dtype);
  if (length >= 0) check_size(proto, extents, wanted, length, "bytes");
  if (offset > file->size || wanted > file->size - offset)
    fail("tensor '" + proto.name() + "' needs bytes " + std::to_string(offset) + " to " +
         std::to_string(offset) + " + " + std::to_string(wanted) + " of '" + location + "', which has " +
         std::to_string(file->size));
  if (wanted == 0) return {dtype, std::move(extents)};
  return refer(dtype, std::move(extents), file, file->bytes + offset);
}

template <class To, class Field>
HostTensor typed(const onnx::TensorProto& proto, DType dtype, std::vector<int64_t> extents,
                 const Field& field) {
  check_size(proto, extents, element_product(extents), field.size(), "elements");
  HostTensor out(dtype, std::move(extents));
  To* to = out.mutable_as<To>();
  for (int i = 0; i < field.size(); ++i) to[i] = static_cast<To>(field[i]);
  return out;
}

}  // namespace

HostTensor tensor_of(const onnx::TensorProto& proto, const std::shared_ptr<const void>& owner,
                     ExternalFiles* external) {
  const std::optional<DType> dtype = dtype_from_onnx(proto.data_type());
  if (!dtype) {
    if (proto.data_type() <= 0 || proto.data_type() > 1000)
      fail("tensor '" + proto.name() + "' states no element type");
    unsupported("tensor '" + proto.name() + "' has element type " + onnx_dtype_name(proto.data_type()));
  }
  if (proto.has_segment()) unsupported("tensor '" + proto.name() + "' is stored in segments");
  std::vector<int64_t> extents = dims_of(proto, ir::bytes_of(*dtype));
  if (proto.data_location() == onnx::TensorProto::EXTERNAL)
    return normalised(external_tensor(proto, *dtype, std::move(extents), external));
  if (proto.has_raw_data()) {
    const int64_t wanted = element_product(extents) * ir::bytes_of(*dtype);
    check_size(proto, extents, wanted, static_cast<int64_t>(proto.raw_data().size()), "bytes");
    if (wanted == 0) return {*dtype, std::move(extents)};
    return normalised(refer(*dtype, std::move(extents), owner, proto.raw_data().data()));
  }
  switch (*dtype) {
    case DType::f32:
      return typed<float>(proto, *dtype, std::move(extents), proto.float_data());
    case DType::f64:
      return typed<double>(proto, *dtype, std::move(extents), proto.double_data());
    case DType::i64:
      return typed<int64_t>(proto, *dtype, std::move(extents), proto.int64_data());
    case DType::u64:
      return typed<uint64_t>(proto, *dtype, std::move(extents), proto.uint64_data());
    case DType::u32:
      return typed<uint32_t>(proto, *dtype, std::move(extents), proto.uint64_data());
    case DType::i32:
      return typed<int32_t>(proto, *dtype, std::move(extents), proto.int32_data());
    case DType::i16:
      return typed<int16_t>(proto, *dtype, std::move(extents), proto.int32_data());
    case DType::i8:
      return typed<int8_t>(proto, *dtype, std::move(extents), proto.int32_data());
    case DType::u8:
      return typed<uint8_t>(proto, *dtype, std::move(extents), proto.int32_data());
    // 16-bit floats hold their bits.
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return typed<uint16_t>(proto, *dtype, std::move(extents), proto.int32_data());
    case DType::boolean:
      return normalised(typed<uint8_t>(proto, *dtype, std::move(extents), proto.int32_data()));
  }
  fail("tensor '" + proto.name() + "' states no element type");
}

}  // namespace rtx::import
