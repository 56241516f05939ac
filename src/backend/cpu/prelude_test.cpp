// The prelude's numbers against libm in double, over a sweep of all float bit patterns, and its vectors against its scalars.
// The build compiles this file for x86-64-v3 where it can, so that what emitted kernels see is what is measured.
#include "backend/cpu/prelude.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {
using V = vec<f32, VEC>;

f32 float_of(u32 code) { return from_bits<f32>(code); }

// About `count` floats spread evenly over all bit patterns: every exponent, both signs, subnormals, infinities, NaNs.
std::vector<f32> sweep(u64 count) {
  std::vector<f32> values = {0.f, -0.f, INFINITY, -INFINITY, NAN, 1e-40f, -1e-40f, 1.f, -1.f, 0.625f, 88.722839f, -103.97f, -87.4f};
  u64 step = (u64(1) << 32) / count | 1;
  for (u64 code = 0; code < (u64(1) << 32); code += step) values.push_back(float_of(u32(code)));
  while (values.size() % VEC != 0) values.push_back(0.5f);
  return values;
}

f64 ulp_of(f64 reference) {
  f32 a = std::fabs(f32(reference));
  if (!(a < INFINITY)) return 0x1p104;
  return f64(std::nextafter(a, INFINITY)) - f64(a);
}

// Error in ulps of the rounded result; NaN where it must not be (or is missing) and a wrong infinity count as 1e9.
f64 ulps(f32 got, f64 reference) {
  if (std::isnan(reference) || std::isnan(got)) return std::isnan(reference) == std::isnan(got) ? 0 : 1e9;
  f32 rounded = f32(reference);
  if (got == rounded) return 0;
  if (std::isinf(got)) return std::fabs(reference) > 3.4028230e38 ? 1 : 1e9;
  if (std::isinf(rounded)) return std::fabs(got) > 3.4028230e38f ? 1 : 1e9;
  return std::fabs(f64(got) - reference) / ulp_of(reference);
}

template <class F, class G> f64 worst(F function, G reference, const std::vector<f32>& values) {
  f64 worst_ulps = 0;
  f32 where = 0;
  for (u64 i = 0; i < values.size(); i += VEC) {
    V y = function(load<V>(&values[i]));
    for (int l = 0; l < VEC; ++l) {
      f64 error = ulps(y[l], reference(f64(values[i + l])));
      if (error > worst_ulps) worst_ulps = error, where = values[i + l];
      f32 alone = function(values[i + l]), lane = y[l];
      if (!(std::isnan(alone) && std::isnan(lane)) && bits(alone) != bits(lane)) {
        ADD_FAILURE() << "vector and scalar differ at " << values[i + l] << ": " << lane << " and " << alone;
        return 1e9;
      }
    }
  }
  testing::Test::RecordProperty("worst_at", std::to_string(where));
  return worst_ulps;
}

const std::vector<f32>& all() {
  static const std::vector<f32> values = sweep(1 << 19);
  return values;
}
// Every magnitude that an activation meets, densely.
std::vector<f32> around_zero(f32 limit, int count) {
  std::vector<f32> values;
  for (int i = 0; i < count; ++i) values.push_back(limit * (2.f * f32(i) / f32(count) - 1.f));
  while (values.size() % VEC != 0) values.push_back(0.f);
  return values;
}
}  // namespace

