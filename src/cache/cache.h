#pragma once
// The kernel cache: one directory an entry, committed by one atomic rename, keyed by canonical text. See docs/adr (the cache).
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx::cache {

constexpr int kKeyVersion = 1;

// Everything that can change the chosen kernel or its code. text() is canonical: fixed order, one "field: value" a line.
struct Key {
  std::string op;         // family
  std::string problem;    // family's canonical problem text (dtype, layout, alignment and epilogue in it)
  std::string flags;      // "deterministic", "tf32", ... sorted
  std::string target, device, arch, driver, toolchain, synth_sha;
  std::string text() const;
  std::string digest() const;  // BLAKE2b-128 of text(), hex: the entry's directory name
  static std::optional<Key> parse(std::string_view text);
};

struct Record {
  std::string key_text;
  std::string parameters;       // the chosen point
  std::string numerics_class;
  double measured_ms = 0;       // 0: not tuned (a first pick)
  std::string tuning;           // "first_pick", "grid 24/60 in 5.1 s", ...
  std::map<std::string, double> timings;       // parameters -> ms of everything measured
  std::map<std::string, std::string> rejected; // parameters -> reason
  std::string verdict;          // "validated"
};
struct Entry {
  Record record;
  std::string source;
  std::string log;
  std::vector<std::byte> binary;
};

struct Stats {
  int64_t hits = 0, misses = 0, stores = 0, corrupt = 0, refused = 0, evicted = 0;
  int64_t entries = 0, bytes = 0;
};

struct Options {
  std::string directory;                  // empty: see default_directory()
  int64_t max_bytes = int64_t{2} << 30;
  std::function<void(std::string_view)> warn;  // one line, at most once per cause
};

class Cache {
 public:
  // Never fails: with no usable directory it keeps entries in memory for this process and warns once, naming the path.
  static std::unique_ptr<Cache> open(const Options& options);
  virtual ~Cache() = default;
  // A damaged entry is a miss: moved to quarantine, counted. An entry others can write to, or owned by another user, is refused.
  virtual std::optional<Entry> find(const Key& key) = 0;
  virtual void store(const Key& key, const Entry& entry) = 0;
  // One process builds a key, others wait for it or, after `seconds`, build their own. True: the entry appeared meanwhile.
  virtual bool wait_or_lock(const Key& key, double seconds) = 0;
  virtual void unlock(const Key& key) = 0;
  virtual Stats stats() = 0;
  virtual std::vector<std::pair<std::string, Record>> list() = 0;  // digest, record
  virtual Result<std::vector<std::string>> verify() = 0;           // sentences about entries that are damaged (set aside) or refused
  virtual int64_t collect(int64_t max_bytes) = 0;                  // evicts least recently used; bytes freed
  virtual Status clear() = 0;
  virtual Result<int64_t> export_to(const std::string& path) = 0;  // a single file; entries written
  virtual Result<int64_t> import_from(const std::string& path) = 0;
  virtual std::string directory() const = 0;                       // empty when in memory
  virtual std::string unusable() const = 0;                        // why nothing in the directory is read; empty when it is
};

// $RTX_CACHE_DIR, else $XDG_CACHE_HOME/rtx-synth, else ~/.cache/rtx-synth; the environment is passed in (tools read it).
std::string default_directory(const std::function<std::optional<std::string>(const char*)>& environment);

}  // namespace rtx::cache
