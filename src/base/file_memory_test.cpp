#include "base/file_memory.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace rtx {
namespace {

class FileMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = *make_temp_directory("/tmp", "rtx-memory-");
    ASSERT_TRUE(write_file_atomic(directory_ + "/tool", "one").ok());
  }
  void TearDown() override { remove_tree(directory_); }
  std::string directory_;
};

TEST_F(FileMemoryTest, a_second_object_knows_what_the_first_was_told) {
  const std::string stamp = file_stamp(directory_ + "/tool");
  FileMemory first(directory_ + "/memory");
  EXPECT_EQ(first.find(stamp), "");
  first.remember(stamp, "tool 1.0");
  EXPECT_EQ(FileMemory(directory_ + "/memory").find(stamp), "tool 1.0");
}

TEST_F(FileMemoryTest, a_replaced_file_is_not_remembered) {
  const std::string stamp = file_stamp(directory_ + "/tool");
  FileMemory memory(directory_ + "/memory");
  memory.remember(stamp, "tool 1.0");
  ASSERT_TRUE(write_file_atomic(directory_ + "/tool", "longer").ok());
  EXPECT_NE(file_stamp(directory_ + "/tool"), stamp);
  EXPECT_EQ(memory.find(file_stamp(directory_ + "/tool")), "");
}

TEST_F(FileMemoryTest, two_writers_keep_each_others_lines) {
  FileMemory a(directory_ + "/memory"), b(directory_ + "/memory");
  a.remember("tool 1 2 3", "a");
  b.remember("tool 4 5 6", "b");
  EXPECT_EQ(FileMemory(directory_ + "/memory").find("tool 1 2 3"), "a");
  EXPECT_EQ(FileMemory(directory_ + "/memory").find("tool 4 5 6"), "b");
}

TEST_F(FileMemoryTest, a_missing_file_has_no_stamp_and_nothing_is_kept_under_it) {
  EXPECT_EQ(file_stamp(directory_ + "/none"), "");
  FileMemory memory;
  memory.remember("", "x");
  EXPECT_EQ(memory.find(""), "");
}

}  // namespace
}  // namespace rtx
