#pragma once
// Layer and RMS normalisation by a team of threads: the statistics of a row that its threads have just written to scratch.
//
// A centred row is summed as d = row[i] - shift, shift being its first element: exact for a constant row, and within some deviations of
// the mean for most. Then e = d - mean(d) and variance = (sum(e^2) - sum(e)^2 / count) / count: the second term takes back what the
// rounded mean left. Where a sum of squares leaves the range of f32, the row is summed again in f64.
//
// (The namespace is not the family's name: that is a function of CUDA's.) Each thread adds its elements in rising order; threads are combined by the fixed tree of team_reduce.
namespace row_norm {

struct Centred {
  f32 shift, rest, spread;  // normalised: (row[i] - shift - rest) * spread
};

constexpr f32 smallest = 1e-30f, largest = 1e38f;  // sums of squares that f32 holds well

template <int TEAM, class F> DEVICE f32 sum_over(const f32* row, i64 count, void* places, F f) {
  f32 sum = 0;
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) sum += f(row[i]);
  return team_reduce<TEAM>(sum, Sum{}, places);
}

// The same in f64: for sums that leave the range of f32, and where the mean itself is a result and must be right beside large elements.
template <int TEAM> DEVICE Centred centred_carefully(const f32* row, i64 count, f64 epsilon, void* places) {
  f64 sum = 0, wide = 0;
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) sum += f64(row[i]);
  const f64 mean = team_reduce<TEAM>(sum, Sum{}, places) / f64(count);
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) wide += (f64(row[i]) - mean) * (f64(row[i]) - mean);
  wide = team_reduce<TEAM>(wide, Sum{}, places);
  const f32 near = f32(mean);
  return {near, f32(mean - f64(near)), f32(1.0 / scalar::sqrt(wide / f64(count) + epsilon))};
}

template <int TEAM> DEVICE Centred centred(const f32* row, i64 count, f64 epsilon, void* places) {
  const f32 shift = row[0];
  const f32 rest = sum_over<TEAM>(row, count, places, [&](f32 x) { return x - shift; }) / f32(count);
  f32 squares = 0, left = 0;
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) {
    const f32 e = row[i] - shift - rest;
    squares = scalar::fma(e, e, squares);
    left += e;
  }
  squares = team_reduce<TEAM>(squares, Sum{}, places);
  left = team_reduce<TEAM>(left, Sum{}, places);
  if (squares > smallest && squares < largest) {
    const f64 variance = (f64(squares) - f64(left) * f64(left) / f64(count)) / f64(count);
    return {shift, rest + left / f32(count), f32(1.0 / scalar::sqrt((variance > 0 ? variance : 0.0) + epsilon))};
  }
  return centred_carefully<TEAM>(row, count, epsilon, places);
}

// 1 / sqrt(mean(x^2) + epsilon)
template <int TEAM> DEVICE f32 spread(const f32* row, i64 count, f64 epsilon, void* places) {
  f32 squares = 0;
  for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) squares = scalar::fma(row[i], row[i], squares);
  f64 sum = f64(team_reduce<TEAM>(squares, Sum{}, places));
  if (!(sum > f64(smallest) && sum < f64(largest))) {
    f64 wide = 0;
    for (i64 i = team_lane<TEAM>(); i < count; i += TEAM) wide += f64(row[i]) * f64(row[i]);
    sum = team_reduce<TEAM>(wide, Sum{}, places);
  }
  return f32(1.0 / scalar::sqrt(sum / f64(count) + epsilon));
}
}  // namespace row_norm
