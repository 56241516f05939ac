// Shape rules of matmul, rotary and attention.
#include <cmath>

#include "ir/infer_rules.h"

namespace rtx::ir::infer_rules {
namespace {

Status rank_is(const Inputs& in, size_t i, size_t rank) {
  if (in.shape(i).size() == rank) return success();
  return refuse(in, "input " + std::to_string(i) + " has rank " + std::to_string(in.shape(i).size()) + ", expected " + std::to_string(rank));
}

Status shape_is(const Inputs& in, size_t i, const Shape& expected) {
  if (in.shape(i) == expected) return success();
  return refuse(in, "input " + std::to_string(i) + " has shape " + text(in.shape(i)) + ", expected " + text(expected));
}

// [.., rows, columns] of a matmul operand as it enters the product.
struct Matrix {
  Shape batch;
  Dim rows, columns;
};

Matrix matrix(const Shape& shape, bool transposed) {
  Matrix out{Shape(shape.begin(), shape.end() - 2), shape[shape.size() - 2], shape[shape.size() - 1]};
  if (transposed) std::swap(out.rows, out.columns);
  return out;
}

}  // namespace

Result<Types> infer_matmul(const Inputs& in) {
  RTX_CHECK(rank_at_least(in, 0, 2));
  RTX_CHECK(rank_at_least(in, 1, 2));
  RTX_CHECK(same_dtype(in, 0, 1));
  RTX_CHECK(flag(in, "trans_a"));
  RTX_CHECK(flag(in, "trans_b"));
  if (in.dtype(0) == DType::boolean) return refuse(in, "a product of bool is not defined");
  const Matrix a = matrix(in.shape(0), in.node.attributes.integer("trans_a") != 0);
  const Matrix b = matrix(in.shape(1), in.node.attributes.integer("trans_b") != 0);
  if (!(a.columns == b.rows)) {
    return refuse(in, "the inner dimensions differ: " + a.columns.text() + " columns against " + b.rows.text() + " rows");
  }
  RTX_TRY(auto shape, broadcast_of(in, a.batch, b.batch));
  shape.push_back(a.rows);
  shape.push_back(b.columns);
  return Types{{in.dtype(0), shape}};
}

Result<Types> infer_rotary(const Inputs& in) {
  RTX_CHECK(floating(in, 0));
  RTX_CHECK(rank_is(in, 0, 4));
  RTX_CHECK(flag(in, "interleaved"));
  const Shape& x = in.shape(0);
  const int64_t rotary_dim = in.node.attributes.integer("rotary_dim");
  if (rotary_dim < 0 || rotary_dim % 2 != 0 || (x[3].is_constant() && rotary_dim > extent(x[3]))) {
    return refuse(in, "rotary_dim " + std::to_string(rotary_dim) + " is not an even number of the " + x[3].text() + " columns");
  }
  for (size_t i = 1; i <= 2; ++i) {
    RTX_CHECK(same_dtype(in, 0, i));
    RTX_CHECK(rank_is(in, i, 3));
    const Dim batch = in.shape(i)[0] == Dim(1) ? Dim(1) : x[0];
    RTX_CHECK(shape_is(in, i, {batch, x[2], Dim(rotary_dim / 2)}));
  }
  return Types{{in.dtype(0), x}};
}

Result<Types> infer_attention(const Inputs& in) {
  for (size_t i = 0; i < 3; ++i) {
    RTX_CHECK(rank_is(in, i, 4));
    RTX_CHECK(floating(in, i));
    RTX_CHECK(same_dtype(in, 0, i));
  }
  const Shape& q = in.shape(0);
  const Shape& k = in.shape(1);
  const Shape& v = in.shape(2);
  RTX_CHECK(shape_is(in, 1, {q[0], k[1], k[2], q[3]}));
  RTX_CHECK(shape_is(in, 2, {q[0], k[1], k[2], v[3]}));
  if (q[1].is_constant() && k[1].is_constant()) {
    const int64_t query_heads = extent(q[1]);
    const int64_t key_heads = extent(k[1]);
    if (key_heads == 0 ? query_heads != 0 : query_heads % key_heads != 0) {
      return refuse(in, std::to_string(query_heads) + " query heads are not a multiple of " + std::to_string(key_heads) + " key heads");
    }
  } else if (!(q[1] == k[1])) {
    return refuse(in, "query heads " + q[1].text() + " and key heads " + k[1].text() + " cannot be compared");
  }
  if (in.has(3)) {
    if (in.dtype(3) != DType::boolean) RTX_CHECK(floating(in, 3));
    const Shape scores{q[0], q[1], q[2], k[2]};
    RTX_TRY(auto joined, broadcast_of(in, in.shape(3), scores));
    if (joined != scores) return refuse(in, "the mask of shape " + text(in.shape(3)) + " does not broadcast to " + text(scores));
  }
  if (in.has(4)) {
    if (in.dtype(4) != DType::i64) return refuse(in, "valid_length is " + std::string(name(in.dtype(4))) + ", expected i64");
    RTX_CHECK(shape_is(in, 4, {q[0]}));
  }
  RTX_CHECK(flag(in, "causal"));
  RTX_CHECK(flag(in, "empty_row_nan"));
  for (std::string_view window : {"window_left", "window_right"}) {
    if (in.node.attributes.integer(window, -1) < -1) return refuse(in, std::string(window) + " is below -1");
  }
  const double softcap = in.node.attributes.real("softcap");
  if (!(softcap >= 0) || std::isinf(softcap)) return refuse(in, "softcap must be a finite number, 0 for none");
  if (!std::isfinite(in.node.attributes.real("scale", 1))) return refuse(in, "scale must be finite");
  return Types{{in.dtype(0), {q[0], q[1], q[2], v[3]}}};
}

}  // namespace rtx::ir::infer_rules
