#pragma once
// Softmax by a team of threads: what a row in scratch needs between the pass that writes it and the pass that stores results. A row with
// a NaN, with +inf, or of -inf only gives NaN, as the written-out form does.
namespace softmax {
template <int TEAM> DEVICE f32 greatest(const f32* row, i64 count, void* places) {
  f32 m = -__builtin_inff();
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) m = math::max(m, row[i]);
  return team_reduce<TEAM>(m, Greatest{}, places);
}

// Sum of e^(x - shift) over the row; `keep` writes the exponentials back. Each thread sums its elements in rising order.
template <int TEAM, bool keep> DEVICE f32 exponentials(f32* row, i64 count, f32 shift, void* places) {
  f32 sum = 0;
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) {
    const f32 e = scalar::exp(row[i] - shift);
    if constexpr (keep) row[i] = e;
    sum += e;
  }
  return team_reduce<TEAM>(sum, Sum{}, places);
}
}  // namespace softmax
