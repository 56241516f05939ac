#include <algorithm>
#include <cmath>
#include <thread>

#include "backend/conformance/rig.h"

namespace rtx::backend::conformance {

namespace {

// Around the sizes at which a thread pool or a grid divides its work; the last is prime.
const std::vector<int64_t> kGroups = {1, 2, 3, 7, 16, 63, 64, 65, 1000, 100003};

Status launch(Bench& bench, const std::string& entry, int64_t groups, const std::vector<void*>& arguments,
              int64_t scratch_bytes = 0) {
  RTX_TRY(const Function function, bench.kernel(entry));
  return bench.device().launch(function, {groups, 1, 1}, {1, 1, 1}, scratch_bytes, arguments.data(),
                               static_cast<int>(arguments.size()), nullptr);
}

std::string every_group_runs_exactly_once(Bench& bench) {
  for (const int64_t groups : kGroups) {
    std::vector<int32_t> counts(static_cast<size_t>(groups) + 1, 5);
    const Memory memory(bench.device(), static_cast<int64_t>(counts.size() * sizeof(int32_t)));
    RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
    RTX_DONE_OR_RETURN(write(bench.device(), memory, counts));
    RTX_DONE_OR_RETURN(launch(bench, "conformance_count", groups, {memory.pointer}));
    RTX_DONE_OR_RETURN(read(bench.device(), &counts, memory));
    for (size_t g = 0; g + 1 < counts.size(); ++g)
      RTX_HOLDS_OR_RETURN(counts[g] == 6, "group " + std::to_string(g) + " of " + std::to_string(groups) +
                                              " ran " + std::to_string(counts[g] - 5) + " times");
    RTX_HOLDS_OR_RETURN(counts.back() == 5, "a group ran that does not exist, of " + std::to_string(groups));
  }
  return {};
}

// The runtime never issues one, a family's empty problem might.
std::string a_launch_of_no_groups_runs_nothing(Bench& bench) {
  std::vector<int32_t> counts(4, 5);
  const Memory memory(bench.device(), 16);
  RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
  RTX_DONE_OR_RETURN(write(bench.device(), memory, counts));
  RTX_DONE_OR_RETURN(launch(bench, "conformance_count", 0, {memory.pointer}));
  RTX_DONE_OR_RETURN(read(bench.device(), &counts, memory));
  RTX_HOLDS_OR_RETURN(counts == std::vector<int32_t>(4, 5), "a launch of no groups wrote something");
  return {};
}

std::string a_kernel_computes_known_values(Bench& bench) {
  std::vector<float> x(1009), y(1009, NAN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 500.f;
  const Memory from(bench.device(), 4 * 1009), to(bench.device(), 4 * 1009);
  RTX_HOLDS_OR_RETURN(from.pointer && to.pointer, from.error + to.error);
  RTX_DONE_OR_RETURN(write(bench.device(), from, x));
  RTX_DONE_OR_RETURN(write(bench.device(), to, y));
  RTX_DONE_OR_RETURN(launch(bench, "conformance_affine", 1009, {from.pointer, to.pointer}));
  RTX_DONE_OR_RETURN(read(bench.device(), &y, to));
  for (size_t i = 0; i < x.size(); ++i)
    RTX_HOLDS_OR_RETURN(y[i] == 3.f * x[i] + 1.f, "element " + std::to_string(i) + " is " +
                                                      std::to_string(y[i]) + ", not " +
                                                      std::to_string(3.f * x[i] + 1.f));
  return {};
}

std::string arguments_arrive_in_order(Bench& bench) {
  std::vector<int64_t> numbers(12), found(24, -1);
  for (size_t k = 0; k < numbers.size(); ++k) numbers[k] = static_cast<int64_t>(k) * 7 + 3;
  const Memory from(bench.device(), 8 * 12), to(bench.device(), 8 * 24);
  RTX_HOLDS_OR_RETURN(from.pointer && to.pointer, from.error + to.error);
  RTX_DONE_OR_RETURN(write(bench.device(), from, numbers));
  std::vector<void*> arguments;
  for (size_t k = 0; k < numbers.size(); ++k) arguments.push_back(static_cast<int64_t*>(from.pointer) + k);
  arguments.push_back(to.pointer);
  RTX_DONE_OR_RETURN(launch(bench, "conformance_arguments", 2, arguments));
  RTX_DONE_OR_RETURN(read(bench.device(), &found, to));
  for (size_t k = 0; k < found.size(); ++k)
    RTX_HOLDS_OR_RETURN(found[k] == numbers[k % 12],
                        "argument " + std::to_string(k % 12) + " arrived as " + std::to_string(found[k]));
  return {};
}

// Sizes rise and fall: a pool that keeps scratch between launches must not hand out the smaller one.
std::string scratch_is_there_aligned_and_nobody_elses(Bench& bench) {
  constexpr int64_t groups = 500;
  const int64_t most = bench.device().caps().scratch_bytes;
  for (const int64_t bytes : {int64_t{64}, int64_t{4096}, int64_t{8}, most / 8 * 8, int64_t{1032}}) {
    std::vector<int64_t> words = {bytes / 8}, sums(groups, -1), misaligned(groups, -1);
    const Memory size(bench.device(), 8), sum(bench.device(), 8 * groups), odd(bench.device(), 8 * groups);
    RTX_HOLDS_OR_RETURN(size.pointer && sum.pointer && odd.pointer, size.error + sum.error + odd.error);
    RTX_DONE_OR_RETURN(write(bench.device(), size, words));
    const int64_t used = bytes > 65536 ? 8 : groups;  // the largest size costs time, not insight
    RTX_DONE_OR_RETURN(
        launch(bench, "conformance_scratch", used, {size.pointer, sum.pointer, odd.pointer}, bytes));
    RTX_DONE_OR_RETURN(read(bench.device(), &sums, sum));
    RTX_DONE_OR_RETURN(read(bench.device(), &misaligned, odd));
    for (int64_t g = 0; g < used; ++g) {
      const auto k = static_cast<size_t>(g);
      RTX_HOLDS_OR_RETURN(sums[k] == g * words[0], "group " + std::to_string(g) +
                                                       " found another group's numbers in its " +
                                                       std::to_string(bytes) + " bytes");
      RTX_HOLDS_OR_RETURN(misaligned[k] == 0,
                          "scratch of " + std::to_string(bytes) + " bytes is not aligned to 64");
    }
  }
  return {};
}

std::string a_launch_sees_what_the_one_before_it_wrote(Bench& bench) {
  constexpr int64_t groups = 4099;
  const Memory a(bench.device(), 4 * groups), b(bench.device(), 4 * groups);
  RTX_HOLDS_OR_RETURN(a.pointer && b.pointer, a.error + b.error);
  std::vector<float> x(groups, 1.f);
  RTX_DONE_OR_RETURN(write(bench.device(), a, x));
  RTX_DONE_OR_RETURN(write(bench.device(), b, x));
  float expected = 1.f;
  for (int turn = 0; turn < 8; ++turn) {  // 1, 4, 13, 40, ...
    RTX_DONE_OR_RETURN(launch(
        bench, "conformance_affine", groups,
        turn % 2 ? std::vector<void*>{b.pointer, a.pointer} : std::vector<void*>{a.pointer, b.pointer}));
    expected = 3.f * expected + 1.f;
  }
  RTX_DONE_OR_RETURN(read(bench.device(), &x, a));
  for (const float found : x)
    RTX_HOLDS_OR_RETURN(found == expected, "after eight launches an element is " + std::to_string(found));
  return {};
}

std::string four_threads_may_launch_at_once(Bench& bench) {
  constexpr int64_t groups = 1009;
  RTX_DONE_OR_RETURN(bench.kernel("conformance_count"));  // compiled before the threads start
  const auto function = bench.kernel("conformance_count");
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      wrong[t] = [&]() -> std::string {
        std::vector<int32_t> counts(groups);
        const Memory memory(bench.device(), 4 * groups);
        RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
        RTX_DONE_OR_RETURN(write(bench.device(), memory, counts));
        void* arguments[] = {memory.pointer};
        for (int i = 0; i < 50; ++i)
          RTX_DONE_OR_RETURN(
              bench.device().launch(*function, {groups, 1, 1}, {1, 1, 1}, 0, arguments, 1, nullptr));
        RTX_DONE_OR_RETURN(read(bench.device(), &counts, memory));
        for (const int32_t count : counts)
          RTX_HOLDS_OR_RETURN(count == 50, "a group ran " + std::to_string(count) + " times instead of 50");
        return {};
      }();
    });
  }
  for (auto& thread : threads) thread.join();
  return wrong[0] + wrong[1] + wrong[2] + wrong[3];
}

