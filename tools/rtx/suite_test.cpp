#include "rtx/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/cuda/compile_library.h"
#include "fuse/recognise.h"
#include "fuse/region.h"
#include "kernels/family.h"
#include "rtx/problems.h"

namespace rtx::tools {
namespace {

std::map<std::string, int> rows_by_group() {
  std::map<std::string, int> out;
  for (const auto& row : suite_rows()) ++out[row.group];
  return out;
}

TEST(Suite, has_the_shapes_that_speed_is_judged_by) {
  auto groups = rows_by_group();
  EXPECT_EQ(groups["gemm large"], 3 * 4 + 4);
  EXPECT_EQ(groups["gemm ragged"], 3);
  EXPECT_EQ(groups["gemm squares"], 2 * 5);
  EXPECT_EQ(groups["gemm skinny"], 4 * 4);
  EXPECT_EQ(groups["epilogues fused"], 2 * 6);
  EXPECT_EQ(groups["epilogues beyond"], 2 * 6);
  EXPECT_EQ(groups["swiglu"], 2);
  EXPECT_EQ(groups["attention full"], 11 + 2);
  EXPECT_EQ(groups["attention causal"], 11 + 2);
  EXPECT_EQ(groups["decode"], 6 + 2);
  EXPECT_EQ(groups["norms"], 5 * 5);
}

TEST(Suite, no_two_rows_of_a_group_share_a_name) {
  std::set<std::string> names;
  for (const auto& row : suite_rows()) {
    if (row.group == "sample") continue;
    EXPECT_TRUE(names.insert(row.group + ": " + row.name()).second) << row.name();
  }
}

// The regions that a peer's compilation has, and which of them the library computes.
struct Cut {
  size_t regions = 0, library = 0;
};
Cut cut_for(const SuiteRow& row, const std::string& peer) {
  const auto graph = problem_graph(row.family, row.settings);
  if (!graph.ok()) return {};
  fuse::PartitionOptions options;
  if (peer == "cublaslt + pointwise") options.alone = {ir::Op::matmul};
  const auto whole = fuse::recognise(*graph);
  const auto cut = fuse::partition(whole, kernels::patterns(), options);
  if (!cut.ok()) return {};
  Cut out;
  out.regions = cut->regions.size();
  for (const auto& region : cut->regions)
    out.library += peer == "cudnn" ? backend::cuda::library_attention(region.body, "/library").has_value() : backend::cuda::library_matmul(region.body, "/library").has_value();
  return out;
}

TEST(Suite, every_peer_has_a_plan_for_the_rows_it_is_named_in) {
  std::set<std::string> seen;
  for (const auto& row : suite_rows())
    for (const auto& peer : row.peers) {
      if (peer == "baseline") continue;
      seen.insert(peer);
      const Cut cut = cut_for(row, peer);
      if (peer == "cublaslt + pointwise") {
        const bool pair = row.op == "swiglu up";
        EXPECT_EQ(cut.library, pair ? 2u : 1u) << row.name();
        EXPECT_EQ(cut.regions, pair ? 3u : 2u) << row.name();  // and one pointwise kernel behind
      } else {
        EXPECT_EQ(cut.regions, 1u) << row.name() << " against " << peer;
        EXPECT_EQ(cut.library, 1u) << row.name() << " against " << peer;
      }
    }
  EXPECT_EQ(seen, (std::set<std::string>{"cublaslt", "cublaslt + pointwise", "cudnn"}));
}

TEST(Suite, what_the_library_cannot_fuse_is_not_asked_of_its_epilogue) {
  for (const auto& row : suite_rows()) {
    if (row.group != "epilogues beyond") continue;
    EXPECT_EQ(cut_for(row, "cublaslt").library, 0u) << row.name();
  }
}

TEST(Suite, a_filter_takes_groups_by_their_first_words_and_shapes_by_a_part) {
  const auto count = [](const std::string& target, const SuiteFilter& filter) {
    const auto rows = select_rows(target, filter);
    return rows.ok() ? rows->size() : 0;
  };
  EXPECT_EQ(count("cuda", {"gemm", "", {}}), 16u + 3 + 10 + 16);
  EXPECT_EQ(count("cuda", {"gemm skinny", "", {}}), 16u);
  EXPECT_EQ(count("cuda", {"gemm", "", {"4096x4096x4096 bf16", "777x"}}), 2u + 1);  // among the large ones and the squares
  EXPECT_EQ(count("cuda", {"", "attention", {}}), 13u + 13 + 8);
  EXPECT_EQ(count("cpu", {"", "gemm", {}}), 6u);
  EXPECT_EQ(count("cpu", {"sample", "", {}}), count("cuda", {"sample", "", {}}));
  EXPECT_EQ(count(kEmulatedTarget, {}), count("cuda", {"sample", "", {}}));
  const auto why = [](const SuiteFilter& filter) {
    const auto rows = select_rows("cuda", filter);
    return rows.ok() ? std::string("rows") : rows.error().what;
  };
  EXPECT_EQ(why({"gem", "", {}}), "the suite has no group 'gem'");
  EXPECT_EQ(why({"gemm", "norm", {}}), "the suite has no family 'norm'");
  EXPECT_EQ(why({"gemm", "", {"12x34"}}), "no row of the suite is called '12x34'");
}

}  // namespace
}  // namespace rtx::tools