TEST(Prelude, exponentials_and_logarithms_stay_within_two_ulp_everywhere) {
  EXPECT_LE(worst([](auto x) { return math::exp(x); }, [](f64 x) { return std::exp(x); }, all()), 2);
  EXPECT_LE(worst([](auto x) { return math::exp(x); }, [](f64 x) { return std::exp(x); }, around_zero(104, 400000)), 2);
  EXPECT_LE(worst([](auto x) { return math::exp_negative(-math::abs(x)); }, [](f64 x) { return std::exp(-std::abs(x)); }, all()), 2);
  EXPECT_LE(worst([](auto x) { return math::exp_negative(-math::abs(x)); }, [](f64 x) { return std::exp(-std::abs(x)); }, around_zero(106, 400000)), 2);
  EXPECT_LE(worst([](auto x) { return math::exp2(x); }, [](f64 x) { return std::exp2(x); }, around_zero(152, 400000)), 2);
  EXPECT_LE(worst([](auto x) { return math::expm1(x); }, [](f64 x) { return std::expm1(x); }, all()), 2);
  EXPECT_LE(worst([](auto x) { return math::expm1(x); }, [](f64 x) { return std::expm1(x); }, around_zero(90, 400000)), 2);
  EXPECT_LE(worst([](auto x) { return math::log(x); }, [](f64 x) { return std::log(x); }, all()), 2);
  EXPECT_LE(worst([](auto x) { return math::log(x + 1); }, [](f64 x) { return std::log(f64(f32(x) + 1.f)); }, around_zero(1, 400000)), 2);
  EXPECT_LE(worst([](auto x) { return math::log1p(x); }, [](f64 x) { return std::log1p(x); }, all()), 3);
}

TEST(Prelude, tanh_erf_and_sigmoid_stay_close_to_libm_everywhere) {
  auto sigmoid = [](f64 x) { return 1 / (1 + std::exp(-x)); };
  for (const auto& values : {all(), around_zero(10, 400000), around_zero(105, 100000)}) {
    EXPECT_LE(worst([](auto x) { return math::tanh(x); }, [](f64 x) { return std::tanh(x); }, values), 2);
    EXPECT_LE(worst([](auto x) { return math::erf(x); }, [](f64 x) { return std::erf(x); }, values), 2);
    EXPECT_LE(worst([](auto x) { return math::sigmoid(x); }, sigmoid, values), 2.5);
  }
}

namespace {
// |f(x) - exact(x)| over 4 ulp + 2e-8, the worst; and the worst relative error of x in [low, 0).
struct Closeness {
  f64 of_bound = 0, relative = 0;
};
template <class F, class G> Closeness closeness(F function, G exact, f32 low) {
  Closeness worst;
  for (const auto& values : {around_zero(13, 400000), all()}) {
    for (u64 i = 0; i < values.size(); i += VEC) {
      const V y = function(load<V>(&values[i]));
      for (int l = 0; l < VEC; ++l) {
        const f32 x = values[i + l];
        EXPECT_TRUE((std::isnan(function(x)) && std::isnan(y[l])) || bits(function(x)) == bits(f32(y[l]))) << x;
        if (!std::isfinite(x)) continue;
        const f64 reference = std::fabs(x) > 30 ? (x > 0 ? x : 0) : exact(f64(x)), error = std::fabs(f64(y[l]) - reference);
        worst.of_bound = std::max(worst.of_bound, error / (4 * ulp_of(reference) + 2e-8));
        if (x < -0x1p-120f && x >= low) worst.relative = std::max(worst.relative, error / std::fabs(reference));
        EXPECT_FALSE(x < 0 && y[l] > 0) << x;  // the tail never changes its sign
      }
    }
  }
  return worst;
}
}  // namespace