std::string time_is_positive_and_grows_with_the_work(Bench& bench) {
  constexpr int64_t kGroups = 10007;
  const Memory memory(bench.device(), 4 * kGroups);
  RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
  RTX_DONE_OR_RETURN(bench.device().fill(memory.pointer, std::byte{0}, 4 * kGroups, nullptr));
  RTX_DONE_OR_RETURN(bench.kernel("conformance_count"));
  // The best of several: a busy machine makes any one of them long. The first ones warm it up.
  const auto time = [&](int launches) -> Result<double> {
    double best = 1e30;
    for (int again = 0; again < 5; ++again) {
      RTX_TRY(const double seconds, bench.device().time(nullptr, [&]() -> Status {
        for (int i = 0; i < launches; ++i) RTX_CHECK(launch(bench, "conformance_count", kGroups, {memory.pointer}));
        return success();
      }));
      best = std::min(best, seconds);
    }
    return best;
  };
  const auto little = time(1), much = time(20);
  RTX_DONE_OR_RETURN(little);
  RTX_DONE_OR_RETURN(much);
  RTX_HOLDS_OR_RETURN(*little > 0, "one launch took " + std::to_string(*little) + " s");
  RTX_HOLDS_OR_RETURN(*much > *little, "20 launches took no longer than one");
  return {};
}

