// Matrix products and rotary embedding.
#include "import/operators.h"

namespace rtx::import {
namespace {

// numpy's rule: a vector on the left is a row, on the right a column, and its dimension is gone from the
// result.
ValueId numpy_matmul(Lowering& l, ValueId a, ValueId b) {
  if (l.rank(a) == 0 || l.rank(b) == 0) fail("an operand is a scalar");
  const bool row = l.rank(a) == 1;
  const bool column = l.rank(b) == 1;
  if (row) a = l.reshape(a, {1, l.shape(a)[0]});
  if (column) b = l.reshape(b, {l.shape(b)[0], 1});
  const ValueId y = l.matmul(a, b);
  Extents extents = l.shape(y);
  if (row) extents.erase(extents.end() - 2);
  if (column) extents.pop_back();
  return l.reshape(y, extents);
}

void matmul_operator(Lowering& l) { l.out(0, numpy_matmul(l, l.in(0), l.in(1))); }

ValueId scaled(Lowering& l, ValueId x, double factor) {
  return factor == 1 ? x : l.binary(Op::mul, x, l.scalar_like(x, factor));
}

// alpha * A' * B' + beta * C; beta = 0 does not read C.
void gemm_operator(Lowering& l) {
  const ValueId a = l.in(0);
  const ValueId b = l.in(1);
  l.need_rank(a, 2, "A");
  l.need_rank(b, 2, "B");
  ValueId y =
      scaled(l, l.matmul(a, b, l.integer("transA", 0) != 0, l.integer("transB", 0) != 0), l.real("alpha", 1));
  const double beta = l.real("beta", 1);
  if (l.has(2) && beta != 0) {
    const Extents extents = l.shape(y);
    y = l.binary(Op::add, y, scaled(l, l.in(2), beta));
    if (l.shape(y) != extents)
      fail("C " + ir::text(l.shape(l.in(2))) + " does not broadcast to " + ir::text(extents));
  }
  l.out(0, y);
}

// com.microsoft: alpha * A' * B', where transBatch moves the first axis behind the rows.
void fused_matmul_operator(Lowering& l) {
  const auto operand = [&](int i, const char* trans_batch) {
    const ValueId x = l.in(i);
    if (l.integer(trans_batch, 0) == 0) return x;
    Extents perm;
    for (int64_t axis = 1; axis + 1 < l.rank(x); ++axis) perm.push_back(axis);
    perm.push_back(0);
    perm.push_back(l.rank(x) - 1);
    if (l.rank(x) < 3) fail(std::string(trans_batch) + " needs at least three dimensions");
    return l.transpose(x, perm);
  };
  const ValueId a = operand(0, "transBatchA");
  const ValueId b = operand(1, "transBatchB");
  const bool trans_a = l.integer("transA", 0) != 0 && l.rank(a) > 1;
  const bool trans_b = l.integer("transB", 0) != 0 && l.rank(b) > 1;
  const ValueId y = l.rank(a) < 2 || l.rank(b) < 2 ? numpy_matmul(l, trans_a ? l.transpose(a, {1, 0}) : a,
                                                                  trans_b ? l.transpose(b, {1, 0}) : b)
                                                   : l.matmul(a, b, trans_a, trans_b);
  l.out(0, scaled(l, y, l.real("alpha", 1)));
}

struct Rotary {
  ValueId x, cos, sin;  // [B,S,H*D] or [B,H,S,D]; caches [positions, d/2] or [B,S,d/2]
  ValueId positions;    // [B,S] or absent
  int64_t heads, rotary_dim, interleaved;
};

ValueId rotated(Lowering& l, Rotary r) {
  const Extents from = l.shape(r.x);
  ValueId x = r.x;
  if (from.size() == 3) {
    if (r.heads <= 0 || from[2] % r.heads != 0)
      fail("num_heads " + std::to_string(r.heads) + " does not divide the hidden size of " + ir::text(from));
    x = l.transpose(l.reshape(x, {from[0], from[1], r.heads, from[2] / r.heads}), {0, 2, 1, 3});
  } else if (from.size() != 4) {
    fail("the input has shape " + ir::text(from) + ", expected three or four dimensions");
  }
  const Extents n = l.shape(x);
  const int64_t dim = r.rotary_dim == 0 ? n[3] : r.rotary_dim;
  if (dim < 0 || dim > n[3] || dim % 2 != 0)
    fail("rotary_embedding_dim " + std::to_string(dim) + " does not fit a head of " + std::to_string(n[3]));
  const auto cache = [&](ValueId table, const char* role) {
    if (r.positions != ir::kNoValue) table = l.gather(table, r.positions, 0);
    const Extents found = l.shape(table);
    if (found.size() != 3 || found[2] != dim / 2 || found[1] != n[2] || (found[0] != n[0] && found[0] != 1))
      fail(std::string(role) + " gives " + ir::text(found) + ", expected " +
           ir::text(Extents{n[0], n[2], dim / 2}));
    return l.cast(table, l.dtype(x));
  };
  const ValueId cos = cache(r.cos, "cos_cache");
  const ValueId sin = cache(r.sin, "sin_cache");
  const ValueId y =
      l.node_of(Op::rotary, {x, cos, sin}, attrs({{"interleaved", r.interleaved}, {"rotary_dim", dim}}));
  return from.size() == 3 ? l.reshape(l.transpose(y, {0, 2, 1, 3}), from) : y;
}

void rotary_operator(Lowering& l) {
  Rotary r{l.in(0),
           l.in(1),
           l.in(2),
           l.in_or_none(3),
           l.integer("num_heads", 0),
           l.integer("rotary_embedding_dim", 0),
           l.integer("interleaved", 0) != 0 ? 1 : 0};
  l.out(0, rotated(l, r));
}

// com.microsoft: positions come second, and one element means a start from which positions count up.
void microsoft_rotary_operator(Lowering& l) {
  if (l.integer("is_packed_batching", 0) != 0) unsupported("it is packed");
  const double scale = l.real("scale", 1);
  Rotary r{l.in(0),
           l.in(2),
           l.in(3),
           l.in(1),
           l.integer("num_heads", 0),
           l.integer("rotary_embedding_dim", 0),
           l.integer("interleaved", 0) != 0 ? 1 : 0};
  const Extents from = l.shape(r.x);
  l.need_rank(r.cos, 2, "cos_cache");
  if (from.size() == 3 && r.heads == 0) {
    const int64_t head = 2 * l.shape(r.cos).back();
    if (head == 0 || from[2] % head != 0)
      fail("the hidden size of " + ir::text(from) + " is not a multiple of the head size " +
           std::to_string(head));
    r.heads = from[2] / head;
  }
  const int64_t length = from.size() == 4 ? from[2] : from.size() == 3 ? from[1] : 0;
  if (l.rank(r.positions) <= 1) {
    const ValueId start = l.reshape(r.positions, {1, 1});
    r.positions = l.binary(Op::add, start, l.iota(l.dtype(start), length, {1, length}));
  }
  l.out(0, scaled(l, rotated(l, r), scale));
}

}  // namespace

OperatorRows matrix_operators() {
  return {
      {"MatMul", matmul_operator},
      {"Gemm", gemm_operator},
      {"com.microsoft::FusedMatMul", fused_matmul_operator},
      {"RotaryEmbedding", rotary_operator},
      {"com.microsoft::RotaryEmbedding", microsoft_rotary_operator},
  };
}

}  // namespace rtx::import
