#include "base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "base/hash.h"

namespace rtx {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_temp_directory("/tmp", "rtx-files-test-");
    ASSERT_TRUE(made.ok());
    root_ = *made;
  }
  void TearDown() override { remove_tree(root_); }
  std::string root_;
};

TEST_F(Files, what_is_written_is_read_and_no_temporary_stays) {
  const std::string path = root_ + "/a";
  const std::string bytes("one\0two", 7);
  ASSERT_TRUE(write_file_atomic(path, bytes, 0600).ok());
  ASSERT_TRUE(write_file_atomic(path, bytes + "!", 0640).ok());
  auto read = read_file(path);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, bytes + "!");
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"a"});
}

TEST_F(Files, a_write_that_fails_keeps_the_old_file_and_names_the_path) {
  ASSERT_TRUE(make_directories(root_ + "/target/inside").ok());
  auto status = write_file_atomic(root_ + "/target", "x");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::output);
  EXPECT_NE(status.error().what.find(root_ + "/target"), std::string::npos);
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"target"});
  EXPECT_FALSE(write_file_atomic(root_ + "/absent/file", "x").ok());
}

TEST_F(Files, a_missing_file_and_a_directory_are_refused) {
  auto missing = read_file(root_ + "/none");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::user);
  EXPECT_EQ(missing.error().text(), "error: cannot read " + root_ + "/none\n  No such file or directory");
  EXPECT_FALSE(read_file(root_).ok());
  EXPECT_FALSE(MappedFile::open(root_).ok());
  EXPECT_FALSE(MappedFile::open(root_ + "/none").ok());
}

TEST_F(Files, a_mapping_moves_and_may_be_empty) {
  ASSERT_TRUE(write_file_atomic(root_ + "/a", "bytes").ok());
  ASSERT_TRUE(write_file_atomic(root_ + "/empty", "").ok());
  auto mapped = MappedFile::open(root_ + "/a");
  ASSERT_TRUE(mapped.ok());
  const std::byte* address = mapped->bytes().data();
  const MappedFile moved = *std::move(mapped);
  ASSERT_EQ(moved.bytes().size(), 5u);
  EXPECT_EQ(moved.bytes().data(), address);
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), 's');
  auto empty = MappedFile::open(root_ + "/empty");
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->bytes().empty());
}

TEST_F(Files, a_removed_tree_takes_links_but_not_what_they_point_to) {
  ASSERT_TRUE(make_directories(root_ + "/keep").ok());
  ASSERT_TRUE(write_file_atomic(root_ + "/keep/file", "x").ok());
  ASSERT_TRUE(make_directories(root_ + "/tree/deep").ok());
  ASSERT_EQ(symlink((root_ + "/keep").c_str(), (root_ + "/tree/link").c_str()), 0);
  remove_tree(root_ + "/tree");
  EXPECT_FALSE(directory_exists(root_ + "/tree"));
  EXPECT_TRUE(file_exists(root_ + "/keep/file"));
  EXPECT_FALSE(make_directories(root_ + "/keep/file/under").ok());
}

TEST(Hash, blake2b_has_its_published_value_and_is_the_same_in_pieces) {
  const std::string whole = blake2b_hex(std::string_view("abc"), 64);
  EXPECT_EQ(whole,
            "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
            "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923");
  Blake2b pieces(64);
  pieces.update("a");
  pieces.update("");
  pieces.update("bc");
  EXPECT_EQ(pieces.hex(), whole);
  EXPECT_EQ(blake2b_hex("abc").size(), 64u);
}

TEST(Hash, hexadecimal_reads_back_or_is_refused) {
  const std::string bytes("\x00\xff\x7f", 3);
  EXPECT_EQ(to_hex(bytes), "00ff7f");
  EXPECT_EQ(from_hex("00fF7f"), bytes);
  EXPECT_EQ(from_hex("00f"), "");
  EXPECT_EQ(from_hex("0g"), "");
}

}  // namespace
}  // namespace rtx
