#include "backend/cuda/device_views.h"

#include <cstring>

#include "backend/tensor_view.h"

namespace rtx::backend::cuda {

namespace {

// Numbers of cuda.h: CUtensorMapDataType by ViewElement, CUtensorMapSwizzle.
constexpr int kTypes[] = {0, 1, 2, 6, 9, 7, 11};
constexpr int kPromotion128 = 2;

int swizzle_of(int bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }

Error unusable(size_t number, std::string why) {
  return error_of(ErrorKind::device, "cannot make a tensor map of view " + std::to_string(number), std::move(why), "give memory aligned to 256 bytes");
}

}  // namespace

Result<CuTensorMap> TensorMaps::get(const Driver& driver, const TensorView& view, size_t number, const void* pointer) {
  for (const Known& known : known_)
    if (known.pointer == pointer && known.view == view) return known.map;
  if (const std::string problem = problem_of(view, pointer); !problem.empty()) return unusable(number, problem);
  const auto rank = static_cast<uint32_t>(view.extents.size());
  uint64_t extents[5], strides[5];
  uint32_t box[5], steps[5];
  for (size_t k = 0; k < rank; ++k) {
    extents[k] = static_cast<uint64_t>(view.extents[k]);
    strides[k] = k + 1 < rank ? static_cast<uint64_t>(view.strides_bytes[k]) : 0;
    box[k] = static_cast<uint32_t>(view.box[k]), steps[k] = 1;
  }
  Known made{pointer, view, {}};
  auto* const address = static_cast<std::byte*>(const_cast<void*>(pointer)) + view.byte_offset;
  RTX_CHECK(driver.check("cannot make a tensor map of view " + std::to_string(number),
                         driver.call().encode_tiled(&made.map, kTypes[static_cast<size_t>(view.element)], rank, address, extents, strides, box, steps, 0,
                                                    swizzle_of(view.swizzle), kPromotion128, 0)));
  const CuTensorMap map = made.map;
  if (known_.size() < kMost) known_.push_back(std::move(made));
  else known_[oldest_++ % kMost] = std::move(made);
  return map;
}

Status fill_parameters(const Driver& driver, TensorMaps& maps, std::span<const TensorView> views, void* const* arguments, int count, ViewParameters* out) {
  const size_t pointers = static_cast<size_t>(count) * sizeof(void*), all = views.size() * sizeof(CuTensorMap) + pointers;
  if (all > ViewParameters::kMostBytes)
    return error_of(ErrorKind::device, "cannot pass " + std::to_string(views.size()) + " views and " + std::to_string(count) + " arguments",
                    std::to_string(all) + " bytes of parameters, at most " + std::to_string(ViewParameters::kMostBytes));
  for (size_t v = 0; v < views.size(); ++v) {
    if (views[v].argument < 0 || views[v].argument >= count) return unusable(v, "its argument " + std::to_string(views[v].argument) + " is none of the launch's " + std::to_string(count));
    RTX_TRY(const CuTensorMap map, maps.get(driver, views[v], v, arguments[views[v].argument]));
    std::memcpy(out->bytes + v * sizeof map, &map, sizeof map);
  }
  std::memcpy(out->bytes + views.size() * sizeof(CuTensorMap), arguments, pointers);
  return success();
}

}  // namespace rtx::backend::cuda
