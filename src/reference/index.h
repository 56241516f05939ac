#pragma once
// Private to reference: walking tensors by strides.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/parallel.h"

#include "ir/dim.h"

namespace rtx::reference {

using Extents = std::vector<int64_t>;

// Strides of a tensor of shape `from` read in the index space `to` by numpy broadcasting: 0 along stretched dimensions.
inline Extents broadcast_strides(const Extents& from, const Extents& to) {
  const Extents own = ir::row_major_strides(from);
  Extents out(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) out[i + to.size() - from.size()] = own[i];
  }
  return out;
}

// Calls f(linear index of `extents`, offset of each operand) for every element, in row-major order.
template <size_t N, class F>
void walk(const Extents& extents, const std::array<Extents, N>& strides, F&& f) {
  const int64_t count = ir::element_count(extents);
  if (count == 0) return;
  std::array<int64_t, N> base{};
  if (extents.empty()) {
    f(int64_t{0}, base);
    return;
  }
  const size_t inner = extents.size() - 1;
  std::vector<int64_t> index(extents.size(), 0);
  for (int64_t linear = 0;;) {
    std::array<int64_t, N> at = base;
    for (int64_t i = 0; i < extents[inner]; ++i, ++linear) {
      f(linear, at);
      for (size_t n = 0; n < N; ++n) at[n] += strides[n][inner];
    }
    size_t d = inner;
    while (d-- > 0) {
      if (++index[d] < extents[d]) {
        for (size_t n = 0; n < N; ++n) base[n] += strides[n][d];
        break;
      }
      for (size_t n = 0; n < N; ++n) base[n] -= strides[n][d] * (extents[d] - 1);
      index[d] = 0;
    }
    if (linear == count) return;
  }
}

inline int64_t product(const Extents& extents, size_t begin, size_t end) {
  int64_t out = 1;
  for (size_t i = begin; i < end; ++i) out *= extents[i];
  return out;
}

}  // namespace rtx::reference
