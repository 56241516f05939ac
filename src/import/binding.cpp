// Graph inputs: their types, shapes and symbols; inputs bound by value.
#include <algorithm>

#include "base/text.h"
#include "import/element_type.h"
#include "import/failure.h"
#include "import/importer.h"

namespace rtx::import {
namespace {

using Dimension = onnx::TensorShapeProto::Dimension;

bool is_fixed(const Dimension& dim) { return dim.has_dim_value() && dim.dim_value() >= 0; }

std::string option_text(const std::string& input, const std::vector<int64_t>& extents) {
  std::string out = "--shape " + input + "=";
  for (size_t i = 0; i < extents.size(); ++i) out += (i ? "x" : "") + std::to_string(extents[i]);
  return out;
}

// "--shape x=1x128", with what is fixed filled in.
std::string example_shape(const onnx::ValueInfoProto& input) {
  std::vector<int64_t> extents;
  for (const auto& dim : input.type().tensor_type().shape().dim())
    extents.push_back(is_fixed(dim) ? dim.dim_value() : extents.empty() ? 1 : 128);
  return option_text(input.name(), extents);
}

}  // namespace

void Importer::bind_symbol(const std::string& symbol, int64_t value, const std::string& source) {
  auto [found, fresh] = symbols_.emplace(symbol, Binding{value, source});
  if (!fresh && found->second.value != value)
    fail("dimension '" + symbol + "' is " + std::to_string(found->second.value) + " by " +
         found->second.source + " and " + std::to_string(value) + " by " + source);
}

// The shape an option gives an input, by --shape or by the value bound to it.
static const std::vector<int64_t>* given_shape(const Options& options, const std::string& name) {
  if (auto found = options.shapes.find(name); found != options.shapes.end()) return &found->second;
  if (auto found = options.bound_values.find(name); found != options.bound_values.end())
    return &found->second.extents();
  return nullptr;
}

void Importer::check_options(const std::vector<const onnx::ValueInfoProto*>& inputs) {
  std::set<std::string> names, symbols;
  std::string known_names, known_symbols;
  for (const auto* input : inputs) {
    names.insert(input->name());
    known_names += (known_names.empty() ? "" : ", ") + input->name();
    for (const auto& dim : input->type().tensor_type().shape().dim())
      if (!dim.dim_param().empty() && symbols.insert(dim.dim_param()).second)
        known_symbols += (known_symbols.empty() ? "" : ", ") + dim.dim_param();
  }
  for (const auto& [name, extents] : options_.shapes) {
    if (!names.count(name))
      fail("--shape names '" + name + "', which is no input of the model", "its inputs are " + known_names);
    for (int64_t extent : extents)
      if (extent < 0) fail(option_text(name, extents) + " has a negative dimension");
  }
  for (const auto& [name, value] : options_.bound_values)
    if (!names.count(name))
      fail("a value is given for '" + name + "', which is no input of the model",
           "its inputs are " + known_names);
  for (const auto& [symbol, value] : options_.dims) {
    if (!symbols.count(symbol))
      fail("--dim names '" + symbol + "', which is no dimension of the model's inputs",
           known_symbols.empty() ? "the model has no named dimensions"
                                 : "its dimensions are " + known_symbols);
    if (value < 0) fail("--dim " + symbol + "=" + std::to_string(value) + " is negative");
    bind_symbol(symbol, value, "--dim " + symbol + "=" + std::to_string(value));
  }
  for (const auto* input : inputs) {
    const auto* given = given_shape(options_, input->name());
    const auto& type = input->type().tensor_type();
    if (given == nullptr || !type.has_shape()) continue;
    const std::string source = option_text(input->name(), *given);
    if (static_cast<size_t>(type.shape().dim_size()) != given->size())
      fail(source + " has " + std::to_string(given->size()) + " dimensions, the input has " +
           std::to_string(type.shape().dim_size()));
    for (int i = 0; i < type.shape().dim_size(); ++i) {
      const Dimension& dim = type.shape().dim(i);
      const int64_t value = (*given)[static_cast<size_t>(i)];
      if (is_fixed(dim) && dim.dim_value() != value)
        fail(source + " gives dimension " + std::to_string(i) + " as " + std::to_string(value) +
             ", the model fixes it at " + std::to_string(dim.dim_value()));
      if (!dim.dim_param().empty()) bind_symbol(dim.dim_param(), value, source);
    }
  }
}

void Importer::bind_inputs(Scope& scope) {
  std::vector<const onnx::ValueInfoProto*> inputs;
  std::set<std::string> seen;
  for (const auto& input : file_.proto->graph().input()) {
    if (input.name().empty()) fail("a graph input has no name");
    if (!seen.insert(input.name()).second) fail("two graph inputs are called '" + input.name() + "'");
    if (!scope.initializers.count(input.name())) inputs.push_back(&input);
  }
  check_options(inputs);
  for (const auto* input : inputs) {
    try {
      const ir::ValueId id = bind_input(*input);
      names_.insert(input->name());
      if (id >= 0) named_.insert(id);
      scope.values[input->name()] = id;
    } catch (Unsupported& found) {
      unsupported_.push_back({"input", input->name(), std::move(found.why)});
      scope.values[input->name()] = kPoison;
    }
  }
}

// All of them at once, each symbol where it first stands; the fix is the options that bind them all.
void Importer::report_unbound() const {
  Error error = user_error("cannot import " + file_.path);
  std::vector<std::string> options;
  std::set<std::string> symbols;
  for (const Unbound& found : unbound_) {
    if (!found.symbol.empty() && !symbols.insert(found.symbol).second) continue;
    std::string option = found.symbol.empty() ? found.shape_option : "--dim " + found.symbol + "=N";
    if (std::find(options.begin(), options.end(), option) == options.end()) options.push_back(std::move(option));
    error.where.push_back(found.why);
  }
  error.fix = "pass " + join(options, " ");
  if (error.where.size() == 1) {
    error.why = std::move(error.where[0]);
    error.where.clear();
    if (!unbound_[0].symbol.empty()) error.fix += " or " + unbound_[0].shape_option;
  } else {
    error.why = std::to_string(error.where.size()) + " dimensions have no value";
  }
  throw Failure{std::move(error)};
}

ir::ValueId Importer::bind_input(const onnx::ValueInfoProto& input) {
  if (!input.type().has_tensor_type())
    unsupported(input.has_type() ? "it is not a tensor" : "it states no type");
  const auto& type = input.type().tensor_type();
  const auto dtype = dtype_from_onnx(type.elem_type());
  if (!dtype) {
    if (type.elem_type() == 0) fail("input '" + input.name() + "' states no element type");
    unsupported("its element type is " + onnx_dtype_name(type.elem_type()));
  }
  std::vector<int64_t> extents;
  if (const auto* given = given_shape(options_, input.name())) {
    extents = *given;
  } else if (!type.has_shape()) {
    unbound_.push_back({"the model gives no shape for input '" + input.name() + "'", {}, "--shape " + input.name() + "=1x128, with its dimensions"});
    return kPoison;
  } else {
    const size_t known = unbound_.size();
    for (const auto& dim : type.shape().dim()) {
      const std::string& symbol = dim.dim_param();
      const std::string place = "dimension " + std::to_string(extents.size()) + " of input '" + input.name() + "'";
      if (is_fixed(dim)) {
        extents.push_back(dim.dim_value());
        continue;
      }
      if (auto found = symbols_.find(symbol); !symbol.empty() && found != symbols_.end()) {
        extents.push_back(found->second.value);
        continue;
      }
      if (dim.has_dim_value()) unbound_.push_back({place + " is negative, " + std::to_string(dim.dim_value()), {}, example_shape(input)});
      else if (symbol.empty()) unbound_.push_back({place + " is dynamic and has no name", {}, example_shape(input)});
      else unbound_.push_back({"dimension '" + symbol + "' of input '" + input.name() + "' has no value", symbol, example_shape(input)});
      extents.push_back(1);
    }
    if (unbound_.size() != known) return kPoison;
  }
  int64_t bytes = ir::bytes_of(*dtype);
  for (int64_t extent : extents)
    if (extent != 0 && (__builtin_mul_overflow(bytes, extent, &bytes) || bytes > (int64_t{1} << 46)))
      fail("input '" + input.name() + "' has an impossible size, " + ir::text(extents));
  auto bound = options_.bound_values.find(input.name());
  if (bound == options_.bound_values.end())
    return graph.add_input(input.name(), *dtype, ir::to_shape(extents));
  const ir::HostTensor& value = bound->second;
  if (value.dtype() != *dtype)
    fail("the value given for input '" + input.name() + "' is " + std::string(ir::name(value.dtype())) +
         ", the model wants " + std::string(ir::name(*dtype)));
  if (value.extents() != extents)
    fail("the value given for input '" + input.name() + "' has shape " + ir::text(value.extents()) +
         ", its shape is " + ir::text(extents));
  graph.specialized.push_back({input.name(), value});
  return graph.add_constant(input.name(), value);
}

}  // namespace rtx::import
