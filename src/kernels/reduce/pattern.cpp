#include <algorithm>
#include <cstdlib>

#include "codegen/lower.h"
#include "kernels/anchored.h"
#include "kernels/nests.h"
#include "kernels/reduce/reduce.h"

namespace rtx::kernels::reduce {

using codegen::Element;
using codegen::ElementDag;
using codegen::Index;
using codegen::LoopNest;

namespace {

bool is_reduction(ir::Op op) { return ir::info(op).op_class == ir::OpClass::reduction; }

// Both DAGs in one, so that the passes change the loops of both alike. x is kept alive by a store to no buffer.
ElementDag joined(const ElementDag& prologue, int x, const ElementDag& epilogue) {
  ElementDag out = prologue;
  const int shift = static_cast<int>(prologue.elements.size()), buffers = static_cast<int>(prologue.buffers.size());
  const auto moved = [&](int k) { return k + shift; };
  out.buffers.insert(out.buffers.end(), epilogue.buffers.begin(), epilogue.buffers.end());
  for (Element e : epilogue.elements) {
    for (int& a : e.arguments) a = moved(a);
    if (e.guard >= 0) e.guard = moved(e.guard);
    if (e.kind == Element::Kind::load) e.buffer += buffers;
    e.offset = e.offset.renumber_elements(moved);
    out.elements.push_back(std::move(e));
  }
  for (codegen::Store s : epilogue.stores) {
    s.buffer += buffers;
    s.value = moved(s.value);
    s.offset = s.offset.renumber_elements(moved);
    out.stores.push_back(std::move(s));
  }
  codegen::Store keep;
  keep.buffer = -1;
  keep.value = x;
  out.stores.push_back(keep);
  return out;
}

// Drops the buffers that nothing touches.
void drop_buffers(ElementDag& dag) {
  std::vector<int> renumbered(dag.buffers.size(), -1);
  std::vector<codegen::DagBuffer> kept;
  const auto use = [&](int& k) {
    int& fresh = renumbered[static_cast<size_t>(k)];
    if (fresh < 0) {
      fresh = static_cast<int>(kept.size());
      kept.push_back(dag.buffers[static_cast<size_t>(k)]);
    }
    k = fresh;
  };
  for (auto& e : dag.elements)
    if (e.kind == Element::Kind::load) use(e.buffer);
  for (auto& s : dag.stores)
    if (s.buffer >= 0) use(s.buffer);
  dag.buffers = std::move(kept);
}

void part(const ElementDag& both, Problem& problem) {
  problem.prologue = problem.epilogue = both;
  auto& stores = problem.prologue.stores;
  stores.erase(std::remove_if(stores.begin(), stores.end(), [](const codegen::Store& s) { return s.buffer >= 0; }), stores.end());
  codegen::prune(problem.prologue);
  problem.x = problem.prologue.stores[0].value;
  stores.clear();
  auto& results = problem.epilogue.stores;
  results.erase(std::remove_if(results.begin(), results.end(), [](const codegen::Store& s) { return s.buffer < 0; }), results.end());
  codegen::prune(problem.epilogue);
  drop_buffers(problem.prologue);
  drop_buffers(problem.epilogue);
}

// The load whose addresses decide the order of loops: the one that reads the most.
Index main_offset(const ElementDag& dag, const std::vector<int>& order, const std::vector<int64_t>& extents) {
  Index best(0);
  int64_t most = 0;
  for (const auto& e : dag.elements) {
    if (e.kind != Element::Kind::load) continue;
    int64_t reads = 1;
    for (const int v : order)
      if (e.offset.depends_on(v)) reads *= extents[static_cast<size_t>(v)];
    if (reads > most) {
      most = reads;
      best = e.offset;
    }
  }
  return best;
}

void sort_by_stride(std::vector<int>& order, const Index& offset) {
  const auto stride = [&](int v) {
    int64_t c = 0;
    return offset.affine_in(v, 1, &c) ? std::abs(c) : int64_t{0};
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const int64_t x = stride(a), y = stride(b);
    return x != 0 && y != 0 && x > y;
  });
}

}  // namespace

