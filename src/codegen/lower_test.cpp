#include "codegen/lower.h"

#include <gtest/gtest.h>

#include "codegen/nest.h"
#include "ir/text.h"

namespace rtx::codegen {
namespace {

ElementDag lowered(const std::string& text) {
  const ir::Graph body = ir::parse_or_die(text);
  Lowering lowering(body);
  const auto at = variables_of(body.extents(body.outputs[0]));
  auto element = lowering.element(body.outputs[0], at);
  EXPECT_TRUE(element) << (element ? "" : element.error().text());
  EXPECT_TRUE(lowering.store(0, at, *element).ok());
  return lowering.take();
}

TEST(Lower, broadcast_operands_are_read_at_coordinate_zero) {
  EXPECT_EQ(lowered("x: f32[4,7]; y: f32[4,1]; z = add(x, y); return z").text(),
            "t0: f32 = b0[v0 * 7 + v1]; t1: f32 = b1[v0]; t2: f32 = add(t0, t1); b2[v0 * 7 + v1] = t2; "
            "b0 = input 0 f32; b1 = input 1 f32; b2 = output 0 f32; ");
}

TEST(Lower, common_subexpressions_are_one_element) {
  EXPECT_EQ(lowered("x: f32[4]; a = exp(x); b = exp(x); c = mul(a, b); return c").elements.size(), 3u);
}

TEST(Lower, layouts_give_strides_and_offset) {
  EXPECT_EQ(lowered("x: f32[3,5] strides [1,3] offset 2; y = neg(x); return y").elements[0].offset.text(), "v1 * 3 + v0 + 2");
}

TEST(Lower, concat_guards_the_loads_of_its_pieces) {
  const ElementDag dag = lowered("x: f32[3]; y: f32[4]; c = concat(x, y, axis=0); return c");
  int guarded = 0;
  for (const auto& e : dag.elements) guarded += e.kind == Element::Kind::load && e.guard >= 0 ? 1 : 0;
  EXPECT_EQ(guarded, 2);
}

TEST(Lower, an_epilogue_inverts_reshapes_and_transposes) {
  const ir::Graph body = ir::parse_or_die("a: f32[8,24]; r = reshape(a): [8,4,6]; t = transpose(r, perm=[1,0,2]); e = exp(t); return e");
  const auto at = variables_of({8, 24});
  auto dag = lower_epilogue(body, body.inputs[0], 0, at);
  ASSERT_TRUE(dag) << dag.error().text();
  int64_t step = 0;
  EXPECT_TRUE(dag->stores[0].offset.affine_in(1, 2, &step));
  EXPECT_EQ(dag->elements[0].kind, Element::Kind::leaf);
}

TEST(Lower, an_epilogue_that_needs_another_element_of_the_result_is_refused) {
  const ir::Graph body = ir::parse_or_die("a: f32[8,8]; t = transpose(a, perm=[1,0]); e = add(a, t); return e");
  auto dag = lower_epilogue(body, body.inputs[0], 0, variables_of({8, 8}));
  ASSERT_FALSE(dag);
  EXPECT_NE(dag.error().why.find("another element of a"), std::string::npos);
}

TEST(Lower, an_epilogue_that_changes_the_element_count_is_refused) {
  const ir::Graph body = ir::parse_or_die("a: f32[8,8]; s = slice(a, starts=[0,0], steps=[1,1]): [4,8]; return s");
  auto dag = lower_epilogue(body, body.inputs[0], 0, variables_of({8, 8}));
  ASSERT_FALSE(dag);
  EXPECT_NE(dag.error().why.find("number of elements"), std::string::npos);
}

TEST(Lower, operators_that_are_not_pointwise_are_refused_by_name) {
  const ir::Graph body = ir::parse_or_die("a: f32[8,8]; s = softmax(a, axis=1); return s");
  Lowering lowering(body);
  auto element = lowering.element(body.outputs[0], variables_of({8, 8}));
  ASSERT_FALSE(element);
  EXPECT_NE(element.error().why.find("softmax"), std::string::npos);
}

LoopNest nest_of(const std::string& text) {
  LoopNest nest;
  nest.dag = lowered(text);
  nest.extents = ir::parse_or_die(text).extents(ir::parse_or_die(text).outputs[0]);
  for (size_t d = 0; d < nest.extents.size(); ++d)
    if (nest.extents[d] > 1) nest.order.push_back(static_cast<int>(d));
  return nest;
}

TEST(Nest, a_contiguous_chain_becomes_one_loop) {
  LoopNest nest = nest_of("x: f32[4,5,6]; y = exp(x); return y");
  arrange(nest);
  ASSERT_EQ(nest.order.size(), 1u);
  EXPECT_EQ(nest.extents[static_cast<size_t>(nest.order[0])], 120);
}

TEST(Nest, refine_splits_variables_until_offsets_are_affine) {
  LoopNest nest = nest_of("x: f32[6,4,64]; t = transpose(x, perm=[1,0,2]); r = reshape(t): [4,384]; return r");
  refine(nest);
  arrange(nest);
  for (const auto& e : nest.dag.elements)
    e.offset.walk([](const Index& part) { EXPECT_NE(part.kind(), Index::Kind::divide); EXPECT_NE(part.kind(), Index::Kind::modulo); });
  EXPECT_EQ(nest.order.size(), 3u);
  EXPECT_EQ(nest.count(), 4 * 384);
}

TEST(Nest, split_ranges_leaves_pieces_without_tests) {
  const auto pieces = split_ranges(nest_of("x: f32[3,5]; y: f32[3,4]; c = concat(x, y, axis=1); return c"));
  ASSERT_EQ(pieces.size(), 2u);
  int64_t count = 0;
  for (const auto& piece : pieces) {
    count += piece.count();
    EXPECT_EQ(piece.dag.elements.size(), 1u) << piece.dag.text();
  }
  EXPECT_EQ(count, 27);
}

TEST(Nest, groups_cover_the_domain_with_chunks_of_whole_vectors) {
  LoopNest nest = nest_of("x: f32[100003]; y = exp(x); return y");
  const Chunks chunks = divide(nest, 4096, 64);
  EXPECT_EQ(chunks.chunk % 64, 0);
  EXPECT_GE(chunks.chunk * chunks.groups, 100003);
  EXPECT_LT(chunks.chunk * (chunks.groups - 1), 100003);
}

}  // namespace
}  // namespace rtx::codegen
