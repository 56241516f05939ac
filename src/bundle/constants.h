#pragma once
// The hash tree over constants: BLAKE2b-256 of each 1 MiB chunk, checked before a byte is used. Not for other layers.
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "bundle/layout.h"

namespace rtx::bundle {

// Feeds bytes in file order and collects the hash of each chunk.
class ChunkHasher {
 public:
  ChunkHasher();
  ~ChunkHasher();
  void update(std::span<const std::byte> bytes);
  std::vector<layout::Hash> finish();
  int64_t bytes_seen() const { return seen_; }

 private:
  void close_chunk();
  struct State;
  std::unique_ptr<State> state_;
  int64_t seen_ = 0;
  std::vector<layout::Hash> hashes_;
};

// Checks chunks on demand and remembers which are good. Thread-safe; two threads that meet at one chunk both hash it.
class ChunkVerifier {
 public:
  // One hash for each chunk of `bytes`; both must outlive the verifier.
  ChunkVerifier(std::span<const std::byte> bytes, std::span<const std::byte> hashes);
  Status verify(int64_t offset, int64_t bytes);
  // All of them, on at most `threads` threads.
  Status verify_all(int threads);

 private:
  bool chunk_is_good(int64_t chunk);
  std::span<const std::byte> bytes_, hashes_;
  std::vector<std::atomic<bool>> good_;
};

}  // namespace rtx::bundle
