// Comparison with the reference. The numbers are the design's table (docs/architecture.md, "Numbers").
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "validate/validate.h"

namespace rtx::validate {

namespace {

using ir::DType;

// Unit in the last place of `value` in `dtype`.
double ulp(DType dtype, double value) {
  const int mantissa = ir::info(dtype).mantissa_bits;
  const int minimum_exponent = dtype == DType::f64 ? -1022 : dtype == DType::f16 ? -14 : -126;
  int exponent = minimum_exponent;
  if (value != 0 && std::isfinite(value)) exponent = std::max(minimum_exponent, std::ilogb(value));
  return std::ldexp(1.0, exponent - mantissa);
}

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::bf16: return ir::bf16_to_f32(ir::f64_to_bf16(value));
    case DType::f16: return ir::f16_to_f32(ir::f64_to_f16(value));
    case DType::f32: return static_cast<double>(static_cast<float>(value));
    default: return value;
  }
}

std::vector<int64_t> coordinates_of(int64_t index, const std::vector<int64_t>& extents) {
  std::vector<int64_t> out(extents.size());
  for (size_t d = extents.size(); d-- > 0;) {
    const int64_t extent = std::max<int64_t>(extents[d], 1);
    out[d] = index % extent;
    index /= extent;
  }
  return out;
}

void note_wrong(Mismatch& detail, int64_t index, double found, double wanted, const std::vector<int64_t>& extents) {
  ++detail.wrong_count;
  if (detail.first_wrong >= 0) return;
  detail.first_wrong = index;
  detail.first_wrong_coordinates = coordinates_of(index, extents);
  detail.found = found;
  detail.wanted = wanted;
}

Comparison compare_exact(Mismatch detail, const ir::HostTensor& found, const reference::RefTensor& wanted) {
  for (int64_t i = 0; i < detail.count; ++i) {
    const bool same = wanted.floating()
                          ? [&] {
                              const double f = found.get_double(i), w = rounded_to(wanted.dtype, wanted.reals[static_cast<size_t>(i)]);
                              return f == w || (std::isnan(f) && std::isnan(w));
                            }()
                          : found.get_int(i) == wanted.integers[static_cast<size_t>(i)];
    if (same) continue;
    const double w = wanted.floating() ? wanted.reals[static_cast<size_t>(i)] : static_cast<double>(wanted.integers[static_cast<size_t>(i)]);
    const double f = wanted.floating() ? found.get_double(i) : static_cast<double>(found.get_int(i));
    detail.max_difference = std::max(detail.max_difference, std::abs(f - w));
    note_wrong(detail, i, f, w, wanted.extents);
  }
  Comparison out;
  out.agrees = detail.wrong_count == 0;
  out.detail = std::move(detail);
  return out;
}

}  // namespace

double norm_tolerance(ir::DType dtype, int64_t terms) {
  const double growth = terms > 1024 ? std::sqrt(static_cast<double>(terms) / 1024.0) : 1.0;
  switch (dtype) {
    case ir::DType::f64: return 1e-14 * growth;
    case ir::DType::f32: return 1e-6 * growth;
    default: return 1e-3;  // f16, and bf16 against the rounded reference
  }
}

namespace {

// Attention of 16-bit operands multiplies the values by weights of 16 bits, as every library does: 1.7e-3 of a weighted sum whose
// terms cancel, and then half of its results round the other way. Measured by a model of such kernels with exact sums, 16 to 2048
// keys, plain and causal, logits up to 4 deviations: at most 2.6e-3. Few results may be unlucky.
double weights_in_bf16(int64_t results) { return 3 * (1 + 4 / std::sqrt(static_cast<double>(std::max<int64_t>(results, 1)))); }

}  // namespace

