#pragma once
// Hashes: BLAKE2b (libsodium) for everything that is stored or signed, FNV-1a for tables in memory.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtx {

class Blake2b {
 public:
  explicit Blake2b(size_t digest_bytes = 32);  // 16 to 64
  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  // Lower-case hex / raw bytes of the digest; the object is spent.
  std::string hex();
  std::string raw();

 private:
  alignas(64) std::array<unsigned char, 384> state_{};
  size_t digest_bytes_;
};

std::string blake2b_hex(const void* data, size_t size, size_t digest_bytes = 32);
inline std::string blake2b_hex(std::string_view text, size_t digest_bytes = 32) { return blake2b_hex(text.data(), text.size(), digest_bytes); }
// A literal and a number: bytes with their size, or text with a digest size? Say it with a string_view.
std::string blake2b_hex(const char* text, size_t ambiguous) = delete;
// FNV-1a, for tables in memory: easy to collide on purpose, so never stored.
constexpr uint64_t fnv1a64(std::string_view text, uint64_t seed = 0xcbf29ce484222325u) {
  for (const char c : text) seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return seed;
}
std::string to_hex(std::string_view bytes);
// Empty when the text is not an even number of hex digits.
std::string from_hex(std::string_view text);

}  // namespace rtx
