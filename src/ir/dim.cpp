#include "ir/dim.h"

#include <algorithm>

#include "base/assert.h"
#include "ir/text_words.h"

namespace rtx::ir {
namespace {

constexpr int64_t kLargestCount = int64_t{1} << 62;

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return a == INT64_MIN ? INT64_MAX : -a;
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

// Saturates: an absurd size stays absurd until element_count's check refuses it.
int64_t apply(char op, int64_t a, int64_t b) {
  int64_t out = 0;
  switch (op) {
    case '+':
      return __builtin_add_overflow(a, b, &out) ? (a < 0 ? INT64_MIN : INT64_MAX) : out;
    case '-':
      return __builtin_sub_overflow(a, b, &out) ? (a < 0 ? INT64_MIN : INT64_MAX) : out;
    case '*':
      return __builtin_mul_overflow(a, b, &out) ? ((a < 0) != (b < 0) ? INT64_MIN : INT64_MAX) : out;
    default:
      return floor_divide(a, b);
  }
}

}  // namespace

struct Dim::Node {
  char op = 's';  // 's': a symbol; else + - * /
  Symbol symbol;
  Dim a, b;
};

Dim Dim::symbol(Symbol symbol) {
  auto node = std::make_shared<Node>();
  node->symbol = std::move(symbol);
  return Dim(std::shared_ptr<const Node>(std::move(node)));
}

Dim Dim::combine(char op, const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) return Dim(apply(op, a.constant_, b.constant_));
  const bool a_zero = a.is_constant() && a.constant_ == 0;
  const bool b_zero = b.is_constant() && b.constant_ == 0;
  const bool a_one = a.is_constant() && a.constant_ == 1;
  const bool b_one = b.is_constant() && b.constant_ == 1;
  if ((op == '+' || op == '-') && b_zero) return a;
  if (op == '+' && a_zero) return b;
  if (op == '*' && (a_zero || b_zero)) return Dim(0);
  if (op == '*' && a_one) return b;
  if ((op == '*' || op == '/') && b_one) return a;
  auto node = std::make_shared<Node>();
  node->op = op;
  node->a = a;
  node->b = b;
  return Dim(std::shared_ptr<const Node>(std::move(node)));
}

Dim operator+(const Dim& a, const Dim& b) { return Dim::combine('+', a, b); }
Dim operator-(const Dim& a, const Dim& b) { return Dim::combine('-', a, b); }
Dim operator*(const Dim& a, const Dim& b) { return Dim::combine('*', a, b); }
Dim operator/(const Dim& a, const Dim& b) { return Dim::combine('/', a, b); }

std::string Dim::text() const {
  if (!node_) return std::to_string(constant_);
  if (node_->op == 's') return spelled(node_->symbol.name);
  return "(" + node_->a.text() + " " + node_->op + " " + node_->b.text() + ")";
}

bool Dim::operator==(const Dim& other) const {
  if (node_ == other.node_) return node_ != nullptr || constant_ == other.constant_;
  if (!node_ || !other.node_ || node_->op != other.node_->op) return false;
  if (node_->op == 's') return node_->symbol.name == other.node_->symbol.name;
  return node_->a == other.node_->a && node_->b == other.node_->b;
}

Dim Dim::bind(const std::map<std::string, int64_t>& values) const {
  if (!node_) return *this;
  if (node_->op == 's') {
    auto found = values.find(node_->symbol.name);
    return found == values.end() ? *this : Dim(found->second);
  }
  return combine(node_->op, node_->a.bind(values), node_->b.bind(values));
}

void Dim::collect_symbols(std::vector<Symbol>& out) const {
  if (!node_) return;
  if (node_->op != 's') {
    node_->a.collect_symbols(out);
    node_->b.collect_symbols(out);
    return;
  }
  const auto& name = node_->symbol.name;
  if (std::none_of(out.begin(), out.end(), [&](const Symbol& seen) { return seen.name == name; })) {
    out.push_back(node_->symbol);
  }
}

int64_t extent(const Dim& dim) {
  RTX_ASSERT(dim.is_constant(), "every symbolic dimension is bound before its extent is asked for");
  return dim.constant_;
}

std::vector<int64_t> extents(const Shape& shape) {
  std::vector<int64_t> out;
  out.reserve(shape.size());
  for (const auto& dim : shape) out.push_back(extent(dim));
  return out;
}

Shape to_shape(const std::vector<int64_t>& extents) { return Shape(extents.begin(), extents.end()); }

bool is_bound(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& dim) { return dim.is_constant(); });
}

Result<int64_t> checked_element_count(const std::vector<int64_t>& extents) {
  int64_t span = 1;  // the product without its zeros: strides must fit too
  bool empty = false;
  for (int64_t extent : extents) {
    if (extent < 0) return user_error("shape " + text(extents) + " has a negative dimension");
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(span, std::max<int64_t>(extent, 1), &span) || span > kLargestCount) {
      return user_error("shape " + text(extents) + " is too large", "its element count exceeds 2^62");
    }
  }
  return empty ? 0 : span;
}

int64_t element_count(const std::vector<int64_t>& extents) {
  auto count = checked_element_count(extents);
  RTX_ASSERT(count.ok(), "a shape's element count was checked before it is used");
  return *count;
}

std::vector<int64_t> row_major_strides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size());
  int64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(extents[i], 1);
  }
  return strides;
}

std::string text(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "," : "") + shape[i].text();
  return out + "]";
}

std::string text(const std::vector<int64_t>& extents) {
  std::string out = "[";
  for (size_t i = 0; i < extents.size(); ++i) out += (i ? "," : "") + std::to_string(extents[i]);
  return out + "]";
}

}  // namespace rtx::ir