std::string time_passes_an_error_of_the_work_on(Bench& bench) {
  const auto time =
      bench.device().time(nullptr, [] { return Status(error_of(ErrorKind::device, "the work failed")); });
  RTX_HOLDS_OR_RETURN(!time.ok(), "failed work was given a time");
  RTX_HOLDS_OR_RETURN(time.error().what == "the work failed",
                      "the error was replaced by " + time.error().text());
  return {};
}

// Whether it is run while it is recorded is the device's choice; each replay runs all of it, in order.
std::string a_recording_is_replayed_whole_and_in_order(Bench& bench) {
  constexpr int64_t groups = 1009;
  const Memory a(bench.device(), 4 * groups), b(bench.device(), 4 * groups);
  RTX_HOLDS_OR_RETURN(a.pointer && b.pointer, a.error + b.error);
  RTX_DONE_OR_RETURN(bench.kernel("conformance_affine"));
  const auto function = bench.kernel("conformance_affine");
  RTX_DONE_OR_RETURN(function);
  std::vector<float> x(groups, 1.f);
  Device& device = bench.device();
  void* there[] = {a.pointer, b.pointer};
  auto recording = device.capture([&](Stream stream) -> Status {
    RTX_CHECK(device.launch(*function, {groups, 1, 1}, {1, 1, 1}, 0, there, 2, stream));
    return device.copy_within(a.pointer, b.pointer, 4 * groups, stream);
  });
  RTX_DONE_OR_RETURN(recording);
  RTX_DONE_OR_RETURN(write(device, a, x));
  for (int turn = 0; turn < 3; ++turn) RTX_DONE_OR_RETURN(device.replay(**recording, nullptr));
  RTX_DONE_OR_RETURN(read(device, &x, a));
  for (const float found : x)
    RTX_HOLDS_OR_RETURN(found == 40.f, "after three replays an element is " + std::to_string(found) + ", not 40");
  return {};
}

std::string a_recording_passes_an_error_of_the_work_on(Bench& bench) {
  auto recording = bench.device().capture([](Stream) { return Status(error_of(ErrorKind::device, "the work failed")); });
  const Status status = recording.ok() ? bench.device().replay(**recording, nullptr) : Status(recording.error());
  RTX_HOLDS_OR_RETURN(!status.ok(), "failed work was recorded and replayed");
  RTX_HOLDS_OR_RETURN(status.error().what == "the work failed", "the error was replaced by " + status.error().text());
  return {};
}

}  // namespace

std::vector<Check> launch_checks() {
  return {{"every_group_runs_exactly_once", every_group_runs_exactly_once},
          {"a_launch_of_no_groups_runs_nothing", a_launch_of_no_groups_runs_nothing},
          {"a_kernel_computes_known_values", a_kernel_computes_known_values},
          {"arguments_arrive_in_order", arguments_arrive_in_order},
          {"scratch_is_there_aligned_and_nobody_elses", scratch_is_there_aligned_and_nobody_elses},
          {"a_launch_sees_what_the_one_before_it_wrote", a_launch_sees_what_the_one_before_it_wrote},
          {"four_threads_may_launch_at_once", four_threads_may_launch_at_once},
          {"time_is_positive_and_grows_with_the_work", time_is_positive_and_grows_with_the_work},
          {"time_passes_an_error_of_the_work_on", time_passes_an_error_of_the_work_on},
          {"a_recording_is_replayed_whole_and_in_order", a_recording_is_replayed_whole_and_in_order},
          {"a_recording_passes_an_error_of_the_work_on", a_recording_passes_an_error_of_the_work_on}};
}

}  // namespace rtx::backend::conformance
