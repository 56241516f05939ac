#include "cache/cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/hash.h"
#include "cache/archive.h"
#include "cache/entry.h"

namespace rtx::cache {

namespace {

// entries/<digest>/ is an entry; tmp/<pid>-<n>/ is one being built; quarantine/<digest>-<pid>-<n>/ was damaged; lock/<digest> is held
// while its kernel is being built.
class DirectoryCache final : public Cache {
 public:
  explicit DirectoryCache(Options options) : options_(std::move(options)), root_(options_.directory) {
    if (root_.empty()) {
      unusable_ = "it has no place";
      warn("no place for the kernel cache (RTX_CACHE_DIR, XDG_CACHE_HOME and HOME are unset); kernels are kept for this run only");
      return;
    }
    for (const char* part : {"", "/entries", "/tmp", "/quarantine", "/lock"}) {
      if (auto made = make_directories(root_ + part, 0700); !made.ok()) {
        writable_ = false;
        unusable_ = made.error().why;
        warn("the kernel cache in " + root_ + " cannot be written (" + made.error().why + "); new kernels are kept for this run only");
        break;
      }
    }
    readable_ = directory_exists(root_ + "/entries") && trusted(root_) && trusted(root_ + "/entries");
    if (readable_) unusable_.clear();
    if (directory_exists(root_ + "/entries") && !readable_) {
      writable_ = false;
      unusable_ = "it belongs to another user, others can write to it, or it is a link";
      warn("the kernel cache in " + root_ + " belongs to another user or others can write to it; it is not used");
    }
    if (writable_ && access((root_ + "/entries").c_str(), W_OK) != 0) {
      writable_ = false;
      warn("the kernel cache in " + root_ + " is read-only; new kernels are kept for this run only");
    }
    if (writable_) remove_leftovers();
  }

  std::optional<Entry> find(const Key& key) override {
    std::lock_guard lock(mutex_);
    const std::string digest = key.digest(), text = key.text();
    if (auto kept = memory_.find(digest); kept != memory_.end() && kept->second.record.key_text == text) {
      ++stats_.hits;
      return kept->second;
    }
    const std::string path = entry_path(digest);
    struct stat info {};
    if (!readable_ || lstat(path.c_str(), &info) != 0) {
      ++stats_.misses;
      return std::nullopt;
    }
    if (is_own_file(path)) {
      ++stats_.corrupt;
      ++stats_.misses;
      quarantine(digest, "it is a file");
      return std::nullopt;
    }
    if (!S_ISDIR(info.st_mode) || !trusted(path)) {
      ++stats_.refused;
      ++stats_.misses;
      warn("the cache entry " + path + " belongs to another user, others can write to it, or it is a link; it is not used");
      return std::nullopt;
    }
    auto outcome = read_entry(path, &text);
    if (!outcome.entry) {
      ++stats_.corrupt;
      ++stats_.misses;
      quarantine(digest, outcome.damage);
      return std::nullopt;
    }
    ++stats_.hits;
    if (writable_) utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // last use, for eviction
    return std::move(outcome.entry);
  }

  void store(const Key& key, const Entry& entry) override {
    std::lock_guard lock(mutex_);
    Entry complete = entry;
    complete.record.key_text = key.text();
    ++stats_.stores;
    if (writable_ && commit(key.digest(), complete)) {
      evict(options_.max_bytes, key.digest());
      return;
    }
    memory_[key.digest()] = std::move(complete);
  }

