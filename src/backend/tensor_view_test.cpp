#include "backend/tensor_view.h"

#include <gtest/gtest.h>

namespace rtx::backend {
namespace {

TensorView matrix_of(int64_t rows, int64_t columns) {
  TensorView view;
  view.element = ViewElement::bf16;
  view.extents = {columns, rows};
  view.strides_bytes = {columns * 2};
  view.box = {64, 128};
  view.swizzle = 128;
  return view;
}

TEST(TensorView, a_view_that_a_tensor_map_can_be_made_of_has_no_problem) {
  const TensorView view = matrix_of(3000, 1024);
  EXPECT_EQ(problem_of(view), "");
  EXPECT_EQ(box_bytes(view), 16384);
  EXPECT_EQ(span_bytes(view), 3000 * 1024 * 2);
  TensorView five;
  five.element = ViewElement::tf32;
  five.extents = {32, 3, 5, 7, 2};
  five.strides_bytes = {128, 512, 4096, 32768};
  five.box = {32, 2, 2, 2, 1};
  EXPECT_EQ(problem_of(five), "");
  EXPECT_EQ(span_bytes(five), 128 + 2 * 128 + 4 * 512 + 6 * 4096 + 32768);
}

TEST(TensorView, each_rule_that_is_broken_is_named) {
  const auto says = [](const char* sentence, auto change) {
    TensorView view = matrix_of(256, 256);
    change(view);
    EXPECT_EQ(problem_of(view), sentence);
  };
  says("its stride of 504 bytes is no multiple of 16 below 2^40", [](TensorView& v) { v.strides_bytes = {504}; });
  says("its stride of 1099511627776 bytes is no multiple of 16 below 2^40", [](TensorView& v) { v.strides_bytes = {int64_t{1} << 40}; });
  says("it has 1 dimensions; 2 to 5 can be", [](TensorView& v) { v.extents = {8}, v.box = {8}, v.strides_bytes = {}; });
  says("it has not a stride for each outer dimension and a box for each", [](TensorView& v) { v.strides_bytes = {512, 512}; });
  says("an extent is 0", [](TensorView& v) { v.extents = {0, 1}; });
  says("its box is 257 along a dimension; 1 to 256 can be", [](TensorView& v) { v.box = {64, 257}; });
  says("a row of its box has 24 bytes, no multiple of 16", [](TensorView& v) { v.box = {12, 8}; });
  says("a row of its box has 256 bytes, its swizzle 128", [](TensorView& v) { v.box = {128, 8}; });
  says("there is no swizzle of 16 bytes", [](TensorView& v) { v.swizzle = 16; });
  says("its memory begins 8 bytes past a multiple of 16", [](TensorView& v) { v.byte_offset = 8; });
  says("its offset is -16", [](TensorView& v) { v.byte_offset = -16; });
  says("it is larger than any memory", [](TensorView& v) {
    v.extents = {int64_t{1} << 32, int64_t{1} << 32, int64_t{1} << 32}, v.strides_bytes = {(int64_t{1} << 40) - 16, (int64_t{1} << 40) - 16}, v.box = {64, 1, 1};
  });
  alignas(16) char bytes[32];
  EXPECT_EQ(problem_of(matrix_of(8, 64), bytes + 4), "its memory begins 4 bytes past a multiple of 16");
}

TEST(TensorView, an_elements_name_leads_back_to_it) {
  for (const auto element : {ViewElement::u8, ViewElement::u16, ViewElement::u32, ViewElement::f16, ViewElement::bf16, ViewElement::f32, ViewElement::tf32})
    EXPECT_EQ(view_element_from_name(name(element)), element);
  EXPECT_FALSE(view_element_from_name("f64"));
  EXPECT_EQ(bytes_of(ViewElement::tf32), 4);
}

}  // namespace
}  // namespace rtx::backend
