#include "backend/emulator/device.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <vector>

#include "backend/cpu/identify.h"
#include "backend/cpu/shared_object.h"
#include "backend/cpu/thread_pool.h"
#include "backend/emulator/caps.h"
#include "backend/emulator/crew.h"
#include "backend/emulator/memory.h"
#include "backend/emulator/signals.h"
#include "backend/emulator/watchdog.h"

namespace rtx::backend::emulator {

namespace {

struct Kernel {
  std::string name;
  const rtx_emulation::Entry* entry;
};

class SharedObject final : public Module {
 public:
  explicit SharedObject(void* handle) : handle_(handle) {}
  ~SharedObject() override { dlclose(handle_); }
  void* handle() const { return handle_; }
  Kernel* kernel(const std::string& name, const rtx_emulation::Entry* entry) {
    const std::lock_guard lock(mutex_);
    for (auto& known : kernels_)
      if (known.entry == entry) return &known;
    return &kernels_.emplace_back(Kernel{name, entry});
  }

 private:
  void* handle_;
  std::mutex mutex_;
  std::deque<Kernel> kernels_;  // addresses stay: they are the handles of functions
};

Error refused_binary(const std::string& name, const std::string& why) { return error_of(ErrorKind::device, "cannot load kernel " + name, why); }
Error launch_failed(const std::string& name, std::string why) {
  return error_of(ErrorKind::internal, "kernel " + name + " failed in the emulator", std::move(why));
}

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(Caps caps, const Options& options)
      : caps_(std::move(caps)), options_(options), pool_(std::min(options.threads > 0 ? options.threads : cpu::usable_cores(), cpu::usable_cores())) {
    install_signal_handlers();
  }

  const Caps& caps() const override { return caps_; }

  Result<std::unique_ptr<Module>> load(std::span<const std::byte> binary, const std::string& name) override {
    RTX_TRY(void* handle, cpu::open_shared_object(binary, name));
    auto module = std::make_unique<SharedObject>(handle);
    const auto* version = static_cast<const int*>(dlsym(handle, "rtx_emulation_version"));
    if (!version) return refused_binary(name, "the binary is not made for the emulator");
    if (*version != rtx_emulation::kVersion)
      return refused_binary(name, "the binary is made for version " + std::to_string(*version) + " of the emulator, this is " + std::to_string(rtx_emulation::kVersion));
    return std::unique_ptr<Module>(std::move(module));
  }

  Result<Function> function(Module& module, const std::string& entry) override {
    auto& object = static_cast<SharedObject&>(module);
    const void* symbol = dlsym(object.handle(), (entry + "_entry").c_str());
    if (!symbol) return refused_binary(entry, "the binary has no such entry");
    return Function{object.kernel(entry, static_cast<const rtx_emulation::Entry*>(symbol))};
  }

  Status launch(Function function, Dim3 grid, Dim3 group, int64_t scratch_bytes, void* const* arguments, int count, Stream,
                std::span<const TensorView> views) override {
    const auto& kernel = *static_cast<const Kernel*>(function.handle);
    if (grid.count() <= 0) return success();
    RTX_CHECK(judge(kernel, group, scratch_bytes, arguments, count));
    RTX_CHECK(judge_cluster(kernel, grid.count(), group.count()));
    Work work{&kernel, static_cast<int>(group.count()), grid.count(), scratch_bytes, arguments, count, {}};
    RTX_TRY(work.maps, make_maps(kernel, views, arguments, count));
    std::vector<Memory::Range> ranges;
    if (!options_.check || !distinct_ranges(work, &ranges)) return run(work, Order::forward);

    std::vector<std::vector<std::byte>> before, first;
    for (const auto& range : ranges) before.emplace_back(range.at, range.at + range.bytes);
    RTX_CHECK(run(work, Order::backward));
    for (size_t r = 0; r < ranges.size(); ++r) {
      first.emplace_back(ranges[r].at, ranges[r].at + ranges[r].bytes);
      std::memcpy(ranges[r].at, before[r].data(), ranges[r].bytes);
    }
    RTX_CHECK(run(work, Order::forward));
    for (size_t r = 0; r < ranges.size(); ++r)
      if (std::memcmp(ranges[r].at, first[r].data(), ranges[r].bytes) != 0) return order_matters(work, ranges[r], first[r]);
    return success();
  }
  Status synchronize(Stream) override {
    if (const std::string damage = memory_.damage(); !damage.empty()) return error_of(ErrorKind::internal, "device memory was overrun in the emulator", damage);
    return success();
  }

