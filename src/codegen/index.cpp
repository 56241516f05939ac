#include "codegen/index.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "base/assert.h"

namespace rtx::codegen {

struct Index::Node {
  Kind kind = Kind::constant;
  int64_t constant = 0;
  int id = 0;
  Index left, right;
  int64_t minimum = 0, maximum = 0;
  std::string text;
  Node() : left(nullptr), right(nullptr) {}
};

namespace {

int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// A sum of atom * factor plus a constant: what the rules work on.
struct Term {
  Index atom;
  int64_t factor = 0;
};
struct Linear {
  std::vector<Term> terms;
  int64_t constant = 0;
};

void collect(const Index& index, int64_t factor, Linear& out) {
  switch (index.kind()) {
    case Index::Kind::constant: out.constant += index.constant() * factor; return;
    case Index::Kind::add:
      collect(index.left(), factor, out);
      collect(index.right(), factor, out);
      return;
    case Index::Kind::multiply: collect(index.left(), factor * index.constant(), out); return;
    default: break;
  }
  for (auto& term : out.terms)
    if (term.atom == index) {
      term.factor += factor;
      return;
    }
  out.terms.push_back({index, factor});
}

Linear linear(const Index& index) {
  Linear out;
  collect(index, 1, out);
  return out;
}

void drop_zeros(Linear& sum) {
  sum.terms.erase(std::remove_if(sum.terms.begin(), sum.terms.end(), [](const Term& t) { return t.factor == 0; }), sum.terms.end());
}

int64_t low(const Term& t) { return t.factor > 0 ? t.factor * t.atom.minimum() : t.factor * t.atom.maximum(); }
int64_t high(const Term& t) { return t.factor > 0 ? t.factor * t.atom.maximum() : t.factor * t.atom.minimum(); }
int64_t low(const std::vector<Term>& terms) {
  return std::accumulate(terms.begin(), terms.end(), int64_t{0}, [](int64_t sum, const Term& t) { return sum + low(t); });
}
int64_t high(const std::vector<Term>& terms) {
  return std::accumulate(terms.begin(), terms.end(), int64_t{0}, [](int64_t sum, const Term& t) { return sum + high(t); });
}

bool is_plain(const Index& index) { return index.kind() == Index::Kind::variable || index.kind() == Index::Kind::element; }

}  // namespace

struct IndexBuilder {
  static Index make(Index::Node node) {
    Index out(std::make_shared<const Index::Node>(std::move(node)));
    const_cast<Index::Node&>(*out.node_).text =
        out.text([](int id) { return "v" + std::to_string(id); }, [](int id) { return "e" + std::to_string(id); });
    return out;
  }

  static Index atom(Index::Kind kind, const Index& operand, int64_t divisor) {
    Index::Node node;
    node.kind = kind;
    node.left = operand;
    node.constant = divisor;
    if (kind == Index::Kind::divide) {
      node.minimum = floor_div(operand.minimum(), divisor);
      node.maximum = floor_div(operand.maximum(), divisor);
    } else {
      node.minimum = 0;
      node.maximum = divisor - 1;
    }
    return make(std::move(node));
  }

  // (X / c) * (k c) + (X % c) * k = X * k, also with (X / c) % m in place of X / c (the sum is then (X % (c m)) * k).
  static bool recombine(Linear& sum) {
    for (size_t r = 0; r < sum.terms.size(); ++r) {
      const Term rest = sum.terms[r];
      if (rest.atom.kind() != Index::Kind::modulo) continue;
      const int64_t c = rest.atom.constant();
      for (size_t q = 0; q < sum.terms.size(); ++q) {
        const Term quotient = sum.terms[q];
        if (q == r || quotient.factor != rest.factor * c) continue;
        Index whole;
        if (quotient.atom == rest.atom.left() / c) {
          whole = rest.atom.left();
        } else if (quotient.atom.kind() == Index::Kind::modulo && quotient.atom.left() == rest.atom.left() / c) {
          whole = rest.atom.left() % (c * quotient.atom.constant());
        } else {
          continue;
        }
        sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(std::max(q, r)));
        sum.terms.erase(sum.terms.begin() + static_cast<std::ptrdiff_t>(std::min(q, r)));
        collect(whole, rest.factor, sum);
        return true;
      }
    }
    return false;
  }

  static Index scaled(const Term& term) {
    if (term.factor == 1) return term.atom;
    Index::Node node;
    node.kind = Index::Kind::multiply;
    node.left = term.atom;
    node.constant = term.factor;
    node.minimum = low(term);
    node.maximum = high(term);
    return make(std::move(node));
  }

