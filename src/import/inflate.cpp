#include "import/inflate.h"

#include <array>

namespace rtx::import {
namespace {

struct Bits {
  const uint8_t* bytes;
  int64_t size;
  int64_t at = 0;  // in bits
  bool ended = false;

  uint32_t take(int count) {
    uint32_t out = 0;
    for (int i = 0; i < count; ++i, ++at) {
      if (at / 8 >= size) {
        ended = true;
        return 0;
      }
      out |= static_cast<uint32_t>(bytes[at / 8] >> (at % 8) & 1) << i;
    }
    return out;
  }
};

// A canonical prefix code: how many codes of each length, and the symbols in code order.
struct Code {
  std::array<int, 16> count{};
  std::vector<int> symbols;

  explicit Code(const std::vector<int>& lengths) : symbols(lengths.size()) {
    for (int length : lengths) ++count[static_cast<size_t>(length)];
    count[0] = 0;
    std::array<int, 16> next{};
    for (size_t i = 1; i < 15; ++i) next[i + 1] = next[i] + count[i];
    for (size_t i = 0; i < lengths.size(); ++i)
      if (lengths[i] != 0)
        symbols[static_cast<size_t>(next[static_cast<size_t>(lengths[i])]++)] = static_cast<int>(i);
  }

  int read(Bits& bits) const {
    int code = 0, first = 0, index = 0;
    for (size_t length = 1; length < 16; ++length) {
      code |= static_cast<int>(bits.take(1));
      if (bits.ended) return -1;
      if (code - first < count[length]) return symbols[static_cast<size_t>(index + code - first)];
      index += count[length];
      first = (first + count[length]) << 1;
      code <<= 1;
    }
    return -1;
  }
};

// Lengths 3..258 and distances 1..32768: a base, and extra bits that grow by one every 4 and every 2 symbols.
int length_of(int symbol, Bits& bits) {
  if (symbol < 8) return symbol + 3;
  if (symbol == 28) return 258;
  const int extra = symbol / 4 - 1;
  return 3 + ((4 + symbol % 4) << extra) + static_cast<int>(bits.take(extra));
}

int distance_of(int symbol, Bits& bits) {
  if (symbol < 2) return symbol + 1;
  const int extra = symbol / 2 - 1;
  return 1 + ((2 + symbol % 2) << extra) + static_cast<int>(bits.take(extra));
}

bool coded_block(Bits& bits, const Code& literals, const Code& distances, int64_t plain,
                 std::vector<std::byte>& out) {
  while (true) {
    const int symbol = literals.read(bits);
    if (symbol < 0 || bits.ended) return false;
    if (symbol == 256) return true;
    if (symbol < 256) {
      out.push_back(static_cast<std::byte>(symbol));
    } else {
      if (symbol > 285) return false;
      const int length = length_of(symbol - 257, bits);
      const int coded = distances.read(bits);
      if (coded < 0 || coded > 29) return false;
      const int distance = distance_of(coded, bits);
      if (bits.ended || static_cast<size_t>(distance) > out.size()) return false;
      for (int i = 0; i < length; ++i) out.push_back(out[out.size() - static_cast<size_t>(distance)]);
    }
    if (static_cast<int64_t>(out.size()) > plain) return false;
  }
}

bool stored_block(Bits& bits, int64_t plain, std::vector<std::byte>& out) {
  bits.at = (bits.at + 7) / 8 * 8;
  const uint32_t length = bits.take(16);
  const uint32_t check = bits.take(16);
  if (bits.ended || (length ^ check) != 0xffff || length > bits.size - bits.at / 8) return false;
  if (static_cast<int64_t>(out.size()) + length > plain) return false;
  const auto* from = reinterpret_cast<const std::byte*>(bits.bytes + bits.at / 8);
  out.insert(out.end(), from, from + length);
  bits.at += int64_t{8} * length;
  return true;
}

bool described_block(Bits& bits, int64_t plain, std::vector<std::byte>& out) {
  static const int order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const size_t literal_count = bits.take(5) + 257;
  const size_t distance_count = bits.take(5) + 1;
  const size_t code_count = bits.take(4) + 4;
  std::vector<int> code_lengths(19, 0);
  for (size_t i = 0; i < code_count; ++i)
    code_lengths[static_cast<size_t>(order[i])] = static_cast<int>(bits.take(3));
  const Code code(code_lengths);
  std::vector<int> lengths;
  while (lengths.size() < literal_count + distance_count) {
    const int symbol = code.read(bits);
    if (symbol < 0 || bits.ended) return false;
    if (symbol < 16) {
      lengths.push_back(symbol);
      continue;
    }
    if (symbol == 16 && lengths.empty()) return false;
    const int repeated = symbol == 16 ? lengths.back() : 0;
    const uint32_t times = symbol == 16   ? 3 + bits.take(2)
                           : symbol == 17 ? 3 + bits.take(3)
                                          : 11 + bits.take(7);
    lengths.insert(lengths.end(), times, repeated);
  }
  if (lengths.size() != literal_count + distance_count) return false;
  const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(literal_count);
  return coded_block(bits, Code({lengths.begin(), middle}), Code({middle, lengths.end()}), plain, out);
}

bool fixed_block(Bits& bits, int64_t plain, std::vector<std::byte>& out) {
  std::vector<int> lengths(288, 8);
  for (size_t i = 144; i < 256; ++i) lengths[i] = 9;
  for (size_t i = 256; i < 280; ++i) lengths[i] = 7;
  return coded_block(bits, Code(lengths), Code(std::vector<int>(30, 5)), plain, out);
}

}  // namespace

bool inflate(const std::byte* packed, int64_t packed_size, int64_t plain, std::vector<std::byte>& out) {
  Bits bits{reinterpret_cast<const uint8_t*>(packed), packed_size};
  bool last = false;
  while (!last) {
    last = bits.take(1) != 0;
    const uint32_t kind = bits.take(2);
    if (bits.ended) return false;
    const bool good = kind == 0   ? stored_block(bits, plain, out)
                      : kind == 1 ? fixed_block(bits, plain, out)
                                  : kind == 2 && described_block(bits, plain, out);
    if (!good) return false;
  }
  return static_cast<int64_t>(out.size()) == plain;
}

}  // namespace rtx::import
