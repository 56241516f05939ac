#include "codegen/print.h"

#include <gtest/gtest.h>

#include <cmath>

#include "codegen/lower.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

// The statements of a row, without what stands before them in a text.
std::string printed(const std::string& text, int width, bool contract = false) {
  const ir::Graph body = ir::parse_or_die(text);
  Lowering lowering(body);
  const auto extents = body.extents(body.outputs[0]);
  const auto at = variables_of(extents);
  const auto element = lowering.element(body.outputs[0], at);
  EXPECT_TRUE(element.ok());
  EXPECT_TRUE(lowering.store(0, at, *element).ok());
  Dialect dialect;
  dialect.preludes = {"backend/cpu/prelude.h", "codegen/row.inc.h"};
  Source source(dialect, "row", "print_test.cpp", "", "");
  source.open("BEGIN");
  RowLoop loop;
  loop.inner = static_cast<int>(extents.size()) - 1;
  loop.count = std::to_string(extents.back());
  loop.vector_width = width;
  loop.contract = contract;
  print_row(source, lowering.dag(), loop);
  source.close();
  const std::string out = source.take();
  return out.substr(out.find("BEGIN {\n") + 8);
}

TEST(Print, a_product_that_only_a_sum_reads_is_contracted_where_asked) {
  const auto text = [](const std::string& result) { return printed("x: f32[4,8]; y: f32[4,8]; m = mul(x, y); a = add(x, m); " + result, 1, true); };
  EXPECT_NE(text("return a").find("math::fma(t0, t1, t0)"), std::string::npos) << text("return a");
  EXPECT_EQ(text("return a").find(" * t"), std::string::npos) << text("return a");
  EXPECT_EQ(text("b = sub(a, m); return b").find("fma"), std::string::npos) << text("b = sub(a, m); return b");
  EXPECT_EQ(printed("x: f32[4,8]; m = mul(x, x); a = add(x, m); return a", 1).find("fma"), std::string::npos);
  EXPECT_EQ(printed("x: f64[4,8]; m = mul(x, x); a = add(x, m); return a", 1, true).find("fma"), std::string::npos);
}

TEST(Print, a_row_has_a_vector_body_and_a_scalar_tail) {
  EXPECT_EQ(printed("x: f32[3,19]; y: f32[3,1]; a = add(x, y); b = relu(a); return b", 8),
            "  const f32 t1 = load<f32>(b1 + v0);\n"
            "  i64 i = 0;\n"
            "  for (; i + 8 <= 19; i += 8) {\n"
            "    const vec<f32, 8> t0 = load<vec<f32, 8>>(b0 + v0 * 19 + i);\n"
            "    const vec<f32, 8> t2 = t0 + splat<vec<f32, 8>>(t1);\n"
            "    const vec<f32, 8> t3 = math::relu(t2);\n"
            "    store(b2 + v0 * 19 + i, t3);\n"
            "  }\n"
            "  for (; i < 19; ++i) {\n"
            "    const f32 t0 = load<f32>(b0 + v0 * 19 + i);\n"
            "    const f32 t2 = t0 + t1;\n"
            "    const f32 t3 = math::relu(t2);\n"
            "    store(b2 + v0 * 19 + i, t3);\n"
            "  }\n"
            "}\n");
}

TEST(Print, a_row_of_whole_vectors_has_no_tail_and_a_short_one_no_body) {
  EXPECT_EQ(printed("x: f32[16]; y = neg(x); return y", 8).find("++i"), std::string::npos);
  EXPECT_EQ(printed("x: f32[5]; y = neg(x); return y", 8).find("vec<"), std::string::npos);
}

TEST(Print, strided_and_reversed_loads_say_their_stride) {
  EXPECT_NE(printed("x: f32[64]; y = slice(x, starts=[63], steps=[-2]): [32]; return y", 8).find("load_strided<vec<f32, 8>>(b0 + i * -2 + 63, -2)"), std::string::npos)
      << printed("x: f32[64]; y = slice(x, starts=[63], steps=[-2]): [32]; return y", 8);
}

TEST(Print, literals_read_back_as_the_value) {
  EXPECT_EQ(literal_text(ir::DType::f32, 0.5, 0), "0.5f");
  EXPECT_EQ(literal_text(ir::DType::bf16, 3, 0), "3.0f");
  EXPECT_EQ(literal_text(ir::DType::f64, 1e-5, 0), "1.0000000000000001e-05");
  EXPECT_EQ(literal_text(ir::DType::f32, -INFINITY, 0), "-__builtin_inff()");
  EXPECT_EQ(literal_text(ir::DType::i64, 0, INT64_MIN), "i64(-9223372036854775807 - 1)");
  EXPECT_EQ(literal_text(ir::DType::u64, 0, -1), "u64(18446744073709551615u)");
}

}  // namespace
}  // namespace rtx::codegen
