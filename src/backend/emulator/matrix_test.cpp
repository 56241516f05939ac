// Matrix instructions against a sum in double, every lane and register of every fragment, and conversions over all 16-bit codes.
#include <cmath>
#include <cstring>

#include "backend/emulator/rig_testing.h"

namespace rtx::backend::emulator {
namespace {

// Each kernel gives the wave's registers as they stand: place = register * 32 + lane.
const char* const kMatrixKernels = R"(
template <class T> DEVICE void multiply(bool rows_swapped = false) {
  const int l = wave_lane(), g = l / 4, t = l % 4;
  const u16* const a = ARG(const u16, 0);  // 16 x 16
  const u16* const b = ARG(const u16, 1);  // 16 x 8
  u32 ra[4], rb[2];
  f32 d[4];
  for (int c = 0; c < 2; ++c)
    for (int h = 0; h < 2; ++h) {
      const u16* const p = a + (g + 8 * (rows_swapped ? 1 - h : h)) * 16 + 8 * c + 2 * t;
      ra[h + 2 * c] = p[0] | u32(p[1]) << 16;
    }
  for (int c = 0; c < 2; ++c) rb[c] = b[(8 * c + 2 * t) * 8 + g] | u32(b[(8 * c + 2 * t + 1) * 8 + g]) << 16;
  for (int k = 0; k < 4; ++k) d[k] = ARG(const f32, 2)[(g + k / 2 * 8) * 8 + 2 * t + k % 2];
  mma_16x8x16(d, ra, rb, T{});
  for (int k = 0; k < 4; ++k) ARG(f32, 3)[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = d[k];
}
KERNEL(multiply_f16, 4, 32, 1) { multiply<f16>(); }
KERNEL(multiply_bf16, 4, 32, 1) { multiply<bf16>(); }
KERNEL(multiply_wrong_rows, 4, 32, 1) { multiply<f16>(true); }
KERNEL(multiply_tf32, 4, 32, 1) {
  const int l = wave_lane(), g = l / 4, t = l % 4;
  u32 ra[4], rb[2];
  f32 d[4];
  for (int c = 0; c < 2; ++c) {
    for (int h = 0; h < 2; ++h) ra[h + 2 * c] = to_tf32(ARG(const f32, 0)[(g + 8 * h) * 8 + t + 4 * c]);
    rb[c] = to_tf32(ARG(const f32, 1)[(t + 4 * c) * 8 + g]);
  }
  for (int k = 0; k < 4; ++k) d[k] = ARG(const f32, 2)[(g + k / 2 * 8) * 8 + 2 * t + k % 2];
  mma_16x8x8_tf32(d, ra, rb);
  for (int k = 0; k < 4; ++k) ARG(f32, 3)[(g + k / 2 * 8) * 8 + 2 * t + k % 2] = d[k];
}
KERNEL(multiply_f64, 4, 32, 1) {
  const int l = wave_lane(), g = l / 4, t = l % 4;
  f64 d[2] = {ARG(const f64, 2)[g * 8 + 2 * t], ARG(const f64, 2)[g * 8 + 2 * t + 1]};
  mma_8x8x4_f64(d, ARG(const f64, 0)[g * 4 + t], ARG(const f64, 1)[t * 8 + g]);
  ARG(f64, 3)[g * 8 + 2 * t] = d[0];
  ARG(f64, 3)[g * 8 + 2 * t + 1] = d[1];
}
DEVICE u16* tile_row(int l) { return static_cast<u16*>(scratch) + l % 8 * 8 + l / 8 * 64; }
template <int N, bool TRANSPOSED> DEVICE void tiles(int place) {
  u32 r[N];
  if (TRANSPOSED) load_matrix_transposed(r, tile_row(wave_lane()));
  else load_matrix(r, tile_row(wave_lane()));
  for (int k = 0; k < N; ++k) ARG(u32, 0)[(place + k) * 32 + wave_lane()] = r[k];
}
KERNEL(load_tiles, 1, 32, 1) {
  for (int k = 0; k < 8; ++k) static_cast<u16*>(scratch)[wave_lane() * 8 + k] = u16(wave_lane() * 8 + k);
  wave_barrier();
  tiles<4, false>(0);
  tiles<2, false>(4);
  tiles<1, false>(6);
  tiles<4, true>(7);
}
KERNEL(store_tiles, 1, 32, 1) {
  u32 r[4];
  for (int t = 0; t < 4; ++t) {
    const u32 first = u32(t * 64 + wave_lane() / 4 * 8 + wave_lane() % 4 * 2);
    r[t] = first | (first + 1) << 16;
  }
  store_matrix(tile_row(wave_lane()), r);
  wave_barrier();
  for (int k = 0; k < 8; ++k) ARG(u16, 0)[wave_lane() * 8 + k] = static_cast<u16*>(scratch)[wave_lane() * 8 + k];
}
KERNEL(load_odd_row, 0, 32, 1) { u32 r[4]; load_matrix(r, tile_row(wave_lane()) + (wave_lane() == 30 ? 1 : 0)); }
KERNEL(load_past_scratch, 0, 32, 1) { u32 r[4]; load_matrix(r, tile_row(wave_lane()) + 8); }
KERNEL(convert_codes, 4, 64, 1) {  // every f16 and bf16 to f32 and back
  const i64 i = group() * 64 + thread();
  ARG(f32, 0)[i] = to_f32(f16{u16(i)});
  ARG(u16, 1)[i] = to_f16(to_f32(f16{u16(i)})).bits;
  ARG(f32, 2)[i] = to_f32(bf16{u16(i)});
  ARG(u16, 3)[i] = to_bf16(to_f32(bf16{u16(i)})).bits;
}
KERNEL(convert_numbers, 3, 64, 1) {
  const i64 i = group() * 64 + thread();
  const f32 x = ARG(const f32, 0)[i];
  ARG(u32, 1)[i] = pack_f16(x, -x);
  ARG(u32, 2)[i] = pack_bf16(x, -x);
}
)";

Rig& matrix_rig() {
  static Rig instance(kMatrixKernels);
  return instance;
}

double f16_value(uint16_t code) {
  const int exponent = code >> 10 & 31, mantissa = code & 1023;
  const double size = exponent == 31 ? (mantissa ? NAN : INFINITY) : exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24);
  return code & 0x8000 ? -size : size;
}
double bf16_value(uint16_t code) {
  const uint32_t wide = static_cast<uint32_t>(code) << 16;
  float x;
  std::memcpy(&x, &wide, 4);
  return x;
}

// Half-precision codes of numbers up to about 2 in size, all different.
std::vector<uint16_t> codes(size_t count, bool bf16) {
  std::vector<uint16_t> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint16_t>((bf16 ? 0x3e00 : 0x3000) + i * 7 % 350 + (i * 5 % 3 == 0 ? 0x8000 : 0));
  return out;
}
std::vector<float> start(size_t count) {
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(i) / 8.f - 5.f;
  return out;
}

// d + a b in double.
template <class A, class B, class D>
std::vector<double> product(A a, B b, const std::vector<D>& d, int rows, int depth) {
  std::vector<double> out(d.begin(), d.end());
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < 8; ++j)
      for (int k = 0; k < depth; ++k) out[static_cast<size_t>(i * 8 + j)] += a(i * depth + k) * b(k * 8 + j);
  return out;
}