  bool wait_or_lock(const Key& key, double seconds) override {
    if (!writable_) return false;
    const std::string digest = key.digest();
    const int file = ::open((root_ + "/lock/" + digest).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return false;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    bool waited = false;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
      waited = true;
      if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() > deadline) {
        ::close(file);  // build our own rather than wait for ever
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    if (waited && directory_exists(entry_path(digest))) {
      ::close(file);
      return true;
    }
    std::lock_guard lock(mutex_);
    locks_[digest] = file;
    return false;
  }

  void unlock(const Key& key) override {
    std::lock_guard lock(mutex_);
    const auto held = locks_.find(key.digest());
    if (held == locks_.end()) return;
    ::unlink((root_ + "/lock/" + held->first).c_str());
    ::close(held->second);
    locks_.erase(held);
  }

  ~DirectoryCache() override {
    for (const auto& [digest, file] : locks_) ::close(file);
  }

  Stats stats() override {
    std::lock_guard lock(mutex_);
    Stats out = stats_;
    out.entries = static_cast<int64_t>(memory_.size());
    for (const auto& digest : digests()) {
      ++out.entries;
      out.bytes += entry_bytes(entry_path(digest));
    }
    return out;
  }

  std::vector<std::pair<std::string, Record>> list() override {
    std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, Record>> out;
    for (const auto& digest : digests())
      if (auto outcome = trusted_entry(digest); outcome.entry) out.emplace_back(digest, outcome.entry->record);
    for (const auto& [digest, entry] : memory_) out.emplace_back(digest, entry.record);
    return out;
  }

  Result<std::vector<std::string>> verify() override {
    std::lock_guard lock(mutex_);
    std::vector<std::string> sentences;
    for (const auto& digest : digests()) {
      if (is_own_file(entry_path(digest))) {
        ++stats_.corrupt;
        sentences.push_back("entry " + digest + ": it is a file");
        quarantine(digest, "it is a file");
        continue;
      }
      if (!trusted(entry_path(digest))) {
        ++stats_.refused;
        sentences.push_back("entry " + digest + ": it belongs to another user, others can write to it, or it is a link; it is not used");
        continue;
      }
      auto outcome = read_entry(entry_path(digest), nullptr);
      if (outcome.entry && blake2b_hex(outcome.entry->record.key_text, 16) != digest) outcome = {std::nullopt, "its name is not its key's digest"};
      if (outcome.entry) continue;
      ++stats_.corrupt;
      sentences.push_back("entry " + digest + ": " + outcome.damage);
      quarantine(digest, outcome.damage);
    }
    return sentences;
  }

  int64_t collect(int64_t max_bytes) override {
    std::lock_guard lock(mutex_);
    remove_tree(root_ + "/quarantine");
    (void)make_directories(root_ + "/quarantine", 0700);
    return evict(max_bytes, {});
  }

  Status clear() override {
    std::lock_guard lock(mutex_);
    memory_.clear();
    if (root_.empty()) return success();
    if (!writable_) return error_of(ErrorKind::output, "cannot clear the cache in " + root_, "it cannot be written");
    for (const auto& digest : digests()) remove_tree(entry_path(digest));
    for (const auto& name : list_directory(root_ + "/quarantine")) remove_tree(root_ + "/quarantine/" + name);
    return success();
  }

  Result<int64_t> export_to(const std::string& path) override {
    std::lock_guard lock(mutex_);
    std::vector<std::pair<std::string, Entry>> entries;
    for (const auto& digest : digests())
      if (auto outcome = trusted_entry(digest); outcome.entry) entries.emplace_back(digest, *std::move(outcome.entry));
    RTX_CHECK(write_archive(path, entries));
    return static_cast<int64_t>(entries.size());
  }

  Result<int64_t> import_from(const std::string& path) override {
    RTX_TRY(auto entries, read_archive(path));
    std::lock_guard lock(mutex_);
    for (const auto& [digest, entry] : entries)
      if (!writable_ || !commit(digest, entry))
        return error_of(ErrorKind::output, "cannot import " + path, "the kernel cache in " + root_ + " cannot be written", "free space, or name another place with RTX_CACHE_DIR");
    return static_cast<int64_t>(entries.size());
  }

  std::string directory() const override { return root_; }
  std::string unusable() const override { return unusable_; }

 private:
  std::string entry_path(const std::string& digest) const { return root_ + "/entries/" + digest; }

  std::vector<std::string> digests() const {
    std::vector<std::string> out;
    if (!readable_) return out;
    for (const auto& name : list_directory(root_ + "/entries"))
      if (name.size() == 32 && name.find_first_not_of("0123456789abcdef") == std::string::npos) out.push_back(name);
    return out;
  }

  // No directory, but no stranger's either: what a broken disk or a careless copy leaves.
  static bool is_own_file(const std::string& path) {
    struct stat info {};
    return lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid();
  }

  ReadOutcome trusted_entry(const std::string& digest) const {
    return trusted(entry_path(digest)) ? read_entry(entry_path(digest), nullptr) : ReadOutcome{};
  }

  // Ours, and nobody else can write to it. A link is judged as the link, so it never passes.
  static bool trusted(const std::string& path) {
    struct stat info {};
    return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 022) == 0;
  }