  static Index sum(Linear parts) {
    drop_zeros(parts);
    while (recombine(parts)) drop_zeros(parts);
    std::sort(parts.terms.begin(), parts.terms.end(), [](const Term& a, const Term& b) {
      if (std::abs(a.factor) != std::abs(b.factor)) return std::abs(a.factor) > std::abs(b.factor);
      return a.atom.text() < b.atom.text();
    });
    Index out(parts.constant);
    bool empty = true;
    for (const auto& term : parts.terms) {
      out = empty ? scaled(term) : add(out, scaled(term));
      empty = false;
    }
    if (!empty && parts.constant != 0) out = add(out, Index(parts.constant));
    return out;
  }

  static Index add(const Index& a, const Index& b) {
    Index::Node node;
    node.kind = Index::Kind::add;
    node.left = a;
    node.right = b;
    node.minimum = a.minimum() + b.minimum();
    node.maximum = a.maximum() + b.maximum();
    return make(std::move(node));
  }

  // Splits a sum into d * quotient + rest with 0 <= rest.
  static void split(const Linear& sum, int64_t d, Linear& quotient, Linear& rest) {
    for (const auto& term : sum.terms) {
      int64_t q = 0;
      if (term.factor > 0 || term.factor % d == 0) q = term.factor / d;
      if (q != 0) quotient.terms.push_back({term.atom, q});
      if (term.factor - q * d != 0) rest.terms.push_back({term.atom, term.factor - q * d});
    }
    quotient.constant = floor_div(sum.constant, d);
    rest.constant = sum.constant - quotient.constant * d;
    if (const int64_t lowest = low(rest.terms) + rest.constant; lowest < 0 || lowest >= d) {
      const int64_t lift = floor_div(lowest, d);
      rest.constant -= lift * d;
      quotient.constant += lift;
    }
  }

  // rest = g * tall + small with 0 <= small < g and g > 1 dividing d: then rest / d = tall / (d / g).
  static bool factor_out(const Linear& rest, int64_t d, int64_t* g, Linear& tall, Linear& small) {
    std::vector<int64_t> candidates;
    for (const auto& term : rest.terms)
      if (const int64_t c = std::gcd(std::abs(term.factor), d); c > 1) candidates.push_back(c);
    std::sort(candidates.rbegin(), candidates.rend());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
    for (const int64_t c : candidates) {
      tall = small = Linear{};
      for (const auto& term : rest.terms) {
        if (term.factor % c == 0) tall.terms.push_back({term.atom, term.factor / c});
        else small.terms.push_back(term);
      }
      tall.constant = floor_div(rest.constant, c);
      small.constant = rest.constant - tall.constant * c;
      if (low(small.terms) + small.constant < 0 || high(small.terms) + small.constant >= c) continue;
      if (low(tall.terms) + tall.constant < 0) continue;
      *g = c;
      return true;
    }
    return false;
  }

  static Index divide(const Index& a, int64_t d) {
    Linear quotient, rest, tall, small;
    split(linear(a), d, quotient, rest);
    const Index whole = sum(std::move(quotient));
    if (high(rest.terms) + rest.constant < d) return whole;
    int64_t g = 1;
    if (factor_out(rest, d, &g, tall, small)) return whole + sum(std::move(tall)) / (d / g);
    const Index left = sum(std::move(rest));
    if (left.kind() == Index::Kind::divide) return whole + left.left() / (left.constant() * d);
    if (left.kind() == Index::Kind::modulo && left.constant() % d == 0) return whole + (left.left() / d) % (left.constant() / d);
    return whole + atom(Index::Kind::divide, left, d);
  }

  static Index modulo(const Index& a, int64_t d) {
    Linear quotient, rest, tall, small;
    split(linear(a), d, quotient, rest);
    if (high(rest.terms) + rest.constant < d) return sum(std::move(rest));
    int64_t g = 1;
    if (factor_out(rest, d, &g, tall, small)) return (sum(std::move(tall)) % (d / g)) * g + sum(std::move(small));
    const Index left = sum(std::move(rest));
    if (left.kind() == Index::Kind::modulo && left.constant() % d == 0) return left.left() % d;
    return atom(Index::Kind::modulo, left, d);
  }
};

Index::Index(int64_t constant) {
  auto node = std::make_shared<Node>();
  node->constant = node->minimum = node->maximum = constant;
  node->text = std::to_string(constant);
  node_ = std::move(node);
}

