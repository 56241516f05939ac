// What the driver is asked for, by a driver of a few lines that writes its arguments into the map.
#include "backend/cuda/device_views.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#if __has_include(</usr/local/cuda/include/cuda.h>)
#include </usr/local/cuda/include/cuda.h>
static_assert(CU_TENSOR_MAP_DATA_TYPE_UINT8 == 0 && CU_TENSOR_MAP_DATA_TYPE_UINT16 == 1 && CU_TENSOR_MAP_DATA_TYPE_UINT32 == 2 &&
              CU_TENSOR_MAP_DATA_TYPE_FLOAT16 == 6 && CU_TENSOR_MAP_DATA_TYPE_FLOAT32 == 7 && CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 == 9 &&
              CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 == 11);
static_assert(CU_TENSOR_MAP_SWIZZLE_NONE == 0 && CU_TENSOR_MAP_SWIZZLE_32B == 1 && CU_TENSOR_MAP_SWIZZLE_64B == 2 && CU_TENSOR_MAP_SWIZZLE_128B == 3);
static_assert(CU_TENSOR_MAP_L2_PROMOTION_L2_128B == 2 && CU_TENSOR_MAP_INTERLEAVE_NONE == 0 && CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE == 0);
static_assert(sizeof(CUtensorMap) == sizeof(rtx::backend::cuda::CuTensorMap));
#endif

namespace rtx::backend::cuda {
namespace {

const Driver& encoder() {
  static const std::shared_ptr<const Driver> driver = [] {
    const std::string base = ::testing::TempDir() + "encoding_driver";
    std::ofstream(base + ".c") << R"(
      int cuInit(unsigned f) { return 0; }
      int cuDriverGetVersion(int* v) { *v = 13000; return 0; }
      int strcmp(const char*, const char*);
      static int any() { return 0; }
      static int count(int* n) { *n = 1; return 0; }
      static unsigned long calls;
      static int encode(unsigned long* m, int type, unsigned rank, unsigned long at, const unsigned long* e, const unsigned long* s, const unsigned* b,
                        const unsigned* steps, int interleave, int swizzle, int promotion, int outside) {
        m[0] = type; m[1] = rank; m[2] = at; m[3] = e[0]; m[4] = e[1]; m[5] = s[0]; m[6] = b[0]; m[7] = b[1];
        m[8] = steps[0] + steps[1]; m[9] = swizzle; m[10] = ++calls; m[15] = outside + interleave; return 0; }
      int cuGetProcAddress_v2(const char* s, void** f, int v, unsigned long g, int* r) {
        *f = !strcmp(s, "cuDeviceGetCount") ? (void*)count : !strcmp(s, "cuTensorMapEncodeTiled") ? (void*)encode : (void*)any; *r = 0; return 0; })";
    EXPECT_EQ(std::system(("cc -w -shared -fPIC -o " + base + ".so " + base + ".c").c_str()), 0);
    return *Driver::open({base + ".so"});
  }();
  return *driver;
}

TensorView matrix_of(int64_t rows, int64_t columns) {
  TensorView view;
  view.element = ViewElement::bf16;
  view.extents = {columns, rows}, view.strides_bytes = {columns * 2}, view.box = {64, 128};
  view.swizzle = 64;
  view.box = {32, 128};
  view.byte_offset = 256;
  return view;
}

TEST(CudaViews, the_driver_is_asked_in_its_own_numbers_and_once_for_each_pointer_and_view) {
  TensorMaps maps;
  alignas(256) static std::byte memory[1024];
  const auto first = maps.get(encoder(), matrix_of(3000, 1024), 0, memory);
  ASSERT_TRUE(first.ok()) << first.error().text();
  const uint64_t wanted[] = {9, 2, reinterpret_cast<uintptr_t>(memory) + 256, 1024, 3000, 2048, 32, 128, 2, 2};
  for (size_t k = 0; k < std::size(wanted); ++k) EXPECT_EQ(first->word[k], wanted[k]) << k;
  EXPECT_EQ(maps.get(encoder(), matrix_of(3000, 1024), 0, memory)->word[10], first->word[10]);
  EXPECT_EQ(maps.get(encoder(), matrix_of(3000, 1024), 0, memory + 256)->word[10], first->word[10] + 1);
  EXPECT_EQ(maps.get(encoder(), matrix_of(3001, 1024), 0, memory)->word[10], first->word[10] + 2);
  for (size_t k = 0; k < 200; ++k) (void)maps.get(encoder(), matrix_of(static_cast<int64_t>(k) + 1, 64), 0, memory);  // more than are kept
  EXPECT_EQ(maps.get(encoder(), matrix_of(3000, 1024), 0, memory)->word[3], 1024u);
}

TEST(CudaViews, parameters_are_the_maps_and_behind_them_the_pointers) {
  TensorMaps maps;
  alignas(256) static std::byte memory[2][256];
  void* const arguments[] = {memory[0], memory[1], nullptr};
  std::vector<TensorView> views = {matrix_of(8, 64), matrix_of(16, 128)};
  views[1].argument = 1;
  ViewParameters out;
  ASSERT_TRUE(fill_parameters(encoder(), maps, views, arguments, 3, &out).ok());
  CuTensorMap map;
  std::memcpy(&map, out.bytes + 128, sizeof map);
  EXPECT_EQ(map.word[2], reinterpret_cast<uintptr_t>(memory[1]) + 256);
  EXPECT_EQ(std::memcmp(out.bytes + 256, arguments, sizeof arguments), 0);
}

TEST(CudaViews, what_no_map_can_be_made_of_is_named_by_its_view) {
  TensorMaps maps;
  alignas(256) static std::byte memory[256];
  void* const arguments[] = {memory + 8};
  ViewParameters out;
  const auto misaligned = fill_parameters(encoder(), maps, std::vector<TensorView>{matrix_of(8, 64)}, arguments, 1, &out);
  ASSERT_FALSE(misaligned.ok());
  EXPECT_EQ(misaligned.error().kind, ErrorKind::device);
  EXPECT_EQ(misaligned.error().what, "cannot make a tensor map of view 0");
  EXPECT_EQ(misaligned.error().why, "its memory begins 8 bytes past a multiple of 16");
  auto elsewhere = matrix_of(8, 64);
  elsewhere.argument = 1;
  const auto absent = fill_parameters(encoder(), maps, std::vector<TensorView>{elsewhere}, arguments, 1, &out);
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().why, "its argument 1 is none of the launch's 1");
  const auto many = fill_parameters(encoder(), maps, std::vector<TensorView>(32, matrix_of(8, 64)), arguments, 1, &out);
  ASSERT_FALSE(many.ok());
  EXPECT_EQ(many.error().why, "4104 bytes of parameters, at most 4096");
}

}  // namespace
}  // namespace rtx::backend::cuda
