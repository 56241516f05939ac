#include <gtest/gtest.h>
#include <sys/stat.h>

#include "bundle/bundle.h"
#include "bundle/layout.h"
#include "bundle/sample_testing.h"

namespace rtx::bundle {

namespace {

using sample::Directory;

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 0777 : 0;
}

TEST(Keys, a_new_key_is_private_trusted_and_reads_back) {
  Directory directory;
  const std::string keys = directory / "keys";
  const auto key = new_key(keys, "default");
  ASSERT_TRUE(key.ok()) << key.error().text();
  EXPECT_EQ(mode_of(keys), 0700u);
  EXPECT_EQ(mode_of(keys + "/default.key"), 0600u);
  EXPECT_TRUE(is_trusted(keys, key->public_key));
  const auto again = load_key(keys + "/default.key");
  ASSERT_TRUE(again.ok()) << again.error().text();
  EXPECT_EQ(again->public_key, key->public_key);
  EXPECT_EQ(again->secret_key, key->secret_key);
  const auto list = list_keys(keys);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 1u);
  EXPECT_TRUE((*list)[0].own);
  EXPECT_TRUE((*list)[0].trusted);
}

TEST(Keys, a_key_is_never_overwritten) {
  Directory directory;
  ASSERT_TRUE(new_key(directory.path(), "one").ok());
  const auto before = sample::bytes_of(directory / "one.key");
  EXPECT_EQ(new_key(directory.path(), "one").error().kind, ErrorKind::user);
  EXPECT_EQ(sample::bytes_of(directory / "one.key"), before);
}

TEST(Keys, a_name_that_leads_elsewhere_is_refused) {
  Directory directory;
  for (const char* name : {"", "..", "../up", "a/b", ".hidden", "space in it", "-option"})
    EXPECT_EQ(new_key(directory.path(), name).error().kind, ErrorKind::user) << name;
  EXPECT_EQ(trust(directory.path(), std::string(64, 'a'), "../x").error().kind, ErrorKind::user);
  EXPECT_TRUE(list_directory(directory.path()).empty());
}

TEST(Keys, trust_is_given_by_hex_or_file_and_taken_back) {
  Directory directory;
  const KeyPair other = sample::key(7);
  EXPECT_FALSE(is_trusted(directory.path(), other.public_key));
  ASSERT_TRUE(trust(directory.path(), layout::hex(other.public_key), "colleague").ok());
  EXPECT_TRUE(is_trusted(directory.path(), other.public_key));
  EXPECT_FALSE(is_trusted(directory.path(), sample::key(8).public_key));
  EXPECT_EQ(trust(directory.path(), layout::hex(sample::key(8).public_key), "colleague").error().kind, ErrorKind::user) << "the name is taken";
  ASSERT_TRUE(untrust(directory.path(), "colleague").ok());
  EXPECT_FALSE(is_trusted(directory.path(), other.public_key));
  EXPECT_EQ(untrust(directory.path(), "colleague").error().kind, ErrorKind::user);

  ASSERT_TRUE(new_key(directory / "elsewhere", "theirs").ok());
  ASSERT_TRUE(trust(directory.path(), directory / "elsewhere/trusted/theirs.pub", "friend").ok());
  EXPECT_TRUE(is_trusted(directory.path(), load_key(directory / "elsewhere/theirs.key")->public_key));
  EXPECT_EQ(trust(directory.path(), "not a key", "nobody").error().kind, ErrorKind::user);
}

TEST(Keys, a_secret_key_that_others_can_read_is_refused) {
  Directory directory;
  ASSERT_TRUE(new_key(directory.path(), "one").ok());
  ASSERT_EQ(::chmod((directory / "one.key").c_str(), 0644), 0);
  const auto key = load_key(directory / "one.key");
  ASSERT_FALSE(key.ok());
  EXPECT_NE(key.error().text().find("chmod 600"), std::string::npos) << key.error().text();
}

TEST(Keys, a_directory_that_others_can_write_trusts_nobody) {
  Directory directory;
  const auto key = new_key(directory.path(), "one");
  ASSERT_TRUE(key.ok());
  ASSERT_EQ(::chmod((directory / "trusted").c_str(), 0777), 0);
  EXPECT_FALSE(is_trusted(directory.path(), key->public_key));
  EXPECT_FALSE(new_key(directory.path(), "two").ok());
}

TEST(Keys, a_damaged_key_file_is_no_key) {
  Directory directory;
  ASSERT_TRUE(new_key(directory.path(), "one").ok());
  auto bytes = sample::bytes_of(directory / "one.key");
  auto& digit = bytes[bytes.size() - 5];
  digit = digit == std::byte{'0'} ? std::byte{'1'} : std::byte{'0'};
  sample::write_bytes(directory / "one.key", bytes);
  EXPECT_EQ(load_key(directory / "one.key").error().kind, ErrorKind::user);
  EXPECT_EQ(load_key(directory / "two.key").error().kind, ErrorKind::user);
}

}  // namespace

}  // namespace rtx::bundle
