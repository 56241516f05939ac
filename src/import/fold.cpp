#include "import/fold.h"

#include "reference/reference.h"

namespace rtx::import {

std::optional<std::vector<ir::HostTensor>> fold(const ir::Graph& graph, const ir::Node& node,
                                                const std::vector<ir::ValueType>& types) {
  // The interpreter reads the results' types from the graph: a graph of this node alone, its inputs without
  // their bytes.
  ir::Graph alone;
  ir::Node copy = node;
  copy.outputs.clear();
  std::vector<const ir::HostTensor*> tensors;
  for (ir::ValueId& id : copy.inputs) {
    if (id == ir::kNoValue) {
      tensors.push_back(nullptr);
      continue;
    }
    const ir::Value& value = graph.value(id);
    tensors.push_back(&*value.constant);
    id = alone.add_input("input_" + std::to_string(alone.values.size()), value.dtype, value.shape);
  }
  for (const auto& type : types) {
    copy.outputs.push_back(static_cast<ir::ValueId>(alone.values.size()));
    alone.values.push_back(
        {"output_" + std::to_string(alone.values.size()), type.dtype, type.shape, {}, std::nullopt, 0});
    alone.outputs.push_back(copy.outputs.back());
  }
  alone.nodes.push_back(copy);
  auto results = reference::evaluate(alone, copy, tensors);
  if (!results.ok() || results->size() < types.size()) return {};
  results->resize(types.size());
  for (size_t i = 0; i < types.size(); ++i)
    if ((*results)[i].dtype() != types[i].dtype || (*results)[i].extents() != ir::extents(types[i].shape))
      return {};
  return std::move(*results);
}

}  // namespace rtx::import
