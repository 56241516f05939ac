#include "backend/cuda/context.h"

#include <algorithm>

namespace rtx::backend::cuda {

Context::~Context() {
  if (!context_ || !retained_) return;
  const auto& call = driver->call();
  CuContext now = nullptr;
  if (call.current_context(&now) == cu_success && now == context_) (void)call.set_context(nullptr);  // it may be the last that anybody hears of it
  (void)call.release_context(device_);
}

Status Context::choose() {
  const auto& call = driver->call();
  CuContext now = nullptr;
  CuDevice device = -1;
  // A primary context that was released by all stays with the threads that had it, and still says whose it was.
  const auto is_alive = [&] {
    const AsideOfCaptures aside(*driver);
    size_t free = 0, total = 0;
    return call.memory_info(&free, &total) != cu_context_destroyed;
  };
  const bool callers = call.current_context(&now) == cu_success && now && call.context_device(&device) == cu_success && device == device_ && is_alive();
  unsigned flags = 0;
  int active = 0;
  (void)call.primary_state(device_, &flags, &active);
  if (callers && !active) return context_ = now, success();  // it cannot be the primary one, which nobody has made
  RTX_CHECK(driver->check("cannot use the device", call.retain_context(&context_, device_)));
  retained_ = true;
  if (!callers || now == context_) return success();
  (void)call.release_context(device_);
  retained_ = false;
  context_ = now;
  return success();
}

Status Context::enter(CuContext* before) {
  std::call_once(once_, [this] { made_ = choose(); });
  if (!made_.ok()) return made_;
  const auto& call = driver->call();
  CuContext now = nullptr;
  if (call.current_context(&now) == cu_success && now == context_) return success();
  RTX_CHECK(driver->check("cannot use the device", call.set_context(context_)));
  *before = now;
  return success();
}

const std::string* Context::name_of_kernel(const std::string& name) {
  const std::lock_guard lock(names_mutex_);
  const auto known = std::find(names_.begin(), names_.end(), name);
  return known != names_.end() ? &*known : &names_.emplace_back(name);
}

void Context::launched(const std::string* name, CuStream stream) {
  Launched& slot = recent_[launches_.fetch_add(1, std::memory_order_relaxed) % kKept];
  slot.stream.store(stream, std::memory_order_relaxed);
  slot.name.store(name, std::memory_order_relaxed);
}

void Context::completed(CuStream stream) {
  for (Launched& slot : recent_)
    if (slot.stream.load(std::memory_order_relaxed) == stream) slot.name.store(nullptr, std::memory_order_relaxed);
}

namespace {

constexpr const char* kLost = "; nothing more can be done on the device in this process";
constexpr const char* kBlocking = "run again with CUDA_LAUNCH_BLOCKING=1 in the environment: the launch that fails then says so itself";

std::string list(const std::vector<const std::string*>& names) {
  std::string out;
  for (const auto* name : names) out += (out.empty() ? "" : ", ") + *name;
  return out;
}

}  // namespace

// The oldest first, each once.
std::vector<const std::string*> Context::suspects(const CuStream* only) const {
  std::vector<const std::string*> names;
  const uint64_t launches = launches_.load(std::memory_order_relaxed);
  for (uint64_t k = 0; k < kKept; ++k) {
    const Launched& slot = recent_[(launches + k) % kKept];
    const auto* name = slot.name.load(std::memory_order_relaxed);
    if (!name || (only && slot.stream.load(std::memory_order_relaxed) != *only)) continue;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::string Context::names_on(CuStream stream) const { return list(suspects(&stream)); }

Error Context::error(const std::string& what, CuResult code) const {
  Error out = driver->error(what, code);
  if (!is_kernel_failure(code)) return out;
  const auto names = suspects();
  out.why += kLost;
  if (names.empty()) out.what += ": a kernel of somebody else in this process failed";
  if (names.size() == 1) out.what = "kernel " + list(names) + " failed on the device";
  if (names.size() > 1) out.what = "one of the kernels " + list(names) + " failed on the device", out.fix = kBlocking;
  return out;
}

Error Context::launch_error(const std::string& name, CuResult code) const {
  Error out = driver->error("cannot launch " + name, code);
  if (code == cu_invalid_handle || code == cu_invalid_context)
    out.fix = "give a stream of the context that was current when the device was first used, or of the device's primary context";
  if (!is_kernel_failure(code)) return out;
  const auto names = suspects();
  out.why += kLost;
  out.what = "kernel " + name + " failed on the device";
  if (!names.empty()) out.what += ", or one launched before it: " + list(names), out.fix = kBlocking;
  return out;
}

}  // namespace rtx::backend::cuda
