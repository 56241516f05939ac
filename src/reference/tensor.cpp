#include <cmath>
#include <limits>

#include "base/parallel.h"
#include "reference/evaluator.h"

namespace rtx::reference {
namespace {

template <class T>
int64_t saturate(double value) {
  if (std::isnan(value)) return 0;
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return static_cast<int64_t>(std::numeric_limits<T>::max());
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) return static_cast<int64_t>(std::numeric_limits<T>::min());
  return static_cast<int64_t>(static_cast<T>(value));
}

// Elements are each other's equal: threads pay from some tens of thousands of them.
int threads_for(int64_t elements) { return elements >= int64_t{1} << 17 ? 0 : 1; }

}  // namespace

RefTensor make(ir::DType dtype, std::vector<int64_t> extents) {
  RefTensor out{dtype, std::move(extents), {}, {}};
  const auto count = static_cast<size_t>(ir::element_count(out.extents));
  if (out.floating()) {
    out.reals.resize(count);
  } else {
    out.integers.resize(count);
  }
  return out;
}

RefTensor make(const Call& call, size_t i) { return make(call.outputs[i].dtype, call.outputs[i].extents); }

int64_t wrap(ir::DType dtype, int64_t value) {
  switch (dtype) {
    case ir::DType::i8: return static_cast<int8_t>(value);
    case ir::DType::i16: return static_cast<int16_t>(value);
    case ir::DType::i32: return static_cast<int32_t>(value);
    case ir::DType::u8: return static_cast<uint8_t>(value);
    case ir::DType::u16: return static_cast<uint16_t>(value);
    case ir::DType::u32: return static_cast<uint32_t>(value);
    case ir::DType::boolean: return value != 0;
    default: return value;
  }
}

void wrap_all(RefTensor& tensor) {
  for (auto& value : tensor.integers) value = wrap(tensor.dtype, value);
}

int64_t truncate_real(ir::DType dtype, double value) {
  switch (dtype) {
    case ir::DType::i8: return saturate<int8_t>(value);
    case ir::DType::i16: return saturate<int16_t>(value);
    case ir::DType::i32: return saturate<int32_t>(value);
    case ir::DType::u8: return saturate<uint8_t>(value);
    case ir::DType::u16: return saturate<uint16_t>(value);
    case ir::DType::u32: return saturate<uint32_t>(value);
    case ir::DType::u64: return saturate<uint64_t>(value);
    case ir::DType::boolean: return value != 0;
    default: return saturate<int64_t>(value);
  }
}

double real_of(ir::DType dtype, int64_t value) {
  return dtype == ir::DType::u64 ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value);
}

void round_all(RefTensor& tensor) {
  switch (tensor.dtype) {
    case ir::DType::f32:
      for (auto& value : tensor.reals) value = static_cast<float>(value);
      return;
    case ir::DType::f16:
      for (auto& value : tensor.reals) value = ir::f16_to_f32(ir::f64_to_f16(value));
      return;
    case ir::DType::bf16:
      for (auto& value : tensor.reals) value = ir::bf16_to_f32(ir::f64_to_bf16(value));
      return;
    default: return;
  }
}

RefTensor from_host(const ir::HostTensor& tensor) {
  RefTensor out = make(tensor.dtype(), tensor.extents());
  in_parallel(tensor.count(), threads_for(tensor.count()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (out.floating()) {
        out.reals[static_cast<size_t>(i)] = tensor.get_double(i);
      } else {
        out.integers[static_cast<size_t>(i)] = tensor.get_int(i);
      }
    }
  });
  return out;
}

ir::HostTensor to_host(const RefTensor& tensor) {
  ir::HostTensor out(tensor.dtype, tensor.extents);
  in_parallel(out.count(), threads_for(out.count()), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (tensor.floating()) {
        out.set_double(i, tensor.reals[static_cast<size_t>(i)]);
      } else {
        out.set_int(i, tensor.integers[static_cast<size_t>(i)]);
      }
    }
  });
  return out;
}

}  // namespace rtx::reference
