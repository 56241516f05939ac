#include "bundle/layout.h"

#include "base/hash.h"

namespace rtx::bundle::layout {

Hash hash_bytes(std::span<const std::byte> bytes) {
  Blake2b state(32);
  state.update(bytes.data(), bytes.size());
  const std::string raw = state.raw();
  Hash out;
  std::memcpy(out.data(), raw.data(), out.size());
  return out;
}

std::string hex(std::span<const unsigned char> bytes) {
  return to_hex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::array<unsigned char, 64> signed_message(const Hash& manifest_hash) {
  static constexpr char domain[33] = "rtx-synth bundle manifest, v1   ";
  std::array<unsigned char, 64> message;
  std::memcpy(message.data(), domain, 32);
  std::memcpy(message.data() + 32, manifest_hash.data(), 32);
  return message;
}

}  // namespace rtx::bundle::layout
