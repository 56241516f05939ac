#include "ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ir/dim.h"
#include "ir/tensor.h"

namespace rtx::ir {
namespace {

TEST(DType, names_read_back_and_unknown_names_do_not) {
  EXPECT_EQ(dtype_from_name("bf16"), DType::bf16);
  EXPECT_EQ(dtype_from_name("bool"), DType::boolean);
  EXPECT_FALSE(dtype_from_name("float"));
  EXPECT_EQ(compute_dtype(DType::f16), DType::f32);
  EXPECT_EQ(compute_dtype(DType::i8), DType::i8);
}

TEST(DType, every_half_survives_the_way_to_float_and_back) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(bf16_to_f32(0x7fc1)))));
      continue;
    }
    ASSERT_EQ(f32_to_f16(value), half);
    const float brain = bf16_to_f32(half);
    if (!std::isnan(brain)) {
      ASSERT_EQ(f32_to_bf16(brain), half);
      ASSERT_EQ(f64_to_bf16(brain), half);
    }
  }
}

TEST(DType, half_rounds_to_nearest_even_at_ties_overflow_and_subnormals) {
  EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);           // tie, even below
  EXPECT_EQ(f32_to_f16(1.0f + 3 * 0x1p-11f), 0x3c02);       // tie, even above
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65519.99f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);                  // infinity from the tie on
  EXPECT_EQ(f32_to_f16(0x1p-24f), 0x0001);
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);                  // tie to even zero
  EXPECT_EQ(f32_to_f16(-0x1.8p-25f), 0x8001);
  EXPECT_EQ(f32_to_f16(0x1.ffcp-15f), 0x0400);              // the largest subnormal's tie carries into the normals
}

TEST(DType, double_to_half_rounds_once) {
  // Through float this would first round to the tie and then to even, downwards.
  const double above_tie = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(f64_to_f16(above_tie), 0x3c01);
  EXPECT_EQ(f64_to_bf16(1.0 + 0x1p-8 + 0x1p-40), 0x3f81);
  EXPECT_EQ(f64_to_bf16(1.0 + 0x1p-8), 0x3f80);
  EXPECT_EQ(f64_to_bf16(1e300), 0x7f80);
  EXPECT_EQ(f64_to_bf16(-5e-324), 0x8000);
}

TEST(HostTensor, conversions_truncate_saturate_and_wrap) {
  HostTensor bytes(DType::i8, {3});
  bytes.set_double(0, 300.7);
  bytes.set_double(1, -3.9);
  bytes.set_int(2, 200);
  EXPECT_EQ(bytes.get_int(0), 127);
  EXPECT_EQ(bytes.get_int(1), -3);
  EXPECT_EQ(bytes.get_int(2), -56);
  HostTensor wide(DType::u64, {2});
  wide.set_double(0, 1e30);
  wide.set_int(1, -1);
  EXPECT_EQ(wide.get_double(1), 18446744073709551616.0);
  EXPECT_EQ(wide.get_int(0), -1);
  HostTensor none(DType::i32, {1});
  none.set_double(0, std::nan(""));
  EXPECT_EQ(none.get_int(0), 0);
  HostTensor truth(DType::boolean, {1});
  truth.set_double(0, 0.25);
  EXPECT_EQ(truth.get_int(0), 1);
}

TEST(HostTensor, an_integer_becomes_a_brain_float_by_one_rounding) {
  HostTensor t(DType::bf16, {1});
  t.set_int(0, (int64_t{1} << 55) + (int64_t{1} << 47) + 1);  // just above a tie; the last bit is below a double's precision
  EXPECT_EQ(t.get_double(0), 0x1p55 + 0x1p48);
}

TEST(HostTensor, writing_a_copy_leaves_the_original_alone) {
  HostTensor a(DType::f32, {2});
  a.set_double(0, 1);
  HostTensor b = a;
  b.set_double(0, 2);
  EXPECT_EQ(a.get_double(0), 1);
  EXPECT_EQ(b.get_double(0), 2);
  EXPECT_FALSE(a.same_bytes(b));
  const float borrowed[2] = {3, 4};
  HostTensor c(DType::f32, {2}, nullptr, borrowed);
  c.set_double(1, 5);
  EXPECT_EQ(borrowed[1], 4);
}

TEST(Dim, arithmetic_folds_constants_and_neutral_elements) {
  const Dim n = Dim::symbol({.name = "n"});
  EXPECT_EQ((n * Dim(12)).text(), "(n * 12)");
  EXPECT_EQ(n * Dim(1), n);
  EXPECT_EQ(n * Dim(0), Dim(0));
  EXPECT_EQ(extent((n * Dim(12) + Dim(5)).bind({{"n", 3}}) / Dim(2)), 20);
  EXPECT_EQ(extent(Dim(-7) / Dim(2)), -4);
  EXPECT_FALSE(n == Dim::symbol({.name = "m"}));
}

TEST(Dim, counts_refuse_negative_and_huge_shapes_also_beside_a_zero) {
  EXPECT_EQ(*checked_element_count({}), 1);
  EXPECT_EQ(*checked_element_count({0, 7}), 0);
  EXPECT_FALSE(checked_element_count({2, -1}).ok());
  EXPECT_FALSE(checked_element_count({int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(checked_element_count({0, int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_EQ(row_major_strides({2, 0, 3}), (std::vector<int64_t>{3, 3, 1}));
}

}  // namespace
}  // namespace rtx::ir
