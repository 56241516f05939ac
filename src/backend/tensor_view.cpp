#include "backend/tensor_view.h"

#include <iterator>

namespace rtx::backend {

namespace {

struct Element {
  std::string_view name;
  int64_t bytes;
};
constexpr Element kElements[] = {{"u8", 1}, {"u16", 2}, {"u32", 4}, {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"tf32", 4}};

std::string number(int64_t value) { return std::to_string(value); }

}  // namespace

int64_t bytes_of(ViewElement element) { return kElements[static_cast<size_t>(element)].bytes; }
std::string_view name(ViewElement element) { return kElements[static_cast<size_t>(element)].name; }
std::optional<ViewElement> view_element_from_name(std::string_view name) {
  for (size_t k = 0; k < std::size(kElements); ++k)
    if (kElements[k].name == name) return static_cast<ViewElement>(k);
  return std::nullopt;
}

int64_t box_bytes(const TensorView& view) {
  int64_t bytes = bytes_of(view.element);
  for (const int64_t extent : view.box) bytes *= extent;
  return bytes;
}

int64_t span_bytes(const TensorView& view) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(view.extents[0], bytes_of(view.element), &bytes)) return -1;
  for (size_t k = 1; k < view.extents.size(); ++k) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(view.extents[k] - 1, view.strides_bytes[k - 1], &reach) || __builtin_add_overflow(bytes, reach, &bytes)) return -1;
  }
  return bytes;
}

std::string problem_of(const TensorView& view, const void* pointer) {
  const size_t rank = view.extents.size();
  if (rank < 2 || rank > 5) return "it has " + number(static_cast<int64_t>(rank)) + " dimensions; 2 to 5 can be";
  if (view.strides_bytes.size() != rank - 1 || view.box.size() != rank) return "it has not a stride for each outer dimension and a box for each";
  for (const int64_t extent : view.extents)
    if (extent < 1 || extent > int64_t{1} << 32) return "an extent is " + number(extent);
  for (const int64_t stride : view.strides_bytes)
    if (stride < 0 || stride % 16 != 0 || stride >= int64_t{1} << 40) return "its stride of " + number(stride) + " bytes is no multiple of 16 below 2^40";
  for (const int64_t extent : view.box)
    if (extent < 1 || extent > 256) return "its box is " + number(extent) + " along a dimension; 1 to 256 can be";
  const int64_t row = view.box[0] * bytes_of(view.element);
  if (row % 16 != 0) return "a row of its box has " + number(row) + " bytes, no multiple of 16";
  if (view.swizzle != 0 && view.swizzle != 32 && view.swizzle != 64 && view.swizzle != 128) return "there is no swizzle of " + number(view.swizzle) + " bytes";
  if (view.swizzle != 0 && row != view.swizzle) return "a row of its box has " + number(row) + " bytes, its swizzle " + number(view.swizzle);
  if (view.byte_offset < 0) return "its offset is " + number(view.byte_offset);
  const auto address = reinterpret_cast<uintptr_t>(pointer) + static_cast<uintptr_t>(view.byte_offset);
  if (address % 16 != 0) return "its memory begins " + number(static_cast<int64_t>(address % 16)) + " bytes past a multiple of 16";
  if (span_bytes(view) < 0) return "it is larger than any memory";
  return {};
}

}  // namespace rtx::backend
