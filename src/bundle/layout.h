#pragma once
// The frame of a bundle file: header page, section table, hashes. Shared by writer, reader and tests; not for other layers.
//
//   page 0            header: magic, version, sizes, signature, section table (256 + 32 i); every other byte is zero
//   page-aligned      sections in the order of the table, each starting on the first page after the one before; gaps are zero
//   page-aligned      manifest (FlatBuffers), up to the last byte of the file
//
// All integers are little-endian. No byte of a file is free: it is hashed, cross-checked against the manifest, or must be zero.
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace rtx::bundle::layout {

constexpr int64_t kPage = 4096;
constexpr int64_t kChunk = int64_t{1} << 20;  // constants are hashed in chunks of this size
constexpr std::array<unsigned char, 8> kMagic{'R', 'T', 'X', 'G', 'C', 0, '\r', '\n'};
constexpr int64_t kTable = 256;        // where the section table stands in the header
constexpr int64_t kTableEntry = 32;
constexpr int64_t kMaxSections = (kPage - kTable) / kTableEntry;
constexpr int64_t kMaxBytes = int64_t{1} << 47;  // no size or offset in a bundle may be larger

enum SectionKind : uint32_t {
  kConstants = 1,    // raw bytes; absent when a side file holds them
  kChunkHashes = 2,  // BLAKE2b-256 of each chunk of the constants
  kBinaries = 3,     // kernel binaries
  kSources = 4,      // kernel sources, one zstd frame
  kSbom = 5,         // CycloneDX JSON
};
constexpr uint32_t kRequired = 1;  // section flag

using Hash = std::array<unsigned char, 32>;

// Byte offsets in the header.
enum HeaderField : int64_t {
  kAtMajor = 8,            // u32
  kAtMinor = 12,           // u32
  kAtFileBytes = 16,       // u64
  kAtManifestOffset = 24,  // u64
  kAtManifestBytes = 32,   // u64
  kAtTableOffset = 40,     // u64
  kAtSectionCount = 48,    // u32
  kAtHeaderBytes = 52,     // u32
  kAtSigned = 56,          // u32: 0 unsigned, 1 Ed25519
  kAtPublicKey = 64,       // 32 bytes
  kAtSignature = 96,       // 64 bytes
  kAtManifestHash = 160,   // 32 bytes, BLAKE2b-256
};

struct Entry {  // a row of the section table
  uint32_t kind = 0, flags = 0;
  uint64_t offset = 0, bytes = 0;
};

inline uint64_t load(const void* from, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint64_t{static_cast<const unsigned char*>(from)[i]} << (8 * i);
  return value;
}
inline void store(void* to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(value >> (8 * i));
}
inline int64_t page_align(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

Hash hash_bytes(std::span<const std::byte> bytes);
std::string hex(std::span<const unsigned char> bytes);

// What an Ed25519 signature is made over: a domain word and the manifest's hash, so that a signature of a bundle is one of nothing else.
std::array<unsigned char, 64> signed_message(const Hash& manifest_hash);

}  // namespace rtx::bundle::layout
