#include "validate/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ir/text.h"

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

TEST(Compare, an_element_may_differ_by_what_a_serial_loop_loses_in_its_row_and_no_other) {
  const auto wanted = tensor(DType::f32, {2, 2}, {1e-6, 1e-6, 1, 1});
  Bounds bounds;
  bounds.row_allowance = {4e-8, 0};
  const auto first = tensor(DType::f32, {2, 2}, {1e-6 + 3e-8, 1e-6, 1, 1}), second = tensor(DType::f32, {2, 2}, {1e-6, 1e-6, 1, 1 + 2e-5});
  EXPECT_FALSE(against(first, wanted).agrees);
  EXPECT_TRUE(against(first, wanted, bounds).agrees);
  EXPECT_FALSE(against(second, wanted, bounds).agrees);
}

TEST(Compare, bf16_is_judged_against_the_rounded_reference) {
  reference::RefTensor wanted{DType::bf16, {1, 64}, {}, {}};
  for (int i = 0; i < 64; ++i) wanted.reals.push_back(1.0 + i / 1000.0);  // rounding alone costs up to 2^-9 each
  EXPECT_TRUE(compare("y", reference::to_host(wanted), wanted, {}).agrees);
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

// A device whose kernels are functions of this test: faults are planted and must be found.
using Kernel = void (*)(void* const* arguments);
class HostModule final : public backend::Module {};
class HostDevice final : public backend::Device {
 public:
  explicit HostDevice(Kernel kernel) : kernel_(kernel) {}
  const backend::Caps& caps() const override { return caps_; }
  Result<std::unique_ptr<backend::Module>> load(std::span<const std::byte>, const std::string&) override { return std::unique_ptr<backend::Module>(std::make_unique<HostModule>()); }
  Result<backend::Function> function(backend::Module&, const std::string&) override { return backend::Function{reinterpret_cast<void*>(kernel_)}; }
  Status launch(backend::Function function, backend::Dim3, backend::Dim3, int64_t, void* const* arguments, int, backend::Stream) override {
    reinterpret_cast<Kernel>(function.handle)(arguments);
    return success();
  }
  Status synchronize(backend::Stream) override { return success(); }
  Result<void*> allocate(int64_t bytes) override { return std::malloc(static_cast<size_t>(bytes) + 64); }
  void release(void* pointer) override { std::free(pointer); }
  Status copy_in(void* to, const void* from, int64_t bytes, backend::Stream) override { return std::memcpy(to, from, static_cast<size_t>(bytes)), success(); }
  Status copy_out(void* to, const void* from, int64_t bytes, backend::Stream) override { return copy_in(to, from, bytes, nullptr); }
  Status fill(void* to, std::byte value, int64_t bytes, backend::Stream) override { return std::memset(to, static_cast<int>(value), static_cast<size_t>(bytes)), success(); }
  bool host_addressable() const override { return true; }
  Result<double> time(backend::Stream, const std::function<Status()>& work) override { return work().ok() ? 1.0 : 0.0; }
  Status flush_caches(backend::Stream) override { return success(); }

 private:
  backend::Caps caps_;
  Kernel kernel_;
};

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
