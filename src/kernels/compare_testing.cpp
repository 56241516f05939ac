#include "kernels/compare_testing.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace rtx::kernels::testing {

using ir::DType;

namespace {

double ulp(DType dtype, double x) {
  const int mantissa = ir::info(dtype).mantissa_bits;
  const double smallest = dtype == DType::f64 ? 0x1p-1074 : dtype == DType::f16 ? 0x1p-24 : dtype == DType::f32 ? 0x1p-149 : 0x1p-133;
  if (x == 0 || !std::isfinite(x)) return smallest;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::max(smallest, std::ldexp(1.0, exponent - 1 - mantissa));
}

}  // namespace

std::string compare(const ir::Graph& body, ir::ValueId id, const ir::HostTensor& found, const reference::RefTensor& wanted, const Tolerance& tolerance,
                    double scale) {
  const DType dtype = wanted.dtype;
  const std::string name = body.value(id).name;
  const ir::HostTensor rounded = reference::to_host(wanted);
  if (!wanted.floating() || tolerance.tolerance_class == ToleranceClass::exact) {
    for (int64_t i = 0; i < found.count(); ++i) {
      const bool same = wanted.floating() ? (found.get_double(i) == rounded.get_double(i) || (std::isnan(found.get_double(i)) && std::isnan(rounded.get_double(i))))
                                          : found.get_int(i) == rounded.get_int(i);
      if (!same)
        return name + "[" + std::to_string(i) + "] is " + std::to_string(found.get_double(i)) + ", expected " + std::to_string(rounded.get_double(i));
    }
    return {};
  }
  const double terms = std::sqrt(std::max(1.0, static_cast<double>(tolerance.terms) / 1024.0));
  const double norm_tolerance = scale * (dtype == DType::f64 ? 1e-13 * terms : dtype == DType::f32 ? 1e-6 * terms : 1e-3);
  double difference = 0, size = 0;
  const auto extents = body.extents(id);
  const int64_t row = extents.empty() ? 1 : std::max<int64_t>(extents.back(), 1);
  std::vector<double> expected(static_cast<size_t>(found.count()));
  for (int64_t i = 0; i < found.count(); ++i) {
    const double exact = wanted.reals[static_cast<size_t>(i)], stored = rounded.get_double(i), x = found.get_double(i);
    expected[static_cast<size_t>(i)] = dtype == DType::bf16 || !std::isfinite(stored) ? stored : exact;
    const double e = expected[static_cast<size_t>(i)];
    if (std::isnan(e) != std::isnan(x) || (std::isinf(e) != std::isinf(x)) || (std::isinf(e) && e != x))
      return name + "[" + std::to_string(i) + "] is " + std::to_string(x) + ", expected " + std::to_string(e);
    if (!std::isfinite(e)) continue;
    difference += (x - e) * (x - e);
    size += e * e;
  }
  if (std::sqrt(difference) > norm_tolerance * std::sqrt(size))
    return name + ": norm error " + std::to_string(std::sqrt(difference / std::max(size, 1e-300)) * 1e6) + "e-6, allowed " + std::to_string(norm_tolerance * 1e6) + "e-6";
  double allowed = 0;  // beyond the ulps, in this row
  for (int64_t i = 0; i < found.count(); ++i) {
    if (i % row == 0) {
      double squares = 0;
      for (int64_t k = i; k < i + row; ++k)
        if (std::isfinite(expected[static_cast<size_t>(k)])) squares += expected[static_cast<size_t>(k)] * expected[static_cast<size_t>(k)];
      allowed = 16 * norm_tolerance * std::sqrt(squares / static_cast<double>(row));
    }
    const double e = expected[static_cast<size_t>(i)], x = found.get_double(i);
    if (std::isfinite(e) && std::abs(x - e) > 4 * ulp(dtype, e) + allowed)
      return name + "[" + std::to_string(i) + "] is " + std::to_string(x) + ", expected " + std::to_string(e);
  }
  return {};
}

}  // namespace rtx::kernels::testing
