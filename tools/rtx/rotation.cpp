#include "rtx/rotation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "rtx/console.h"
#include "rtx/interrupt.h"

namespace rtx::tools {

namespace {

constexpr int kMostSets = 64;
constexpr double kBurstSeconds =
    8e-3;  // of what is not recorded: long enough that power settles, short enough to take turns
constexpr int kLongestBurst = 100;
// Far above what the order of a sum does, far below a wrong kernel.
constexpr double kSameValues = 2e-2;
constexpr int64_t kCompared = 1 << 22;  // elements of each output

int64_t bytes_of(const bundle::TensorInfo& info) {
  return ir::element_count(info.extents) * ir::bytes_of(info.dtype);
}

double apart(const ir::HostTensor& a, const ir::HostTensor& b) {
  const int64_t step = std::max<int64_t>(1, a.count() / kCompared) | 1;  // odd: not always the same columns
  double error = 0, norm = 0;
  for (int64_t i = 0; i < a.count(); i += step) {
    const double x = a.get_double(i), y = b.get_double(i);
    if (std::isnan(x) != std::isnan(y)) return std::numeric_limits<double>::infinity();
    if (!std::isfinite(x) || !std::isfinite(y)) continue;
    error += (x - y) * (x - y), norm += y * y;
  }
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

Status stopped() {
  return interrupted()
             ? Status(error_of(ErrorKind::interrupted, "interrupted", "what was timed so far is not kept"))
             : success();
}

backend::Conditions conditions_of(backend::Device& device) {
  auto now = device.conditions();
  return now.ok() ? *now : backend::Conditions{};
}

}  // namespace

Result<std::unique_ptr<TensorSets>> TensorSets::make(std::shared_ptr<backend::Device> device,
                                                     const bundle::Plan& plan,
                                                     const std::vector<ir::HostTensor>& inputs) {
  std::unique_ptr<TensorSets> sets(new TensorSets());
  sets->device_ = std::move(device);
  auto& d = *sets->device_;
  int64_t bytes = 0;
  for (const auto* list : {&plan.inputs, &plan.outputs})
    for (const auto& info : *list) bytes += bytes_of(info);
  const int64_t enough = 2 * d.caps().l2_bytes;
  // What is far larger than the cache leaves nothing of itself there.
  const bool alone = d.host_addressable() || bytes <= 0 || bytes > 2 * enough;
  const int64_t count = alone ? 1 : std::min<int64_t>((enough + bytes - 1) / bytes + 1, kMostSets);
  sets->infos_ = plan.outputs;
  for (const auto& info : plan.inputs) sets->names_.push_back(info.name);
  for (const auto& info : plan.outputs) sets->names_.push_back(info.name);
  for (int64_t set = 0; set < count; ++set) {
    auto &in = sets->inputs_.emplace_back(), &out = sets->outputs_.emplace_back();
    const auto place = [&](const bundle::TensorInfo& info) -> Result<void*> {
      RTX_TRY(void* memory, d.allocate(std::max<int64_t>(bytes_of(info), 1)));
      sets->owned_.push_back(memory);
      return memory;
    };
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      const auto& info = plan.inputs[i];
      RTX_TRY(void* memory, place(info));
      if (set == 0)
        RTX_CHECK(d.copy_in(memory, inputs[i].bytes(), inputs[i].byte_size(), nullptr));
      else
        RTX_CHECK(d.copy_within(memory, sets->inputs_[0][i].view.data, inputs[i].byte_size(), nullptr));
      in.push_back({sets->names_[i], {memory, info.dtype, info.extents, {}}});
    }
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
      const auto& info = plan.outputs[i];
      RTX_TRY(void* memory, place(info));
      out.push_back({sets->names_[plan.inputs.size() + i], {memory, info.dtype, info.extents, {}}});
    }
  }
  RTX_CHECK(d.synchronize(nullptr));
  return sets;
}

TensorSets::~TensorSets() {
  for (void* memory : owned_) device_->release(memory);
}

Result<std::vector<ir::HostTensor>> TensorSets::results(int set) const {
  std::vector<ir::HostTensor> out;
  for (size_t i = 0; i < infos_.size(); ++i) {
    auto& tensor = out.emplace_back(infos_[i].dtype, infos_[i].extents);
    RTX_CHECK(
        device_->copy_out(tensor.mutable_bytes(), outputs(set)[i].view.data, tensor.byte_size(), nullptr));
  }
  RTX_CHECK(device_->synchronize(nullptr));
  return out;
}

Status TensorSets::poison() {
  for (int set = 0; set < count(); ++set)
    for (size_t i = 0; i < infos_.size(); ++i)
      RTX_CHECK(device_->fill(outputs(set)[i].view.data, std::byte{0xff}, bytes_of(infos_[i]), nullptr));
  return success();
}

