// Models of others: the written-out twins of composite operators, and graphs made to test fusion passes.
// Which composite each must become, which must stay, and that all of them compute the same before and after.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <random>

#include "fuse/recognise.h"
#include "import/onnx.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/reference.h"

namespace rtx::fuse {
namespace {

namespace fs = std::filesystem;
using ir::Op;

const fs::path kNodes = "../shared/onnx-node/node", kGraphs = "../shared/models/ort-graphs";

std::vector<fs::path> cases(const fs::path& folder, std::string_view part) {
  std::vector<fs::path> out;
  if (fs::exists(folder))
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().filename().string().find(part) != std::string::npos) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

// Unnamed sizes and symbols are 4.
Result<ir::Graph> import_case(const fs::path& folder) {
  const std::string path = (folder / "model.onnx").string();
  import::Options options;
  if (auto info = import::inspect(path); info.ok())
    for (const auto& input : info->inputs)
      for (const std::string& dim : input.shape)
        if (!dim.empty() && dim[0] != '?' && !std::isdigit(static_cast<unsigned char>(dim[0])))
          options.dims[dim] = 4;
  return import::import_onnx(path, options);
}

int count(const ir::Graph& graph, Op op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const ir::Node& node) { return node.op == op; }));
}

struct Expected {
  std::string_view prefix;
  Op op;
  std::string_view not_with = "";  // cases that ask for an inner value as a result
};

TEST(Twins, written_out_twins_become_their_operator) {
  if (!fs::exists(kNodes)) GTEST_SKIP() << "no " << kNodes;
  const Expected table[] = {
      {"test_layer_normalization", Op::layer_norm},
      {"test_rms_normalization", Op::rms_norm},
      {"test_gelu", Op::gelu},
      {"test_softmax", Op::softmax},
      {"test_logsoftmax", Op::log_softmax},
      {"test_rotary_embedding", Op::rotary,
       "3d_input"},  // heads behind rows at both ends: stays a pointwise chain
      {"test_attention", Op::attention, "qk_matmul"},
      {"test_flexattention", Op::attention},
  };
  int found = 0;
  for (const fs::path& folder : cases(kNodes, "_expanded")) {
    const std::string name = folder.filename().string();
    for (const Expected& row : table) {
      if (!name.starts_with(row.prefix) ||
          (!row.not_with.empty() && name.find(row.not_with) != std::string::npos))
        continue;
      auto graph = import_case(folder);
      if (!graph.ok()) {
        // test_flexattention_prob_mod and the like may use operators outside the set; a mistake is none of
        // these.
        EXPECT_TRUE(import::is_unsupported(graph.error())) << name << ": " << graph.error().text();
        continue;
      }
      const ir::Graph after = recognise(*graph);
      EXPECT_EQ(count(after, row.op), 1) << name << "\n" << ir::to_text(after);
      ++found;
    }
  }
  EXPECT_GE(found, 95);
}

