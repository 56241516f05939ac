#include "base/temp_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <optional>

#include "base/files.h"
#include "base/process.h"

namespace rtx {
namespace {

class TempDirectoryTest : public testing::Test {
 protected:
  TempDirectoryTest() : root_(*make_temp_directory(testing::TempDir(), "rtx-temp-test-")) {}
  ~TempDirectoryTest() override { remove_tree(root_); }

  // A directory as a killed process leaves it: with the file, without the lock.
  std::string left_behind(const std::string& name) {
    const std::string path = root_ + "/" + name;
    EXPECT_TRUE(make_directories(path).ok());
    EXPECT_TRUE(write_file_atomic(path + "/owner", "").ok());
    return path;
  }
  void make_old(const std::string& path) {
    const struct timespec hours_ago[2] = {{std::time(nullptr) - 4000, 0}, {std::time(nullptr) - 4000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), hours_ago, 0), 0);
  }

  std::string root_;
};

TEST_F(TempDirectoryTest, is_removed_with_its_object) {
  std::string path;
  {
    auto made = TempDirectory::create(root_, "job-");
    ASSERT_TRUE(made.ok());
    path = made->path();
    EXPECT_TRUE(write_file_atomic(path + "/file", "x").ok());
    EXPECT_TRUE(directory_exists(path));
  }
  EXPECT_FALSE(directory_exists(path));
}

TEST_F(TempDirectoryTest, moves_without_removing) {
  std::optional<TempDirectory> kept;
  {
    auto made = TempDirectory::create(root_, "job-");
    ASSERT_TRUE(made.ok());
    kept = *std::move(made);
  }
  EXPECT_TRUE(directory_exists(kept->path()));
}

TEST_F(TempDirectoryTest, one_in_use_is_left_alone_however_old) {
  auto made = TempDirectory::create(root_, "job-");
  ASSERT_TRUE(made.ok());
  make_old(made->path());
  EXPECT_EQ(remove_abandoned_directories(root_, "job-"), 0);
  EXPECT_TRUE(directory_exists(made->path()));
}

TEST_F(TempDirectoryTest, one_whose_owner_is_gone_is_removed_at_once) {
  const std::string path = left_behind("job-abc");
  EXPECT_EQ(remove_abandoned_directories(root_, "job-"), 1);
  EXPECT_FALSE(directory_exists(path));
}

TEST_F(TempDirectoryTest, other_names_links_and_files_are_left_alone) {
  const std::string other = left_behind("another-abc"), outside = left_behind("outside");
  ASSERT_EQ(symlink(outside.c_str(), (root_ + "/job-link").c_str()), 0);
  ASSERT_TRUE(write_file_atomic(root_ + "/job-file", "x").ok());
  EXPECT_EQ(remove_abandoned_directories(root_, "job-"), 0);
  EXPECT_TRUE(directory_exists(other));
  EXPECT_TRUE(directory_exists(outside));
  EXPECT_TRUE(file_exists(root_ + "/job-file"));
}

TEST_F(TempDirectoryTest, one_without_an_owner_file_is_removed_only_when_old) {
  const std::string path = root_ + "/job-young";
  ASSERT_TRUE(make_directories(path).ok());
  EXPECT_EQ(remove_abandoned_directories(root_, "job-"), 0);
  make_old(path);
  EXPECT_EQ(remove_abandoned_directories(root_, "job-"), 1);
  EXPECT_FALSE(directory_exists(path));
}

TEST_F(TempDirectoryTest, a_child_process_does_not_keep_the_lock) {
  std::string path;
  {
    auto made = TempDirectory::create(root_, "job-");
    ASSERT_TRUE(made.ok());
    path = made->path();
    const auto result = run_process({"/bin/sh", "-c", "ls -l /proc/self/fd"});
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->output.find(path), std::string::npos) << result->output;
  }
}

TEST_F(TempDirectoryTest, a_place_that_is_not_there_is_an_output_error) {
  const auto made = TempDirectory::create(root_ + "/nothing", "job-");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::output);
  EXPECT_EQ(remove_abandoned_directories(root_ + "/nothing", "job-"), 0);
}

}  // namespace
}  // namespace rtx
