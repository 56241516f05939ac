#include "reference/test_help.h"

namespace rtx::reference {
namespace {

TEST(Movement, transpose_slice_expand_and_concat_put_elements_where_they_belong) {
  const Numbers x = counting(6);
  expect_near(first("x: f32[2,3]; y = transpose(x, perm=[1,0]); return y", {x}), {0, 3, 1, 4, 2, 5});
  expect_near(first("x: f32[1,2,3]; y = transpose(x, perm=[2,0,1]); return y", {x}), {0, 3, 1, 4, 2, 5});
  expect_near(first("x: f32[]; y = transpose(x, perm=[]); return y", {{7}}), {7});
  expect_near(first("x: f32[2,3]; y = slice(x, starts=[1,2], steps=[-1,-2]): [2,2]; return y", {x}), {5, 3, 2, 0});
  expect_near(first("x: f32[2,3]; y = slice(x, starts=[0,3], steps=[1,1]): [2,0]; return y", {x}), {});
  expect_near(first("x: f32[6]; y = slice(x, starts=[5], steps=[4611686018427387904]): [1]; return y", {x}), {5});
  expect_near(first("x: i8[2,1]; y = expand(x): [2,2,2]; return y", {{1, 2}}), {1, 1, 2, 2, 1, 1, 2, 2});
  expect_near(first("x: f32[2,3]; z: f32[2,0]; w: f32[2,1]; y = concat(x, z, w, axis=1); return y", {x, {}, {8, 9}}), {0, 1, 2, 8, 3, 4, 5, 9});
  expect_near(first("x: f32[2,3]; y = reshape(x): [3,2]; return y", {x}), x);
}

TEST(Movement, gather_reads_rows_also_from_the_end) {  // P17
  const Numbers data = counting(6);
  expect_near(first("d: f32[3,2]; i: i64[3]; y = gather(d, i); return y", {data, {0, 2, -1}}), {0, 1, 4, 5, 4, 5});
  expect_near(first("d: f32[3,2]; i: i32[2,1]; y = gather(d, i, axis=1); return y", {data, {1, 0}}), {1, 0, 3, 2, 5, 4});
  expect_near(first("d: f32[3,2]; i: i64[]; y = gather(d, i); return y", {data, {1}}), {2, 3});
  expect_near(first("d: f32[0,2]; i: i64[0]; y = gather(d, i); return y", {{}, {}}), {});
}

TEST(Movement, an_index_outside_its_dimension_is_refused) {
  for (double index : {3.0, -4.0}) {
    auto out = run_text("d: f32[3,2]; i: i64[1]; y = gather(d, i); return y", {counting(6), {index}});
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().kind, ErrorKind::user);
    EXPECT_NE(out.error().text().find("outside [-3, 2]"), std::string::npos) << out.error().text();
  }
  EXPECT_FALSE(run_text("d: f32[0,2]; i: i64[1]; y = gather(d, i); return y", {{}, {0}}).ok());
  EXPECT_FALSE(run_text("d: f32[2,2]; i: i64[1,2]; y = gather_nd(d, i); return y", {counting(4), {0, 2}}).ok());
  EXPECT_FALSE(run_text("d: f32[2]; i: i64[1,1]; u: f32[1]; y = scatter_nd(d, i, u); return y", {{1, 2}, {2}, {5}}).ok());
}

TEST(Movement, gather_nd_follows_tuples_inside_batches) {
  expect_near(first("d: f32[2,2]; i: i64[2,2]; y = gather_nd(d, i); return y", {counting(4), {0, 0, 1, -1}}), {0, 3});
  expect_near(first("d: f32[2,2]; i: i64[2,1]; y = gather_nd(d, i); return y", {counting(4), {1, 0}}), {2, 3, 0, 1});
  expect_near(first("d: f32[2,2,2]; i: i64[2,1]; y = gather_nd(d, i, batch_dims=1); return y", {counting(8), {1, 0}}), {2, 3, 4, 5});
}

TEST(Movement, scatter_nd_replaces_or_combines) {
  const std::string text = "d: f32[4]; i: i64[3,1]; u: f32[3]; y = scatter_nd(d, i, u, reduction=";
  const std::vector<Numbers> inputs{{1, 2, 3, 4}, {3, 1, -1}, {9, 10, 5}};
  expect_near(first(text + "0); return y", inputs), {1, 10, 3, 5});
  expect_near(first(text + "1); return y", inputs), {1, 12, 3, 18});
  expect_near(first(text + "2); return y", inputs), {1, 20, 3, 180});
  expect_near(first(text + "3); return y", inputs), {1, 10, 3, 9});
  expect_near(first(text + "4); return y", inputs), {1, 2, 3, 4});
  expect_near(first("d: i8[1]; i: i64[1,1]; u: i8[1]; y = scatter_nd(d, i, u, reduction=1); return y", {{127}, {0}, {1}}), {-128});
}

TEST(Movement, trilu_keeps_its_side_of_any_diagonal) {
  const Numbers x = counting(9, 1);
  const std::string text = "x: f32[3,3]; y = trilu(x, ";
  expect_near(first(text + "upper=1); return y", {x}), {1, 2, 3, 0, 5, 6, 0, 0, 9});
  expect_near(first(text + "upper=0, k=-1); return y", {x}), {0, 0, 0, 4, 0, 0, 7, 8, 0});
  expect_near(first(text + "upper=1, k=9223372036854775807); return y", {x}), Numbers(9, 0));
  expect_near(first(text + "upper=1, k=-9223372036854775808); return y", {x}), x);
  expect_near(first("x: f32[2,0,3]; y = trilu(x); return y", {{}}), {});
}

TEST(Movement, rotary_turns_halves_or_neighbours_and_leaves_the_rest) {
  const std::string text = "x: f64[1,1,1,5]; c: f64[1,1,2]; s: f64[1,1,2]; y = rotary(x, c, s, rotary_dim=4, interleaved=";
  const std::vector<Numbers> inputs{{1, 2, 3, 4, 5}, {0.6, 0}, {0.8, 1}};
  // Halves: (1,3) and (2,4). Neighbours: (1,2) and (3,4).
  expect_near(first(text + "0); return y", inputs), {0.6 * 1 - 0.8 * 3, -4, 0.8 * 1 + 0.6 * 3, 2, 5});
  expect_near(first(text + "1); return y", inputs), {0.6 * 1 - 0.8 * 2, 0.8 * 1 + 0.6 * 2, -4, 3, 5});
}

TEST(Movement, rotary_angles_follow_batch_and_position_not_head) {
  const std::string text = "x: f64[2,2,2,2]; c: f64[2,2,1]; s: f64[2,2,1]; y = rotary(x, c, s, rotary_dim=2); return y";
  const Numbers out = first(text, {{1}, {1, 2, 3, 4}, {0}});
  expect_near(out, {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
}

}  // namespace
}  // namespace rtx::reference
