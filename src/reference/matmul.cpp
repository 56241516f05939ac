// Matrix product in double. Operands are packed into panels of four rows (A) and eight columns (B), so that a
// 4 x 8 tile of the result stays in registers over the whole of K:
//
//   A panel  [K][4]   a(0..3, k)          B panel  [K][8]   b(k, 0..7)
//
// A thread has some of B's panels and goes over A with a few of them at a time: B is read once, and A from a
// cache. Each element is one sum in increasing k, a product and then a sum, whatever the processor.
#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

constexpr int64_t kRows = 4, kColumns = 8;
constexpr int64_t kGroup = 4;  // panels of B at a time
typedef double Four __attribute__((vector_size(32)));

int64_t panels(int64_t count, int64_t tile) { return (count + tile - 1) / tile; }

// One operand as a matrix of lines (rows of A, columns of B) along K.
struct Lines {
  const double* data;
  int64_t count;        // lines
  int64_t line_stride;
  int64_t k_stride;
};

template <int64_t kTile>
void pack(const Lines& from, int64_t k, int64_t panel, double* to) {
  const int64_t first = panel * kTile, lines = std::min(kTile, from.count - first);
  const double* const data = from.data + first * from.line_stride;
  if (lines < kTile) std::fill(to, to + k * kTile, 0.0);
  if (from.line_stride <= from.k_stride) {
    for (int64_t i = 0; i < k; ++i)
      for (int64_t line = 0; line < lines; ++line)
        to[i * kTile + line] = data[line * from.line_stride + i * from.k_stride];
  } else {
    for (int64_t line = 0; line < lines; ++line)
      for (int64_t i = 0; i < k; ++i)
        to[i * kTile + line] = data[line * from.line_stride + i * from.k_stride];
  }
}

template <int64_t kTile>
std::vector<double> packed(const Lines& from, int64_t k, int threads) {
  std::vector<double> out(static_cast<size_t>(panels(from.count, kTile) * k * kTile));
  in_parallel(panels(from.count, kTile), threads, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) pack<kTile>(from, k, p, out.data() + p * k * kTile);
  });
  return out;
}

[[gnu::always_inline]] inline void tile_body(const double* a, const double* b, int64_t k, double* out) {
  Four sums[kRows][2] = {};
  for (int64_t i = 0; i < k; ++i, a += kRows, b += kColumns) {
    const Four left{b[0], b[1], b[2], b[3]}, right{b[4], b[5], b[6], b[7]};
    for (int64_t r = 0; r < kRows; ++r) {
      const Four factor{a[r], a[r], a[r], a[r]};
      sums[r][0] += factor * left;
      sums[r][1] += factor * right;
    }
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < kColumns; ++c) out[r * kColumns + c] = sums[r][c / 4][c % 4];
}
void tile_anywhere(const double* a, const double* b, int64_t k, double* out) { tile_body(a, b, k, out); }
#if defined(__x86_64__)
[[gnu::target("avx2")]] void tile_avx2(const double* a, const double* b, int64_t k, double* out) {
  tile_body(a, b, k, out);
}
const auto tile = __builtin_cpu_supports("avx2") ? tile_avx2 : tile_anywhere;
#else
const auto tile = tile_anywhere;
#endif

// out = A B for B's panels begin..end, both operands packed.
void multiply(const std::vector<double>& a, int64_t rows, const std::vector<double>& b, int64_t columns,
              int64_t k, double* out, int64_t begin, int64_t end) {
  double sums[kRows * kColumns];
  for (int64_t first = begin; first < end; first += kGroup)
    for (int64_t p = 0; p < panels(rows, kRows); ++p)
      for (int64_t q = first; q < std::min(first + kGroup, end); ++q) {
        tile(a.data() + p * k * kRows, b.data() + q * k * kColumns, k, sums);
        const int64_t row = p * kRows, column = q * kColumns;
        for (int64_t r = 0; r < std::min(kRows, rows - row); ++r)
          for (int64_t c = 0; c < std::min(kColumns, columns - column); ++c)
            out[(row + r) * columns + column + c] = sums[r * kColumns + c];
      }
}

struct Problem {
  int64_t rows, k, columns;
  bool transposed_a, transposed_b;
  Extents batch;
  Extents a_strides, b_strides;  // of the batch space, in elements

