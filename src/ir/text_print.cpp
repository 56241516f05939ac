#include <algorithm>

#include "base/hash.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/text_words.h"

namespace rtx::ir {

std::string spelled(std::string_view name) {
  static constexpr std::string_view kTaken[] = {"_", "graph", "symbol", "state", "specialized", "return", "const", "as", "inf", "nan", "true", "false"};
  const bool plain = !name.empty() && starts_plain_name(name[0]) && name.find("//") == std::string_view::npos &&
                     std::all_of(name.begin(), name.end(), continues_plain_name) &&
                     std::find(std::begin(kTaken), std::end(kTaken), name) == std::end(kTaken);
  if (plain) return std::string(name);
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\x" + to_hex(std::string_view(&c, 1));
    } else {
      out += c;
    }
  }
  return out + '"';
}

namespace {

std::string real_text(double value) {
  std::string out = shortest(value);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;  // stays a real when read back
}

std::string attribute_text(const Attribute& attribute) {
  if (auto* whole = std::get_if<int64_t>(&attribute)) return std::to_string(*whole);
  if (auto* number = std::get_if<double>(&attribute)) return real_text(*number);
  return text(std::get<std::vector<int64_t>>(attribute));
}

bool is_default(Op op, const std::string& attribute, const Attribute& value) {
  for (const auto& row : attributes_of(op)) {
    if (row.name != attribute || row.required) continue;
    if (auto* whole = std::get_if<int64_t>(&value)) return *whole == static_cast<int64_t>(row.otherwise);
    if (auto* number = std::get_if<double>(&value)) return *number == row.otherwise;
  }
  return false;
}

std::string element_text(const HostTensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::f64: return shortest(tensor.get_double(i));
    case DType::f32:
    case DType::f16:
    case DType::bf16: return shortest(static_cast<float>(tensor.get_double(i)));
    case DType::boolean: return tensor.get_int(i) ? "true" : "false";
    case DType::u64: return std::to_string(static_cast<uint64_t>(tensor.get_int(i)));
    default: return std::to_string(tensor.get_int(i));
  }
}

std::string elements_text(const HostTensor& tensor) {
  std::string out = "{";
  for (int64_t i = 0; i < tensor.count(); ++i) out += (i ? ", " : "") + element_text(tensor, i);
  return out + "}";
}

class Printer {
 public:
  Printer(const Graph& graph, const TextOptions& options) : graph_(graph), options_(options), names_(graph.values.size()) {
    order_constants();
    int next = 0;
    auto call = [&](ValueId id) {
      auto& given = names_[static_cast<size_t>(id)];
      if (given.empty()) given = options.anonymous ? "%" + std::to_string(next++) : spelled(graph.value(id).name);
    };
    for (ValueId id : graph.inputs) call(id);
    for (ValueId id : constants_) call(id);
    for (const auto& node : graph.nodes) {
      for (ValueId id : node.outputs) call(id);
    }
  }

  std::string print() {
    if (!options_.anonymous && !graph_.name.empty()) line("graph " + spelled(graph_.name));
    for (const auto& symbol : graph_.unbound_symbols()) line(symbol_text(symbol));
    for (ValueId id : graph_.inputs) line(name(id) + ": " + type(id) + layout(id) + (graph_.value(id).weight ? " weight" : ""));
    for (ValueId id : constants_) line(name(id) + ": const " + type(id) + constant(*graph_.value(id).constant));
    for (const auto& node : graph_.nodes) line(node_text(node));
    for (size_t i = 0; i < graph_.states.size(); ++i) line(state_text(graph_.states[i], i));
    if (!options_.anonymous) {
      for (const auto& input : graph_.specialized) {
        const auto& value = input.value;
        line("specialized " + spelled(input.name) + ": " + std::string(ir::name(value.dtype())) + text(value.extents()) + " " +
             elements_text(value));
      }
    }
    return out_ + return_text() + ";\n";
  }

