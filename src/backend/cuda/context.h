#pragma once
// The CUDA context that a device works in, and what has lately been launched in it. Internal to the device.
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/cuda/driver_table.h"

namespace rtx::backend::cuda {

// Made when something first needs it (a process that only tells others what to measure never does) and kept until the device and every
// module loaded into it are gone. It is the device's primary context, shared with everybody else in the process; or the caller's, where
// the thread that first uses the device has a context of that device which is another one: its owner then keeps it for as long.
class Context {
 public:
  Context(std::shared_ptr<const Driver> driver, CuDevice device) : driver(std::move(driver)), device_(device) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // While it lives, the context is the calling thread's; then what was there before is again. A thread that had none keeps it, as with
  // CUDA's own runtime: setting it anew for each call would cost more than the calls.
  class Scope {
   public:
    explicit Scope(Context& context) : context_(context), status_(context.enter(&before_)) {}
    ~Scope() {
      if (before_) (void)context_.driver->call().set_context(before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    Status status() const { return status_; }
    bool ok() const { return status_.ok(); }

   private:
    Context& context_;
    CuContext before_ = nullptr;
    Status status_;
  };
  // What allocates, loads, or waits for another stream would break a recording that the caller makes, unless the driver is told that
  // it is meant.
  class AsideOfCaptures {
   public:
    explicit AsideOfCaptures(const Driver& driver) : driver_(driver) { (void)driver_.call().exchange_capture_mode(&mode_); }
    ~AsideOfCaptures() { (void)driver_.call().exchange_capture_mode(&mode_); }
    AsideOfCaptures(const AsideOfCaptures&) = delete;
    AsideOfCaptures& operator=(const AsideOfCaptures&) = delete;

   private:
    const Driver& driver_;
    int mode_ = cu_capture_relaxed;
  };

  // One string a name, for as long as the context lives: a module may be gone when its kernel is to be named.
  const std::string* name_of_kernel(const std::string& name);
  void launched(const std::string* name, CuStream stream);
  // The kernels launched on the stream and not known to have ended, the last few of them.
  std::string names_on(CuStream stream) const;
  // All that was launched on the stream is known to have ended well.
  void completed(CuStream stream);
  // An error that a call answered: where a kernel failed earlier, names those that may have been it.
  Error error(const std::string& what, CuResult code) const;
  Status check(const std::string& what, CuResult code) const { return code == cu_success ? success() : Status(error(what, code)); }
  // The same for the launch of a kernel.
  Error launch_error(const std::string& name, CuResult code) const;

  const std::shared_ptr<const Driver> driver;

 private:
  Status enter(CuContext* before);
  Status choose();
  std::vector<const std::string*> suspects(const CuStream* only = nullptr) const;

  CuDevice device_;
  CuContext context_ = nullptr;
  bool retained_ = false;  // the primary context, which is released here
  std::once_flag once_;
  Status made_;

  struct Launched {
    std::atomic<const std::string*> name{nullptr};
    std::atomic<CuStream> stream{nullptr};
  };
  static constexpr size_t kKept = 16;
  std::array<Launched, kKept> recent_;
  std::atomic<uint64_t> launches_{0};
  std::mutex names_mutex_;
  std::list<std::string> names_;
};

}  // namespace rtx::backend::cuda
