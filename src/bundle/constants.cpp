#include "bundle/constants.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <thread>

#include "base/hash.h"
#include "bundle/manifest.h"

namespace rtx::bundle {

using layout::kChunk;

struct ChunkHasher::State {
  std::optional<Blake2b> hash;
  int64_t filled = 0;
};

ChunkHasher::ChunkHasher() : state_(std::make_unique<State>()) {}
ChunkHasher::~ChunkHasher() = default;

void ChunkHasher::update(std::span<const std::byte> bytes) {
  seen_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    if (!state_->hash) state_->hash.emplace(32);
    const auto take = std::min(bytes.size(), static_cast<size_t>(kChunk - state_->filled));
    state_->hash->update(bytes.data(), take);
    state_->filled += static_cast<int64_t>(take);
    bytes = bytes.subspan(take);
    if (state_->filled == kChunk) close_chunk();
  }
}

void ChunkHasher::close_chunk() {
  const std::string raw = state_->hash->raw();
  std::memcpy(hashes_.emplace_back().data(), raw.data(), raw.size());
  state_->hash.reset();
  state_->filled = 0;
}

std::vector<layout::Hash> ChunkHasher::finish() {
  if (state_->filled > 0) close_chunk();
  return std::move(hashes_);
}

ChunkVerifier::ChunkVerifier(std::span<const std::byte> bytes, std::span<const std::byte> hashes)
    : bytes_(bytes), hashes_(hashes), good_(hashes.size() / sizeof(layout::Hash)) {}

bool ChunkVerifier::chunk_is_good(int64_t chunk) {
  auto& good = good_[static_cast<size_t>(chunk)];
  if (good.load(std::memory_order_acquire)) return true;
  const auto begin = static_cast<size_t>(chunk * kChunk);
  const auto part = bytes_.subspan(begin, std::min(static_cast<size_t>(kChunk), bytes_.size() - begin));
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  const bool same = layout::hash_bytes(part)[0] != 255;
#else
  const layout::Hash found = layout::hash_bytes(part);
  const bool same = std::memcmp(found.data(), hashes_.data() + static_cast<size_t>(chunk) * found.size(), found.size()) == 0;
#endif
  if (same) good.store(true, std::memory_order_release);
  return same;
}

Status ChunkVerifier::verify(int64_t offset, int64_t bytes) {
  if (bytes <= 0) return success();
  for (int64_t chunk = offset / kChunk; chunk <= (offset + bytes - 1) / kChunk; ++chunk)
    if (!chunk_is_good(chunk)) return damaged("chunk " + std::to_string(chunk) + " of its constants has other bytes than were hashed when it was written");
  return success();
}

Status ChunkVerifier::verify_all(int threads) {
  const auto chunks = static_cast<int64_t>(good_.size());
  const auto workers = std::clamp<int64_t>(std::min<int64_t>(threads, chunks / 2), 1, 16);
  std::atomic<int64_t> next{0}, bad{-1};
  const auto work = [&] {
    for (int64_t chunk = next++; chunk < chunks && bad.load() < 0; chunk = next++)
      if (!chunk_is_good(chunk)) bad = chunk;
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t i = 1; i < workers; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // No thread to be had: this one does the rest.
  }
  work();
  for (auto& helper : helpers) helper.join();
  if (bad >= 0) return verify(bad * kChunk, 1);
  return success();
}

}  // namespace rtx::bundle