TEST(Prelude, gelu_is_close_everywhere_and_relatively_so_while_the_left_tail_matters) {
  auto exact = [](f64 x) { return x * 0.5 * std::erfc(-x * std::sqrt(0.5)); };
  auto by_tanh = [](f64 x) { return x / (1 + std::exp(-2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); };
  const auto gelu_erf = [](auto x) { return math::gelu_erf(x); };
  const auto gelu_tanh = [](auto x) { return math::gelu_tanh(x); };
  EXPECT_LE(closeness(gelu_erf, exact, -2).of_bound, 1.2);
  EXPECT_LE(closeness(gelu_tanh, by_tanh, -2).of_bound, 2);
  const f64 allowed[][2] = {{1e-6, 1e-6}, {5e-6, 5e-6}, {5e-5, 6e-4}};  // erf, tanh to -2, -3, -4
  for (int n = 2; n <= 4; ++n) {
    EXPECT_LE(closeness(gelu_erf, exact, f32(-n)).relative, allowed[n - 2][0]) << n;
    EXPECT_LE(closeness(gelu_tanh, by_tanh, f32(-n)).relative, allowed[n - 2][1]) << n;
  }
}

TEST(Prelude, gelu_ends_in_zero_infinity_and_nan_as_its_formula_does) {
  const f32 inf = INFINITY, tiny = from_bits<f32>(0x80000000u | 71362);
  const auto check = [&](auto gelu) {
    EXPECT_EQ(gelu(inf), inf);
    EXPECT_TRUE(std::isnan(gelu(-inf)) && std::isnan(gelu(f32(NAN))));  // -inf times 0, as the formula has it
    EXPECT_EQ(gelu(3e38f), 3e38f);
    for (const f32 x : {-0.f, -7.5f, -8.5f, -13.27f, -13.5f, -29.9f, -30.f, -100.f, -1e10f, -3e38f}) EXPECT_EQ(gelu(x), 0.f) << x;
    for (const f32 x : {7.5f, 8.5f, 29.9f, 30.f, 31.f, 100.f}) EXPECT_EQ(gelu(x), x);
    EXPECT_EQ(gelu(tiny), from_bits<f32>(0x80000000u | 35681));
    EXPECT_TRUE(std::signbit(gelu(-0.f)) && !std::signbit(gelu(0.f)));
  };
  check([](f32 x) { return math::gelu_erf(x); });
  check([](f32 x) { return math::gelu_tanh(x); });
}

TEST(Prelude, the_two_gelus_are_told_apart) {
  const f32 x[] = {-3.f, -2.699f, -1.f, 1.f, 3.f};
  EXPECT_NEAR(math::gelu_erf(x[2]), -0.15865525, 3e-8);  // 2 ulp
  EXPECT_NEAR(math::gelu_erf(x[0]), -0.00404969, 5e-9);
  EXPECT_NEAR(math::gelu_tanh(x[2]), -0.15880801, 2e-8);
  EXPECT_NEAR(math::gelu_tanh(x[0]), -0.00363739, 5e-9);
  EXPECT_NEAR(math::gelu_tanh(x[1]) - math::gelu_erf(x[1]), 4.732e-4, 1e-6);
}

TEST(Prelude, subnormals_are_kept) {
  V x = splat<V>(from_bits<f32>(71362));
  EXPECT_EQ(bits(f32(V(x * 4.f)[0])), 4 * 71362);
  EXPECT_EQ(bits(f32(V(x + 0.f)[0])), 71362);
  EXPECT_EQ(bits(f32(math::relu(x)[0])), 71362);
  EXPECT_EQ(bits(f32(math::tanh(x)[0])), 71362);
  EXPECT_NE(math::exp(-100.f), 0.f);
}

TEST(Prelude, max_min_and_relu_pass_nan_on) {
  const f32 nan = NAN;
  EXPECT_TRUE(std::isnan(math::max(nan, 1.f)) && std::isnan(math::max(1.f, nan)));
  EXPECT_TRUE(std::isnan(math::min(nan, 1.f)) && std::isnan(math::min(1.f, nan)));
  EXPECT_TRUE(std::isnan(math::relu(nan)));
  EXPECT_TRUE(std::isnan(math::reduce_max(V{1.f, nan, 3.f})));
  EXPECT_EQ(math::relu(INFINITY), INFINITY);
  EXPECT_EQ(math::relu(-INFINITY), 0.f);
  EXPECT_EQ(math::min(math::max(INFINITY, 0.f), 6.f), 6.f);
}

TEST(Prelude, pow_follows_c_for_signs_and_special_values) {
  const f32 bases[] = {0.f, -0.f, 1.f, -1.f, 2.f, -2.f, 0.5f, -0.5f, 3.f, -3.f, 1e-40f, -1e38f, INFINITY, -INFINITY, NAN, 1.0000001f, 0.99999994f};
  const f32 powers[] = {0.f, -0.f, 1.f, -1.f, 2.f, 3.f, -3.f, 0.5f, -0.5f, 2.5f, 127.f, -149.f, 1e9f, -1e9f, 16777215.f, INFINITY, -INFINITY, NAN};
  for (f32 x : bases) {
    for (f32 y : powers) {
      f64 reference = std::pow(f64(x), f64(y));
      f32 got = math::pow(x, y);
      EXPECT_LE(ulps(got, reference), 1) << x << " ^ " << y << " = " << got << ", not " << reference;
      EXPECT_TRUE(std::isnan(got) || std::signbit(got) == std::signbit(reference)) << x << " ^ " << y;
      f32 lane = math::pow(splat<V>(x), splat<V>(y))[VEC - 1];
      EXPECT_TRUE((std::isnan(got) && std::isnan(lane)) || bits(got) == bits(lane)) << x << " ^ " << y;
    }
  }
  EXPECT_LE(worst([](auto x) { return math::pow(x, decltype(x)(x * 0 + 2.7f)); }, [](f64 x) { return std::pow(x, f64(2.7f)); }, around_zero(1e6f, 100000)), 1);
  EXPECT_EQ(math::pow(i32(-3), i32(3)), -27);
  EXPECT_EQ(math::pow(i64(2), i64(-1)), 0);
}

TEST(Prelude, rounding_functions_agree_with_libm) {
  auto same = [](f32 a, f32 b) { return (std::isnan(a) && std::isnan(b)) || bits(a) == bits(b); };
  for (const auto& values : {all(), around_zero(9, 1 << 16)}) {
    for (f32 x : values) {
      ASSERT_TRUE(same(math::rint(x), std::rint(x))) << x;
      ASSERT_TRUE(same(math::floor(x), std::floor(x))) << x;
      ASSERT_TRUE(same(math::ceil(x), std::ceil(x))) << x;
      ASSERT_TRUE(same(math::sqrt(x), std::sqrt(x))) << x;
      ASSERT_TRUE(same(math::abs(x), std::fabs(x))) << x;
    }
  }
  EXPECT_EQ(math::floor(-2.5), -3.0);
  EXPECT_EQ(math::rint(2.5), 2.0);
}

TEST(Prelude, f16_round_trips_every_bit_pattern) {
  for (u32 code = 0; code < 0x10000; ++code) {
    f16 h{u16(code)};
    f32 wide = load<f32>(&h);
    u32 e = code >> 10 & 31, m = code & 1023;
    f64 expected = e == 0 ? m * 0x1p-24 : e == 31 ? (m ? NAN : INFINITY) : std::ldexp(1024.0 + m, int(e) - 25);
    if (code & 0x8000) expected = -expected;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << code;
      store(&h, wide);
      ASSERT_GT(h.bits & 0x7fff, 0x7c00) << code;
    } else {
      ASSERT_EQ(wide, expected) << code;
      store(&h, wide);
      ASSERT_EQ(h.bits, code);
    }
  }
}

