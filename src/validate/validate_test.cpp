#include "validate/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/text.h"
#include "validate/host_device_testing.h"
#include "validate/serial.h"

namespace rtx::validate {
namespace {

using ir::DType;
using ir::HostTensor;

HostTensor tensor(DType dtype, std::vector<int64_t> extents, const std::vector<double>& values) {
  HostTensor out(dtype, std::move(extents));
  for (int64_t i = 0; i < out.count(); ++i) out.set_double(i, values[static_cast<size_t>(i) % values.size()]);
  return out;
}

Comparison against(const HostTensor& found, const HostTensor& wanted, Bounds bounds = {}) { return compare("y", found, reference::from_host(wanted), bounds); }

TEST(Compare, equal_tensors_agree_and_one_wrong_tile_in_a_large_output_does_not) {
  HostTensor wanted(DType::f32, {1000, 1000});
  for (int64_t i = 0; i < wanted.count(); ++i) wanted.set_double(i, std::sin(static_cast<double>(i)));
  EXPECT_TRUE(against(wanted, wanted).agrees);
  HostTensor found = wanted;
  found.set_double(500 * 1000 + 3, found.get_double(500 * 1000 + 3) + 1e-3);
  const auto result = against(found, wanted);
  EXPECT_FALSE(result.agrees) << "the norm alone would hide it: " << result.detail.norm_error;
  EXPECT_EQ(result.detail.first_wrong, 500 * 1000 + 3);
  EXPECT_EQ(result.detail.first_wrong_coordinates, (std::vector<int64_t>{500, 3}));
  EXPECT_EQ(result.detail.wrong_count, 1);
}

TEST(Compare, nan_and_inf_must_stand_exactly_where_the_reference_has_them) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const auto wanted = tensor(DType::f32, {4}, {nan, inf, -inf, 1});
  EXPECT_TRUE(against(wanted, wanted).agrees);
  EXPECT_FALSE(against(tensor(DType::f32, {4}, {0, inf, -inf, 1}), wanted).agrees);
  EXPECT_FALSE(against(tensor(DType::f32, {4}, {nan, -inf, -inf, 1}), wanted).agrees);
  EXPECT_FALSE(against(tensor(DType::f32, {4}, {nan, inf, -inf, nan}), wanted).agrees);
}

TEST(Compare, a_reference_of_zeros_demands_zeros) {
  const auto zeros = tensor(DType::f32, {8}, {0});
  EXPECT_TRUE(against(zeros, zeros).agrees);
  const auto result = against(tensor(DType::f32, {8}, {0, 1e-6}), zeros);
  EXPECT_FALSE(result.agrees);
  EXPECT_TRUE(result.detail.reference_all_zero);
  EXPECT_NE(result.detail.text().find("all zeros"), std::string::npos);
}

TEST(Compare, longer_sums_may_differ_by_the_root_of_their_length) {
  HostTensor wanted(DType::f32, {1, 100}), found(DType::f32, {1, 100});
  for (int64_t i = 0; i < 100; ++i) wanted.set_double(i, 1), found.set_double(i, 1 + 3e-6);
  EXPECT_FALSE(against(found, wanted, {.rule = Rule::norm_element, .terms = 1024}).agrees);
  EXPECT_TRUE(against(found, wanted, {.rule = Rule::norm_element, .terms = 16 * 1024}).agrees);
}

TEST(Compare, an_element_may_differ_by_the_larger_of_its_bound_and_what_a_serial_loop_loses_in_its_row) {
  const auto wanted = tensor(DType::f32, {2, 2}, {1e-6, 1e-6, 1, 1});
  Bounds bounds;
  bounds.row_allowance = {4e-8, 1e-5};  // the second row's own bound, 1.65e-5, is the larger: nothing is added to it
  const auto first = tensor(DType::f32, {2, 2}, {1e-6 + 3e-8, 1e-6, 1, 1}), second = tensor(DType::f32, {2, 2}, {1e-6, 1e-6, 1, 1 + 2e-5});
  EXPECT_FALSE(against(first, wanted).agrees);
  EXPECT_TRUE(against(first, wanted, bounds).agrees);
  EXPECT_FALSE(against(second, wanted, bounds).agrees);
}

TEST(Compare, an_allowance_for_the_norm_replaces_the_tolerance_where_it_is_larger) {
  HostTensor wanted(DType::f32, {1, 100}), found(DType::f32, {1, 100});
  for (int64_t i = 0; i < 100; ++i) wanted.set_double(i, 1), found.set_double(i, 1 + 3e-6);
  Bounds bounds;
  bounds.norm_allowance = 2e-6;
  EXPECT_FALSE(against(found, wanted, bounds).agrees);
  bounds.norm_allowance = 4e-6;
  EXPECT_TRUE(against(found, wanted, bounds).agrees);
  bounds.terms = 64 * 1024;  // 8e-6
  bounds.norm_allowance = 2e-6;
  EXPECT_TRUE(against(found, wanted, bounds).agrees);
}

TEST(Compare, bf16_is_judged_against_the_rounded_reference) {
  reference::RefTensor wanted{DType::bf16, {1, 64}, {}, {}};
  for (int i = 0; i < 64; ++i) wanted.reals.push_back(1.0 + i / 1000.0);  // rounding alone costs up to 2^-9 each
  EXPECT_TRUE(compare("y", reference::to_host(wanted), wanted, {}).agrees);
}

// Every element off by the relative error `off`, many results.
TEST(Compare, only_attention_in_bf16_may_show_weights_of_bf16) {
  const auto agrees = [](DType dtype, Rule rule, double off) {
    reference::RefTensor wanted{dtype, {64, 64}, {}, {}}, found = wanted;
    for (int i = 0; i < 4096; ++i) {
      wanted.reals.push_back(1.0 + i % 64 / 128.0);  // a bf16 number
      found.reals.push_back(i % 8 == 0 ? wanted.reals.back() * (1 + off) : wanted.reals.back());
    }
    Bounds bounds;
    bounds.rule = rule;
    return compare("y", reference::to_host(found), wanted, bounds).agrees;
  };
  EXPECT_TRUE(agrees(DType::bf16, Rule::attention, 0.006));   // norm 2.1e-3
  EXPECT_FALSE(agrees(DType::bf16, Rule::attention, 0.016));
  EXPECT_FALSE(agrees(DType::bf16, Rule::norm_element, 0.006));
  EXPECT_FALSE(agrees(DType::f16, Rule::attention, 0.006));
  EXPECT_FALSE(agrees(DType::f32, Rule::attention, 1e-5));
}

TEST(Compare, integers_are_exact_and_other_shapes_or_types_never_agree) {
  const auto wanted = tensor(DType::i64, {3}, {1, 2, 3});
  EXPECT_TRUE(against(wanted, wanted).agrees);
  EXPECT_FALSE(against(tensor(DType::i64, {3}, {1, 2, 4}), wanted).agrees);
  EXPECT_FALSE(against(tensor(DType::i64, {1, 3}, {1, 2, 3}), wanted).agrees);
  EXPECT_FALSE(against(tensor(DType::i32, {3}, {1, 2, 3}), wanted).agrees);
}

TEST(CompareRecorded, allows_twice_the_noise_and_no_more) {
  const auto wanted = tensor(DType::f32, {2}, {1.0, -2.0});
  EXPECT_TRUE(compare_recorded("y", tensor(DType::f32, {2}, {1.0 + 3e-5, -2.0}), wanted, 0).agrees);
  EXPECT_FALSE(compare_recorded("y", tensor(DType::f32, {2}, {1.0 + 5e-5, -2.0}), wanted, 0).agrees);
  EXPECT_TRUE(compare_recorded("y", tensor(DType::f32, {2}, {1.0 + 5e-5, -2.0}), wanted, 2e-5).agrees);
}

// P17: random indices stay in range, through casts and reshapes.
TEST(Inputs, indices_stay_inside_what_they_index) {
  const auto graph = ir::parse_or_die("data: f32[10,4]; i: i32[3,5]; j = cast(i): i64; k = reshape(j): [15]; y = gather(data, k, axis=0); return y");
  for (uint64_t seed = 1; seed < 20; ++seed)
    for (const auto kind : {InputKind::random, InputKind::hard}) {
      const auto inputs = make_inputs(graph, seed, kind);
      for (int64_t i = 0; i < 15; ++i) {
        EXPECT_GE(inputs[1].get_int(i), -10);
        EXPECT_LE(inputs[1].get_int(i), 9);
      }
    }
}

TEST(Inputs, a_seed_always_gives_the_same_bytes) {
  const auto graph = ir::parse_or_die("x: f32[64]; y = neg(x); return y");
  EXPECT_TRUE(make_inputs(graph, 5, InputKind::random)[0].same_bytes(make_inputs(graph, 5, InputKind::random)[0]));
  EXPECT_FALSE(make_inputs(graph, 5, InputKind::random)[0].same_bytes(make_inputs(graph, 6, InputKind::random)[0]));
}

// f32 cannot tell logits apart to which -10000 was added, so somebody is always kept.
TEST(Inputs, what_a_large_constant_makes_a_penalty_of_is_a_mask_that_keeps_some_and_not_others) {
  for (const char* type : {"f32", "i64"}) {
    const auto graph = ir::parse_or_die("s: f32[3,2,7]; m: " + std::string(type) + "[2,7]; c = cast(m): f32; one: const f32[] {1}; low: const f32[] {-10000}; "
                                        "d = sub(one, c); p = mul(d, low); t = add(s, p); y = softmax(t, axis=2); return y");
    for (const auto kind : {InputKind::random, InputKind::hard}) {
      const auto inputs = make_inputs(graph, 3, kind);
      for (int64_t i = 0; i < inputs[1].count(); ++i) {
        const double bit = inputs[1].get_double(i);
        EXPECT_TRUE(bit == 0 || bit == 1) << bit;
        EXPECT_TRUE(i % 7 > 1 || bit == (i % 7 == 0 ? 1 : 0)) << i;
      }
      EXPECT_NE(inputs[0].get_double(0), 0);
    }
    const auto cases = make_cases(graph, 3);
    const auto serial = serial_error(graph, (*cases)[0].inputs, (*cases)[0].wanted);
    EXPECT_LT(serial.norm, 1e-6) << "the random inputs of such a graph are as good as any";
  }
  const auto harmless = ir::parse_or_die("x: f32[64]; c: const f32[] {1000}; y = mul(x, c); return y");
  EXPECT_LT(make_inputs(harmless, 3, InputKind::random)[0].get_double(2) * make_inputs(harmless, 3, InputKind::random)[0].get_double(2), 100);
}

TEST(Inputs, products_do_not_grow_through_layers_of_weights) {
  const auto graph = ir::parse_or_die("x: f32[8,512]; a: f32[512,512]; t = transpose(a, perm=[1,0]); h = matmul(x, t); b: f32[512,512]; y = matmul(h, b); return y");
  const auto cases = make_cases(graph, 3);
  ASSERT_TRUE(cases.ok());
  double squares = 0;
  for (const double value : (*cases)[0].wanted[0].reals) squares += value * value;
  EXPECT_NEAR(std::sqrt(squares / (8 * 512)), 1.0, 0.2);
}

// Packed queries, keys and values are told apart through slices, reshapes and transposes.
TEST(Inputs, the_values_in_a_packed_projection_are_hard_and_its_queries_and_keys_are_not) {
  const auto graph = ir::parse_or_die(
      "x: f32[1,5,48]; q0 = slice(x, starts=[0,0,0], steps=[1,1,1]): [1,5,16]; k0 = slice(x, starts=[0,0,16], steps=[1,1,1]): [1,5,16]; v0 = slice(x, starts=[0,0,32], steps=[1,1,1]): [1,5,16]; "
      "q1 = reshape(q0): [1,5,2,8]; k1 = reshape(k0): [1,5,2,8]; v1 = reshape(v0): [1,5,2,8]; q = transpose(q1, perm=[0,2,1,3]); k = transpose(k1, perm=[0,2,1,3]); v = transpose(v1, perm=[0,2,1,3]); "
      "y = attention(q, k, v, scale=0.35); return y");
  const auto inputs = make_inputs(graph, 3, InputKind::hard);
  for (int64_t token = 0; token < 5; ++token)
    for (int64_t c = 0; c < 48; ++c) {
      const double size = std::abs(inputs[0].get_double(token * 48 + c));
      EXPECT_TRUE(c < 32 ? size < 10 : size > 500) << size << " at " << c;  // values of head 0 have a mean of 4096, of head 1 +-1000
    }
}

TEST(Cases, hard_inputs_come_with_the_error_of_a_plain_serial_sum) {
  const auto graph = ir::parse_or_die("x: f32[8,4096]; y = reduce_sum(x, axes=[1], keepdims=0); return y");
  const auto cases = make_cases(graph, 3);
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 2u);
  EXPECT_EQ((*cases)[1].kind, InputKind::hard);
  EXPECT_GT((*cases)[1].serial_error, 1e-8);
  EXPECT_LT((*cases)[1].serial_error, 1e-2);
  ASSERT_EQ((*cases)[1].serial_rows.size(), 1u);
  EXPECT_EQ((*cases)[1].serial_rows[0].size(), 1u);
  EXPECT_GT((*cases)[1].serial_rows[0][0], 0);
}

