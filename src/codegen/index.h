#pragma once
// Index: an integer expression over loop variables: what a load or store uses as its element offset, and what movement
// operators do to coordinates. Constructors simplify with the ranges of the variables, so that a reshape of a transpose of a
// slice usually ends as a plain affine expression: (x * c + y) / c = x and (x * c + y) % c = y when 0 <= y < c.
//
// Canonical form: a sum of (atom * factor) ordered by falling factor, constant last; atoms are variables, elements, and those
// quotients and remainders that no rule removes. Equal expressions built in different ways are then equal by structure.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace rtx::codegen {

class Index {
 public:
  enum class Kind : uint8_t { constant, variable, add, multiply, divide, modulo, element };

  Index(int64_t constant = 0);  // NOLINT: constants are indices
  static Index variable(int id, int64_t extent);  // 0 <= variable < extent; the constant 0 when extent is 1
  // The integer value of element expression `element` of the DAG (an index tensor's entry), known to lie in [0, extent).
  static Index of_element(int element, int64_t extent);

  friend Index operator+(const Index& a, const Index& b);
  friend Index operator-(const Index& a, const Index& b) { return a + b * -1; }
  friend Index operator*(const Index& a, int64_t factor);
  friend Index operator/(const Index& a, int64_t divisor);  // floor, divisor > 0, a >= 0
  friend Index operator%(const Index& a, int64_t divisor);

  Kind kind() const;
  int64_t constant() const;        // of a constant; factor of multiply; divisor of divide and modulo
  int id() const;                  // of a variable or element
  Index left() const;              // operand of multiply, divide, modulo; first of add
  Index right() const;             // second of add
  int64_t minimum() const;
  int64_t maximum() const;         // inclusive
  bool is_constant() const { return kind() == Kind::constant; }
  bool operator==(const Index& other) const;  // structural

  bool depends_on(int variable) const;
  // Coefficient when the expression is affine in `variable` (all else held fixed); false when it is not.
  // `length` > 1: as seen from runs of `length` consecutive values starting at multiples of `start` (0: of `length`):
  // n / 64 and n % 64 are affine for runs of 8, which is what a vector load needs.
  bool affine_in(int variable, int64_t length, int64_t* coefficient, int64_t start = 0) const;
  // Largest c such that every value is a multiple of c when the variables vary freely (alignment of an offset); 0 for 0.
  int64_t common_divisor() const;
  Index substitute(const std::map<int, Index>& variables) const;
  // Element ids after `map` (old id -> new id): for DAGs that are copied into others.
  Index renumber_elements(const std::function<int(int)>& map) const;
  // Calls `visit` for this expression and everything below it.
  void walk(const std::function<void(const Index&)>& visit) const;
  // C text; `name` spells variables, `element` spells element expressions.
  std::string text(const std::function<std::string(int)>& name, const std::function<std::string(int)>& element) const;
  const std::string& text() const;  // "v0 * 384 + v1": for keys and tests

  struct Node;

 private:
  explicit Index(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  std::shared_ptr<const Node> node_;
  friend struct IndexBuilder;
};

// Row-major offset of coordinates under strides, and the coordinates of a row-major linear index.
Index ravel(const std::vector<Index>& coordinates, const std::vector<int64_t>& strides, int64_t offset = 0);
std::vector<Index> unravel(const Index& linear, const std::vector<int64_t>& extents);

}  // namespace rtx::codegen
