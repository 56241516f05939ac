#include "backend/emulator/tensor_map.h"

#include <algorithm>
#include <cstring>

namespace rtx::backend::emulator {

namespace {

// The rows of a box, in the order that they have in scratch. `row` is given its first byte in memory and which bytes of it are there.
template <class Row>
void for_each_row(const TensorMap& map, const int* at, Row row) {
  const int64_t extent = int64_t{map.extents_less_1[0]} + 1, width = map.element_bytes;
  const int64_t begin = std::clamp<int64_t>(-int64_t{at[0]}, 0, map.box[0]) * width, end = std::clamp<int64_t>(extent - at[0], 0, map.box[0]) * width;
  uint32_t k[5] = {};
  for (size_t number = 0;; ++number) {
    bool inside = begin < end;
    std::byte* first = map.base + int64_t{at[0]} * width;
    for (int d = 1; d < map.rank; ++d) {
      const int64_t c = int64_t{at[d]} + k[d];
      inside = inside && c >= 0 && c <= int64_t{map.extents_less_1[d]};
      first += c * map.strides[d - 1];
    }
    row(number, first, inside ? begin : 0, inside ? end : 0);
    int d = 1;
    for (; d < map.rank && ++k[d] == map.box[d]; ++d) k[d] = 0;
    if (d == map.rank) return;
  }
}

void round_to_tf32(std::byte* chunk) {
  uint32_t words[4];
  std::memcpy(words, chunk, 16);
  for (uint32_t& word : words) {
    if ((word & 0x7fffffffu) > 0x7f800000u) word = 0x7fffffffu;
    else if ((word & 0x7f800000u) != 0x7f800000u) word = (word + 0x1000u) & ~0x1fffu;
  }
  std::memcpy(chunk, words, 16);
}

}  // namespace

size_t TensorMap::box_bytes() const {
  size_t bytes = element_bytes;
  for (int d = 0; d < rank; ++d) bytes *= box[d];
  return bytes;
}

TensorMap make_map(const TensorView& view, void* argument) {
  TensorMap map;
  map.base = static_cast<std::byte*>(argument) + view.byte_offset;
  map.rank = static_cast<uint8_t>(view.extents.size());
  map.element_bytes = static_cast<uint8_t>(bytes_of(view.element));
  map.swizzle = static_cast<uint8_t>(view.swizzle);
  map.rounds_to_tf32 = view.element == ViewElement::tf32;
  for (size_t d = 0; d < view.extents.size(); ++d) {
    map.extents_less_1[d] = static_cast<uint32_t>(view.extents[d] - 1);
    map.box[d] = static_cast<uint32_t>(view.box[d]);
    if (d > 0) map.strides[d - 1] = view.strides_bytes[d - 1];
  }
  return map;
}

void load_box(const TensorMap& map, const int* at, std::byte* to, std::byte* also) {
  const auto bytes = static_cast<int64_t>(map.row_bytes());
  const std::ptrdiff_t apart = also - to;
  for_each_row(map, at, [&](size_t number, const std::byte* row, int64_t begin, int64_t end) {
    const auto start = reinterpret_cast<uintptr_t>(to) + number * static_cast<size_t>(bytes);
    for (int64_t q = 0; q < bytes; q += 16) {
      std::byte chunk[16] = {};
      const int64_t first = std::max(q, begin), last = std::min(q + 16, end);
      if (first < last) std::memcpy(chunk + (first - q), row + first, static_cast<size_t>(last - first));
      if (map.rounds_to_tf32) round_to_tf32(chunk);
      auto* const place = reinterpret_cast<std::byte*>(swizzled(start + static_cast<size_t>(q), map.swizzle));
      std::memcpy(place, chunk, 16);
      std::memcpy(place + apart, chunk, 16);
    }
  });
}

void store_box(const TensorMap& map, const int* at, const std::byte* from) {
  const auto bytes = static_cast<int64_t>(map.row_bytes());
  for_each_row(map, at, [&](size_t number, std::byte* row, int64_t begin, int64_t end) {
    const auto start = reinterpret_cast<uintptr_t>(from) + number * static_cast<size_t>(bytes);
    for (int64_t q = 0; q < bytes; q += 16) {
      const int64_t first = std::max(q, begin), last = std::min(q + 16, end);
      const auto* const chunk = reinterpret_cast<const std::byte*>(swizzled(start + static_cast<size_t>(q), map.swizzle));
      if (first < last) std::memcpy(row + first, chunk + (first - q), static_cast<size_t>(last - first));
    }
  });
}

}  // namespace rtx::backend::emulator