TEST(EmulatorMatrix, products_of_halves_agree_with_double_in_every_place) {
  for (const bool bf16 : {false, true}) {
    const auto a = codes(256, bf16), b = codes(128, bf16);
    const auto d = start(128);
    void* const out = matrix_rig().put(std::vector<float>(128, NAN));
    ASSERT_EQ(matrix_rig().launch(bf16 ? "multiply_bf16" : "multiply_f16", {1, 32, 0}, {matrix_rig().put(a), matrix_rig().put(b), matrix_rig().put(d), out}), "");
    const auto value = [&](uint16_t code) { return bf16 ? bf16_value(code) : f16_value(code); };
    const auto expected = product([&](int i) { return value(a[size_t(i)]); }, [&](int i) { return value(b[size_t(i)]); }, d, 16, 16);
    const auto got = matrix_rig().get<float>(out, 128);
    for (size_t i = 0; i < 128; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i << (bf16 ? " bf16" : " f16");
  }
}

TEST(EmulatorMatrix, a_wrong_fragment_row_gives_wrong_numbers) {
  const auto a = codes(256, false), b = codes(128, false);
  const auto d = start(128);
  void* const out = matrix_rig().put(std::vector<float>(128, NAN));
  ASSERT_EQ(matrix_rig().launch("multiply_wrong_rows", {1, 32, 0}, {matrix_rig().put(a), matrix_rig().put(b), matrix_rig().put(d), out}), "");
  const auto expected = product([&](int i) { return f16_value(a[size_t(i)]); }, [&](int i) { return f16_value(b[size_t(i)]); }, d, 16, 16);
  const auto got = matrix_rig().get<float>(out, 128);
  int wrong = 0;
  for (size_t i = 0; i < 128; ++i) wrong += std::fabs(got[i] - expected[i]) > 1e-3;
  EXPECT_GT(wrong, 120);
}

TEST(EmulatorMatrix, sums_run_along_the_depth_in_f32) {
  // 2^24 + 1 + ... + 1: in f32 along the depth each 1 is lost; in double, or in pairs, it is not.
  std::vector<uint16_t> a(256, 0x3c00), b(128, 0x3c00);  // ones
  const std::vector<float> d(128, 16777216.f);
  void* const out = matrix_rig().put(std::vector<float>(128));
  ASSERT_EQ(matrix_rig().launch("multiply_f16", {1, 32, 0}, {matrix_rig().put(a), matrix_rig().put(b), matrix_rig().put(d), out}), "");
  for (const float x : matrix_rig().get<float>(out, 128)) EXPECT_EQ(x, 16777216.f);
}

TEST(EmulatorMatrix, tf32_and_f64_agree_with_double_in_every_place) {
  std::vector<float> a(128), b(64);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 64.f;  // exact in tf32
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 29 % 83) - 40) / 32.f;
  const auto d = start(128);
  void* const out = matrix_rig().put(std::vector<float>(128, NAN));
  ASSERT_EQ(matrix_rig().launch("multiply_tf32", {1, 32, 0}, {matrix_rig().put(a), matrix_rig().put(b), matrix_rig().put(d), out}), "");
  const auto expected = product([&](int i) { return double(a[size_t(i)]); }, [&](int i) { return double(b[size_t(i)]); }, d, 16, 8);
  const auto got = matrix_rig().get<float>(out, 128);
  for (size_t i = 0; i < 128; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;

  std::vector<double> a64(32), b64(32), d64(64);
  for (size_t i = 0; i < 32; ++i) a64[i] = std::sin(double(i)), b64[i] = std::cos(3. * double(i));
  for (size_t i = 0; i < 64; ++i) d64[i] = double(i);
  void* const out64 = matrix_rig().put(std::vector<double>(64, NAN));
  ASSERT_EQ(matrix_rig().launch("multiply_f64", {1, 32, 0}, {matrix_rig().put(a64), matrix_rig().put(b64), matrix_rig().put(d64), out64}), "");
  const auto expected64 = product([&](int i) { return a64[size_t(i)]; }, [&](int i) { return b64[size_t(i)]; }, d64, 8, 4);
  const auto got64 = matrix_rig().get<double>(out64, 64);
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(got64[i], expected64[i], 1e-13) << i;
}