fuse::Pattern Family::pattern() {
  fuse::Pattern out;
  out.name = "reduce";
  out.anchor = [](const ir::Graph& graph, ir::NodeId node) { return is_reduction(graph.node(node).op); };
  out.grows_down = true;
  out.grows_up = true;
  out.max_outputs = 2;
  out.accepts = accepts<Family>;
  return out;
}

Result<Problem> Family::problem(const ir::Graph& body) {
  RTX_TRY(const ir::NodeId id, only_anchor(body));
  const ir::Node& anchor = body.node(id);
  if (!is_reduction(anchor.op)) return user_error("not a reduction", std::string(ir::name(anchor.op)) + " is none");
  const ir::ValueId x = anchor.inputs[0];
  Problem out;
  out.name = plan_name(name(), body);
  out.op = anchor.op;
  out.dtype = ir::compute_dtype(body.value(x).dtype);
  if (out.dtype == ir::DType::boolean) return user_error("not a reduction of numbers", "booleans are left to the loop nest");
  const auto extents = body.extents(x), axes = anchor.attributes.integers("axes");
  const bool keepdims = anchor.attributes.integer("keepdims") != 0;
  out.terms = out.outputs = 1;
  std::vector<Index> result;
  std::vector<int> kept, reduced;
  const auto at = codegen::variables_of(extents);
  for (size_t d = 0; d < extents.size(); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end();
    (gone ? out.terms : out.outputs) *= extents[d];
    if (extents[d] > 1) (gone ? reduced : kept).push_back(static_cast<int>(d));
    if (!gone) result.push_back(at[d]);
    else if (keepdims) result.push_back(Index(0));
  }
  if (out.terms == 0) return user_error("not a reduction of anything", "a reduced axis is empty; the loop nest gives the neutral element");
  out.work = work_of(body, 0);
  if (out.outputs == 0) return out;

  RTX_TRY(auto prologue, codegen::lower_value(body, x, at));
  const Opened opened = open_at(body, id);
  const auto depends = dependents_of(opened.graph, opened.results[0]);
  for (const ir::ValueId output : body.outputs)
    if (!depends[static_cast<size_t>(output)]) return user_error("not a result of the reduction", body.value(output).name + " is stored on the way");
  RTX_TRY(auto epilogue, codegen::lower_epilogue(opened.graph, opened.results[0], 0, result));

  LoopNest nest;
  nest.dag = joined(prologue.dag, prologue.element, epilogue);
  nest.extents = extents;
  nest.order = kept;
  nest.order.insert(nest.order.end(), reduced.begin(), reduced.end());
  codegen::refine(nest);
  size_t boundary = 0;  // kept loops stay in front, and all extents are above 1
  for (int64_t product = 1; product < out.outputs; ++boundary) product *= nest.extents[static_cast<size_t>(nest.order[boundary])];
  kept.assign(nest.order.begin(), nest.order.begin() + static_cast<std::ptrdiff_t>(boundary));
  reduced.assign(nest.order.begin() + static_cast<std::ptrdiff_t>(boundary), nest.order.end());
  const auto settle = [&](std::vector<int>& order) {
    sort_by_stride(order, main_offset(nest.dag, nest.order, nest.extents));
    nest.order = order;
    codegen::collapse(nest);
    order = nest.order;
  };
  settle(kept);
  nest.order = kept;
  nest.order.insert(nest.order.end(), reduced.begin(), reduced.end());
  settle(reduced);
  out.extents = nest.extents;
  out.kept = kept;
  out.reduced = reduced;
  part(nest.dag, out);
  auto all = kept;
  all.insert(all.end(), reduced.begin(), reduced.end());
  const Index main = main_offset(out.prologue, all, out.extents);
  int64_t along = 0;
  const bool row = !reduced.empty() && main.affine_in(reduced.back(), 8, &along) && along == 1;
  out.columns = !row && !kept.empty() && out.extent(kept.back()) >= 4 && main.affine_in(kept.back(), 8, &along) && along == 1;
  const double evaluations = static_cast<double>(out.outputs) * static_cast<double>(out.terms);
  out.work.flops = evaluations * static_cast<double>(1 + out.prologue.flops()) + static_cast<double>(out.outputs * out.epilogue.flops());
  return out;
}

}  // namespace rtx::kernels::reduce
