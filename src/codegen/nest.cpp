#include "codegen/nest.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>

#include "base/assert.h"

namespace rtx::codegen {

namespace {

void for_each_index(const ElementDag& dag, const std::function<void(const Index&)>& visit) {
  for (const auto& e : dag.elements) visit(e.offset);
  for (const auto& s : dag.stores) visit(s.offset);
}

void substitute(ElementDag& dag, const std::map<int, Index>& variables) {
  for (auto& e : dag.elements) e.offset = e.offset.substitute(variables);
  for (auto& s : dag.stores) s.offset = s.offset.substitute(variables);
}

// Divisors at which variable `id` of extent n would have to be cut: (a id + ...) / d asks for d / gcd(a, d) values a piece.
void cut_points(const Index& index, std::map<int, std::set<int64_t>>& cuts, const std::vector<int64_t>& extents) {
  index.walk([&](const Index& part) {
    if (part.kind() != Index::Kind::divide && part.kind() != Index::Kind::modulo) return;
    const int64_t d = part.constant();
    const auto consider = [&](const Index& atom, int64_t factor) {
      if (atom.kind() != Index::Kind::variable) return;
      const int64_t n = extents[static_cast<size_t>(atom.id())];
      const int64_t cut = d / std::gcd(std::abs(factor), d);
      if (cut > 1 && cut < n && n % cut == 0) cuts[atom.id()].insert(cut);
    };
    std::vector<Index> pending = {part.left()};
    while (!pending.empty()) {
      const Index at = pending.back();
      pending.pop_back();
      if (at.kind() == Index::Kind::add) {
        pending.push_back(at.left());
        pending.push_back(at.right());
      } else if (at.kind() == Index::Kind::multiply) {
        consider(at.left(), at.constant());
      } else {
        consider(at, 1);
      }
    }
  });
}

}  // namespace

int64_t LoopNest::count() const {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

void refine(LoopNest& nest) {
  for (int round = 0; round < 6; ++round) {
    std::map<int, std::set<int64_t>> cuts;
    for_each_index(nest.dag, [&](const Index& index) { cut_points(index, cuts, nest.extents); });
    if (cuts.empty()) return;
    std::map<int, Index> replacement;
    for (const auto& [id, points] : cuts) {
      // Keep a chain in which each point divides the next.
      std::vector<int64_t> chain;
      for (const int64_t p : points)
        if (chain.empty() || p % chain.back() == 0) chain.push_back(p);
      const int64_t whole = nest.extents[static_cast<size_t>(id)];
      std::vector<int> parts;  // outermost first
      Index sum(0);
      for (size_t k = chain.size() + 1; k-- > 0;) {
        const int64_t stride = k == 0 ? 1 : chain[k - 1];
        const int64_t extent = (k == chain.size() ? whole : chain[k]) / stride;
        const int fresh = static_cast<int>(nest.extents.size());
        nest.extents.push_back(extent);
        parts.push_back(fresh);
        sum = sum + Index::variable(fresh, extent) * stride;
      }
      nest.extents[static_cast<size_t>(id)] = 1;
      const auto at = std::find(nest.order.begin(), nest.order.end(), id);
      RTX_ASSERT(at != nest.order.end(), "a variable that varies has its loop");
      const auto here = nest.order.erase(at);
      nest.order.insert(here, parts.begin(), parts.end());
      replacement.emplace(id, sum);
    }
    substitute(nest.dag, replacement);
  }
}

void prune(ElementDag& dag) {
  std::vector<bool> used(dag.elements.size(), false);
  const std::function<void(int)> mark = [&](int k) {
    if (k < 0 || used[static_cast<size_t>(k)]) return;
    used[static_cast<size_t>(k)] = true;
    const Element& e = dag.elements[static_cast<size_t>(k)];
    for (const int a : e.arguments) mark(a);
    mark(e.guard);
    e.offset.walk([&](const Index& part) {
      if (part.kind() == Index::Kind::element) mark(part.id());
    });
  };
  for (const auto& s : dag.stores) {
    mark(s.value);
    s.offset.walk([&](const Index& part) {
      if (part.kind() == Index::Kind::element) mark(part.id());
    });
  }
  std::vector<int> renumbered(dag.elements.size(), -1);
  std::vector<Element> kept;
  const auto map = [&](int k) { return renumbered[static_cast<size_t>(k)]; };
  for (size_t k = 0; k < dag.elements.size(); ++k) {
    if (!used[k]) continue;
    Element e = dag.elements[k];
    for (int& a : e.arguments) a = map(a);
    if (e.guard >= 0) e.guard = map(e.guard);
    e.offset = e.offset.renumber_elements(map);
    renumbered[k] = static_cast<int>(kept.size());
    kept.push_back(std::move(e));
  }
  for (auto& s : dag.stores) {
    s.value = map(s.value);
    s.offset = s.offset.renumber_elements(map);
  }
  dag.elements = std::move(kept);
}

namespace {

// in_range tests that now always or never hold become constants; selects and guards on them disappear.
void fold_ranges(ElementDag& dag) {
  std::vector<int> alias(dag.elements.size());
  std::iota(alias.begin(), alias.end(), 0);
  const auto truth = [&](int k) -> int {  // 1, 0, or -1: unknown
    const Element& e = dag.elements[static_cast<size_t>(k)];
    return e.kind == Element::Kind::constant && e.dtype == ir::DType::boolean ? (e.integer != 0 ? 1 : 0) : -1;
  };
  for (size_t k = 0; k < dag.elements.size(); ++k) {
    Element& e = dag.elements[k];
    for (int& a : e.arguments) a = alias[static_cast<size_t>(a)];
    if (e.guard >= 0) e.guard = alias[static_cast<size_t>(e.guard)];
    e.offset = e.offset.renumber_elements([&](int id) { return alias[static_cast<size_t>(id)]; });
    if (e.kind == Element::Kind::in_range) {
      const bool always = e.offset.minimum() >= e.low && e.offset.maximum() < e.high;
      const bool never = e.offset.maximum() < e.low || e.offset.minimum() >= e.high;
      if (always || never) {
        e = Element{};
        e.dtype = ir::DType::boolean;
        e.integer = always ? 1 : 0;
      }
    } else if (e.kind == Element::Kind::select && truth(e.arguments[0]) >= 0) {
      alias[k] = e.arguments[truth(e.arguments[0]) == 1 ? 1 : 2];
    } else if (e.kind == Element::Kind::op && e.op == ir::Op::logical_and) {
      const int a = truth(e.arguments[0]), b = truth(e.arguments[1]);
      if (a == 1) alias[k] = e.arguments[1];
      else if (b == 1) alias[k] = e.arguments[0];
      else if (a == 0 || b == 0) alias[k] = e.arguments[a == 0 ? 0 : 1];
    } else if (e.kind == Element::Kind::load && e.guard >= 0) {
      const int holds = truth(e.guard);
      if (holds == 1) {
        e.guard = -1;
      } else if (holds == 0) {
        const ir::DType dtype = e.dtype;
        e = Element{};
        e.dtype = dtype;
      }
    }
  }
  for (auto& s : dag.stores) {
    s.value = alias[static_cast<size_t>(s.value)];
    s.offset = s.offset.renumber_elements([&](int id) { return alias[static_cast<size_t>(id)]; });
  }
  prune(dag);
}

// The variable and the values of it where a test of the nest changes its answer.
bool find_cut(const LoopNest& nest, int* variable, std::set<int64_t>* at) {
  for (const auto& e : nest.dag.elements) {
    if (e.kind != Element::Kind::in_range) continue;
    // offset = f * v + c
    Index rest = e.offset;
    int64_t constant = 0, factor = 1;
    if (rest.kind() == Index::Kind::add && rest.right().is_constant()) {
      constant = rest.right().constant();
      rest = rest.left();
    }
    if (rest.kind() == Index::Kind::multiply) {
      factor = rest.constant();
      rest = rest.left();
    }
    if (rest.kind() != Index::Kind::variable || factor <= 0) continue;
    const int64_t n = nest.extents[static_cast<size_t>(rest.id())];
    for (const int64_t edge : {e.low, e.high}) {
      const int64_t first = (edge - constant + factor - 1) / factor;  // first v with f v + c >= edge
      if (edge - constant > 0 && first > 0 && first < n) at->insert(first);
    }
    if (!at->empty()) {
      *variable = rest.id();
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<LoopNest> split_ranges(const LoopNest& nest, int limit) {
  std::vector<LoopNest> pending = {nest}, out;
  while (!pending.empty()) {
    LoopNest at = std::move(pending.back());
    pending.pop_back();
    fold_ranges(at.dag);
    int variable = -1;
    std::set<int64_t> cuts;
    if (!find_cut(at, &variable, &cuts) || static_cast<int>(out.size() + pending.size() + cuts.size()) + 1 > limit) {
      out.push_back(std::move(at));
      continue;
    }
    cuts.insert(0);
    std::vector<int64_t> edges(cuts.begin(), cuts.end());
    edges.push_back(at.extents[static_cast<size_t>(variable)]);
    for (size_t k = edges.size() - 1; k-- > 0;) {
      LoopNest piece = at;
      const int64_t length = edges[k + 1] - edges[k];
      piece.extents[static_cast<size_t>(variable)] = length;
      substitute(piece.dag, {{variable, Index::variable(variable, length) + Index(edges[k])}});
      if (length == 1) piece.order.erase(std::find(piece.order.begin(), piece.order.end(), variable));
      pending.push_back(std::move(piece));
    }
  }
  return out;
}

void collapse(LoopNest& nest) {
  const auto simple = [](const ElementDag& dag, int variable) {
    bool ok = true;
    for_each_index(dag, [&](const Index& index) {
      index.walk([&](const Index& part) {
        if (part.kind() == Index::Kind::divide || part.kind() == Index::Kind::modulo) ok = ok && !part.depends_on(variable);
      });
    });
    return ok;
  };
  for (size_t k = nest.order.size(); k-- > 1;) {
    const int outer = nest.order[k - 1], inner = nest.order[k];
    if (!simple(nest.dag, outer) || !simple(nest.dag, inner)) continue;
    const int64_t a = nest.extents[static_cast<size_t>(outer)], b = nest.extents[static_cast<size_t>(inner)];
    const int merged = static_cast<int>(nest.extents.size());
    const Index m = Index::variable(merged, a * b);
    ElementDag candidate = nest.dag;
    substitute(candidate, {{outer, m / b}, {inner, m % b}});
    if (!simple(candidate, merged)) continue;
    nest.dag = std::move(candidate);
    nest.extents.push_back(a * b);
    nest.extents[static_cast<size_t>(outer)] = nest.extents[static_cast<size_t>(inner)] = 1;
    nest.order[k - 1] = merged;
    nest.order.erase(nest.order.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

void arrange(LoopNest& nest) {
  if (!nest.dag.stores.empty()) {
    const Index target = nest.dag.stores[0].offset;
    std::map<int, int64_t> stride;
    for (const int v : nest.order) {
      int64_t c = 0;
      stride[v] = target.affine_in(v, 1, &c) ? std::abs(c) : 1;
    }
    std::stable_sort(nest.order.begin(), nest.order.end(), [&](int a, int b) { return stride[a] > stride[b]; });
  }
  collapse(nest);
}

}  // namespace rtx::codegen
