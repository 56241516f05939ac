#pragma once
// The parameters of a kernel with views: tensor maps made by the driver, remembered by pointer and view, in front of the pointers.
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/driver_table.h"
#include "backend/kernel.h"

namespace rtx::backend::cuda {

// Tensor maps of one entry. Not thread-safe.
class TensorMaps {
 public:
  // `number`: of the view in its launch, for messages. A map says nothing of what is at its address, so one stays right for ever.
  Result<CuTensorMap> get(const Driver& driver, const TensorView& view, size_t number, const void* pointer);

 private:
  struct Known {
    const void* pointer;
    TensorView view;
    CuTensorMap map;
  };
  static constexpr size_t kMost = 64;
  std::vector<Known> known_;
  size_t oldest_ = 0;
};

// What a launch passes: struct { alignas(64) TensorMap view[V]; void* at[N]; }.
struct alignas(64) ViewParameters {
  static constexpr size_t kMostBytes = 4096;  // of all parameters, on every driver
  std::byte bytes[kMostBytes];
};
Status fill_parameters(const Driver& driver, TensorMaps& maps, std::span<const TensorView> views, void* const* arguments, int count, ViewParameters* out);

}  // namespace rtx::backend::cuda
