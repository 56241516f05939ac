// Matrix product in double. Operands are packed into panels of four rows (A) and four columns (B), so that a 4 x 4 tile of the
// result stays in registers over the whole of K:
//
//   A panel  [K][4]   a(0..3, k)          B panel  [K][4]   b(k, 0..3)
#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

constexpr int64_t kTile = 4;
typedef double Pair __attribute__((vector_size(16)));

int64_t panels(int64_t count) { return (count + kTile - 1) / kTile; }

// One operand as a matrix of lines (rows of A, columns of B) along K.
struct Lines {
  const double* data;
  int64_t count;        // lines
  int64_t line_stride;
  int64_t k_stride;
};

void pack(const Lines& from, int64_t k, int64_t panel, double* to) {
  for (int64_t line = 0; line < kTile; ++line) {
    const int64_t at = panel * kTile + line;
    for (int64_t i = 0; i < k; ++i) to[i * kTile + line] = at < from.count ? from.data[at * from.line_stride + i * from.k_stride] : 0;
  }
}

void tile(const double* a, const double* b, int64_t k, double* out, int64_t columns, int64_t rows_left, int64_t columns_left) {
  Pair sums[kTile][2] = {};
  for (int64_t i = 0; i < k; ++i, a += kTile, b += kTile) {
    const Pair left{b[0], b[1]};
    const Pair right{b[2], b[3]};
    for (int64_t r = 0; r < kTile; ++r) {
      const Pair factor{a[r], a[r]};
      sums[r][0] += factor * left;
      sums[r][1] += factor * right;
    }
  }
  for (int64_t r = 0; r < std::min(kTile, rows_left); ++r) {
    for (int64_t c = 0; c < std::min(kTile, columns_left); ++c) out[r * columns + c] = sums[r][c / 2][c % 2];
  }
}

// out[rows of the panels begin..end) = A B, with B packed.
void multiply(const Lines& a, const Lines& b, int64_t k, const std::vector<double>& packed_b, double* out, int64_t begin, int64_t end) {
  std::vector<double> packed_a(static_cast<size_t>(k * kTile));
  for (int64_t p = begin; p < end; ++p) {
    pack(a, k, p, packed_a.data());
    for (int64_t q = 0; q < panels(b.count); ++q) {
      tile(packed_a.data(), packed_b.data() + q * k * kTile, k, out + p * kTile * b.count + q * kTile, b.count, a.count - p * kTile,
           b.count - q * kTile);
    }
  }
}

std::vector<double> packed(const Lines& b, int64_t k) {
  std::vector<double> out(static_cast<size_t>(panels(b.count) * k * kTile));
  for (int64_t q = 0; q < panels(b.count); ++q) pack(b, k, q, out.data() + q * k * kTile);
  return out;
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
    const std::vector<double> packed_b = packed(b, problem.k);
    double* to = out.reals.data() + static_cast<int64_t>(batch) * problem.rows * problem.columns;
    in_parallel(panels(problem.rows), threads,
                [&](int64_t begin, int64_t end) { multiply(a, b, problem.k, packed_b, to, begin, end); });
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
