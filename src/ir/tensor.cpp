#include "ir/tensor.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <new>

#include "base/assert.h"

namespace rtx::ir {
namespace {

constexpr size_t kAlignment = 64;

std::shared_ptr<std::byte> allocate(int64_t bytes) {
  const size_t size = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment + kAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (memory == nullptr) throw std::bad_alloc();
  return {memory, [](std::byte* pointer) { std::free(pointer); }};
}

template <class T>
T load(const std::byte* bytes, int64_t i) {
  T out;
  std::memcpy(&out, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return out;
}

template <class T>
void store(std::byte* bytes, int64_t i, T value) {
  std::memcpy(bytes + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

template <class T>
T saturate(double value) {
  if (std::isnan(value)) return 0;
  // The limits as doubles: the upper one rounds up to a power of two for 64-bit types, hence >=.
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  return static_cast<T>(value);
}

// A double that every smaller float rounds as it would round the integer: bits below a double's precision become a sticky bit.
double sticky_double(int64_t value) {
  const uint64_t magnitude = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  uint64_t kept = magnitude;
  if (magnitude >> 53) kept = (magnitude >> 11 | ((magnitude & 0x7ff) != 0)) << 11;
  const auto out = static_cast<double>(kept);
  return value < 0 ? -out : out;
}

}  // namespace

HostTensor::HostTensor(DType dtype, std::vector<int64_t> extents)
    : dtype_(dtype), extents_(std::move(extents)), count_(element_count(extents_)), writable_(true) {
  auto memory = allocate(byte_size());
  std::memset(memory.get(), 0, static_cast<size_t>(byte_size()));
  bytes_ = memory.get();
  owner_ = std::move(memory);
}

HostTensor::HostTensor(DType dtype, std::vector<int64_t> extents, std::shared_ptr<const void> owner, const void* bytes)
    : dtype_(dtype),
      extents_(std::move(extents)),
      count_(element_count(extents_)),
      owner_(std::move(owner)),
      bytes_(static_cast<const std::byte*>(bytes)) {}

std::byte* HostTensor::mutable_bytes() {
  if (!writable_ || owner_.use_count() != 1) {
    auto memory = allocate(byte_size());
    if (byte_size() > 0) std::memcpy(memory.get(), bytes_, static_cast<size_t>(byte_size()));
    bytes_ = memory.get();
    owner_ = std::move(memory);
    writable_ = true;
  }
  return const_cast<std::byte*>(bytes_);
}

double HostTensor::get_double(int64_t i) const {
  switch (dtype_) {
    case DType::f64: return load<double>(bytes_, i);
    case DType::f32: return load<float>(bytes_, i);
    case DType::f16: return f16_to_f32(load<uint16_t>(bytes_, i));
    case DType::bf16: return bf16_to_f32(load<uint16_t>(bytes_, i));
    case DType::u64: return static_cast<double>(load<uint64_t>(bytes_, i));
    default: return static_cast<double>(get_int(i));
  }
}

int64_t HostTensor::get_int(int64_t i) const {
  switch (dtype_) {
    case DType::i8: return load<int8_t>(bytes_, i);
    case DType::i16: return load<int16_t>(bytes_, i);
    case DType::i32: return load<int32_t>(bytes_, i);
    case DType::i64: return load<int64_t>(bytes_, i);
    case DType::u8: return load<uint8_t>(bytes_, i);
    case DType::u16: return load<uint16_t>(bytes_, i);
    case DType::u32: return load<uint32_t>(bytes_, i);
    case DType::u64: return static_cast<int64_t>(load<uint64_t>(bytes_, i));
    case DType::boolean: return load<uint8_t>(bytes_, i) != 0;
    default: return saturate<int64_t>(get_double(i));
  }
}

void HostTensor::set_double(int64_t i, double value) {
  std::byte* bytes = mutable_bytes();
  switch (dtype_) {
    case DType::f64: return store(bytes, i, value);
    case DType::f32: return store(bytes, i, static_cast<float>(value));
    case DType::f16: return store(bytes, i, f64_to_f16(value));
    case DType::bf16: return store(bytes, i, f64_to_bf16(value));
    case DType::i8: return store(bytes, i, saturate<int8_t>(value));
    case DType::i16: return store(bytes, i, saturate<int16_t>(value));
    case DType::i32: return store(bytes, i, saturate<int32_t>(value));
    case DType::i64: return store(bytes, i, saturate<int64_t>(value));
    case DType::u8: return store(bytes, i, saturate<uint8_t>(value));
    case DType::u16: return store(bytes, i, saturate<uint16_t>(value));
    case DType::u32: return store(bytes, i, saturate<uint32_t>(value));
    case DType::u64: return store(bytes, i, saturate<uint64_t>(value));
    case DType::boolean: return store(bytes, i, static_cast<uint8_t>(value != 0));
  }
}

void HostTensor::set_int(int64_t i, int64_t value) {
  std::byte* bytes = mutable_bytes();
  switch (dtype_) {
    case DType::f64: return store(bytes, i, static_cast<double>(value));
    case DType::f32: return store(bytes, i, static_cast<float>(value));
    case DType::f16: return store(bytes, i, f64_to_f16(sticky_double(value)));
    case DType::bf16: return store(bytes, i, f64_to_bf16(sticky_double(value)));
    case DType::i8:
    case DType::u8: return store(bytes, i, static_cast<uint8_t>(value));
    case DType::i16:
    case DType::u16: return store(bytes, i, static_cast<uint16_t>(value));
    case DType::i32:
    case DType::u32: return store(bytes, i, static_cast<uint32_t>(value));
    case DType::i64:
    case DType::u64: return store(bytes, i, value);
    case DType::boolean: return store(bytes, i, static_cast<uint8_t>(value != 0));
  }
}

HostTensor HostTensor::reshaped(std::vector<int64_t> extents) const {
  RTX_ASSERT(element_count(extents) == count_, "a reshape keeps the element count");
  HostTensor out = *this;
  out.extents_ = std::move(extents);
  return out;
}

bool HostTensor::same_bytes(const HostTensor& other) const {
  return dtype_ == other.dtype_ && extents_ == other.extents_ &&
         (count_ == 0 || std::memcmp(bytes_, other.bytes_, static_cast<size_t>(byte_size())) == 0);
}

HostTensor HostTensor::scalar(DType dtype, double value) {
  HostTensor out(dtype, {});
  out.set_double(0, value);
  return out;
}

HostTensor HostTensor::from_ints(const std::vector<int64_t>& values) {
  HostTensor out(DType::i64, {static_cast<int64_t>(values.size())});
  if (!values.empty()) std::memcpy(out.mutable_bytes(), values.data(), values.size() * sizeof(int64_t));
  return out;
}

}  // namespace rtx::ir
