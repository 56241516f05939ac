#pragma once
// The timing protocol: the only code that reads a stopwatch to judge a kernel. Warm up, many samples, median with a 95 %
// interval of the median; samples that are zero, negative, NaN or infinite are dropped and counted.
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rtx::measure {

struct Options {
  int warmup = 3;
  int minimum_samples = 7;
  int maximum_samples = 200;
  double target_seconds = 0.05;  // stop after this much measured time once minimum_samples are in
};
struct Samples {
  std::vector<double> seconds;
  int dropped = 0;
  double median() const;
  double percentile(double p) const;  // 0..100
  double interval_low() const, interval_high() const;  // 95 % of the median (order statistics)
};
// `once` runs one sample and gives its seconds. Errors of `once` end the measurement.
Result<Samples> sample(const std::function<Result<double>()>& once, const Options& options = {});
// Interleaves several subjects round by round in shuffled order (seeded), so that drift hits all alike.
Result<std::vector<Samples>> interleave(const std::vector<std::function<Result<double>()>>& subjects, int rounds, int warmup, uint64_t seed = 1);
// "faster" only where the intervals do not overlap.
bool faster(const Samples& a, const Samples& b);

}  // namespace rtx::measure
