#include "cache/cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/files.h"
#include "base/hash.h"

namespace rtx::cache {
namespace {

Key key_number(int n) {
  Key key;
  key.op = "gemm";
  key.problem = "f32 m=" + std::to_string(n) + " n=64 k=64";
  key.target = "cpu";
  key.device = "a CPU; 2 threads";
  key.arch = "x86-64-v3";
  key.driver = "none";
  key.toolchain = "g++ 12.2.0; -O3";
  key.synth_sha = "0123456789abcdef";
  return key;
}

Entry entry_number(int n) {
  Entry entry;
  entry.record.parameters = "mr=" + std::to_string(n);
  entry.record.numerics_class = "fma k-sequential";
  entry.record.measured_ms = 0.5 + n;
  entry.record.timings["mr=" + std::to_string(n)] = 0.5 + n;
  entry.record.rejected["mr=99"] = "rejected: tile fits the registers";
  entry.record.tuning = "grid 2/2";
  entry.record.verdict = "validated";
  entry.source = "// kernel " + std::to_string(n);
  entry.log = "";
  entry.binary.assign(1000, std::byte(n));
  return entry;
}

class CacheTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_temp_directory(testing::TempDir(), "rtx-cache-test-");
    ASSERT_TRUE(made.ok());
    root_ = *made;
  }
  void TearDown() override {
    chmod((root_ + "/cache").c_str(), 0700);
    remove_tree(root_);
  }
  std::unique_ptr<Cache> open(int64_t max_bytes = int64_t{1} << 30) {
    Options options;
    options.directory = root_ + "/cache";
    options.max_bytes = max_bytes;
    options.warn = [this](std::string_view line) { warnings_.emplace_back(line); };
    return Cache::open(options);
  }
  std::string entry_path(int n) const { return root_ + "/cache/entries/" + key_number(n).digest(); }
  std::string root_;
  std::vector<std::string> warnings_;
};

TEST_F(CacheTest, what_was_stored_is_found_by_the_next_process) {
  open()->store(key_number(1), entry_number(1));
  auto cache = open();
  auto entry = cache->find(key_number(1));
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->record.parameters, "mr=1");
  EXPECT_EQ(entry->record.timings.at("mr=1"), 1.5);
  EXPECT_EQ(entry->source, "// kernel 1");
  EXPECT_EQ(entry->binary, entry_number(1).binary);
  EXPECT_FALSE(cache->find(key_number(2)));
  EXPECT_EQ(cache->stats().hits, 1);
  EXPECT_EQ(cache->stats().misses, 1);
  EXPECT_TRUE(warnings_.empty());
}

// P05: a changed toolchain, driver, pass version or arch never reuses the old binary.
TEST_F(CacheTest, any_field_of_the_key_that_changes_is_a_miss_and_the_first_entry_still_hits) {
  auto cache = open();
  cache->store(key_number(1), entry_number(1));
  for (auto member : {&Key::op, &Key::problem, &Key::flags, &Key::target, &Key::device, &Key::arch, &Key::driver, &Key::toolchain, &Key::synth_sha}) {
    Key changed = key_number(1);
    changed.*member += " changed";
    EXPECT_FALSE(cache->find(changed));
    EXPECT_NE(changed.digest(), key_number(1).digest());
  }
  EXPECT_TRUE(cache->find(key_number(1)));
}

