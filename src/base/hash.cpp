#include "base/hash.h"

#include <sodium.h>

#include "base/assert.h"

namespace rtx {

static_assert(sizeof(crypto_generichash_state) <= 384, "Blake2b's state must hold libsodium's");

Blake2b::Blake2b(size_t digest_bytes) : digest_bytes_(digest_bytes) {
  crypto_generichash_init(reinterpret_cast<crypto_generichash_state*>(state_.data()), nullptr, 0, digest_bytes_);
}

void Blake2b::update(const void* data, size_t size) {
  if (size != 0)
    crypto_generichash_update(reinterpret_cast<crypto_generichash_state*>(state_.data()), static_cast<const unsigned char*>(data), size);
}

std::string Blake2b::raw() {
  std::string digest(digest_bytes_, '\0');
  crypto_generichash_final(reinterpret_cast<crypto_generichash_state*>(state_.data()), reinterpret_cast<unsigned char*>(digest.data()), digest_bytes_);
  return digest;
}

std::string Blake2b::hex() { return to_hex(raw()); }

std::string blake2b_hex(const void* data, size_t size, size_t digest_bytes) {
  Blake2b hash(digest_bytes);
  hash.update(data, size);
  return hash.hex();
}

std::string to_hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

std::string from_hex(std::string_view text) {
  const auto value = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; };
  if (text.size() % 2 != 0) return {};
  std::string out;
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = value(text[i]), low = value(text[i + 1]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

}  // namespace rtx