// What the serial loop is off by at most in each head of an output [1,H,S,D], against the head's rms.
std::vector<double> serial_error_by_head(const Case& item) {
  const auto& wanted = item.wanted[0];
  const int64_t heads = wanted.extents[1], rows = wanted.extents[2], columns = wanted.extents[3];
  std::vector<double> out;
  for (int64_t h = 0; h < heads; ++h) {
    double worst = 0, squares = 0;
    for (int64_t r = 0; r < rows; ++r) {
      worst = std::max(worst, item.serial_rows[0][static_cast<size_t>(h * rows + r)]);
      for (int64_t c = 0; c < columns; ++c) {
        const double w = wanted.reals[static_cast<size_t>((h * rows + r) * columns + c)];
        squares += w * w;
      }
    }
    out.push_back(worst / std::sqrt(squares / static_cast<double>(rows * columns)));
  }
  return out;
}

const char* kAttention = "q: f32[1,4,96,64]; k: f32[1,4,80,64]; v: f32[1,4,80,24]; y = attention(q, k, v, scale=0.125); return y";

// Large means, cancelling sums and magnitudes far apart are tried on attention too, and f32 decides each of them: a serial loop is
// off by far less than the result, and where the scores are hard by more than the tolerance for random inputs.
TEST(Cases, attention_gets_hard_values_and_hard_scores_that_f32_still_decides) {
  const auto graph = ir::parse_or_die(kAttention);
  const auto cases = make_cases(graph, 3);
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 3u);
  const auto &values = (*cases)[1], &scores = (*cases)[2];
  EXPECT_EQ(values.kind, InputKind::hard);
  EXPECT_EQ(scores.kind, InputKind::hard_scores);
  EXPECT_GT(values.inputs[2].get_double(0), 3000);  // the values of head 0 have a mean of 4096
  EXPECT_LT(std::abs(values.inputs[0].get_double(0)), 10);
  EXPECT_GT(scores.inputs[0].get_double(0), 3000);  // the queries of head 0 have
  for (const auto* item : {&values, &scores})
    for (const double error : serial_error_by_head(*item)) EXPECT_LT(error, 2e-2);
  const auto by_head = serial_error_by_head(scores);
  for (const size_t h : {size_t{0}, size_t{1}, size_t{2}}) EXPECT_GT(by_head[h], 1e-6) << "head " << h << " is as easy as random numbers";
}

