#pragma once
// Dim: one dimension of a shape. A constant, or an expression over symbols with minimum, maximum and multiple.
//
// Shapes, strides, buffer sizes and launch grids are expressions over Dims. Only ir may turn a Dim into an integer:
// extent() below. Today every symbol is bound before kernels are made (bind()), so extent() after binding always works.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace rtx::ir {

struct Symbol {
  std::string name;
  int64_t minimum = 0;
  int64_t maximum = INT64_MAX;
  int64_t multiple = 1;
};

class Dim {
 public:
  Dim() = default;
  Dim(int64_t constant) : constant_(constant) {}  // NOLINT: a constant is a Dim
  static Dim symbol(Symbol symbol);

  bool is_constant() const { return node_ == nullptr; }
  std::string text() const;  // "128", "batch", "(batch * 12)"
  bool operator==(const Dim& other) const;

  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  friend Dim operator/(const Dim& a, const Dim& b);  // floor division
  // Replaces bound symbols; what stays unbound stays an expression.
  Dim bind(const std::map<std::string, int64_t>& values) const;
  // Adds the names of the symbols it depends on.
  void collect_symbols(std::vector<Symbol>& out) const;

 private:
  struct Node;
  friend int64_t extent(const Dim& dim);
  explicit Dim(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  static Dim combine(char op, const Dim& a, const Dim& b);
  int64_t constant_ = 0;
  std::shared_ptr<const Node> node_;  // null: constant_
};

using Shape = std::vector<Dim>;

// The integer behind a bound Dim; asserts that no symbol is left (the importer guarantees it, see Graph::unbound_symbols).
int64_t extent(const Dim& dim);
std::vector<int64_t> extents(const Shape& shape);
Shape to_shape(const std::vector<int64_t>& extents);
bool is_bound(const Shape& shape);  // no symbol is left
// Product of extents; 1 for a scalar. checked_element_count refuses, with a sentence, a negative dimension and more than 2^62
// elements (counting zero dimensions as one, so that strides fit too): use it on data of others. element_count asserts.
Result<int64_t> checked_element_count(const std::vector<int64_t>& extents);
int64_t element_count(const std::vector<int64_t>& extents);
std::vector<int64_t> row_major_strides(const std::vector<int64_t>& extents);
std::string text(const Shape& shape);                 // "[1,batch,384]"
std::string text(const std::vector<int64_t>& extents);  // "[1,8,384]"

}  // namespace rtx::ir