TEST(Prelude, halves_round_to_nearest_even_in_vectors_and_scalars_alike) {
  const auto& values = all();
  for (u64 i = 0; i < values.size(); i += VEC) {
    f16 h[VEC];
    bf16 b[VEC];
    store(h, load<V>(&values[i]));
    store(b, load<V>(&values[i]));
    for (int l = 0; l < VEC; ++l) {
      f32 x = values[i + l], back_h = load<f32>(h + l), back_b = load<f32>(b + l);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(back_h) && std::isnan(back_b));
        continue;
      }
      // f16: the nearest multiple of the spacing at x, ties to even by rint; 65520 and more overflow
      f64 spacing = std::fabs(x) < 0x1p-14f ? 0x1p-24 : std::ldexp(1.0, std::ilogb(x) - 10);
      f64 nearest = std::isinf(x) || std::fabs(x) >= 65520.f ? std::copysign(INFINITY, x) : std::rint(x / spacing) * spacing;
      ASSERT_EQ(back_h, nearest) << x;
      u32 code = u32(bits(x)), tail = code & 0xffff, high = code >> 16;
      u32 expected = high + (tail > 0x8000 || (tail == 0x8000 && (high & 1)) ? 1 : 0);
      ASSERT_EQ(b[l].bits, expected) << x;
      f16 alone;
      store(&alone, x);
      ASSERT_EQ(alone.bits, h[l].bits) << x;
    }
  }
}

