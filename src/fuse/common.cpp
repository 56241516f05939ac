#include "fuse/common.h"

#include <map>
#include <tuple>

#include "fuse/editor.h"

namespace rtx::fuse {
namespace {

using ir::NodeId;
using ir::ValueId;

// What makes two nodes one. Result types matter for the operators whose output decides (cast, reshape, slice,
// expand).
std::string node_key(const Editor& editor, const ir::Node& node) {
  std::string key(ir::name(node.op));
  for (ValueId input : node.inputs) key += "," + std::to_string(input);
  for (const auto& [name, value] : node.attributes.items) {
    key += ";" + name + "=";
    if (const auto* whole = std::get_if<int64_t>(&value)) key += std::to_string(*whole);
    if (const auto* real = std::get_if<double>(&value)) {
      uint64_t bits;
      static_assert(sizeof bits == sizeof *real);
      std::memcpy(&bits, real, sizeof bits);
      key += "r" + std::to_string(bits);
    }
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) key += ir::text(*list);
  }
  for (ValueId output : node.outputs)
    key += ":" + std::string(ir::name(editor.value(output).dtype)) + ir::text(editor.value(output).shape);
  return key;
}

// Small constants with one value are one constant.
constexpr int64_t kLargestCompared = 64;

void share_constants(Editor& editor) {
  std::map<std::tuple<ir::DType, std::vector<int64_t>, std::string>, ValueId> seen;
  const size_t count = editor.graph().values.size();
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<ValueId>(i);
    const auto& constant = editor.value(id).constant;
    if (!constant || constant->count() > kLargestCompared || editor.is_output(id) ||
        editor.readers(id).empty())
      continue;
    std::string bytes(reinterpret_cast<const char*>(constant->bytes()),
                      static_cast<size_t>(constant->byte_size()));
    auto [found, fresh] =
        seen.emplace(std::tuple(constant->dtype(), constant->extents(), std::move(bytes)), id);
    if (!fresh && editor.can_replace(id, found->second)) editor.replace(id, found->second);
  }
}

}  // namespace

ir::Graph without_common_subexpressions(const ir::Graph& graph, std::vector<Rewrite>* log) {
  Editor editor(graph);
  share_constants(editor);
  std::map<std::string, NodeId> seen;
  for (NodeId id = 0; id < static_cast<NodeId>(editor.node_count()); ++id) {
    if (!editor.alive(id)) continue;
    const ir::Node& node = editor.node(id);
    auto [found, fresh] = seen.emplace(node_key(editor, node), id);
    if (fresh) continue;
    const auto& first = editor.node(found->second).outputs;
    bool can = true;
    for (size_t i = 0; i < first.size(); ++i) can = can && editor.can_replace(node.outputs[i], first[i]);
    if (!can) continue;
    if (log) log->push_back({"common subexpression", node.name});
    const std::vector<ValueId> again = node.outputs;
    for (size_t i = 0; i < first.size(); ++i) editor.replace(again[i], first[i]);
  }
  return std::move(editor).take();
}

}  // namespace rtx::fuse