Index Index::variable(int id, int64_t extent) {
  if (extent <= 1) return Index(0);
  Node node;
  node.kind = Kind::variable;
  node.id = id;
  node.maximum = extent - 1;
  return IndexBuilder::make(std::move(node));
}

Index Index::of_element(int element, int64_t extent) {
  Node node;
  node.kind = Kind::element;
  node.id = element;
  node.maximum = std::max<int64_t>(extent - 1, 0);
  return IndexBuilder::make(std::move(node));
}

Index operator+(const Index& a, const Index& b) {
  if (a.is_constant() && a.constant() == 0) return b;
  if (b.is_constant() && b.constant() == 0) return a;
  Linear sum = linear(a);
  collect(b, 1, sum);
  return IndexBuilder::sum(std::move(sum));
}
Index operator*(const Index& a, int64_t factor) {
  if (factor == 1) return a;
  Linear sum;
  collect(a, factor, sum);
  return IndexBuilder::sum(std::move(sum));
}
Index operator/(const Index& a, int64_t divisor) {
  RTX_ASSERT(divisor > 0, "an index is divided by a positive number");
  return divisor == 1 ? a : IndexBuilder::divide(a, divisor);
}
Index operator%(const Index& a, int64_t divisor) {
  RTX_ASSERT(divisor > 0, "an index is divided by a positive number");
  return divisor == 1 ? Index(0) : IndexBuilder::modulo(a, divisor);
}

Index::Kind Index::kind() const { return node_->kind; }
int64_t Index::constant() const { return node_->constant; }
int Index::id() const { return node_->id; }
Index Index::left() const { return node_->left; }
Index Index::right() const { return node_->right; }
int64_t Index::minimum() const { return node_->minimum; }
int64_t Index::maximum() const { return node_->maximum; }

bool Index::operator==(const Index& other) const {
  if (node_ == other.node_) return true;
  const Node &a = *node_, &b = *other.node_;
  if (a.kind != b.kind || a.constant != b.constant || a.id != b.id) return false;
  switch (a.kind) {
    case Kind::constant: return true;
    case Kind::variable:
    case Kind::element: return a.maximum == b.maximum;
    case Kind::add: return a.left == b.left && a.right == b.right;
    default: return a.left == b.left;
  }
}

void Index::walk(const std::function<void(const Index&)>& visit) const {
  visit(*this);
  if (node_->left.node_) node_->left.walk(visit);
  if (node_->right.node_) node_->right.walk(visit);
}

bool Index::depends_on(int variable) const {
  bool found = false;
  walk([&](const Index& part) { found = found || (part.kind() == Kind::variable && part.id() == variable); });
  return found;
}

namespace {

// What every value at the start of a run is a multiple of.
int64_t run_divisor(const Index& index, int variable, int64_t start) {
  switch (index.kind()) {
    case Index::Kind::constant: return std::abs(index.constant());
    case Index::Kind::variable: return index.id() == variable ? start : 1;
    case Index::Kind::element: return 1;
    case Index::Kind::add: return std::gcd(run_divisor(index.left(), variable, start), run_divisor(index.right(), variable, start));
    case Index::Kind::multiply: return run_divisor(index.left(), variable, start) * std::abs(index.constant());
    case Index::Kind::divide: {
      const int64_t inner = run_divisor(index.left(), variable, start);
      return inner % index.constant() == 0 ? inner / index.constant() : 1;
    }
    case Index::Kind::modulo: return std::gcd(run_divisor(index.left(), variable, start), index.constant());
  }
  return 1;
}

bool affine(const Index& index, int variable, int64_t length, int64_t start, int64_t* coefficient) {
  *coefficient = 0;
  switch (index.kind()) {
    case Index::Kind::constant:
    case Index::Kind::element: return true;  // whether an element varies is its user's question
    case Index::Kind::variable: *coefficient = index.id() == variable ? 1 : 0; return true;
    case Index::Kind::add: {
      int64_t a = 0, b = 0;
      if (!affine(index.left(), variable, length, start, &a) || !affine(index.right(), variable, length, start, &b)) return false;
      *coefficient = a + b;
      return true;
    }
    case Index::Kind::multiply:
      if (!affine(index.left(), variable, length, start, coefficient)) return false;
      *coefficient *= index.constant();
      return true;
    case Index::Kind::divide:
    case Index::Kind::modulo: break;
  }
  const bool quotient = index.kind() == Index::Kind::divide;
  const int64_t d = index.constant();
  int64_t a = 0;
  if (!affine(index.left(), variable, length, start, &a)) return false;
  if (a == 0) return true;
  if (a % d == 0) {
    *coefficient = quotient ? a / d : 0;
    return true;
  }
  // No run may cross a multiple of d: runs start at (multiple of h) + shift.
  const Linear sum = linear(index.left());
  int64_t h = d;
  for (const auto& term : sum.terms) h = std::gcd(h, run_divisor(term.atom, variable, start) * std::abs(term.factor));
  const int64_t shift = ((sum.constant % h) + h) % h, last = shift + a * (length - 1);
  if (last < 0 || last >= h) return false;
  *coefficient = quotient ? 0 : a;
  return true;
}

}  // namespace