  Problem(const Call& call)
      : transposed_a(call.integer("trans_a") != 0), transposed_b(call.integer("trans_b") != 0) {
    const Extents& a = call.input(0).extents;
    const Extents& b = call.input(1).extents;
    const Extents& c = call.extents();
    rows = c[c.size() - 2];
    columns = c[c.size() - 1];
    k = transposed_a ? a[a.size() - 2] : a[a.size() - 1];
    batch = Extents(c.begin(), c.end() - 2);
    a_strides = broadcast_strides(Extents(a.begin(), a.end() - 2), batch);
    b_strides = broadcast_strides(Extents(b.begin(), b.end() - 2), batch);
    for (auto& stride : a_strides) stride *= rows * k;
    for (auto& stride : b_strides) stride *= k * columns;
  }
  int64_t a_row() const { return transposed_a ? 1 : k; }
  int64_t a_k() const { return transposed_a ? rows : 1; }
  int64_t b_column() const { return transposed_b ? k : 1; }
  int64_t b_k() const { return transposed_b ? 1 : columns; }
};

RefTensor multiply_reals(const Call& call, Problem problem) {
  RefTensor out = make(call);
  const int64_t shared_b = std::count(problem.b_strides.begin(), problem.b_strides.end(), 0);
  // One matrix B for a whole dense batch: the batch is more rows.
  if (!problem.transposed_a && shared_b == static_cast<int64_t>(problem.batch.size()) && call.input(0).extents.size() == out.extents.size() &&
      product(call.input(0).extents, 0, problem.batch.size()) == product(problem.batch, 0, problem.batch.size())) {
    problem.rows *= product(problem.batch, 0, problem.batch.size());
    problem.batch.clear();
    problem.a_strides.clear();
    problem.b_strides.clear();
  }
  std::vector<std::array<int64_t, 2>> offsets;
  walk(problem.batch, std::array<Extents, 2>{problem.a_strides, problem.b_strides},
       [&](int64_t, const std::array<int64_t, 2>& at) { offsets.push_back(at); });
  const auto one = [&](size_t batch, int threads) {
    const Lines a{call.input(0).reals.data() + offsets[batch][0], problem.rows, problem.a_row(), problem.a_k()};
    const Lines b{call.input(1).reals.data() + offsets[batch][1], problem.columns, problem.b_column(), problem.b_k()};
    const auto packed_a = packed<kRows>(a, problem.k, threads),
               packed_b = packed<kColumns>(b, problem.k, threads);
    double* to = out.reals.data() + static_cast<int64_t>(batch) * problem.rows * problem.columns;
    in_parallel(panels(problem.columns, kColumns), threads, [&](int64_t begin, int64_t end) {
      multiply(packed_a, problem.rows, packed_b, problem.columns, problem.k, to, begin, end);
    });
  };
  if (out.count() == 0) return out;
  const auto batches = static_cast<int64_t>(offsets.size());
  if (batches < call.threads) {
    for (size_t i = 0; i < offsets.size(); ++i) one(i, call.threads);
  } else {
    in_parallel(batches, call.threads, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) one(static_cast<size_t>(i), 1);
    });
  }
  return out;
}

RefTensor multiply_integers(const Call& call, const Problem& problem) {
  RefTensor out = make(call);
  walk(problem.batch, std::array<Extents, 2>{problem.a_strides, problem.b_strides}, [&](int64_t batch, const std::array<int64_t, 2>& at) {
    for (int64_t i = 0; i < problem.rows; ++i) {
      for (int64_t j = 0; j < problem.columns; ++j) {
        uint64_t sum = 0;
        for (int64_t l = 0; l < problem.k; ++l) {
          sum += static_cast<uint64_t>(call.input(0).integers[static_cast<size_t>(at[0] + i * problem.a_row() + l * problem.a_k())]) *
                 static_cast<uint64_t>(call.input(1).integers[static_cast<size_t>(at[1] + j * problem.b_column() + l * problem.b_k())]);
        }
        out.integers[static_cast<size_t>((batch * problem.rows + i) * problem.columns + j)] = static_cast<int64_t>(sum);
      }
    }
  });
  wrap_all(out);
  return out;
}

}  // namespace

Result<Results> evaluate_matmul(const Call& call) {
  Results out;
  out.push_back(call.input(0).floating() ? multiply_reals(call, Problem(call)) : multiply_integers(call, Problem(call)));
  return out;
}

}  // namespace rtx::reference
