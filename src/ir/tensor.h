#pragma once
// HostTensor: a dense row-major tensor in host memory. Bytes are shared and immutable once published (constants, test data).
#include <cstring>
#include <memory>
#include <vector>

#include "ir/dim.h"
#include "ir/dtype.h"

namespace rtx::ir {

class HostTensor {
 public:
  HostTensor() = default;
  // Allocates zeroed storage.
  HostTensor(DType dtype, std::vector<int64_t> extents);
  // Refers to bytes owned by `owner` (a mapped file, say); nothing is copied.
  HostTensor(DType dtype, std::vector<int64_t> extents, std::shared_ptr<const void> owner, const void* bytes);

  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  int64_t count() const { return count_; }
  int64_t byte_size() const { return count_ * bytes_of(dtype_); }
  const std::byte* bytes() const { return bytes_; }
  // Writable access; copies first when the bytes are shared or borrowed.
  std::byte* mutable_bytes();

  template <class T>
  const T* as() const { return reinterpret_cast<const T*>(bytes_); }
  template <class T>
  T* mutable_as() { return reinterpret_cast<T*>(mutable_bytes()); }

  // Element i as double / as exact 64-bit integer (unsigned types as their bits); setters convert and round once, to nearest even;
  // float to integer truncates toward zero and saturates, NaN gives 0.
  double get_double(int64_t i) const;
  int64_t get_int(int64_t i) const;
  void set_double(int64_t i, double value);
  void set_int(int64_t i, int64_t value);

  HostTensor reshaped(std::vector<int64_t> extents) const;  // same bytes, same count
  bool same_bytes(const HostTensor& other) const;

  static HostTensor scalar(DType dtype, double value);
  static HostTensor from_ints(const std::vector<int64_t>& values);  // i64[n]

 private:
  DType dtype_ = DType::f32;
  std::vector<int64_t> extents_;
  int64_t count_ = 0;
  std::shared_ptr<const void> owner_;
  const std::byte* bytes_ = nullptr;
  bool writable_ = false;
};

}  // namespace rtx::ir