constexpr int64_t kRows = 1000, kColumns = 1000;

// Faults of y = 2 x over a million elements.
std::vector<Fault> check_double(Kernel kernel) {
  const auto graph = ir::parse_or_die("x: f32[1000,1000]; two: const f32[] {2}; y = mul(x, two); return y");
  HostDevice device(kernel);
  HostModule module;
  backend::KernelPlan plan;
  plan.steps.push_back({"entry", {1, 1, 1}, {1, 1, 1}, 0, {{backend::BufferKind::input, 0}, {backend::BufferKind::output, 0}}});
  auto cases = make_cases(graph, 1);
  return check_plan(device, module, plan, graph, *cases, {});
}
void doubled(void* const* arguments) {
  for (int64_t i = 0; i < kRows * kColumns; ++i) static_cast<float*>(arguments[1])[i] = 2 * static_cast<const float*>(arguments[0])[i];
}

TEST(CheckPlan, a_right_kernel_has_no_faults) { EXPECT_TRUE(check_double(doubled).empty()); }

// P12: one NaN in a million elements.
TEST(CheckPlan, one_nan_in_a_million_is_wrong) {
  const auto faults = check_double([](void* const* a) { doubled(a), static_cast<float*>(a[1])[777777] = NAN; });
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0].kind, Fault::Kind::wrong_numbers);
  EXPECT_NE(faults[0].text.find("777,777"), std::string::npos) << faults[0].text;
}

// P14: a kernel that writes only even rows.
TEST(CheckPlan, rows_left_unwritten_are_found_because_outputs_are_poisoned) {
  const auto faults = check_double([](void* const* a) {
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      if (i / kColumns % 2 == 0) static_cast<float*>(a[1])[i] = 2 * static_cast<const float*>(a[0])[i];
  });
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].kind, Fault::Kind::unwritten);
}

TEST(CheckPlan, a_write_past_the_end_or_before_the_start_is_found) {
  auto faults = check_double([](void* const* a) { doubled(a), static_cast<float*>(a[1])[kRows * kColumns] = 1; });
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].kind, Fault::Kind::out_of_bounds);
  faults = check_double([](void* const* a) { doubled(a), static_cast<float*>(a[1])[-1] = 1; });
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].kind, Fault::Kind::out_of_bounds);
}

// P16, P17: an input that is changed.
TEST(CheckPlan, a_changed_input_is_found) {
  const auto faults = check_double([](void* const* a) { doubled(a), static_cast<float*>(a[0])[5] += 1; });
  ASSERT_FALSE(faults.empty());
  EXPECT_EQ(faults[0].kind, Fault::Kind::input_changed);
}

}  // namespace
}  // namespace rtx::validate
