#include "codegen/index.h"

#include <gtest/gtest.h>

#include <random>

namespace rtx::codegen {
namespace {

// Value of an expression where variable k is at[k].
int64_t value(const Index& index, const std::vector<int64_t>& at) {
  switch (index.kind()) {
    case Index::Kind::constant: return index.constant();
    case Index::Kind::variable: return at[static_cast<size_t>(index.id())];
    case Index::Kind::add: return value(index.left(), at) + value(index.right(), at);
    case Index::Kind::multiply: return value(index.left(), at) * index.constant();
    case Index::Kind::divide: return value(index.left(), at) / index.constant();
    case Index::Kind::modulo: return value(index.left(), at) % index.constant();
    case Index::Kind::element: return 0;
  }
  return 0;
}

TEST(Index, quotients_and_remainders_of_a_mixed_radix_number_are_its_digits) {
  const Index x = Index::variable(0, 6), y = Index::variable(1, 64);
  EXPECT_EQ((x * 64 + y) / 64, x);
  EXPECT_EQ((x * 64 + y) % 64, y);
  EXPECT_EQ((x * 64 + y) / 32, x * 2 + y / 32);
  EXPECT_EQ((x * 128 + y) % 64, y);
}

TEST(Index, quotient_times_divisor_and_remainder_join_again) {
  const Index n = Index::variable(0, 384);
  EXPECT_EQ((n / 64) * 64 + n % 64, n);
  EXPECT_EQ((n / 64) * 640 + (n % 64) * 10, n * 10);
  EXPECT_EQ(((n / 8) % 6) * 8 + n % 8, n % 48);
}

TEST(Index, a_reshape_there_and_back_is_nothing) {
  const std::vector<Index> at = {Index::variable(0, 4), Index::variable(1, 6), Index::variable(2, 35)};
  const auto flat = ravel(at, {210, 35, 1});
  const auto other = unravel(flat, {8, 105});
  const auto back = unravel(ravel(other, {105, 1}), {4, 6, 35});
  EXPECT_EQ(back, at);
}

TEST(Index, transposes_and_slices_stay_affine) {
  const Index r = Index::variable(0, 5), c = Index::variable(1, 7);
  int64_t step = 0;
  EXPECT_TRUE((c * 5 + r * -2 + Index(8)).affine_in(0, 1, &step));
  EXPECT_EQ(step, -2);
  EXPECT_EQ((Index(9) - c).text(), "v1 * -1 + 9");
}

TEST(Index, a_run_inside_a_block_is_affine_where_the_whole_is_not) {
  const Index n = Index::variable(0, 384);
  int64_t step = 0;
  EXPECT_FALSE((n % 64).affine_in(0, 1, &step));
  ASSERT_TRUE((n % 64).affine_in(0, 8, &step));
  EXPECT_EQ(step, 1);
  ASSERT_TRUE((n / 64).affine_in(0, 8, &step));
  EXPECT_EQ(step, 0);
  EXPECT_FALSE((n % 60).affine_in(0, 8, &step));             // runs of 8 cross multiples of 60
  EXPECT_FALSE((n % 64).affine_in(0, 8, &step, 2));          // so do runs that start at any even number
  EXPECT_FALSE(((n + Index(4)) % 64).affine_in(0, 8, &step));  // shifted by 4, runs cross
}

TEST(Index, negative_numerators_are_lifted_before_c_divides_them) {
  const Index v = Index::variable(0, 11);
  const Index quotient = (Index(10) - v) / 4;
  for (int64_t x = 0; x < 11; ++x) EXPECT_EQ(value(quotient, {x}), (10 - x) / 4) << quotient.text();
}

TEST(Index, simplification_never_changes_a_value) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const std::vector<int64_t> extents = {1 + static_cast<int64_t>(random() % 6), 1 + static_cast<int64_t>(random() % 9), 1 + static_cast<int64_t>(random() % 12)};
    struct Step {
      int op;
      int64_t by;
    };
    std::vector<Step> steps;
    for (int k = 0; k < 5; ++k) steps.push_back({static_cast<int>(random() % 5), 1 + static_cast<int64_t>(random() % 12)});
    Index e = Index::variable(0, extents[0]);
    for (const auto& s : steps) {
      const auto v = static_cast<size_t>(s.by % 3);
      e = s.op == 0 ? e * s.by : s.op == 1 ? e / s.by : s.op == 2 ? e % s.by : s.op == 3 ? e + Index::variable(static_cast<int>(v), extents[v]) : e + Index(s.by);
    }
    for (int64_t a = 0; a < extents[0]; ++a)
      for (int64_t b = 0; b < extents[1]; ++b)
        for (int64_t c = 0; c < extents[2]; ++c) {
          const std::vector<int64_t> at = {a, b, c};
          int64_t plain = a;
          for (const auto& s : steps)
            plain = s.op == 0 ? plain * s.by : s.op == 1 ? plain / s.by : s.op == 2 ? plain % s.by : s.op == 3 ? plain + at[static_cast<size_t>(s.by % 3)] : plain + s.by;
          ASSERT_EQ(value(e, at), plain) << e.text();
          ASSERT_GE(plain, e.minimum());
          ASSERT_LE(plain, e.maximum());
        }
  }
}

TEST(Index, offsets_beyond_32_bits_keep_their_value) {
  const Index x = Index::variable(0, int64_t{1} << 20), y = Index::variable(1, int64_t{1} << 20);
  EXPECT_EQ((x * (int64_t{1} << 20) + y).maximum(), (int64_t{1} << 40) - 1);
  EXPECT_EQ((x * (int64_t{1} << 20) + y) / (int64_t{1} << 20), x);
}

}  // namespace
}  // namespace rtx::codegen
