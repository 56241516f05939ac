#include "backend/emulator/collective.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "backend/emulator/number.h"

namespace rtx::backend::emulator {

namespace {

using rtx_emulation::Collective;

std::string shuffle(Collective* const* lanes, int count) {
  unsigned long long values[kWave];
  for (int l = 0; l < count; ++l) values[l] = lanes[l]->value;
  for (int l = 0; l < count; ++l) {
    if (lanes[l]->number >= count)
      return "lane " + std::to_string(l) + " reads lane " + std::to_string(lanes[l]->number) + " of a wave of " + std::to_string(count);
    lanes[l]->value = values[lanes[l]->number];
  }
  return {};
}

void vote(Collective* const* lanes, int count, bool any) {
  bool result = !any;
  for (int l = 0; l < count; ++l) result = any ? result || lanes[l]->number != 0 : result && lanes[l]->number != 0;
  for (int l = 0; l < count; ++l) lanes[l]->number = result;
}

// Register t of lane l holds elements (l / 4, l % 4 * 2 + {0, 1}) of tile t; transposed: elements (l % 4 * 2 + {0, 1}, l / 4).
std::string matrix(Collective* const* lanes, const SharedMemory& shared) {
  const int tiles = lanes[0]->number;
  for (int l = 0; l < kWave; ++l)
    if (lanes[l]->number != tiles) return "the lanes ask for different numbers of tiles";
  for (int l = 0; l < 8 * tiles; ++l) {  // the other lanes' addresses are not looked at
    const void* row = lanes[l]->a;
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) return "lane " + std::to_string(l) + " gives a row that is not aligned to 16 bytes";
    if (!shared.holds(row, 16)) return "lane " + std::to_string(l) + " gives a row outside of the group's scratch";
  }
  const bool transposed = lanes[0]->kind == Collective::load_matrix_transposed, stores = lanes[0]->kind == Collective::store_matrix;
  for (int t = 0; t < tiles; ++t) {
    for (int l = 0; l < kWave; ++l) {
      auto* const halves = static_cast<std::byte*>(lanes[l]->d) + t * 4;
      for (int e = 0; e < 2; ++e) {
        const int row = transposed ? l % 4 * 2 + e : l / 4, column = transposed ? l / 4 : l % 4 * 2 + e;
        auto* const element = static_cast<std::byte*>(lanes[8 * t + row]->a) + column * 2;
        if (stores) std::memcpy(element, halves + e * 2, 2);
        else std::memcpy(halves + e * 2, element, 2);
      }
    }
  }
  return {};
}

// With g = lane / 4, t = lane % 4: d[2h + e] is row g + 8h, column 2t + e. A product of two such operands is exact in f32, so
// that rounding happens in the sums alone, which run along increasing depth.
template <int DEPTH>
void multiply_add(Collective* const* lanes, const float (&a)[16][DEPTH], const float (&b)[DEPTH][8]) {
  typedef float Row __attribute__((vector_size(32)));
  Row rows[DEPTH];
  for (int k = 0; k < DEPTH; ++k) std::memcpy(&rows[k], b[k], sizeof(Row));
  float d[16][8];
  for (int l = 0; l < kWave; ++l)
    for (int h = 0; h < 2; ++h) std::memcpy(&d[l / 4 + 8 * h][l % 4 * 2], static_cast<float*>(lanes[l]->d) + 2 * h, 8);
  for (int i = 0; i < 16; i += 4) {
    Row sum[4];
    std::memcpy(sum, d[i], sizeof sum);
    for (int k = 0; k < DEPTH; ++k)
      for (int r = 0; r < 4; ++r) sum[r] += a[i + r][k] * rows[k];
    std::memcpy(d[i], sum, sizeof sum);
  }
  for (int l = 0; l < kWave; ++l)
    for (int h = 0; h < 2; ++h) std::memcpy(static_cast<float*>(lanes[l]->d) + 2 * h, &d[l / 4 + 8 * h][l % 4 * 2], 8);
}

// a[h + 2c]: row g + 8h, depths 8c + 2t, 8c + 2t + 1; b[c]: the same depths, column g.
template <class Decode>
void mma_half(Collective* const* lanes, Decode decode) {
  float a[16][16], b[16][8];
  for (int l = 0; l < kWave; ++l) {
    const int g = l / 4, t = l % 4;
    uint32_t ra[4], rb[2];
    std::memcpy(ra, lanes[l]->a, sizeof ra);
    std::memcpy(rb, lanes[l]->b, sizeof rb);
    for (int c = 0; c < 2; ++c)
      for (int e = 0; e < 2; ++e) {
        const int k = 8 * c + 2 * t + e;
        for (int h = 0; h < 2; ++h) a[g + 8 * h][k] = decode(ra[h + 2 * c] >> 16 * e & 0xffffu);
        b[k][g] = decode(rb[c] >> 16 * e & 0xffffu);
      }
  }
  multiply_add(lanes, a, b);
}

// a[h + 2c]: row g + 8h, depth t + 4c; b[c]: depth t + 4c, column g. The machine ignores the 13 bits that tf32 does not have.
void mma_tf32(Collective* const* lanes) {
  float a[16][8], b[8][8];
  for (int l = 0; l < kWave; ++l) {
    const int g = l / 4, t = l % 4;
    uint32_t ra[4], rb[2];
    std::memcpy(ra, lanes[l]->a, sizeof ra);
    std::memcpy(rb, lanes[l]->b, sizeof rb);
    for (int c = 0; c < 2; ++c) {
      for (int h = 0; h < 2; ++h) a[g + 8 * h][t + 4 * c] = from_word(ra[h + 2 * c] & ~0x1fffu);
      b[t + 4 * c][g] = from_word(rb[c] & ~0x1fffu);
    }
  }
  multiply_add(lanes, a, b);
}

// d[e]: row g, column 2t + e; a: row g, depth t; b: depth t, column g.
void mma_f64(Collective* const* lanes) {
  double a[8][4], b[4][8];
  for (int l = 0; l < kWave; ++l) {
    std::memcpy(&a[l / 4][l % 4], lanes[l]->a, 8);
    std::memcpy(&b[l % 4][l / 4], lanes[l]->b, 8);
  }
  for (int l = 0; l < kWave; ++l)
    for (int e = 0; e < 2; ++e) {
      double sum = static_cast<double*>(lanes[l]->d)[e];
      for (int k = 0; k < 4; ++k) sum = std::fma(a[l / 4][k], b[k][l % 4 * 2 + e], sum);
      static_cast<double*>(lanes[l]->d)[e] = sum;
    }
}

}  // namespace

std::string perform(Collective* const* lanes, int count, const SharedMemory& shared, bool has_store_matrix) {
  const auto kind = lanes[0]->kind;
  if (kind >= Collective::load_matrix && count != kWave) return "a wave of " + std::to_string(count) + " lanes has no matrix instructions";
  switch (kind) {
    case Collective::barrier: break;
    case Collective::shuffle: return shuffle(lanes, count);
    case Collective::elect: break;  // each says for itself whether it is lane 0
    case Collective::any: vote(lanes, count, true); break;
    case Collective::all: vote(lanes, count, false); break;
    case Collective::store_matrix:
      if (!has_store_matrix) return "store_matrix is none of this arch's instructions";
      [[fallthrough]];
    case Collective::load_matrix:
    case Collective::load_matrix_transposed: return matrix(lanes, shared);
    case Collective::mma_f16: mma_half(lanes, from_f16); break;
    case Collective::mma_bf16: mma_half(lanes, [](uint32_t bits) { return from_word(bits << 16); }); break;
    case Collective::mma_tf32: mma_tf32(lanes); break;
    case Collective::mma_f64: mma_f64(lanes); break;
  }
  return {};
}

}  // namespace rtx::backend::emulator