Result<std::unique_ptr<Contender>> Contender::open(std::string name,
                                                   std::shared_ptr<const runtime::Program> program,
                                                   const TensorSets& sets) {
  std::unique_ptr<Contender> made(new Contender(sets));
  made->name_ = std::move(name);
  made->program_ = std::move(program);
  RTX_TRY(made->execution_, made->program_->create_execution());
  return made;
}

Status Contender::issue(int launches, backend::Stream stream) {
  for (int i = 0; i < launches; ++i) {
    RTX_CHECK(run(next_, stream));
    next_ = (next_ + 1) % sets_.count();
  }
  return success();
}

Result<double> Contender::time(int launches) {
  auto& device = *program_->device();
  RTX_TRY(const double seconds, device.time(nullptr, [&] {
    return recording_ ? device.replay(*recording_, nullptr) : issue(launches, nullptr);
  }));
  return seconds / launches;
}

Status Contender::record(int launches) {
  RTX_TRY(recording_, program_->device()->capture(
                          [this, launches](backend::Stream stream) { return issue(launches, stream); }));
  return success();
}

namespace {

// Every set once: what is chosen, allocated or loaded at a first call, is. Then the results are compared with
// the first contender's.
Status warm_up(std::vector<std::unique_ptr<Contender>>& contenders, TensorSets& sets,
               backend::Device& device) {
  std::vector<ir::HostTensor> first;
  for (auto& contender : contenders) {
    RTX_CHECK(stopped());
    RTX_CHECK(sets.poison());
    for (int set = 0; set < sets.count(); ++set) RTX_CHECK(contender->run(set));
    RTX_CHECK(device.synchronize(nullptr));
    RTX_TRY(auto results, sets.results(sets.count() - 1));
    if (first.empty()) {
      first = std::move(results);
      continue;
    }
    for (size_t i = 0; i < first.size(); ++i)
      if (const double difference = apart(first[i], results[i]); difference > kSameValues)
        return error_of(ErrorKind::check_failed,
                        contenders.front()->name() + " and " + contender->name() + " disagree",
                        "output " + std::to_string(i) + " differs by " + number(difference) + " of its norm");
  }
  return success();
}

// Seconds of one launch, alone and in the second half of the time.
Result<double> sustained(Contender& contender, int launches, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  measure::Samples late;
  while (passed() < seconds) {
    RTX_CHECK(stopped());
    RTX_TRY(const double one, contender.time(launches));
    if (passed() > seconds / 2) late.seconds.push_back(one);
  }
  return late.median();
}

}  // namespace

Result<Rotated> rotate(std::vector<std::unique_ptr<Contender>>& contenders, TensorSets& sets,
                       const RotationOptions& options) {
  Rotated out;
  if (contenders.empty()) return out;
  auto& device = contenders.front()->device();
  RTX_CHECK(warm_up(contenders, sets, device));
  double longest = 0;
  for (auto& contender : contenders) {
    measure::Samples few;
    for (int i = 0; i < 3; ++i) {
      RTX_TRY(const double one, contender->time(device.host_addressable() ? 1 : 4));
      few.seconds.push_back(one);
    }
    longest = std::max(longest, few.median());
  }
  out.sets = sets.count();
  if (!device.host_addressable()) {
    const auto whole_turns = [&](int launches) { return (launches + out.sets - 1) / out.sets * out.sets; };
    out.recorded = longest < kShortSeconds;
    out.launches = out.recorded ? whole_turns(kRecordedLaunches)
                                : std::clamp(static_cast<int>(kBurstSeconds / longest), 1, kLongestBurst);
    if (out.recorded)
      for (auto& contender : contenders) RTX_CHECK(contender->record(out.launches));
  }
  std::vector<std::function<Result<double>()>> calls;
  for (auto& contender : contenders)
    calls.emplace_back([&]() -> Result<double> {
      RTX_CHECK(stopped());
      return contender->time(out.launches);
    });
  RTX_TRY(auto samples, measure::interleave(calls, options.rounds, options.warmup));
  const auto now = conditions_of(device);
  for (size_t i = 0; i < contenders.size(); ++i) out.of.push_back({std::move(samples[i]), 0, now, {}});
  if (options.sustained_seconds > 0 && !out.recorded)
    for (size_t i = 0; i < contenders.size(); ++i) {
      RTX_TRY(out.of[i].sustained_seconds,
              sustained(*contenders[i], out.launches, options.sustained_seconds));
      out.of[i].sustained = conditions_of(device);
    }
  return out;
}

}  // namespace rtx::tools
