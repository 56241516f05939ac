// The memory plan: offsets in one arena for buffers with lifetimes.
//
// Largest first, each at the lowest gap that fits among the buffers alive at the same time (best fit by size of the gap). On
// transformer graphs this ends at the lower bound; `lower_bound` is returned so that reports can show how far off it is.
#include <algorithm>
#include <numeric>

#include "compiler/pipeline.h"

namespace rtx::compiler {

namespace {

constexpr int64_t kAlignment = 64;

int64_t rounded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

Placement place(const std::vector<Lifetime>& lifetimes) {
  Placement out;
  out.offsets.assign(lifetimes.size(), 0);
  int last_step = -1;
  for (const auto& lifetime : lifetimes) last_step = std::max(last_step, lifetime.last);
  for (int step = 0; step <= last_step; ++step) {
    int64_t alive = 0;
    for (const auto& lifetime : lifetimes)
      if (lifetime.first <= step && step <= lifetime.last) alive += rounded(lifetime.bytes);
    out.lower_bound = std::max(out.lower_bound, alive);
  }

  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });

  std::vector<size_t> placed;  // kept sorted by offset
  for (const size_t item : order) {
    const int64_t bytes = rounded(lifetimes[item].bytes);
    int64_t cursor = 0, best = -1, best_gap = INT64_MAX;
    for (const size_t other : placed) {
      const bool together = lifetimes[other].first <= lifetimes[item].last && lifetimes[item].first <= lifetimes[other].last;
      if (!together) continue;
      const int64_t gap = out.offsets[other] - cursor;
      if (gap >= bytes && gap < best_gap) {
        best = cursor;
        best_gap = gap;
      }
      cursor = std::max(cursor, out.offsets[other] + rounded(lifetimes[other].bytes));
    }
    out.offsets[item] = best >= 0 ? best : cursor;
    out.peak = std::max(out.peak, out.offsets[item] + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), item, [&](size_t a, size_t b) { return out.offsets[a] < out.offsets[b]; }), item);
  }
  return out;
}

}  // namespace rtx::compiler
