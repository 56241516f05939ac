#include "reference/test_help.h"

namespace rtx::reference {
namespace {

// The definition, one element at a time.
Numbers plain(const Numbers& a, const Numbers& b, int64_t m, int64_t n, int64_t k) {
  Numbers out;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * n + j)];
      out.push_back(sum);
    }
  }
  return out;
}

Numbers transposed(const Numbers& x, int64_t rows, int64_t columns) {
  Numbers out(x.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) out[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * columns + j)];
  }
  return out;
}

TEST(Matmul, agrees_with_the_definition_at_ugly_sizes_and_all_transposes) {
  for (int64_t m : {1, 3, 4, 5, 9}) {
    for (int64_t n : {1, 4, 7}) {
      for (int64_t k : {1, 2, 13}) {
        const Numbers a = counting(m * k, -3, 0.5);
        const Numbers b = counting(k * n, 1, -0.25);
        const Numbers wanted = plain(a, b, m, n, k);
        for (int form = 0; form < 4; ++form) {
          const bool ta = form & 1;
          const bool tb = form & 2;
          const std::string text = "a: f64[" + std::to_string(ta ? k : m) + "," + std::to_string(ta ? m : k) + "]; b: f64[" + std::to_string(tb ? n : k) +
                                   "," + std::to_string(tb ? k : n) + "]; y = matmul(a, b, trans_a=" + std::to_string(ta) + ", trans_b=" + std::to_string(tb) +
                                   "); return y";
          expect_near(first(text, {ta ? transposed(a, m, k) : a, tb ? transposed(b, k, n) : b}), wanted);
        }
      }
    }
  }
}

TEST(Matmul, batches_broadcast_and_shared_operands_are_shared) {
  expect_near(first("a: f64[2,1,2]; b: f64[2,1]; y = matmul(a, b); return y", {{1, 2, 3, 4}, {10, 1}}), {12, 34});
  expect_near(first("a: f64[1,2]; b: f64[2,2,1]; y = matmul(a, b); return y", {{1, 2}, {1, 2, 3, 4}}), {5, 11});
  expect_near(first("a: f64[2,1,1,1]; b: f64[3,1,1]; y = matmul(a, b); return y", {{2, 3}, {1, 10, 100}}), {2, 20, 200, 3, 30, 300});
  expect_near(first("a: f64[2,2,1]; b: f64[2,1]; y = matmul(a, b, trans_a=1); return y", {{1, 2, 3, 4}, {1, 10}}), {21, 43});
}

TEST(Matmul, integers_wrap) {
  expect_near(first("a: i8[1,2]; b: i8[2,1]; y = matmul(a, b); return y", {{100, 1}, {2, 3}}), {-53});
  expect_near(first("a: i32[2,2]; b: i32[2,1]; y = matmul(a, b, trans_a=1); return y", {{1, 2, 3, 4}, {1, 10}}), {31, 42});
}

TEST(Matmul, with_bias_and_relu_takes_every_zero_size) {  // P29
  for (int64_t m : {0, 1, 7}) {
    for (int64_t n : {0, 1, 7}) {
      for (int64_t k : {0, 1, 7}) {
        const std::string size = "a: f32[" + std::to_string(m) + "," + std::to_string(k) + "]; b: f32[" + std::to_string(k) + "," + std::to_string(n) +
                                 "]; c: f32[" + std::to_string(n) + "]; p = matmul(a, b); s = add(p, c); y = relu(s); return y";
        const Numbers out = first(size, {{2}, {3}, {-1}});
        expect_near(out, Numbers(static_cast<size_t>(m * n), k == 0 ? 0 : 6 * static_cast<double>(k) - 1));
      }
    }
  }
  expect_near(first("a: f32[0,2,3]; b: f32[3,2]; y = matmul(a, b); return y", {{}, {1}}), {});
}

TEST(Matmul, infinities_and_nan_stay_in_their_rows) {
  const Numbers out = first("a: f32[2,2]; b: f32[2,1]; y = matmul(a, b); return y", {{kInf, 0, 1, kNan}, {1, 2}});
  expect_near(out, {kInf, kNan});
}

TEST(Matmul, long_cancelling_sums_are_exact) {  // P25
  Numbers b(8192, 1);
  for (size_t i = 4096; i < b.size(); ++i) b[i] = -1;
  b[0] = 2;
  expect_near(first("a: bf16[3,8192]; b: bf16[8192,1]; y = matmul(a, b); return y", {{1}, b}), {1, 1, 1}, 0);
}

}  // namespace
}  // namespace rtx::reference