TEST(EmulatorMatrix, tiles_arrive_in_the_fragments_of_the_machine) {
  void* const out = matrix_rig().put(std::vector<uint32_t>(11 * 32));
  ASSERT_EQ(matrix_rig().launch("load_tiles", {1, 32, 512}, {out}), "");
  const auto r = matrix_rig().get<uint32_t>(out, 11 * 32);
  for (uint32_t l = 0; l < 32; ++l) {
    const auto pair = [&](uint32_t tile, bool transposed) {
      const auto element = [&](uint32_t e) { return tile * 64 + (transposed ? (l % 4 * 2 + e) * 8 + l / 4 : l / 4 * 8 + l % 4 * 2 + e); };
      return element(0) | element(1) << 16;
    };
    for (uint32_t t = 0; t < 4; ++t) {
      EXPECT_EQ(r[t * 32 + l], pair(t, false)) << l;
      EXPECT_EQ(r[(7 + t) * 32 + l], pair(t, true)) << l;
    }
    EXPECT_EQ(r[5 * 32 + l], pair(1, false));
    EXPECT_EQ(r[6 * 32 + l], pair(0, false));
  }
}

TEST(EmulatorMatrix, tiles_are_stored_where_they_would_be_loaded_from_and_only_where_the_arch_can) {
  void* const out = matrix_rig().put(std::vector<uint16_t>(256));
  ASSERT_EQ(matrix_rig().launch("store_tiles", {1, 32, 512}, {out}), "");
  const auto y = matrix_rig().get<uint16_t>(out, 256);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(y[i], i);
  Options older = Rig::checked();
  older.arch = "sm_80";
  Rig ampere(kMatrixKernels, older);
  EXPECT_SAYS(ampere.launch("store_tiles", {1, 32, 512}, {ampere.put(y)}), "store_matrix is none of this arch's instructions");
}