TEST(Prelude, doubles_round_to_halves_once) {
  f16 h;
  store(&h, 1.0 + 0x1p-11 + 0x1p-40);  // just above the tie: through f32 it would become the tie and round to even
  EXPECT_EQ(h.bits, 0x3c01);
  store(&h, 1.0 + 0x1p-11 - 0x1p-40);
  EXPECT_EQ(h.bits, 0x3c00);
  bf16 b;
  store(&b, -(1.0 + 0x1p-8 + 0x1p-40));
  EXPECT_EQ(b.bits, 0xbf81);
}

TEST(Prelude, floats_become_integers_by_truncation_with_defined_ends) {
  EXPECT_EQ(convert<i32>(-2.9f), -2);
  EXPECT_EQ(convert<i32>(3e9f), std::numeric_limits<i32>::max());
  EXPECT_EQ(convert<i32>(-INFINITY), std::numeric_limits<i32>::min());
  EXPECT_EQ(convert<i64>(NAN), 0);
  EXPECT_EQ(convert<u8>(300.f), 255);
  EXPECT_EQ(convert<u8>(-1.f), 0);
  EXPECT_EQ(convert<u64>(1e30), ~u64(0));
  EXPECT_EQ(convert<i8>(i32(300)), 44);
  V x = splat<V>(-7.9f);
  x[1] = NAN, x[2] = 1e20f, x[3] = 127.5f;
  i64 wide[VEC];
  i8 narrow[VEC];
  store(wide, x);
  store(narrow, x);
  EXPECT_EQ(wide[0], -7);
  EXPECT_EQ(wide[1], 0);
  EXPECT_EQ(wide[2], std::numeric_limits<i64>::max());
  EXPECT_EQ(narrow[0], -7);
  EXPECT_EQ(narrow[2], 127);
  EXPECT_EQ(narrow[3], 127);
}

TEST(Prelude, integer_division_never_traps_and_modulo_has_the_right_sign) {
  EXPECT_EQ(math::div(i32(7), i32(0)), 0);
  EXPECT_EQ(math::div(std::numeric_limits<i64>::min(), i64(-1)), std::numeric_limits<i64>::min());
  EXPECT_EQ(math::div(i32(-7), i32(2)), -3);
  EXPECT_EQ(math::mod_floor(i32(-7), i32(3)), 2);
  EXPECT_EQ(math::mod_floor(i32(7), i32(-3)), -2);
  EXPECT_EQ(math::mod_trunc(i32(-7), i32(3)), -1);
  EXPECT_EQ(math::mod_trunc(i32(-7), i32(0)), 0);
  EXPECT_EQ(math::mod_trunc(-7.5f, 2.f), -1.5f);
  EXPECT_EQ((math::div(vec<i32, 4>{9, -9, 5, 1}, vec<i32, 4>{2, 2, 0, -1})[1]), -4);
}

TEST(Prelude, loads_assume_no_alignment_and_convert_from_every_storage_type) {
  std::vector<f32> buffer(VEC + 1);
  for (int i = 0; i <= VEC; ++i) buffer[i] = f32(i);
  EXPECT_EQ(load<V>(&buffer[1])[VEC - 1], f32(VEC));
  std::vector<u8> bytes(VEC, 200);
  EXPECT_EQ(load<V>(bytes.data())[VEC - 1], 200.f);
  std::vector<bf16> brains(VEC, bf16{0x3fc0});
  EXPECT_EQ(load<V>(brains.data())[VEC - 1], 1.5f);
  EXPECT_EQ((load<vec<f64, VEC>>(brains.data())[0]), 1.5);
  EXPECT_EQ(load_strided<V>(&buffer[VEC], -1)[2], f32(VEC - 2));
  EXPECT_EQ(as_bool(load<V>(&buffer[0]) > 1.f)[2], 1);
  EXPECT_EQ(math::reduce_sum(splat<V>(1.f)), f32(VEC));
}
