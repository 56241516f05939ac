#include "backend/cuda/compile_log.h"

#include <gtest/gtest.h>

namespace rtx::backend::cuda {
namespace {

const char* const kGood =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'rows' for 'sm_90a'\n"
    "ptxas info    : Function properties for rows\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 2 barriers, 1200 bytes smem, 360 bytes cmem[0]\n"
    "ptxas info    : Compile time = 1.735 ms\n";

TEST(CudaLog, resources_of_each_entry_are_read) {
  const auto verdict = judge_log(kGood);
  EXPECT_EQ(verdict.rejection, "");
  ASSERT_EQ(verdict.entries.size(), 1u);
  EXPECT_EQ(verdict.entries[0].entry, "rows");
  EXPECT_EQ(verdict.entries[0].registers, 168);
  EXPECT_EQ(verdict.entries[0].barriers, 2);
  EXPECT_EQ(verdict.entries[0].static_shared, 1200);
  EXPECT_EQ(verdict.entries[0].stack, 0);
}

TEST(CudaLog, a_spill_is_a_rejection_that_names_the_entry_and_its_bytes) {
  const auto verdict = judge_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     576 bytes stack frame, 976 bytes spill stores, 1064 bytes spill loads\n"
      "ptxas info    : Used 64 registers, used 0 barriers, 576 bytes cumulative stack size\n");
  EXPECT_EQ(verdict.rejection, "k spills: 976 bytes stored, 1064 loaded, with 64 registers a thread");
  EXPECT_EQ(verdict.entries[0].stack, 576);
}

TEST(CudaLog, local_memory_without_a_spill_is_a_rejection_too) {
  const auto verdict = judge_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
      "ptxas info    : Function properties for k\n"
      "    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 24 registers, 368 bytes cmem[0]\n");
  EXPECT_NE(verdict.rejection.find("k uses 64 bytes of local memory"), std::string::npos) << verdict.rejection;
}

TEST(CudaLog, a_spill_of_a_called_function_counts_for_its_entry) {
  const auto verdict = judge_log(
      "ptxas info    : Compiling entry function 'a' for 'sm_80'\n"
      "ptxas info    : Function properties for a\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers\n"
      "ptxas info    : Function properties for _Z1hf\n"
      "ptxas         .     8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_80'\n"
      "ptxas info    : Function properties for b\n"
      "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 24 registers\n");
  EXPECT_EQ(verdict.rejection, "a spills: 4 bytes stored, 4 loaded, with 8 registers a thread");
  EXPECT_EQ(verdict.entries.size(), 2u);
}

TEST(CudaLog, what_ptxas_serializes_or_ignores_is_a_rejection_in_its_own_words) {
  for (const char* line : {"ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.",
                           "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a function call in the function 'k'"})
    EXPECT_EQ(judge_log(std::string(line) + "\n" + kGood).rejection, line);
}

TEST(CudaLog, words_of_source_text_in_warnings_reject_nothing) {
  EXPECT_EQ(judge_log(std::string("kernel.cu(1): warning #177-D: variable \"ignored\" was declared but never referenced\n  int serialized;\n") + kGood).rejection, "");
}

TEST(CudaLog, what_is_kept_is_the_same_for_every_run_and_opens_with_the_resources) {
  const auto verdict = judge_log(kGood);
  const std::string kept = log_to_keep(kGood, verdict.entries);
  EXPECT_EQ(kept.find("rows: 168 registers, 2 barriers, 1200 bytes shared, 0 bytes stack, 0 bytes spilled\n"), 0u) << kept;
  EXPECT_EQ(kept.find("Compile time"), std::string::npos);
  EXPECT_NE(kept.find("cmem[0]"), std::string::npos);
}

TEST(CudaLog, an_empty_or_foreign_log_has_no_entries) {
  EXPECT_TRUE(judge_log("").entries.empty());
  EXPECT_TRUE(judge_log("99999999999999999999999 bytes stack frame, x bytes spill stores\nUsed registers\n'").entries.empty());
}

}  // namespace
}  // namespace rtx::backend::cuda
