#pragma once
// Editor: a graph while rules rewrite it. Readers are kept up to date, so that "has a second reader" is
// always the truth of now; nodes that nobody reads any more die at once. New nodes stand at the end: only
// take() gives a graph in topological order.
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rtx::fuse {

class Editor {
 public:
  explicit Editor(ir::Graph graph);

  const ir::Graph& graph() const { return graph_; }
  const ir::Value& value(ir::ValueId id) const { return graph_.value(id); }
  const ir::Node& node(ir::NodeId id) const { return graph_.node(id); }
  size_t node_count() const { return graph_.nodes.size(); }
  bool alive(ir::NodeId id) const { return alive_[static_cast<size_t>(id)]; }
  const std::vector<ir::NodeId>& readers(ir::ValueId id) const { return readers_[static_cast<size_t>(id)]; }
  bool is_output(ir::ValueId id) const { return output_uses_[static_cast<size_t>(id)] > 0; }
  std::vector<int64_t> extents(ir::ValueId id) const { return graph_.extents(id); }

  // Nothing when the operator does not take these inputs: the rule then does not apply.
  std::optional<ir::ValueId> add(ir::Op op, std::vector<ir::ValueId> inputs, ir::Attributes attributes = {});
  std::optional<std::vector<ir::ValueId>> add_all(ir::Op op, std::vector<ir::ValueId> inputs, int outputs,
                                                  ir::Attributes attributes);
  std::optional<ir::ValueId> add_as(ir::Op op, std::vector<ir::ValueId> inputs, ir::DType dtype,
                                    const std::vector<int64_t>& extents, ir::Attributes attributes = {});
  ir::ValueId add_constant(ir::HostTensor tensor);
  // The value itself when it already is so.
  std::optional<ir::ValueId> as_dtype(ir::ValueId value, ir::DType dtype);
  std::optional<ir::ValueId> as_shape(ir::ValueId value, const std::vector<int64_t>& extents);

  // May every use of `old` become one of `fresh`? Same type, and no layout or state that `fresh` cannot take
  // over.
  bool can_replace(ir::ValueId old, ir::ValueId fresh) const;
  void replace(ir::ValueId old, ir::ValueId fresh);
  // New nodes get this name.
  void set_origin(std::string name) { origin_ = std::move(name); }
  // Drops nodes added by a rule that gave up.
  void bury(ir::NodeId from);

  ir::Graph take() &&;

 private:
  void grown(ir::NodeId node);
  void release(ir::ValueId value);

  ir::Graph graph_;
  std::vector<std::vector<ir::NodeId>> readers_;
  std::vector<int> output_uses_;
  std::vector<char> alive_;
  bool named_outputs_;
  std::string origin_;
};

}  // namespace rtx::fuse