Comparison compare(const std::string& name, const ir::HostTensor& found, const reference::RefTensor& wanted, const Bounds& bounds) {
  Mismatch detail;
  detail.output = name;
  detail.count = wanted.count();
  if (found.dtype() != wanted.dtype || found.extents() != wanted.extents) {
    detail.wrong_count = detail.count;
    detail.first_wrong = 0;
    return {false, detail};
  }
  if (!wanted.floating() || bounds.rule == Rule::exact) return compare_exact(std::move(detail), found, wanted);

  const DType dtype = wanted.dtype;
  double tolerance = norm_tolerance(dtype, bounds.terms) * bounds.scale;
  if (bounds.rule == Rule::attention && dtype == DType::bf16) tolerance *= weights_in_bf16(detail.count);
  tolerance = std::max(tolerance, bounds.norm_allowance);
  detail.norm_allowed = tolerance;
  const int64_t columns = wanted.extents.empty() ? 1 : std::max<int64_t>(wanted.extents.back(), 1);
  double error_squares = 0, reference_squares = 0;
  for (int64_t row = 0; row * columns < detail.count; ++row) {
    const int64_t begin = row * columns, end = std::min(begin + columns, detail.count);
    // rms of the row: the scale against which a single wrong element is judged, so that one bad tile cannot hide.
    double row_squares = 0;
    for (int64_t i = begin; i < end; ++i) {
      const double w = wanted.reals[static_cast<size_t>(i)];
      if (std::isfinite(w)) row_squares += w * w;
    }
    const double rms = std::sqrt(row_squares / static_cast<double>(end - begin));
    const double allowance = static_cast<size_t>(row) < bounds.row_allowance.size() ? bounds.row_allowance[static_cast<size_t>(row)] : 0.0;
    for (int64_t i = begin; i < end; ++i) {
      const double exact = wanted.reals[static_cast<size_t>(i)];
      const double w = rounded_to(dtype, exact), f = found.get_double(i);
      if (std::isnan(f) && detail.first_nan < 0) detail.first_nan = i;
      if (!std::isfinite(w) || !std::isfinite(f)) {
        // A value at the edge of the format's range may round either way.
        const bool same = (std::isnan(w) && std::isnan(f)) || w == f ||
                          (std::isfinite(exact) && std::isinf(w) != std::isinf(f) && !std::isnan(f) && std::signbit(w) == std::signbit(f) &&
                           std::abs(exact) > 0.99 * (dtype == DType::f16 ? 65504.0 : 3.38e38));
        if (!same) note_wrong(detail, i, f, exact, wanted.extents);
        continue;
      }
      const double against = dtype == DType::bf16 && !bounds.unrounded ? w : exact;  // rounding the output alone costs 1.7e-3 in bf16
      const double difference = std::abs(f - against);
      detail.max_difference = std::max(detail.max_difference, difference);
      error_squares += difference * difference;
      reference_squares += against * against;
      if (difference > std::max(bounds.element_ulps * ulp(dtype, against) + 16 * tolerance * rms, allowance)) note_wrong(detail, i, f, exact, wanted.extents);
    }
  }
  const double reference_norm = std::sqrt(reference_squares), error_norm = std::sqrt(error_squares);
  detail.reference_all_zero = reference_norm == 0;
  // Values below the smallest normal number have no relative precision: allow one unit in the last place each.
  const double floor = std::sqrt(static_cast<double>(detail.count)) * ulp(dtype, 0.0);
  detail.norm_error = reference_norm > 0 ? error_norm / reference_norm : (error_norm == 0 ? 0 : INFINITY);
  Comparison out;
  out.agrees = detail.wrong_count == 0 && (reference_norm == 0 ? error_norm == 0 : error_norm <= detail.norm_allowed * reference_norm + floor);
  out.detail = std::move(detail);
  return out;
}

Comparison compare_recorded(const std::string& name, const ir::HostTensor& found, const ir::HostTensor& wanted, double noise) {
  Mismatch detail;
  detail.output = name;
  detail.count = wanted.count();
  if (found.dtype() != wanted.dtype() || found.extents() != wanted.extents()) {
    detail.wrong_count = detail.count;
    detail.first_wrong = 0;
    return {false, detail};
  }
  if (!ir::is_floating(wanted.dtype())) return compare_exact(std::move(detail), found, reference::from_host(wanted));
  const double base = wanted.dtype() == DType::bf16 ? 1.6e-2 : wanted.dtype() == DType::f16 ? 2e-3 : wanted.dtype() == DType::f64 ? 1e-7 : 2e-5;
  const double relative = std::max(base, 2 * noise);
  double largest = 0;
  for (int64_t i = 0; i < detail.count; ++i)
    if (const double w = wanted.get_double(i); std::isfinite(w)) largest = std::max(largest, std::abs(w));
  const double allowed = relative * largest;
  detail.norm_allowed = relative;
  for (int64_t i = 0; i < detail.count; ++i) {
    const double w = wanted.get_double(i), f = found.get_double(i);
    if (std::isnan(f) && detail.first_nan < 0) detail.first_nan = i;
    if (!std::isfinite(w) || !std::isfinite(f)) {
      if (!((std::isnan(w) && std::isnan(f)) || w == f)) note_wrong(detail, i, f, w, wanted.extents());
      continue;
    }
    const double difference = std::abs(f - w);
    detail.max_difference = std::max(detail.max_difference, difference);
    if (difference > allowed) note_wrong(detail, i, f, w, wanted.extents());
  }
  detail.norm_error = largest > 0 ? detail.max_difference / largest : detail.max_difference;
  detail.reference_all_zero = largest == 0;
  return {detail.wrong_count == 0, detail};
}

std::string Mismatch::text() const {
  char line[512];
  std::string out = output + ": ";
  if (first_wrong < 0 && wrong_count == 0) {
    std::snprintf(line, sizeof line, "norm error %.3g (allowed %.3g), largest difference %.3g", norm_error, norm_allowed, max_difference);
    out += line;
  } else if (first_wrong_coordinates.empty() && count > 0 && wrong_count == count) {
    out += "another dtype or shape than the reference, or every element wrong";
  } else {
    std::string at = "[";
    for (size_t d = 0; d < first_wrong_coordinates.size(); ++d) at += (d ? "," : "") + std::to_string(first_wrong_coordinates[d]);
    std::snprintf(line, sizeof line, "%lld of %lld elements wrong, first at %s]: found %.9g, wanted %.9g; norm error %.3g (allowed %.3g), largest difference %.3g",
                  static_cast<long long>(wrong_count), static_cast<long long>(count), at.c_str(), found, wanted, norm_error, norm_allowed, max_difference);
    out += line;
  }
  if (first_nan >= 0) out += "; first NaN at element " + std::to_string(first_nan);
  if (reference_all_zero) out += "; the reference is all zeros";
  return out;
}

}  // namespace rtx::validate