TEST(Twins, fusion_graphs_become_what_they_spell_and_no_more) {
  if (!fs::exists(kGraphs)) GTEST_SKIP() << "no " << kGraphs;
  struct Row {
    const char* name;
    Op op;
    int times;
  };
  const Row table[] = {
      {"fusion__layer_norm", Op::layer_norm, 1},
      {"fusion__layer_norm_with_cast", Op::layer_norm, 1},
      {"fusion__layer_norm_with_cast_2", Op::layer_norm, 1},
      {"fusion__skip_layer_norm_format1", Op::layer_norm, 1},
      {"fusion__skip_layer_norm_format2_partial", Op::layer_norm, 1},
      {"fusion__gelu", Op::gelu, 1},
      {"fusion__fast_gelu2", Op::gelu, 1},
      {"fusion__fast_gelu_with_bias_use_graph_input", Op::gelu, 1},
      {"fusion__gelu_format2_0_with_bias_use_graph_output", Op::gelu, 0},  // an inner value is a result
      {"fusion__gelu_format2_1", Op::gelu, 0},  // divides by 1.41421: not the square root of 2 in f32
      {"fusion__gpt2_past_one_layer", Op::attention, 1},
      {"fusion__gpt2_past_one_layer", Op::gelu, 1},
      {"model_parallel__bart_self_attention_megatron_basic_test", Op::attention, 1},
      {"model_parallel__self_attention_megatron_basic_test", Op::attention, 0},  // the mask scales the scores
      {"fusion__transpose_matmul_2d_fusion_with_preserved_transpose", Op::transpose, 1},
      {"fusion__transpose_cast_matmul_4d_fusion1", Op::transpose, 0},
  };
  for (const Row& row : table) {
    auto graph = import_case(kGraphs / row.name);
    ASSERT_TRUE(graph.ok()) << row.name << ": " << graph.error().text();
    EXPECT_EQ(count(recognise(*graph), row.op), row.times) << row.name;
  }
}

std::vector<ir::HostTensor> inputs_for(const ir::Graph& graph) {
  std::mt19937 random(7);
  std::normal_distribution<double> normal(0, 1);
  std::vector<ir::HostTensor> out;
  for (ir::ValueId id : graph.inputs) {
    ir::HostTensor tensor(graph.value(id).dtype, graph.extents(id));
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (ir::is_floating(tensor.dtype()))
        tensor.set_double(i, normal(random));
      else
        tensor.set_int(i, static_cast<int64_t>(random() % 2));
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

// Constants in the model are rounded to its type, the composite's are not.
double tolerance(ir::DType dtype) {
  return dtype == ir::DType::f64 ? 1e-7 : dtype == ir::DType::f32 ? 1e-6 : 1e-2;
}

TEST(Twins, models_of_others_compute_the_same_after_recognition) {
  if (!fs::exists(kNodes)) GTEST_SKIP() << "no " << kNodes;
  auto folders = cases(kNodes, "_expanded");
  for (const auto& folder : {kGraphs, fs::path("../shared/models/mgx-graphs")}) {
    const auto more = cases(folder, "");
    folders.insert(folders.end(), more.begin(), more.end());
  }
  int compared = 0;
  for (const fs::path& folder : folders) {
    auto graph = import_case(folder);
    if (!graph.ok()) continue;
    double elements = 0;
    for (const ir::Value& value : graph->values)
      elements += static_cast<double>(ir::element_count(ir::extents(value.shape)));
    if (elements > 3e5) continue;
    const ir::Graph after = recognise(*graph);
    ASSERT_TRUE(ir::verify(after).ok()) << folder;
    const auto inputs = inputs_for(*graph);
    auto wanted = reference::run(*graph, inputs);
    if (!wanted.ok()) continue;  // random indices may be out of range
    auto found = reference::run(after, inputs);
    ASSERT_TRUE(found.ok()) << folder << found.error().text();
    ++compared;
    for (size_t i = 0; i < wanted->size(); ++i) {
      const auto &a = (*found)[i], &b = (*wanted)[i];
      EXPECT_EQ(a.integers, b.integers) << folder;
      double largest = 1e-30;
      for (double number : b.reals)
        if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
      int wrong = 0;
      for (size_t j = 0; j < b.reals.size(); ++j) {
        const bool same =
            std::isfinite(b.reals[j])
                ? std::abs(a.reals[j] - b.reals[j]) <= tolerance(b.dtype) * largest
                : a.reals[j] == b.reals[j] || (std::isnan(a.reals[j]) && std::isnan(b.reals[j]));
        if (!same && wrong++ == 0)
          ADD_FAILURE() << folder << " result " << i << " element " << j << ": " << a.reals[j]
                        << " instead of " << b.reals[j];
      }
    }
  }
  EXPECT_GE(compared, 200);
}

}  // namespace
}  // namespace rtx::fuse