bool Index::affine_in(int variable, int64_t length, int64_t* coefficient, int64_t start) const {
  if (!depends_on(variable)) {
    *coefficient = 0;
    return true;
  }
  if (length > 1) return affine(*this, variable, length, start > 0 ? start : length, coefficient);
  // Globally affine: no quotient or remainder may depend on the variable.
  bool plain = true;
  walk([&](const Index& part) {
    if (part.kind() == Kind::divide || part.kind() == Kind::modulo) plain = plain && !part.depends_on(variable);
  });
  return plain && affine(*this, variable, 1, 1, coefficient);
}

int64_t Index::common_divisor() const { return run_divisor(*this, -1, 1); }

Index Index::substitute(const std::map<int, Index>& variables) const {
  switch (kind()) {
    case Kind::constant:
    case Kind::element: return *this;
    case Kind::variable: {
      const auto found = variables.find(id());
      return found == variables.end() ? *this : found->second;
    }
    case Kind::add: return left().substitute(variables) + right().substitute(variables);
    case Kind::multiply: return left().substitute(variables) * constant();
    case Kind::divide: return left().substitute(variables) / constant();
    case Kind::modulo: return left().substitute(variables) % constant();
  }
  return *this;
}

Index Index::renumber_elements(const std::function<int(int)>& map) const {
  switch (kind()) {
    case Kind::constant:
    case Kind::variable: return *this;
    case Kind::element: return of_element(map(id()), maximum() + 1);
    case Kind::add: return left().renumber_elements(map) + right().renumber_elements(map);
    case Kind::multiply: return left().renumber_elements(map) * constant();
    case Kind::divide: return left().renumber_elements(map) / constant();
    case Kind::modulo: return left().renumber_elements(map) % constant();
  }
  return *this;
}

std::string Index::text(const std::function<std::string(int)>& name, const std::function<std::string(int)>& element) const {
  const auto operand = [&](const Index& part) {
    const std::string inner = part.text(name, element);
    return is_plain(part) || (part.is_constant() && part.constant() >= 0) ? inner : "(" + inner + ")";
  };
  switch (kind()) {
    case Kind::constant: return std::to_string(constant());
    case Kind::variable: return name(id());
    case Kind::element: return element(id());
    case Kind::multiply: return operand(left()) + " * " + std::to_string(constant());
    case Kind::divide: return operand(left()) + " / " + std::to_string(constant());
    case Kind::modulo: return operand(left()) + " % " + std::to_string(constant());
    case Kind::add: break;
  }
  const std::string first = left().text(name, element);
  const Index second = right();
  if (second.is_constant() && second.constant() < 0) return first + " - " + std::to_string(-second.constant());
  if (second.kind() == Kind::multiply && second.constant() < 0)
    return first + " - " + (second.left() * -second.constant()).text(name, element);
  return first + " + " + second.text(name, element);
}

const std::string& Index::text() const { return node_->text; }

Index ravel(const std::vector<Index>& coordinates, const std::vector<int64_t>& strides, int64_t offset) {
  RTX_ASSERT(coordinates.size() == strides.size(), "one stride belongs to each coordinate");
  Index sum(offset);
  for (size_t d = 0; d < coordinates.size(); ++d) sum = sum + coordinates[d] * strides[d];
  return sum;
}

std::vector<Index> unravel(const Index& linear, const std::vector<int64_t>& extents) {
  std::vector<Index> out(extents.size());
  int64_t stride = 1;
  for (size_t d = extents.size(); d-- > 0;) {
    out[d] = extents[d] <= 1 ? Index(0) : d == 0 ? linear / stride : (linear / stride) % extents[d];
    stride *= std::max<int64_t>(extents[d], 1);
  }
  return out;
}

}  // namespace rtx::codegen
