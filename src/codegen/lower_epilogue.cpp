// Epilogues and prologues: which coordinates an output has when the anchor's are given.
#include <algorithm>

#include "codegen/lower.h"

namespace rtx::codegen {

namespace {

Error not_an_epilogue(const std::string& why) { return user_error("not an epilogue of this result", why); }

// For every value whether it depends on `anchor`.
std::vector<bool> dependents(const ir::Graph& body, ir::ValueId anchor) {
  std::vector<bool> depends(body.values.size(), false);
  depends[static_cast<size_t>(anchor)] = true;
  for (const auto& node : body.nodes) {
    const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ir::ValueId v) { return v != ir::kNoValue && depends[static_cast<size_t>(v)]; });
    if (!any) continue;
    for (const ir::ValueId v : node.outputs) depends[static_cast<size_t>(v)] = true;
  }
  return depends;
}

}  // namespace

Result<std::vector<Index>> output_coordinates(const ir::Graph& body, ir::ValueId anchor_value, ir::ValueId output_value,
                                              const std::vector<Index>& anchor_coordinates) {
  const auto depends = dependents(body, anchor_value);
  if (!depends[static_cast<size_t>(output_value)]) return not_an_epilogue(body.value(output_value).name + " does not depend on it");
  // The path back, then the coordinates forward along it. Where two paths differ, lowering finds the leaf at foreign coordinates.
  std::vector<ir::ValueId> path;
  for (ir::ValueId v = output_value; v != anchor_value;) {
    path.push_back(v);
    const ir::Node& node = body.node(body.value(v).producer);
    const int64_t count = ir::element_count(body.extents(v));
    ir::ValueId next = ir::kNoValue;
    for (const ir::ValueId input : node.inputs)
      if (input != ir::kNoValue && depends[static_cast<size_t>(input)] &&
          (next == ir::kNoValue || ir::element_count(body.extents(input)) == count))
        if (next == ir::kNoValue || ir::element_count(body.extents(next)) != count) next = input;
    v = next;
  }
  std::reverse(path.begin(), path.end());
  std::vector<Index> at = anchor_coordinates;
  ir::ValueId from = anchor_value;
  for (const ir::ValueId v : path) {
    const ir::Node& node = body.node(body.value(v).producer);
    const auto extents = body.extents(v), before = body.extents(from);
    if (ir::element_count(extents) != ir::element_count(before))
      return not_an_epilogue(std::string(ir::name(node.op)) + " changes the number of elements from " + ir::text(before) + " to " + ir::text(extents));
    if (ir::info(node.op).op_class == ir::OpClass::pointwise || node.op == ir::Op::expand || node.op == ir::Op::trilu) {
      at.insert(at.begin(), extents.size() - before.size(), Index(0));
    } else if (node.op == ir::Op::reshape) {
      at = unravel(ravel(at, ir::row_major_strides(before)), extents);
    } else if (node.op == ir::Op::transpose) {
      const auto perm = node.attributes.integers("perm");
      std::vector<Index> moved;
      for (const int64_t p : perm) moved.push_back(at[static_cast<size_t>(p)]);
      at = std::move(moved);
    } else {
      return not_an_epilogue(std::string(ir::name(node.op)) + " of the result is not inverted");
    }
    from = v;
  }
  return at;
}

Result<ElementDag> lower_epilogue(const ir::Graph& body, ir::ValueId anchor_value, int leaf, const std::vector<Index>& anchor_coordinates) {
  const auto depends = dependents(body, anchor_value);
  Lowering lowering(body);
  lowering.define_leaf(anchor_value, leaf, anchor_coordinates);
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const ir::ValueId output = body.outputs[k];
    if (!depends[static_cast<size_t>(output)]) continue;
    RTX_TRY(const auto at, output_coordinates(body, anchor_value, output, anchor_coordinates));
    RTX_TRY(const int value, lowering.element(output, at));
    RTX_CHECK(lowering.store(static_cast<int>(k), at, value));
  }
  if (lowering.dag().stores.empty()) return not_an_epilogue("no output depends on it");
  return lowering.take();
}

Result<LoweredValue> lower_value(const ir::Graph& body, ir::ValueId value, const std::vector<Index>& coordinates) {
  Lowering lowering(body);
  RTX_TRY(const int element, lowering.element(value, coordinates));
  return LoweredValue{lowering.take(), element};
}

}  // namespace rtx::codegen
