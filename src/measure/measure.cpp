#include "measure/measure.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace rtx::measure {

namespace {

std::vector<double> sorted(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values;
}

bool usable(double seconds) { return std::isfinite(seconds) && seconds > 0; }

}  // namespace

double Samples::median() const { return percentile(50); }

double Samples::percentile(double p) const {
  if (seconds.empty()) return 0;
  const auto values = sorted(seconds);
  const double position = p / 100.0 * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

// Order statistics of the median: ranks n/2 -+ 0.98 sqrt(n) cover it in 95 % of cases (normal approximation of the binomial).
double Samples::interval_low() const {
  if (seconds.empty()) return 0;
  const auto n = static_cast<double>(seconds.size());
  const auto rank = static_cast<int64_t>(std::floor(n / 2 - 0.98 * std::sqrt(n)));
  return sorted(seconds)[static_cast<size_t>(std::max<int64_t>(rank, 0))];
}

double Samples::interval_high() const {
  if (seconds.empty()) return 0;
  const auto n = static_cast<double>(seconds.size());
  const auto rank = static_cast<int64_t>(std::ceil(n / 2 + 0.98 * std::sqrt(n)));
  return sorted(seconds)[static_cast<size_t>(std::min<int64_t>(rank, static_cast<int64_t>(seconds.size()) - 1))];
}

Result<Samples> sample(const std::function<Result<double>()>& once, const Options& options) {
  for (int i = 0; i < options.warmup; ++i) RTX_CHECK([&]() -> Status {
    auto result = once();
    return result.ok() ? success() : Status(std::move(result).error());
  }());
  Samples samples;
  double total = 0;
  // Unusable samples count as attempts, so a broken clock ends the loop instead of turning it for ever.
  for (int attempt = 0; attempt < options.maximum_samples; ++attempt) {
    RTX_TRY(const double seconds, once());
    if (!usable(seconds)) {
      ++samples.dropped;
      continue;
    }
    samples.seconds.push_back(seconds);
    total += seconds;
    if (static_cast<int>(samples.seconds.size()) >= options.minimum_samples && total >= options.target_seconds) break;
  }
  if (samples.seconds.empty())
    return error_of(ErrorKind::device, "cannot measure", "none of " + std::to_string(samples.dropped) + " samples was a positive time");
  return samples;
}

Result<std::vector<Samples>> interleave(const std::vector<std::function<Result<double>()>>& subjects, int rounds, int warmup, uint64_t seed) {
  std::vector<Samples> out(subjects.size());
  std::vector<size_t> order(subjects.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937_64 random(seed);
  for (int round = -warmup; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t subject : order) {
      RTX_TRY(const double seconds, subjects[subject]());
      if (round < 0) continue;
      if (usable(seconds)) out[subject].seconds.push_back(seconds);
      else ++out[subject].dropped;
    }
  }
  return out;
}

bool faster(const Samples& a, const Samples& b) {
  return !a.seconds.empty() && !b.seconds.empty() && a.interval_high() < b.interval_low();
}

}  // namespace rtx::measure
