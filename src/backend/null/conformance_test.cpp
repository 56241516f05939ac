// What the null backend does and does not do, as the lists of backend/conformance/conformance.h. `ctest -R
// NullConformance`.
#include "backend/conformance/register_testing.h"
#include "backend/null/compile.h"
#include "backend/null/device.h"
#include "backend/null/dialect.h"

namespace rtx::backend::null {
namespace {

// Never, and why.
const std::vector<conformance::Unsupported> kUnsupported = {
    {"a_text_with_an_error_is_refused_with_the_compilers_words", "the text is the binary: nobody reads it"},
    {"every_group_runs_exactly_once", "the null device computes nothing"},
    {"a_launch_of_no_groups_runs_nothing", "the null device refuses every launch"},
    {"a_kernel_computes_known_values", "the null device computes nothing"},
    {"arguments_arrive_in_order", "the null device computes nothing"},
    {"scratch_is_there_aligned_and_nobody_elses", "the null device computes nothing"},
    {"a_launch_sees_what_the_one_before_it_wrote", "the null device computes nothing"},
    {"four_threads_may_launch_at_once", "the null device refuses every launch"},
    {"time_is_positive_and_grows_with_the_work", "the null device refuses every launch"},
    {"a_recording_is_replayed_whole_and_in_order", "the null device refuses every launch"},
    {"a_module_survives_its_twin", "the null device refuses every launch"},
};
// Not today, and what it needs. A copy of this folder moves the lines above down here and takes one away with
// every step.
const std::vector<conformance::NotYet> kNotYet = {};

[[maybe_unused]] const bool registered =
    conformance::register_checks("Null", {make_compiler, make_device, make_dialect}, {kUnsupported, kNotYet});

// The one thing no shared check can say: that the refusal is an error with a way out.
TEST(NullDevice, a_launch_is_refused_with_the_kernels_name_and_a_way_out) {
  conformance::Bench bench({make_compiler, make_device, make_dialect});
  const auto function = bench.kernel("conformance_count");
  ASSERT_TRUE(function.ok()) << function.error().text();
  const auto status = bench.device().launch(*function, {1, 1, 1}, {1, 1, 1}, 0, nullptr, 0, nullptr);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().exit_code(), 4);
  EXPECT_EQ(status.error().what, "cannot launch conformance_count");
  EXPECT_NE(status.error().fix.find("another target"), std::string::npos);
}

}  // namespace
}  // namespace rtx::backend::null
