// Recorded data of others through import and reference alone: every case of ../shared/onnx-node and
// ../shared/models whose operators are all in the transformer set must import and agree (tolerances: design
// section 4). Skipped where ../shared is absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "import/onnx.h"
#include "import/tensor_proto.h"
#include "reference/reference.h"

namespace rtx::import {
namespace {

namespace fs = std::filesystem;
using ir::DType;

const std::set<std::string>& transformer_set() {
  static const std::set<std::string> set = [] {
    std::istringstream words(
        "Add Reshape MatMul Cast Mul Concat Relu Shape Sub Gather Unsqueeze Slice Div Constant Softmax "
        "Transpose Gemm Squeeze ConstantOfShape "
        "Sigmoid ReduceSum Sqrt Equal Identity Pow ReduceMean Range Where GreaterOrEqual Expand Tanh Clip "
        "GatherND Dropout "
        "com.microsoft::SkipLayerNormalization ReduceMax ScatterND Split Max Min Sum Erf Exp Log Neg Abs "
        "Reciprocal Flatten Less LessOrEqual Greater "
        "Not And Or Xor Mod Size CastLike Trilu ReduceMin LogSoftmax LayerNormalization "
        "SimplifiedLayerNormalization RMSNormalization "
        "RotaryEmbedding Attention Gelu Swish");
    std::set<std::string> out;
    for (std::string word; words >> word;) out.insert(word);
    return out;
  }();
  return set;
}

struct Case {
  std::string name;
  fs::path folder;
  bool required = true;  // all operators in the transformer set
  double noise = 0;
};

std::vector<Case> cases_of(const fs::path& suite) {
  std::ifstream index(suite / "index.tsv");
  std::string line;
  std::getline(index, line);
  std::map<std::string, size_t> column;
  const auto split = [](const std::string& text, char by) {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, by);) out.push_back(part);
    return out;
  };
  const auto names = split(line, '\t');
  for (size_t i = 0; i < names.size(); ++i) column[names[i]] = i;
  std::vector<Case> out;
  while (std::getline(index, line)) {
    auto fields = split(line, '\t');
    fields.resize(names.size());
    Case one;
    one.name = fields[0] + "/" + fields[1];
    one.folder = suite / fields[0] / fields[1];
    for (const auto& op : split(fields[column.at("ops")], ','))
      one.required = one.required && transformer_set().count(op.substr(0, op.find('*')));
    if (auto noise = column.find("ort_noise"); noise != column.end())
      one.noise = std::strtod(fields[noise->second].c_str(), nullptr);
    out.push_back(one);
  }
  return out;
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 1.6e-2;
    case DType::f16:
      return 2e-3;
    case DType::f32:
      return 2e-5;
    default:
      return 1e-9;
  }
}

// Empty: they agree.
std::string difference(const ir::HostTensor& out, const ir::HostTensor& expected, double tolerance) {
  if (out.dtype() != expected.dtype() || out.extents() != expected.extents()) {
    return "is " + std::string(ir::name(out.dtype())) + ir::text(out.extents()) + ", expected " +
           std::string(ir::name(expected.dtype())) + ir::text(expected.extents());
  }
  double largest = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double value = std::abs(expected.get_double(i));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double a = out.get_double(i);
    const double b = expected.get_double(i);
    const bool exact = !ir::is_floating(expected.dtype()) || std::isinf(b) || std::isinf(a);
    const bool good = std::isnan(b) ? std::isnan(a)
                      : exact       ? a == b
                                    : std::abs(a - b) <= tolerance * largest + 1e-30;
    if (!good) {
      std::ostringstream text;
      text.precision(9);
      text << "differs at element " << i << " of " << ir::text(expected.extents()) << ": " << a
           << ", expected " << b << " (largest " << largest << ")";
      return text.str();
    }
  }
  return {};
}

struct Outcome {
  enum class Kind { passed, failed, unsupported, no_data } kind;
  std::string text;
};

bool mentions_small_type(const std::string& text) {
  for (const char* type :
       {"f8e", "f4e", "casts to u4", "casts to i4", "casts to u2", "casts to i2", "type is u4", "type is i4",
        "type is u2", "type is i2", "type u4", "type i4", "type u2", "type i2", "string"})
    if (text.find(type) != std::string::npos) return true;
  return false;
}