// P04: every kind of damage is a miss of that entry alone.
TEST_F(CacheTest, a_damaged_entry_is_set_aside_and_the_others_still_hit) {
  const std::vector<std::pair<std::string, std::function<void(const std::string&)>>> damages = {
      {"truncated to nothing", [](const std::string& p) { ASSERT_EQ(truncate((p + "/record.json").c_str(), 0), 0); }},
      {"truncated to a byte", [](const std::string& p) { ASSERT_EQ(truncate((p + "/kernel.bin").c_str(), 1), 0); }},
      {"half", [](const std::string& p) { ASSERT_EQ(truncate((p + "/kernel.bin").c_str(), 500), 0); }},
      {"one byte short", [](const std::string& p) { ASSERT_EQ(truncate((p + "/kernel.bin").c_str(), 999), 0); }},
      {"flipped bit in the binary", [](const std::string& p) { std::fstream f(p + "/kernel.bin", std::ios::in | std::ios::out); f.seekp(500); f.put('\x7f'); }},
      {"flipped bit in the key", [](const std::string& p) { std::fstream f(p + "/key.txt", std::ios::in | std::ios::out); f.seekp(20); f.put('~'); }},
      {"JSON of the wrong type", [](const std::string& p) { std::ofstream(p + "/record.json") << "[1, 2]"; }},
      {"ten megabytes of zeros", [](const std::string& p) { std::ofstream(p + "/checksum.txt") << std::string(10 << 20, '\0'); }},
      {"missing file", [](const std::string& p) { unlink((p + "/log.txt").c_str()); }},
  };
  int n = 0;
  for (const auto& [name, damage] : damages) {
    SCOPED_TRACE(name);
    auto cache = open();
    for (int i = 0; i < 10; ++i) cache->store(key_number(100 * n + i), entry_number(i));
    damage(entry_path(100 * n + 3));
    warnings_.clear();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(cache->find(key_number(100 * n + i)).has_value(), i != 3) << i;
    EXPECT_EQ(cache->stats().corrupt, 1);
    EXPECT_EQ(warnings_.size(), 1u);
    cache->store(key_number(100 * n + 3), entry_number(3));
    EXPECT_TRUE(cache->find(key_number(100 * n + 3)));
    ++n;
  }
}

TEST_F(CacheTest, verify_names_what_is_damaged) {
  auto cache = open();
  cache->store(key_number(1), entry_number(1));
  cache->store(key_number(2), entry_number(2));
  ASSERT_EQ(truncate((entry_path(2) + "/kernel.bin").c_str(), 10), 0);
  auto sentences = cache->verify();
  ASSERT_TRUE(sentences.ok());
  ASSERT_EQ(sentences->size(), 1u);
  EXPECT_NE((*sentences)[0].find(key_number(2).digest()), std::string::npos);
  EXPECT_TRUE(cache->verify()->empty());
}

TEST_F(CacheTest, a_cache_that_others_can_write_to_is_refused) {
  open()->store(key_number(1), entry_number(1));
  ASSERT_EQ(chmod((root_ + "/cache").c_str(), 0777), 0);
  auto cache = open();
  EXPECT_FALSE(cache->find(key_number(1)));
  EXPECT_EQ(warnings_.size(), 1u);
  cache->store(key_number(1), entry_number(1));
  EXPECT_TRUE(cache->find(key_number(1))) << "kept in memory";
  ASSERT_EQ(chmod((root_ + "/cache").c_str(), 0700), 0);
}

TEST_F(CacheTest, an_entry_that_is_a_link_or_writable_by_others_is_refused) {
  auto cache = open();
  cache->store(key_number(1), entry_number(1));
  cache->store(key_number(2), entry_number(2));
  ASSERT_EQ(rename(entry_path(1).c_str(), (root_ + "/elsewhere").c_str()), 0);
  ASSERT_EQ(symlink((root_ + "/elsewhere").c_str(), entry_path(1).c_str()), 0);
  ASSERT_EQ(chmod(entry_path(2).c_str(), 0777), 0);
  auto fresh = open();
  EXPECT_FALSE(fresh->find(key_number(1)));
  EXPECT_FALSE(fresh->find(key_number(2)));
  EXPECT_EQ(fresh->stats().refused, 2);
}