TEST(EmulatorMatrix, a_row_has_an_aligned_place_in_scratch) {
  EXPECT_SAYS(matrix_rig().launch("load_odd_row", {1, 32, 1024}, {}), "lane 30 gives a row that is not aligned to 16 bytes");
  EXPECT_SAYS(matrix_rig().launch("load_past_scratch", {1, 32, 512}, {}), "lane 31 gives a row outside of the group's scratch");
}

TEST(EmulatorConversions, every_16_bit_number_survives_and_is_what_it_says) {
  constexpr size_t n = 65536;
  void* const wide = matrix_rig().put(std::vector<float>(n));
  void* const back = matrix_rig().put(std::vector<uint16_t>(n));
  void* const wide_b = matrix_rig().put(std::vector<float>(n));
  void* const back_b = matrix_rig().put(std::vector<uint16_t>(n));
  ASSERT_EQ(matrix_rig().launch("convert_codes", {n / 64, 64, 0}, {wide, back, wide_b, back_b}), "");
  const auto f = matrix_rig().get<float>(wide, n), fb = matrix_rig().get<float>(wide_b, n);
  const auto c = matrix_rig().get<uint16_t>(back, n), cb = matrix_rig().get<uint16_t>(back_b, n);
  int wrong = 0;
  for (size_t i = 0; i < n; ++i) {
    const auto code = static_cast<uint16_t>(i);
    const double half = f16_value(code), brain = bf16_value(code);
    wrong += std::isnan(half) ? !std::isnan(f[i]) || !std::isnan(f16_value(c[i])) : f[i] != half || c[i] != code;
    wrong += std::isnan(brain) ? !std::isnan(fb[i]) || !std::isnan(bf16_value(cb[i])) : fb[i] != brain || cb[i] != code;
  }
  EXPECT_EQ(wrong, 0);
}

TEST(EmulatorConversions, numbers_round_to_the_nearest_and_halfway_to_even) {
  std::vector<float> x(64, 0.f);
  const float hard[] = {1.00048828125f, 1.00146484375f, 65519.996f, 65520.f, 1e30f, 2.98023224e-8f, 2.9802326e-8f, 6.1e-5f, 5.9604645e-8f, 1.00390625f, 1.01171875f};
  std::copy(std::begin(hard), std::end(hard), x.begin());
  void* const half = matrix_rig().put(std::vector<uint32_t>(64));
  void* const brain = matrix_rig().put(std::vector<uint32_t>(64));
  ASSERT_EQ(matrix_rig().launch("convert_numbers", {1, 64, 0}, {matrix_rig().put(x), half, brain}), "");
  const auto h = matrix_rig().get<uint32_t>(half, 64), b = matrix_rig().get<uint32_t>(brain, 64);
  const uint32_t expected[] = {0x3c00, 0x3c02, 0x7bff, 0x7c00, 0x7c00, 0x0000, 0x0001, 0x03ff, 0x0001};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(h[i], expected[i] | (expected[i] | 0x8000) << 16) << x[i];
  EXPECT_EQ(b[9] & 0xffff, 0x3f80u);
  EXPECT_EQ(b[10] & 0xffff, 0x3f82u);
}

}  // namespace
}  // namespace rtx::backend::emulator