std::string disagreement(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs,
                         const fs::path& data, double tolerance, bool round_each_op) {
  reference::Options rounding;
  rounding.round_each_op = round_each_op;
  auto results = reference::run(graph, inputs, rounding);
  if (!results.ok()) return results.error().text();
  for (size_t i = 0; i < results->size(); ++i) {
    auto expected = read_tensor_proto((data / ("output_" + std::to_string(i) + ".pb")).string());
    if (!expected.ok()) return expected.error().text();
    const std::string found = difference(reference::to_host((*results)[i]), expected->tensor, tolerance);
    if (!found.empty()) return "output " + graph.output_name(i) + " " + found;
  }
  return {};
}

Outcome run_data_set(const Case& one, const ModelInfo& info, const fs::path& data) {
  const std::string model = (one.folder / "model.onnx").string();
  Options options;
  std::vector<ir::HostTensor> inputs;
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    const TensorInfo& input = info.inputs[i];
    auto tensor = read_tensor_proto((data / ("input_" + std::to_string(i) + ".pb")).string());
    if (!tensor.ok())
      return {mentions_small_type(tensor.error().why) ? Outcome::Kind::unsupported : Outcome::Kind::failed,
              tensor.error().text()};
    options.shapes[input.name] = tensor->tensor.extents();
    const auto& deciding = info.shape_deciding_inputs;
    if (std::find(deciding.begin(), deciding.end(), input.name) != deciding.end())
      options.bound_values[input.name] = tensor->tensor;
    else
      inputs.push_back(tensor->tensor);
  }
  auto graph = import_onnx(model, options);
  if (!graph.ok())
    return {is_unsupported(graph.error()) ? Outcome::Kind::unsupported : Outcome::Kind::failed,
            graph.error().text()};
  double tolerance = 0;
  for (const auto& value : graph->values)
    if (ir::is_floating(value.dtype)) tolerance = std::max(tolerance, tolerance_of(value.dtype));
  tolerance = std::max(tolerance, 2 * one.noise);
  // Recorders rounded after every node, or (16-bit types on a CPU) only at the end: agreement with either
  // will do.
  std::string found = disagreement(*graph, inputs, data, tolerance, true);
  if (!found.empty() && disagreement(*graph, inputs, data, tolerance, false).empty()) found.clear();
  return {found.empty() ? Outcome::Kind::passed : Outcome::Kind::failed, found};
}

Outcome run_case(const Case& one) {
  auto info = inspect((one.folder / "model.onnx").string());
  if (!info.ok()) return {Outcome::Kind::failed, info.error().text()};
  int sets = 0;
  for (int k = 0; fs::exists(one.folder / ("test_data_set_" + std::to_string(k))); ++k, ++sets) {
    Outcome outcome = run_data_set(one, *info, one.folder / ("test_data_set_" + std::to_string(k)));
    if (outcome.kind != Outcome::Kind::passed) return outcome;
  }
  if (sets > 0) return {Outcome::Kind::passed, {}};
  // A graph without data: nothing to agree with, and its symbols have no values; it must only not crash.
  (void)import_onnx((one.folder / "model.onnx").string());
  return {Outcome::Kind::no_data, {}};
}

void run_suite(const std::string& name) {
  const fs::path suite = fs::path("../shared") / name;
  if (!fs::exists(suite / "index.tsv")) GTEST_SKIP() << "skipped: " << suite << " is absent";
  int passed = 0, unsupported = 0, failed = 0, required = 0;
  for (const Case& one : cases_of(suite)) {
    const Outcome outcome = run_case(one);
    if (outcome.kind == Outcome::Kind::passed) ++passed;
    if (outcome.kind == Outcome::Kind::unsupported) ++unsupported;
    if (one.required) ++required;
    if (outcome.kind == Outcome::Kind::failed) {
      ++failed;
      ADD_FAILURE() << one.name << (one.required ? "" : " (beyond the set)") << ": " << outcome.text;
    } else if (outcome.kind == Outcome::Kind::unsupported && one.required &&
               !mentions_small_type(outcome.text)) {
      ADD_FAILURE() << one.name << ": its operators are all in the transformer set, yet: " << outcome.text;
    }
  }
  std::cout << name << ": " << passed << " passed, " << failed << " failed, " << unsupported
            << " unsupported; " << required << " in the set\n";
}

TEST(OnnxSuites, node_cases_agree_with_their_recorded_data) { run_suite("onnx-node"); }
TEST(OnnxSuites, models_and_graphs_agree_with_their_recorded_data) { run_suite("models"); }

}  // namespace
}  // namespace rtx::import
