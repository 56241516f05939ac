#include "rtx/bench_report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace rtx::tools {
namespace {

using nlohmann::json;

json row(const char* name, const char* subject, double ms, double spread, const char* group = "gemm large") {
  return {{"name", name}, {"subject", subject}, {"group", group}, {"median_ms", ms}, {"low_ms", ms - spread}, {"high_ms", ms + spread}, {"gflops", 500e3}, {"gbps", 400.0}};
}
json document(json rows) { return {{"format", "rtx-bench 1"}, {"device", "a <device>"}, {"driver", "1.2"}, {"date", "today"}, {"command", {"bench", "suite"}}, {"rows", std::move(rows)}}; }

const std::vector<std::pair<std::string, json>>& both() {
  static const std::vector<std::pair<std::string, json>> documents = {
      {"out/ours.json", document({row("a", "rtx", 1.0, 0.1), row("a", "cublaslt", 1.5, 0.1), row("b", "rtx", 2.0, 0.1), row("b", "cublaslt", 2.1, 0.1), row("d", "rtx", 1.0, 0.1, "norms")})},
      {"torch.json", document({row("a", "torch eager", 0.5, 0.01), row("c", "torch eager", 3.0, 0.1), row("a", "rtx", 1.2, 0.05)})}};
  return documents;
}

TEST(BenchReport, rows_of_one_name_are_joined_over_files) {
  const auto rows = join_results(both());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].name, "a");
  EXPECT_EQ(rows[0].ms, 1.0);
  ASSERT_EQ(rows[0].rivals.size(), 3u);
  EXPECT_EQ(rows[0].rivals[0].subject, "torch eager");  // the fastest first
  EXPECT_EQ(rows[0].rivals[1].subject, "rtx in torch.json");
  EXPECT_EQ(rows[0].rivals[2].subject, "cublaslt");
  EXPECT_EQ(rows[2].name, "d");
  EXPECT_EQ(rows[3].name, "c");
  EXPECT_EQ(rows[3].ms, 0.0);  // nobody of ours
  EXPECT_EQ(rows[3].rivals[0].ratio, 0.0);
}

TEST(BenchReport, a_name_in_two_groups_is_two_rows_and_no_group_means_any) {
  const auto rows = join_results({{"x", document({row("a", "rtx", 1, 0, "gemm large"), row("a", "rtx", 1, 0, "gemm squares"), row("a", "torch", 2, 0, ""), row("a", "cublaslt", 2, 0, "gemm squares")})}});
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].rivals.size(), 1u);
  EXPECT_EQ(rows[0].rivals[0].subject, "torch");
  ASSERT_EQ(rows[1].rivals.size(), 1u);
  EXPECT_EQ(rows[1].rivals[0].subject, "cublaslt");
}

TEST(BenchReport, faster_is_said_only_where_intervals_do_not_overlap) {
  const auto rows = join_results(both());
  EXPECT_EQ(rows[0].rivals[0].verdict, "slower");
  EXPECT_EQ(rows[0].rivals[2].verdict, "faster");
  EXPECT_EQ(rows[1].rivals[0].verdict, "within the spread");
  EXPECT_EQ(rows[3].rivals[0].verdict, "");
}

TEST(BenchReport, standings_are_geometric_means_and_minima_by_group_and_peer) {
  const auto all = standings(join_results(both()));
  ASSERT_EQ(all.size(), 4u);
  const auto of = [&](const std::string& subject) { return *std::find_if(all.begin(), all.end(), [&](const Standing& s) { return s.subject == subject; }); };
  EXPECT_EQ(of("cublaslt").rows, 2);
  EXPECT_NEAR(of("cublaslt").mean, std::sqrt(1.5 * 1.05), 1e-12);
  EXPECT_NEAR(of("cublaslt").least, 1.05, 1e-12);
  EXPECT_EQ(of("cublaslt").at, "b");
  EXPECT_EQ(of("torch eager").rows, 1);  // what nobody of ours was timed on does not count
  EXPECT_NEAR(of("best peer").mean, std::sqrt(0.5 * 1.05), 1e-12);
}

TEST(BenchReport, the_page_needs_nothing_else_and_shows_names_as_they_are) {
  const std::string page = joined_html(both());
  for (const char* outside : {"http", "src=", "href", "<script", "url("}) EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  EXPECT_NE(page.find("a &lt;device&gt;"), std::string::npos);
  for (const char* part : {"torch eager", "cublaslt", "ours.json", "1.255", "bench suite", "class=\"w faster\""}) EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(BenchReport, rows_without_a_name_or_a_time_are_left_out) {
  const auto rows = join_results({{"x", document({row("", "rtx", 1, 0), row("a", "rtx", 0, 0), {{"name", "b"}, {"subject", "rtx"}, {"error", "it fell"}}})}});
  EXPECT_TRUE(rows.empty());
}

}  // namespace
}  // namespace rtx::tools