// P08: a file in its place, no directory at all.
TEST_F(CacheTest, without_a_usable_directory_kernels_are_kept_in_memory_with_one_warning) {
  std::ofstream(root_ + "/cache") << "a file";
  auto cache = open();
  for (int i = 0; i < 3; ++i) {
    cache->store(key_number(i), entry_number(i));
    EXPECT_TRUE(cache->find(key_number(i)));
  }
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(root_ + "/cache"), std::string::npos);
  unlink((root_ + "/cache").c_str());

  std::vector<std::string> warnings;
  auto nowhere = Cache::open({.directory = "", .max_bytes = 1 << 20, .warn = [&](std::string_view line) { warnings.emplace_back(line); }});
  nowhere->store(key_number(1), entry_number(1));
  EXPECT_TRUE(nowhere->find(key_number(1)));
  EXPECT_EQ(warnings.size(), 1u);
}

TEST_F(CacheTest, the_least_recently_used_entries_make_room) {
  auto cache = open(8 * 1024);
  for (int i = 0; i < 3; ++i) {
    cache->store(key_number(i), entry_number(i));
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
  }
  EXPECT_TRUE(cache->find(key_number(0)));  // used again: now the freshest
  for (int i = 3; i < 12; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    cache->store(key_number(i), entry_number(i));
    cache->find(key_number(0));
  }
  EXPECT_TRUE(cache->find(key_number(0)));
  EXPECT_TRUE(cache->find(key_number(11)));
  EXPECT_FALSE(cache->find(key_number(1)));
  EXPECT_GT(cache->stats().evicted, 0);
  EXPECT_LE(cache->stats().bytes, 8 * 1024);
}

TEST_F(CacheTest, what_a_killed_process_left_is_removed_at_the_next_start) {
  open();
  ASSERT_TRUE(make_directories(root_ + "/cache/tmp/999999999-1").ok());
  ASSERT_TRUE(make_directories(root_ + "/cache/tmp/" + std::to_string(getpid()) + "-77").ok());
  open();
  EXPECT_EQ(list_directory(root_ + "/cache/tmp"), std::vector<std::string>{std::to_string(getpid()) + "-77"});
}

TEST_F(CacheTest, many_writers_of_the_same_and_of_different_keys_lose_nothing) {
  std::vector<std::thread> writers;
  for (int t = 0; t < 4; ++t)
    writers.emplace_back([this, t] {
      Options options;
      options.directory = root_ + "/cache";
      auto cache = Cache::open(options);
      for (int i = 0; i < 20; ++i) cache->store(key_number(i % 10 + 100 * (t % 2)), entry_number(i % 10));
    });
  for (auto& writer : writers) writer.join();
  auto cache = open();
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(cache->find(key_number(i)));
    EXPECT_TRUE(cache->find(key_number(i + 100)));
  }
  EXPECT_EQ(cache->stats().corrupt, 0);
  EXPECT_TRUE(list_directory(root_ + "/cache/tmp").empty());
}

TEST_F(CacheTest, the_second_builder_of_a_key_waits_for_the_first) {
  auto first = open(), second = open();
  ASSERT_FALSE(first->wait_or_lock(key_number(1), 1));
  std::thread builder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    first->store(key_number(1), entry_number(1));
    first->unlock(key_number(1));
  });
  EXPECT_TRUE(second->wait_or_lock(key_number(1), 10));
  EXPECT_TRUE(second->find(key_number(1)));
  builder.join();
}

TEST_F(CacheTest, an_export_is_imported_whole_or_not_at_all) {
  auto cache = open();
  for (int i = 0; i < 3; ++i) cache->store(key_number(i), entry_number(i));
  const std::string path = root_ + "/export.rtxcache";
  EXPECT_EQ(*cache->export_to(path), 3);
  ASSERT_TRUE(cache->clear().ok());
  EXPECT_FALSE(cache->find(key_number(0)));
  EXPECT_EQ(*cache->import_from(path), 3);
  EXPECT_EQ(cache->find(key_number(2))->binary, entry_number(2).binary);
  ASSERT_TRUE(cache->clear().ok());
  auto bytes = *read_file(path);
  bytes[bytes.size() / 2] ^= 1;
  ASSERT_TRUE(write_file_atomic(path, bytes).ok());
  auto imported = cache->import_from(path);
  ASSERT_FALSE(imported.ok());
  EXPECT_EQ(imported.error().kind, ErrorKind::user);
  EXPECT_EQ(cache->stats().entries, 0);
}

