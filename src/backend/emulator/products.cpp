#include "backend/emulator/products.h"

#include <cstring>

#include "backend/emulator/number.h"
#include "backend/emulator/tensor_map.h"

namespace rtx::backend::emulator {

using rtx_emulation::Product;

namespace {

constexpr uint32_t kPoison = 0x7f95a5a5u;  // a signalling NaN: arithmetic with it gives another

int depth_of(Product::Kind kind) { return kind == Product::tf32 ? 8 : kind == Product::e4m3 ? 32 : 16; }

std::string thread_text(int lane) { return "thread " + std::to_string(lane) + " of the warpgroup"; }

// Row and column of accumulator r of a lane.
int row_of(int lane, int r) { return lane / 32 * 16 + lane % 32 / 4 + r / 2 % 2 * 8; }
int column_of(int lane, int r) { return r / 4 * 8 + lane % 4 * 2 + r % 2; }

// The numbers of one chunk of 16 bytes: 4, 8 or 16.
void decode(Product::Kind kind, const std::byte* chunk, float* out) {
  switch (kind) {
    case Product::f16:
    case Product::bf16: {
      uint16_t codes[8];
      std::memcpy(codes, chunk, 16);
      for (int k = 0; k < 8; ++k) out[k] = kind == Product::f16 ? from_f16(codes[k]) : from_word(uint32_t{codes[k]} << 16);
      break;
    }
    case Product::tf32: {
      uint32_t codes[4];
      std::memcpy(codes, chunk, 16);
      for (int k = 0; k < 4; ++k) out[k] = from_word(codes[k] & ~0x1fffu);  // the machine ignores the bits that tf32 does not have
      break;
    }
    case Product::e4m3:
      for (int k = 0; k < 16; ++k) out[k] = from_e4m3(static_cast<uint8_t>(chunk[k]));
      break;
  }
}

// c += a b, along increasing depth: the products of such operands are exact in f32. n is a multiple of 8.
#if defined(__x86_64__)
#define RTX_WIDE __attribute__((target("avx2,fma")))
#else
#define RTX_WIDE
#endif
typedef float Eight __attribute__((vector_size(32), aligned(4)));
#define RTX_MULTIPLY_ADD                                                                          \
  for (int i = 0; i < 64; i += 8)                                                                 \
    for (int j = 0; j < n; j += 8) {                                                              \
      Eight sum[8];                                                                               \
      for (int r = 0; r < 8; ++r) sum[r] = *reinterpret_cast<const Eight*>(c + (i + r) * n + j);  \
      for (int k = 0; k < depth; ++k) {                                                           \
        const Eight row = *reinterpret_cast<const Eight*>(b + k * n + j);                         \
        for (int r = 0; r < 8; ++r) sum[r] += a[(i + r) * depth + k] * row;                       \
      }                                                                                           \
      for (int r = 0; r < 8; ++r) *reinterpret_cast<Eight*>(c + (i + r) * n + j) = sum[r];        \
    }
RTX_WIDE void multiply_add_wide(float* c, const float* a, const float* b, int n, int depth) { RTX_MULTIPLY_ADD }
void multiply_add(float* c, const float* a, const float* b, int n, int depth) {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return multiply_add_wide(c, a, b, n, depth);
#endif
  RTX_MULTIPLY_ADD
}
#undef RTX_MULTIPLY_ADD

}  // namespace

std::vector<uint32_t> operand_chunks(unsigned long long view, int extent, bool transposed, int* swizzle, std::string* problem) {
  constexpr int kSwizzles[] = {0, 128, 64, 32};
  const auto start = static_cast<size_t>(view & 0x3fff) << 4, leading = static_cast<size_t>(view >> 16 & 0x3fff) << 4, stride = static_cast<size_t>(view >> 32 & 0x3fff) << 4;
  const int s = kSwizzles[view >> 62];
  const auto span = static_cast<size_t>(s);
  *swizzle = s;
  std::vector<uint32_t> out;
  if (s != 0 && start % (8 * span) >= span) {
    *problem = "begins in row " + std::to_string(start % (8 * span) / span) + " of 8 that a swizzle of " + std::to_string(s) + " bytes takes together";
    return out;
  }
  if (s != 0 && !transposed && start % span + 32 > span) {
    *problem = "begins " + std::to_string(start % span) + " bytes into rows of " + std::to_string(s) + ", and 32 are read";
    return out;
  }
  const auto add = [&](size_t address) { out.push_back(static_cast<uint32_t>(swizzled(address, s))); };
  if (!transposed) {
    for (size_t r = 0; r < static_cast<size_t>(extent); ++r)
      for (size_t c = 0; c < 2; ++c) add(s != 0 ? start + r / 8 * stride + r % 8 * span + c * 16 : start + r / 8 * stride + r % 8 * 16 + c * leading);
    return out;
  }
  for (size_t k = 0; k < 16; ++k)
    for (size_t q = 0; q < static_cast<size_t>(extent) / 8; ++q)  // 8 elements of 16 bits
      add(s != 0 ? start + q * 16 / span * leading + k / 8 * stride + k % 8 * span + q * 16 % span : start + q * stride + k / 8 * leading + k % 8 * 16);
  return out;
}

void Products::begin() {
  lanes_.fill(Lane());
  products_.clear(), ends_.clear(), sets_.clear();
  done_ = groups_done_ = 0;
}

std::string Products::record(int lane, const Product& mine, AsyncScratch& scratch) {
  Recorded& made = products_.emplace_back();
  made.first = mine;
  std::string problem;
  int swizzle = 0;
  const auto operand = [&](unsigned long long view, int extent, bool transposed, const char* name, std::vector<uint32_t>* out) {
    *out = operand_chunks(view, extent, transposed, &swizzle, &problem);
    if (!problem.empty()) problem = std::string("its operand ") + name + " " + problem;
    else if (problem = scratch.check_product(*out, swizzle); !problem.empty()) problem = std::string("its operand ") + name + " " + problem;
    return problem.empty();
  };
  if (!mine.registers && !operand(mine.a, 64, mine.transposed_a, "A", &made.a)) return problem;
  if (!operand(mine.b, mine.n, mine.transposed_b, "B", &made.b)) return problem;
  scratch.begin_reading(made.a, mine.line);
  scratch.begin_reading(made.b, mine.line);
  if (mine.registers) made.registers.resize(kWarpgroup);
  for (Set& set : sets_)
    if (set.d[static_cast<size_t>(lane)] == mine.d) made.set = &set;
  if (!made.set) {
    made.set = &sets_.emplace_back();
    made.set->n = mine.n;
    made.set->c.resize(static_cast<size_t>(64 * mine.n));
  }
  made.set->line = mine.line;
  ++made.set->open;
  return {};
}

std::string Products::take_accumulators(int lane, const Product& mine, Set& set) {
  if (!lanes_[static_cast<size_t>(lane)].fenced) return "no wgmma_fence() came between it and what used its accumulators before";
  set.d[static_cast<size_t>(lane)] = mine.d;
  for (int r = 0; r < mine.n / 2; ++r) {
    set.c[static_cast<size_t>(row_of(lane, r) * mine.n + column_of(lane, r))] = mine.d[r];
    std::memcpy(mine.d + r, &kPoison, 4);
  }
  return {};
}

std::string Products::issue(int lane, const Product& mine, AsyncScratch& scratch) {
  Lane& own = lanes_[static_cast<size_t>(lane)];
  const size_t number = own.issued++;
  if (number < done_) return "the threads of the warpgroup issued different numbers of products";
  if (number - done_ == products_.size())
    if (std::string problem = record(lane, mine, scratch); !problem.empty()) return problem;
  Recorded& product = products_[number - done_];
  const Product& first = product.first;
  if (first.line != mine.line || first.n != mine.n || first.kind != mine.kind) return "another thread of the warpgroup issued the product of line " + std::to_string(first.line);
  if (first.a != mine.a || first.b != mine.b || first.accumulate != mine.accumulate || !first.registers != !mine.registers)
    return "the threads of the warpgroup give different operands";
  if (product.set->n != mine.n) return "its accumulators are those of a product of another shape that nobody waited for";
  if (float* known = product.set->d[static_cast<size_t>(lane)]; !known) {
    if (std::string problem = take_accumulators(lane, mine, *product.set); !problem.empty()) return problem;
  } else if (known != mine.d) {
    return "its accumulators differ from thread to thread";
  }
  if (mine.registers) std::memcpy(product.registers[static_cast<size_t>(lane)].data(), mine.registers, 16);
  ++product.came;
  return {};
}

std::string Products::commit(int lane) {
  Lane& own = lanes_[static_cast<size_t>(lane)];
  const size_t number = own.committed++;
  if (number < groups_done_) return "the threads of the warpgroup committed different numbers of groups";
  if (number - groups_done_ == ends_.size()) ends_.push_back(own.issued);
  if (ends_[number - groups_done_] != own.issued) return "the threads of the warpgroup commit different numbers of products";
  return {};
}

std::string Products::wait(int open, AsyncScratch& scratch) {
  for (Lane& lane : lanes_) {
    if (lane.issued != lanes_[0].issued || lane.committed != lanes_[0].committed) return "the threads of the warpgroup issued different numbers of products";
    lane.fenced = false;
  }
  for (; ends_.size() > static_cast<size_t>(open); ends_.pop_front(), ++groups_done_)
    for (; done_ < ends_.front(); products_.pop_front(), ++done_) {
      Recorded& product = products_.front();
      compute(product, scratch);
      scratch.end_reading(product.a);
      scratch.end_reading(product.b);
      --product.set->open;
    }
  for (auto set = sets_.begin(); set != sets_.end();) {
    if (set->open > 0) {
      ++set;
      continue;
    }
    if (std::string problem = give_back(*set); !problem.empty()) return problem;
    set = sets_.erase(set);
  }
  return {};
}

std::string Products::give_back(Set& set) {
  for (int lane = 0; lane < kWarpgroup; ++lane) {
    float* const d = set.d[static_cast<size_t>(lane)];
    for (int r = 0; r < set.n / 2; ++r) {
      if (std::memcmp(d + r, &kPoison, 4) != 0) return thread_text(lane) + " wrote an accumulator of the product of line " + std::to_string(set.line) + " before it was waited for";
      d[r] = set.c[static_cast<size_t>(row_of(lane, r) * set.n + column_of(lane, r))];
    }
  }
  return {};
}

void Products::compute(const Recorded& product, const AsyncScratch& scratch) {
  const Product& p = product.first;
  const int depth = depth_of(p.kind), per_chunk = depth / 2;
  float a[64 * 32], b[32 * 256], numbers[16];
  const std::byte* const bytes = scratch.scratch().at;
  if (p.registers) {  // as for mma: a[h + 2c] is row g + 8h, depths 8c + 2t, 8c + 2t + 1
    for (int lane = 0; lane < kWarpgroup; ++lane)
      for (int q = 0; q < 4; ++q)
        for (int e = 0; e < 2; ++e) {
          const uint32_t code = product.registers[static_cast<size_t>(lane)][static_cast<size_t>(q)] >> 16 * e & 0xffffu;
          a[row_of(lane, 2 * (q % 2)) * depth + q / 2 * 8 + lane % 4 * 2 + e] = p.kind == Product::f16 ? from_f16(code) : from_word(code << 16);
        }
  } else {
    for (size_t k = 0; k < product.a.size(); ++k) {
      decode(p.kind, bytes + product.a[k], numbers);
      for (int e = 0; e < per_chunk; ++e) {
        const auto at = static_cast<int>(k);
        if (p.transposed_a) a[(at % 8 * 8 + e) * depth + at / 8] = numbers[e];
        else a[at / 2 * depth + at % 2 * per_chunk + e] = numbers[e];
      }
    }
  }
  for (size_t k = 0; k < product.b.size(); ++k) {
    decode(p.kind, bytes + product.b[k], numbers);
    const auto at = static_cast<int>(k);
    if (p.transposed_b) std::memcpy(b + at / (p.n / 8) * p.n + at % (p.n / 8) * 8, numbers, 32);
    else
      for (int e = 0; e < per_chunk; ++e) b[(at % 2 * per_chunk + e) * p.n + at / 2] = numbers[e];
  }
  std::vector<float>& c = product.set->c;
  if (!p.accumulate) std::fill(c.begin(), c.end(), 0.f);
  multiply_add(c.data(), a, b, p.n, depth);
}

}  // namespace rtx::backend::emulator