  void warn(const std::string& line) {
    if (options_.warn && warned_.insert(line).second) options_.warn(line);
  }

  // "<pid>-<n>", unique among all caches of this process: the pid tells whether a leftover's owner is gone.
  static std::string fresh_name() {
    static std::atomic<int> counter{0};
    return std::to_string(getpid()) + "-" + std::to_string(++counter);
  }

  // Builds the entry beside, then one rename makes it visible. A lost race is a success: the other entry is as good.
  bool commit(const std::string& digest, const Entry& entry) {
    const std::string temporary = root_ + "/tmp/" + fresh_name();
    if (auto made = make_directories(temporary, 0700); !made.ok()) return failed_to_write(temporary, made.error().why);
    if (auto written = write_entry(temporary, entry); !written.ok()) {
      remove_tree(temporary);
      return failed_to_write(root_, written.error().why);
    }
    const std::string path = entry_path(digest);
    if (::rename(temporary.c_str(), path.c_str()) == 0) return true;
    if (errno != ENOTEMPTY && errno != EEXIST) {
      const std::string why = std::strerror(errno);
      remove_tree(temporary);
      return failed_to_write(path, why);
    }
    // Replace an older entry of the same key: move it away first, so that readers see one or the other, or a miss.
    const std::string old = root_ + "/tmp/" + fresh_name();
    const bool replaced = ::rename(path.c_str(), old.c_str()) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
    remove_tree(old);
    if (!replaced) remove_tree(temporary);
    return directory_exists(path);
  }

  bool failed_to_write(const std::string& path, const std::string& why) {
    warn("the kernel cache cannot keep a kernel in " + path + " (" + why + "); it is kept for this run only");
    return false;
  }

  void quarantine(const std::string& digest, const std::string& why) {
    warn("the cache entry " + entry_path(digest) + " is damaged (" + why + "); it is set aside and made again");
    if (!writable_) return;
    if (::rename(entry_path(digest).c_str(), (root_ + "/quarantine/" + digest + "-" + fresh_name()).c_str()) != 0) remove_tree(entry_path(digest));
  }

  // Least recently used first, `keep` last of all.
  int64_t evict(int64_t max_bytes, const std::string& keep) {
    struct Item {
      std::string digest;
      int64_t bytes = 0;
      struct timespec used {};
    };
    std::vector<Item> items;
    int64_t total = 0;
    for (const auto& digest : digests()) {
      struct stat info {};
      if (lstat(entry_path(digest).c_str(), &info) != 0) continue;
      items.push_back({digest, entry_bytes(entry_path(digest)), info.st_mtim});
      total += items.back().bytes;
    }
    if (total <= max_bytes) return 0;
    std::sort(items.begin(), items.end(), [&](const Item& a, const Item& b) {
      if ((a.digest == keep) != (b.digest == keep)) return b.digest == keep;
      if (a.used.tv_sec != b.used.tv_sec) return a.used.tv_sec < b.used.tv_sec;
      return a.used.tv_nsec < b.used.tv_nsec;
    });
    int64_t freed = 0;
    for (const auto& item : items) {
      if (total - freed <= max_bytes) break;
      remove_tree(entry_path(item.digest));
      freed += item.bytes;
      ++stats_.evicted;
    }
    return freed;
  }

  // Temporary directories of processes that are gone (killed in the middle of a store).
  void remove_leftovers() {
    for (const auto& name : list_directory(root_ + "/tmp")) {
      const long process = std::strtol(name.c_str(), nullptr, 10);
      const std::string path = root_ + "/tmp/" + name;
      struct stat info {};
      const bool old = lstat(path.c_str(), &info) == 0 && std::time(nullptr) - info.st_mtime > 3600;
      if (process <= 0 || old || (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH)) remove_tree(path);
    }
  }

  Options options_;
  std::string root_;
  bool readable_ = false, writable_ = !root_.empty();
  std::string unusable_;
  std::mutex mutex_;
  Stats stats_;
  std::map<std::string, Entry> memory_;  // what could not be written
  std::map<std::string, int> locks_;
  std::set<std::string> warned_;
};

}  // namespace

std::unique_ptr<Cache> Cache::open(const Options& options) { return std::make_unique<DirectoryCache>(options); }

}  // namespace rtx::cache