TEST_F(CacheTest, an_archive_that_is_nested_without_end_or_longer_than_itself_is_refused) {
  auto cache = open();
  const std::string path = root_ + "/hostile.rtxcache";
  for (const std::string& body : {std::string(5'000'000, '\x81'), std::string(5'000'000, '\x9f'), "\x9b\x7f" + std::string(7, '\xff'), std::string("\xbb\x7f") + std::string(7, '\xff')}) {
    ASSERT_TRUE(write_file_atomic(path, "rtx-cache 1\n" + blake2b_hex(body) + "\n" + body).ok());
    const auto imported = cache->import_from(path);
    ASSERT_FALSE(imported.ok());
    EXPECT_EQ(imported.error().kind, ErrorKind::user);
    EXPECT_NE(imported.error().text().find("not a list of entries"), std::string::npos) << imported.error().text();
  }
}

TEST(CacheKey, its_text_parses_back_and_line_breaks_do_not_forge_fields) {
  Key key = key_number(7);
  key.problem = "a\nop: attention\\n";
  auto parsed = Key::parse(key.text());
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->problem, key.problem);
  EXPECT_EQ(parsed->op, "gemm");
  EXPECT_FALSE(Key::parse("op: gemm\n"));
  EXPECT_FALSE(Key::parse(key.text() + "more\n"));
}

// Ten golden keys: a change of the canonical text must come with a new key_version.
TEST(CacheKey, golden_digests_stay) {
  std::string all;
  for (int i = 0; i < 10; ++i) all += key_number(i).digest() + "\n";
  EXPECT_EQ(key_number(0).text(),
            "key_version: 1\nop: gemm\nproblem: f32 m=0 n=64 k=64\nflags: \ntarget: cpu\ndevice: a CPU; 2 threads\narch: x86-64-v3\n"
            "driver: none\ntoolchain: g++ 12.2.0; -O3\nsynth_sha: 0123456789abcdef\n");
  EXPECT_EQ(all, "751bc047b016aeae6ac4abb0b63ab969\n"
            "200917992fbf5a7b9408999a9fb147a9\n"
            "9efca559088ad5b667d2d9329dc11d98\n"
            "a4d0022a780e0ad1cbeb41364286d51e\n"
            "6b3252eeace5b71125ba14dd117f5a2c\n"
            "c68d5d4e9b3aa3a9e9ce441371d099a4\n"
            "1acbd7ed1d4a029b2ebd335de1e825fd\n"
            "09d274127372a10836debeb86b31156a\n"
            "1fe2effb2db7867e7c12a93b5391e60b\n"
            "cf46934ca4e8bb3fe1ee85738b115c54\n");
}

TEST(CacheDirectory, follows_the_environment_in_order) {
  std::map<std::string, std::string> variables;
  const auto lookup = [&](const char* name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  EXPECT_EQ(default_directory(lookup), "");
  variables["HOME"] = "/home/someone";
  EXPECT_EQ(default_directory(lookup), "/home/someone/.cache/rtx-synth");
  variables["XDG_CACHE_HOME"] = "/var/cache/someone";
  EXPECT_EQ(default_directory(lookup), "/var/cache/someone/rtx-synth");
  variables["RTX_CACHE_DIR"] = "/somewhere";
  EXPECT_EQ(default_directory(lookup), "/somewhere");
  variables = {{"HOME", ""}};
  EXPECT_EQ(default_directory(lookup), "");
}

}  // namespace
}  // namespace rtx::cache