  Result<void*> allocate(int64_t bytes) override { return memory_.allocate(bytes); }
  void release(void* pointer) override { memory_.release(pointer); }
  Status copy_in(void* device, const void* host, int64_t bytes, Stream) override {
    if (bytes <= 0) return success();
    RTX_CHECK(owned(device, bytes, "a copy to"));
    std::memcpy(device, host, static_cast<size_t>(bytes));
    return success();
  }
  Status copy_out(void* host, const void* device, int64_t bytes, Stream) override {
    if (bytes <= 0) return success();
    RTX_CHECK(owned(device, bytes, "a copy from"));
    std::memcpy(host, device, static_cast<size_t>(bytes));
    return success();
  }
  Status fill(void* device, std::byte value, int64_t bytes, Stream) override {
    if (bytes <= 0) return success();
    RTX_CHECK(owned(device, bytes, "a fill of"));
    std::memset(device, static_cast<int>(value), static_cast<size_t>(bytes));
    return success();
  }
  // A GPU's memory is not, and callers are to take the same ways here.
  bool host_addressable() const override { return false; }
  int64_t argument_alignment() const override { return 16; }

  // Wall time of the emulation: it says nothing about a GPU.
  Result<double> time(Stream, const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    RTX_CHECK(work());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  Status flush_caches(Stream) override { return success(); }

 private:
  struct Work {
    const Kernel* kernel;
    int threads;
    int64_t groups, scratch_bytes;
    void* const* arguments;
    int count;
    std::vector<TensorMap> maps;
  };

  Status judge(const Kernel& kernel, Dim3 group, int64_t scratch_bytes, void* const* arguments, int count) const {
    const int64_t threads = group.count();
    if (threads < 1 || threads > std::min(kernel.entry->threads, std::min(kMostThreads, caps_.max_threads_per_group)))
      return launch_failed(kernel.name, "it is launched with groups of " + std::to_string(threads) + " threads, its text allows " + std::to_string(kernel.entry->threads));
    if (scratch_bytes < 0 || scratch_bytes > caps_.scratch_bytes)
      return launch_failed(kernel.name, "it is launched with " + std::to_string(scratch_bytes) + " bytes of scratch, a group of " + caps_.arch + " has " + std::to_string(caps_.scratch_bytes));
    if (count != kernel.entry->arguments)
      return launch_failed(kernel.name, "it is launched with " + std::to_string(count) + " arguments, its text takes " + std::to_string(kernel.entry->arguments));
    for (int k = 0; k < count; ++k)
      if (arguments[k] && !memory_.find(arguments[k], 0)) return launch_failed(kernel.name, "argument " + std::to_string(k) + " is no device memory");
    return success();
  }

  Status judge_cluster(const Kernel& kernel, int64_t groups, int64_t threads) const {
    const int cluster = kernel.entry->cluster;
    if (cluster < 1 || cluster > kMostCluster) return launch_failed(kernel.name, "its clusters are of " + std::to_string(cluster) + " groups, at most " + std::to_string(kMostCluster) + " can be");
    if (groups % cluster != 0) return launch_failed(kernel.name, "it is launched with " + std::to_string(groups) + " groups, no multiple of its clusters of " + std::to_string(cluster));
    if (cluster > 1 && threads % kWave != 0) return launch_failed(kernel.name, "groups of a cluster have whole waves, not " + std::to_string(threads) + " threads");
    return success();
  }

  Result<std::vector<TensorMap>> make_maps(const Kernel& kernel, std::span<const TensorView> views, void* const* arguments, int count) const {
    const auto wrong = [&](size_t v, const std::string& why) { return launch_failed(kernel.name, "view " + std::to_string(v) + ": " + why); };
    if (static_cast<int>(views.size()) != kernel.entry->views)
      return launch_failed(kernel.name, "it is launched with " + std::to_string(views.size()) + " views, its text takes " + std::to_string(kernel.entry->views));
    std::vector<TensorMap> out;
    for (size_t v = 0; v < views.size(); ++v) {
      const TensorView& view = views[v];
      if (view.argument < 0 || view.argument >= count) return wrong(v, "its argument " + std::to_string(view.argument) + " is none of the launch's " + std::to_string(count));
      const auto* const pointer = static_cast<const std::byte*>(arguments[view.argument]);
      if (const std::string problem = problem_of(view, pointer); !problem.empty()) return wrong(v, problem);
      if (!memory_.find(pointer, static_cast<size_t>(view.byte_offset + span_bytes(view))))
        return wrong(v, "its " + std::to_string(span_bytes(view)) + " bytes reach past argument " + std::to_string(view.argument));
      out.push_back(make_map(view, arguments[view.argument]));
    }
    return out;
  }

  // The allocations that the arguments point into; false when they are too large to be kept twice.
  bool distinct_ranges(const Work& work, std::vector<Memory::Range>* out) const {
    size_t total = 0;
    for (int k = 0; k < work.count; ++k) {
      const auto range = memory_.find(work.arguments[k], 0);
      if (!range || std::any_of(out->begin(), out->end(), [&](const auto& known) { return known.at == range->at; })) continue;
      out->push_back(*range);
      total += range->bytes;
    }
    return total <= static_cast<size_t>(options_.check_bytes);
  }

  Status run(const Work& work, Order order) {
    Run run;
    run.name = work.kernel->name;
    run.entry = work.kernel->entry;
    run.arguments = work.arguments;
    run.threads = work.threads;
    run.groups = work.groups;
    run.scratch_bytes = static_cast<size_t>(work.scratch_bytes);
    run.has_store_matrix = caps_.has("store_matrix");
    run.order = order;
    run.maps = work.maps;
    struct Share {
      EmulatedDevice* device;
      Run* run;
    } share{this, &run};
    void* const pass[] = {&share};
    {
      const Watchdog::Watch watch(watchdog_, run, options_.seconds);
      const auto part = [](void* const* arguments, int64_t begin, int64_t end, void*) {
        const auto& mine = *static_cast<const Share*>(arguments[0]);
        std::unique_ptr<Crew> crew = mine.device->take_crew();
        crew->work(*mine.run, begin, end);
        mine.device->give_crew(std::move(crew));
      };
      pool_.run(part, pass, work.groups / work.kernel->entry->cluster, 0);
    }
    if (run.failed) {
      const void* address = run.fault_address();
      return launch_failed(run.name, run.failure() + (address ? ": " + memory_.describe(address) : ""));
    }
    for (int k = 0; k < work.count; ++k)
      if (const std::string damage = memory_.damage_of(work.arguments[k]); !damage.empty()) return launch_failed(run.name, "argument " + std::to_string(k) + ": " + damage);
    return success();
  }

  Error order_matters(const Work& work, const Memory::Range& range, const std::vector<std::byte>& first) const {
    size_t at = 0;
    while (range.at[at] == first[at]) ++at;
    std::string where = "byte " + std::to_string(at);
    for (int k = 0; k < work.count; ++k)
      if (const auto mine = memory_.find(work.arguments[k], 0); mine && mine->at == range.at) {
        const auto offset = static_cast<ptrdiff_t>(at) - (static_cast<std::byte*>(work.arguments[k]) - range.at);
        where = "byte " + std::to_string(offset) + " of argument " + std::to_string(k);
        break;
      }
    return launch_failed(work.kernel->name, "its result depends on the order in which threads run, first in " + where + ": a barrier is missing, or two threads write one place");
  }

  Status owned(const void* device, int64_t bytes, const char* what) const {
    if (memory_.find(device, static_cast<size_t>(bytes))) return success();
    return error_of(ErrorKind::internal, std::string(what) + " device memory goes beyond it", std::to_string(bytes) + " bytes from " + memory_.describe(device));
  }

  std::unique_ptr<Crew> take_crew() {
    {
      const std::lock_guard lock(crews_mutex_);
      if (!crews_.empty()) {
        auto crew = std::move(crews_.back());
        crews_.pop_back();
        return crew;
      }
    }
    return std::make_unique<Crew>();
  }
  void give_crew(std::unique_ptr<Crew> crew) {
    const std::lock_guard lock(crews_mutex_);
    crews_.push_back(std::move(crew));
  }

  Caps caps_;
  Options options_;
  Memory memory_;
  Watchdog watchdog_;
  std::mutex crews_mutex_;
  std::vector<std::unique_ptr<Crew>> crews_;
  cpu::ThreadPool pool_;
};

}  // namespace

Result<std::shared_ptr<Device>> make_device(const Options& options) {
  RTX_TRY(Caps caps, make_caps(options.arch));
  return std::shared_ptr<Device>(std::make_shared<EmulatedDevice>(std::move(caps), options));
}

}  // namespace rtx::backend::emulator
