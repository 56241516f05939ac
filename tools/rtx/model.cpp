#include "rtx/model.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "import/npy.h"
#include "import/tensor_proto.h"
#include "rtx/convert.h"
#include "rtx/usage.h"

namespace rtx::tools {

namespace {

bool ends_with(const std::string& text, const char* end) {
  const size_t size = std::strlen(end);
  return text.size() >= size && text.compare(text.size() - size, size, end) == 0;
}

Result<int64_t> parse_integer(const std::string& text, const std::string& argument) {
  if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
    return user_error("cannot understand '" + argument + "'", "'" + text + "' is not a non-negative integer");
  return static_cast<int64_t>(std::stoll(text));
}

// "NAME=REST": splits at the last '=' so that names may hold one.
Result<std::pair<std::string, std::string>> split_assignment(const std::string& argument, const char* form) {
  const auto equal = argument.rfind('=');
  if (equal == std::string::npos || equal == 0)
    return user_error("cannot understand '" + argument + "'", "the form is " + std::string(form));
  return std::pair(argument.substr(0, equal), argument.substr(equal + 1));
}

Result<std::vector<int64_t>> parse_shape(const std::string& text, const std::string& argument) {
  std::vector<int64_t> extents;
  if (text.empty()) return extents;  // a scalar
  for (size_t begin = 0;;) {
    const size_t end = text.find_first_of("x,", begin);
    RTX_TRY(const int64_t extent, parse_integer(text.substr(begin, end - begin), argument));
    extents.push_back(extent);
    if (end == std::string::npos) return extents;
    begin = end + 1;
  }
}

// Of two values for one name, one would silently be lost.
Error named_twice(const std::string& option, const std::string& name) {
  return user_error(option + " names '" + name + "' twice", "only one value can hold", "leave one out");
}

}  // namespace

Result<ir::Graph> load_model(const std::string& path, const ModelOptions& options, const std::map<std::string, ir::HostTensor>& bound) {
  RTX_CHECK(check_options(options));
  import::Options import_options;
  for (const auto& argument : options.shapes) {
    RTX_TRY(const auto parts, split_assignment(argument, "NAME=1x128, or NAME= for a scalar"));
    if (import_options.shapes.count(parts.first) != 0) return named_twice("--shape", parts.first);
    RTX_TRY(import_options.shapes[parts.first], parse_shape(parts.second, argument));
  }
  for (const auto& argument : options.dims) {
    RTX_TRY(const auto parts, split_assignment(argument, "SYMBOL=N"));
    if (import_options.dims.count(parts.first) != 0) return named_twice("--dim", parts.first);
    RTX_TRY(import_options.dims[parts.first], parse_integer(parts.second, argument));
  }
  import_options.bound_values = bound;
  RTX_TRY(const auto values, load_named_tensors(options.values));
  for (const auto& [name, tensor] : values) import_options.bound_values[name] = tensor;
  RTX_TRY(ir::Graph graph, import::import_onnx(path, import_options));
  RTX_CHECK(declare_states(graph, options.states));
  return convert_floats(std::move(graph), options.dtype, options.keep_f32);
}

bool is_bundle(const std::string& path) {
  // What is called a bundle and has lost its first bytes is a damaged bundle, not a model.
  if (ends_with(path, ".rtxgc")) return true;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // opening a pipe would wait for its writer
  std::ifstream file(path, std::ios::binary);
  char magic[5] = {};
  return file.read(magic, 5) && std::memcmp(magic, "RTXGC", 5) == 0;
}

Result<ir::HostTensor> load_tensor(const std::string& path) {
  if (ends_with(path, ".npy")) return import::read_npy(path);
  if (ends_with(path, ".npz")) {
    RTX_TRY(auto arrays, import::read_npz(path));
    if (arrays.size() != 1) return user_error("cannot read one tensor from " + path, "it holds " + std::to_string(arrays.size()) + " arrays");
    return std::move(arrays[0].tensor);
  }
  if (ends_with(path, ".pb")) {
    RTX_TRY(auto named, import::read_tensor_proto(path));
    return std::move(named.tensor);
  }
  if (!file_exists(path)) return user_error("cannot read " + path, directory_exists(path) ? "it is a folder" : "there is no such file");
  return user_error("cannot read " + path, "tensors are .npy, .npz or ONNX .pb files");
}

Result<std::map<std::string, ir::HostTensor>> load_named_tensors(const std::vector<std::string>& arguments) {
  std::map<std::string, ir::HostTensor> out;
  for (const auto& argument : arguments) {
    if (ends_with(argument, ".npz") && argument.find('=') == std::string::npos) {
      RTX_TRY(auto arrays, import::read_npz(argument));
      for (auto& array : arrays)
        if (!out.emplace(array.name, std::move(array.tensor)).second) return named_twice("an input", array.name);
      continue;
    }
    const auto equal = argument.find('=');
    if (equal == std::string::npos || equal == 0 || equal + 1 == argument.size())
      return user_error("cannot understand '" + argument + "'", "the form is NAME=FILE, or FILE.npz");
    if (out.count(argument.substr(0, equal)) != 0) return named_twice("an input", argument.substr(0, equal));
    RTX_TRY(out[argument.substr(0, equal)], load_tensor(argument.substr(equal + 1)));
  }
  return out;
}

Result<std::vector<DataSet>> load_data_sets(const std::string& directory) {
  std::vector<std::string> folders;
  if (file_exists(directory + "/input_0.pb") || file_exists(directory + "/output_0.pb")) {
    folders.push_back(directory);
  } else {
    for (int k = 0; directory_exists(directory + "/test_data_set_" + std::to_string(k)); ++k) folders.push_back(directory + "/test_data_set_" + std::to_string(k));
  }
  if (folders.empty())
    return user_error("no data in " + directory, "there is neither input_0.pb nor output_0.pb in it, nor a folder test_data_set_0");
  std::vector<DataSet> out;
  for (const auto& folder : folders) {
    DataSet data;
    data.directory = folder;
    for (const auto& [prefix, into] : {std::pair<const char*, std::vector<ir::HostTensor>*>{"/input_", &data.inputs}, {"/output_", &data.outputs}}) {
      for (int i = 0; file_exists(folder + prefix + std::to_string(i) + ".pb"); ++i) {
        RTX_TRY(auto named, import::read_tensor_proto(folder + prefix + std::to_string(i) + ".pb"));
        into->push_back(std::move(named.tensor));
      }
    }
    out.push_back(std::move(data));
  }
  return out;
}

Result<std::map<std::string, ir::HostTensor>> by_name(const import::ModelInfo& info, const DataSet& data) {
  if (data.inputs.size() != info.inputs.size())
    return user_error("the data in " + data.directory + " does not fit the model",
                      "it has " + std::to_string(data.inputs.size()) + " inputs, the model " + std::to_string(info.inputs.size()));
  std::map<std::string, ir::HostTensor> out;
  for (size_t i = 0; i < data.inputs.size(); ++i) out[info.inputs[i].name] = data.inputs[i];
  return out;
}

void bind_from_data(const import::ModelInfo& info, const std::map<std::string, ir::HostTensor>& data, ModelOptions* options,
                    std::map<std::string, ir::HostTensor>* bound) {
  for (const auto& input : info.inputs) {
    const auto found = data.find(input.name);
    if (found == data.end()) continue;
    const bool fixed = input.ranked && std::all_of(input.shape.begin(), input.shape.end(), [](const std::string& d) {
      return !d.empty() && d.find_first_not_of("0123456789") == std::string::npos;
    });
    const bool given = std::any_of(options->shapes.begin(), options->shapes.end(), [&](const std::string& shape) { return shape.compare(0, input.name.size() + 1, input.name + "=") == 0; });
    if (!fixed && !given) {
      std::string shape = input.name + "=";
      const auto& extents = found->second.extents();
      for (size_t d = 0; d < extents.size(); ++d) shape += (d ? "x" : "") + std::to_string(extents[d]);
      options->shapes.push_back(std::move(shape));
    }
    if (std::find(info.shape_deciding_inputs.begin(), info.shape_deciding_inputs.end(), input.name) != info.shape_deciding_inputs.end())
      (*bound)[input.name] = found->second;
  }
}

}  // namespace rtx::tools