 private:
  // Constants in the order of their first use, so that equal graphs print equally; unused ones last, not at all in keys.
  void order_constants() {
    std::vector<bool> seen(graph_.values.size(), false);
    auto add = [&](ValueId id) {
      if (!graph_.is_constant(id) || seen[static_cast<size_t>(id)]) return;
      seen[static_cast<size_t>(id)] = true;
      constants_.push_back(id);
    };
    for (const auto& node : graph_.nodes) std::for_each(node.inputs.begin(), node.inputs.end(), add);
    std::for_each(graph_.outputs.begin(), graph_.outputs.end(), add);
    for (size_t id = 0; !options_.anonymous && id < graph_.values.size(); ++id) add(static_cast<ValueId>(id));
  }

  void line(const std::string& statement) { out_ += statement + ";\n"; }
  std::string name(ValueId id) const { return id == kNoValue ? "_" : names_[static_cast<size_t>(id)]; }
  std::string type(ValueId id) const { return std::string(ir::name(graph_.value(id).dtype)) + text(graph_.value(id).shape); }

  std::string layout(ValueId id) const {
    const Layout& layout = graph_.value(id).layout;
    std::string out;
    if (!layout.strides.empty()) out += " strides " + text(layout.strides);
    if (layout.offset != 0) out += " offset " + std::to_string(layout.offset);
    return out;
  }

  std::string constant(const HostTensor& tensor) const {
    if (tensor.count() <= options_.inline_constants_up_to) return " " + elements_text(tensor);
    if (!options_.hash_constants) return {};
    return " #" + blake2b_hex(tensor.bytes(), static_cast<size_t>(tensor.byte_size()), 16).substr(0, 16);
  }

  static std::string symbol_text(const Symbol& symbol) {
    std::string out = "symbol " + spelled(symbol.name);
    if (symbol.minimum != 0) out += " min=" + std::to_string(symbol.minimum);
    if (symbol.maximum != INT64_MAX) out += " max=" + std::to_string(symbol.maximum);
    if (symbol.multiple != 1) out += " multiple=" + std::to_string(symbol.multiple);
    return out;
  }

  std::string node_text(const Node& node) const {
    std::vector<std::string> results;
    for (ValueId id : node.outputs) results.push_back(name(id) + (options_.types_on_every_value ? ": " + type(id) : ""));
    std::vector<std::string> arguments;
    for (ValueId id : node.inputs) arguments.push_back(name(id));
    for (const auto& [attribute, value] : node.attributes.items) {
      if (!is_default(node.op, attribute, value)) arguments.push_back(attribute + "=" + attribute_text(value));
    }
    std::string out = node.outputs.size() == 1 ? results[0] : "(" + join(results, ", ") + ")";
    out += " = " + std::string(ir::name(node.op)) + "(" + join(arguments, ", ") + ")";
    if (options_.types_on_every_value || node.outputs.empty()) return out + layouts(node);
    const Value& first = graph_.value(node.outputs[0]);
    if (node.op == Op::cast) out += ": " + std::string(ir::name(first.dtype));
    if (node.op == Op::reshape || node.op == Op::slice || node.op == Op::expand) out += ": " + text(first.shape);
    return out + layouts(node);
  }

  std::string layouts(const Node& node) const {
    return node.outputs.size() == 1 ? layout(node.outputs[0]) : std::string();
  }

  std::string state_text(const State& state, size_t index) const {
    std::string out = "state " + (options_.anonymous ? "%s" + std::to_string(index) : spelled(state.name)) + ": " + name(state.input) +
                      " -> " + name(state.output);
    if (state.axis >= 0) out += " axis=" + std::to_string(state.axis) + " max=" + std::to_string(state.maximum);
    return out;
  }

  std::string return_text() const {
    std::vector<std::string> results;
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      std::string out = name(graph_.outputs[i]);
      const std::string wanted = graph_.output_name(i);
      if (!options_.anonymous && wanted != graph_.value(graph_.outputs[i]).name) out += " as " + spelled(wanted);
      results.push_back(std::move(out));
    }
    return results.empty() ? "return" : "return " + join(results, ", ");
  }

  const Graph& graph_;
  const TextOptions& options_;
  std::vector<std::string> names_;
  std::vector<ValueId> constants_;
  std::string out_;
};

}  // namespace

std::string to_text(const Graph& graph, const TextOptions& options) { return Printer(graph, options).print(); }

}  // namespace rtx::ir
