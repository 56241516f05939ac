#include "backend/cuda/device.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <list>
#include <mutex>

#include "backend/cuda/caps.h"
#include "backend/cuda/context.h"
#include "backend/cuda/device_views.h"
#include "backend/cuda/library_call.h"

// Leaves the function where the context cannot be entered.
#define RTX_ENTER()                           \
  const Context::Scope rtx_scope(*context_);   \
  RTX_CHECK(rtx_scope.status())

namespace rtx::backend::cuda {

namespace {

constexpr int64_t kMostGroups = (int64_t{1} << 31) - 1;
constexpr int64_t kSharedWithoutAsking = 48 << 10;

struct Entry {
  CuFunction function = nullptr;
  const std::string* name = nullptr;
  int64_t shared_bytes = kSharedWithoutAsking;  // allowed so far
  TensorMaps maps;
  std::mutex mutex;
  LibraryCall* library = nullptr;  // what is launched instead of a function
};

class CudaModule final : public Module {
 public:
  CudaModule(std::shared_ptr<Context> context, CuModule module) : context_(std::move(context)), call_(context_->driver->call()), module_(module) {}
  ~CudaModule() override {
    const Context::Scope scope(*context_);
    const Context::AsideOfCaptures aside(*context_->driver);
    if (scope.ok()) (void)call_.unload_module(module_);
  }
  Result<Function> entry(const std::string& name) {
    const std::lock_guard lock(mutex_);
    for (auto& known : entries_)
      if (*known.name == name) return Function{&known};
    const std::string what = "cannot load kernel " + name;
    CuFunction function = nullptr;
    RTX_CHECK(context_->check(what, call_.get_function(&function, module_, name.c_str())));
    // Asked for what the function takes, a driver that loads lazily loads it now, and not in the middle of somebody's recording.
    int registers = 0;
    RTX_CHECK(context_->check(what, call_.function_attribute(&registers, cu_function_registers, function)));
    auto& made = entries_.emplace_back();
    made.function = function;
    made.name = context_->name_of_kernel(name);
    return Function{&made};
  }

 private:
  std::shared_ptr<Context> context_;
  const DriverTable& call_;
  CuModule module_;
  std::mutex mutex_;
  std::list<Entry> entries_;
};

// A CUDA graph, ready to be launched.
class Graph final : public Recording {
 public:
  explicit Graph(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  ~Graph() override {
    const Context::Scope scope(*context_);
    if (scope.ok() && ready) (void)context_->driver->call().destroy_graph_exec(ready);
  }
  CuGraphExec ready = nullptr;
  const std::string* kernels = nullptr;  // the names of what it launches

 private:
  std::shared_ptr<Context> context_;
};

// A step that a library computes, launched like a kernel.
class LibraryModule final : public Module {
 public:
  LibraryModule(std::shared_ptr<Context> context, std::unique_ptr<LibraryCall> call, const std::string& name) : context_(std::move(context)), call_(std::move(call)) {
    entry_.library = call_.get();
    entry_.name = context_->name_of_kernel(name);
  }
  ~LibraryModule() override {
    const Context::Scope scope(*context_);
    call_.reset();
  }
  Entry& entry() { return entry_; }

 private:
  std::shared_ptr<Context> context_;
  std::unique_ptr<LibraryCall> call_;
  Entry entry_;
};

// The driver trusts an image's own offsets: what does not hold its section table is refused before it gets there.
bool looks_like_cubin(std::span<const std::byte> image) {
  uint16_t machine = 0, entry_bytes = 0, entries = 0;
  uint64_t table = 0;
  if (image.size() < 64 || std::memcmp(image.data(), "\177ELF\2", 5) != 0) return false;
  std::memcpy(&machine, image.data() + 18, 2), std::memcpy(&table, image.data() + 40, 8);
  std::memcpy(&entry_bytes, image.data() + 58, 2), std::memcpy(&entries, image.data() + 60, 2);
  return machine == 190 && entries > 0 && table <= image.size() && uint64_t{entry_bytes} * entries <= image.size() - table;
}

std::string gibibytes(size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

CuStream stream_of(Stream stream) { return static_cast<CuStream>(stream); }
CuAddress address_of(const void* pointer) { return reinterpret_cast<CuAddress>(pointer); }

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const Driver> driver, CuDevice device, Caps caps, std::string bus)
      : driver_(std::move(driver)), call_(driver_->call()), context_(std::make_shared<Context>(driver_, device)), caps_(std::move(caps)), bus_(std::move(bus)) {}
  ~CudaDevice() override {
    if (!flush_ && !own_stream_) return;
    const Context::Scope scope(*context_);
    if (!scope.ok()) return;
    const Context::AsideOfCaptures aside(*driver_);
    if (flush_) (void)call_.release(address_of(flush_));
    if (own_stream_) (void)call_.destroy_stream(own_stream_);
  }
  const Caps& caps() const override { return caps_; }
  Result<double> make_ready() override {
    const auto start = std::chrono::steady_clock::now();
    const Context::AsideOfCaptures aside(*driver_);
    RTX_ENTER();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Result<std::unique_ptr<Module>> load(std::span<const std::byte> binary, const std::string& name) override {
    if (const std::string_view text(reinterpret_cast<const char*>(binary.data()), binary.size()); is_library_call(text)) {
      RTX_ENTER();
      RTX_TRY(auto call, make_library_call(text, *this));
      return std::unique_ptr<Module>(std::make_unique<LibraryModule>(context_, std::move(call), name));
    }
    const std::string what = "cannot load kernel " + name;
    if (!looks_like_cubin(binary)) return error_of(ErrorKind::device, what, "the binary is not a cubin");
    RTX_ENTER();
    const Context::AsideOfCaptures aside(*driver_);
    CuModule module = nullptr;
    const CuResult code = call_.load_module(&module, binary.data());
    if (code == cu_no_binary_for_gpu) {
      Error error = driver_->error(what, code);
      error.why = "it is not for this device, which is " + caps_.arch + " (" + error.why + ")";
      error.fix = "compile it again for this device";
      return error;
    }
    RTX_CHECK(context_->check(what, code));
    return std::unique_ptr<Module>(std::make_unique<CudaModule>(context_, module));
  }
  Result<Function> function(Module& module, const std::string& entry) override {
    if (auto* library = dynamic_cast<LibraryModule*>(&module)) return Function{&library->entry()};
    RTX_ENTER();
    const Context::AsideOfCaptures aside(*driver_);
    return static_cast<CudaModule&>(module).entry(entry);
  }

  Status launch(Function function, Dim3 grid, Dim3 group, int64_t scratch_bytes, void* const* arguments, int count, Stream stream,
                std::span<const TensorView> views) override {
    auto& entry = *static_cast<Entry*>(function.handle);
    if (grid.count() == 0) return success();
    if (entry.library) {
      RTX_ENTER();
      RTX_CHECK(entry.library->run(arguments, count, stream_of(stream)));
      context_->launched(entry.name, stream_of(stream));
      return success();
    }
    if (grid.y != 1 || grid.z != 1 || grid.x > kMostGroups)
      return error_of(ErrorKind::device, "cannot launch " + *entry.name, std::to_string(grid.count()) + " groups, at most " + std::to_string(kMostGroups) + " along x");
    if (scratch_bytes > caps_.scratch_bytes)
      return error_of(ErrorKind::device, "cannot launch " + *entry.name, std::to_string(scratch_bytes) + " bytes of shared memory, the device has " + std::to_string(caps_.scratch_bytes));
    RTX_ENTER();
    ViewParameters viewed;
    {
      const std::lock_guard lock(entry.mutex);
      if (!views.empty()) RTX_CHECK(fill_parameters(*driver_, entry.maps, views, arguments, count, &viewed));
      if (scratch_bytes > entry.shared_bytes) {
        if (const CuResult code = call_.set_function_attribute(entry.function, cu_function_dynamic_shared_bytes, static_cast<int>(scratch_bytes)); code != cu_success)
          return context_->launch_error(*entry.name, code);
        entry.shared_bytes = scratch_bytes;
      }
    }
    CuLaunchConfig config;
    config.grid_x = static_cast<unsigned>(grid.x);
    config.group_x = static_cast<unsigned>(group.x), config.group_y = static_cast<unsigned>(group.y), config.group_z = static_cast<unsigned>(group.z);
    config.shared_bytes = static_cast<unsigned>(scratch_bytes);
    config.stream = stream_of(stream);
    void* parameters[] = {views.empty() ? static_cast<void*>(const_cast<void**>(arguments)) : viewed.bytes};  // one: a struct
    if (const CuResult code = call_.launch(&config, entry.function, parameters, nullptr); code != cu_success) return context_->launch_error(*entry.name, code);
    context_->launched(entry.name, config.stream);
    return success();
  }
  Status synchronize(Stream stream) override {
    RTX_ENTER();
    const Context::AsideOfCaptures aside(*driver_);
    RTX_CHECK(context_->check("the device failed", call_.synchronize(stream_of(stream))));
    context_->completed(stream_of(stream));
    return success();
  }

  Result<void*> allocate(int64_t bytes) override {
    const std::string what = "cannot allocate " + std::to_string(bytes) + " bytes on the device";
    if (bytes < 0) return error_of(ErrorKind::device, what, "the size is negative");
    RTX_ENTER();
    const Context::AsideOfCaptures aside(*driver_);
    CuAddress address = 0;
    const CuResult code = call_.allocate(&address, static_cast<size_t>(bytes > 0 ? bytes : 1));
    if (code == cu_out_of_memory) return exhausted(what, code);
    RTX_CHECK(context_->check(what, code));
    return reinterpret_cast<void*>(address);
  }
  void release(void* pointer) override {
    if (!pointer) return;
    const Context::Scope scope(*context_);
    const Context::AsideOfCaptures aside(*driver_);
    if (scope.ok()) (void)call_.release(address_of(pointer));
  }
  Status copy_in(void* device, const void* host, int64_t bytes, Stream stream) override {
    if (bytes <= 0) return success();
    RTX_ENTER();
    const Context::AsideOfCaptures aside(*driver_);
    return context_->check("cannot copy to the device", call_.copy_in(address_of(device), host, static_cast<size_t>(bytes), stream_of(stream)));
  }
  Status copy_out(void* host, const void* device, int64_t bytes, Stream stream) override {
    if (bytes <= 0) return success();
    RTX_ENTER();
    const Context::AsideOfCaptures aside(*driver_);
    RTX_CHECK(context_->check("cannot copy from the device", call_.copy_out(host, address_of(device), static_cast<size_t>(bytes), stream_of(stream))));
    return synchronize(stream);
  }
  Status copy_within(void* to, const void* from, int64_t bytes, Stream stream) override {
    if (bytes <= 0 || to == from) return success();
    RTX_ENTER();
    return context_->check("cannot copy on the device", call_.copy_within(address_of(to), address_of(from), static_cast<size_t>(bytes), stream_of(stream)));
  }
  Status fill(void* device, std::byte value, int64_t bytes, Stream stream) override {
    if (bytes <= 0) return success();
    RTX_ENTER();
    return context_->check("cannot fill device memory", call_.fill(address_of(device), static_cast<unsigned char>(value), static_cast<size_t>(bytes), stream_of(stream)));
  }
  bool host_addressable() const override { return false; }
  int64_t argument_alignment() const override { return 16; }

  Result<double> time(Stream stream, const std::function<Status()>& work) override {
    RTX_ENTER();
    CuEvent events[2] = {};
    auto measured = [&]() -> Result<double> {
      for (auto& event : events) RTX_CHECK(context_->check("cannot time", call_.create_event(&event, 0)));
      RTX_CHECK(context_->check("cannot time", call_.record_event(events[0], stream_of(stream))));
      RTX_CHECK(work());
      RTX_CHECK(context_->check("cannot time", call_.record_event(events[1], stream_of(stream))));
      RTX_CHECK(context_->check("the device failed", call_.synchronize_event(events[1])));
      context_->completed(stream_of(stream));
      float milliseconds = 0;
      RTX_CHECK(context_->check("cannot time", call_.elapsed(&milliseconds, events[0], events[1])));
      return double{milliseconds} / 1e3;
    }();
    for (auto* event : events)
      if (event) (void)call_.destroy_event(event);
    return measured;
  }
  Status flush_caches(Stream stream) override {
    const int64_t bytes = 2 * caps_.l2_bytes + (8 << 20);
    {
      const std::lock_guard lock(mutex_);
      if (!flush_) {
        RTX_TRY(flush_, allocate(bytes));
      }
    }
    return fill(flush_, std::byte{1}, bytes, stream);
  }

  Result<std::unique_ptr<Recording>> capture(std::function<Status(Stream)> work) override {
    const char* const what = "cannot record a graph";
    RTX_ENTER();
    CuStream stream = nullptr;
    RTX_CHECK(context_->check(what, call_.create_stream(&stream, cu_stream_non_blocking)));
    CuGraph graph = nullptr;
    auto recorded = [&]() -> Result<std::unique_ptr<Recording>> {
      RTX_CHECK(context_->check(what, call_.begin_capture(stream, cu_capture_thread)));
      auto issued = work(stream);
      const CuResult ended = call_.end_capture(stream, &graph);
      const std::string kernels = context_->names_on(stream);
      context_->completed(stream);  // nothing was launched yet
      if (!issued.ok()) return std::move(issued).error();
      if (ended == cu_capture_invalidated) return error_of(ErrorKind::internal, what, "something waited, allocated or loaded while it was recorded");
      RTX_CHECK(context_->check(what, ended));
      auto made = std::make_unique<Graph>(context_);
      made->kernels = context_->name_of_kernel(kernels);
      RTX_CHECK(context_->check(what, call_.instantiate(&made->ready, graph, 0)));
      return std::unique_ptr<Recording>(std::move(made));
    }();
    if (graph) (void)call_.destroy_graph(graph);
    (void)call_.destroy_stream(stream);
    return recorded;
  }
  Status replay(Recording& recording, Stream stream) override {
    auto& graph = static_cast<Graph&>(recording);
    RTX_ENTER();
    RTX_CHECK(context_->check("cannot launch a graph", call_.launch_graph(graph.ready, stream_of(stream))));
    context_->launched(graph.kernels, stream_of(stream));
    return success();
  }
  bool is_capturing(Stream stream) override {
    const Context::Scope scope(*context_);
    int status = 0;
    return scope.ok() && call_.is_capturing(stream_of(stream), &status) == cu_success && status != 0;
  }
  Result<Stream> own_stream() override {
    RTX_ENTER();
    const std::lock_guard lock(mutex_);
    if (!own_stream_) RTX_CHECK(context_->check("cannot make a stream", call_.create_stream(&own_stream_, cu_stream_non_blocking)));
    return Stream{own_stream_};
  }
  Result<Conditions> conditions() override {
    const auto& management = driver_->management();
    if (!management.ok()) return management.error();
    return (*management)->conditions(bus_);
  }

 private:
  Error exhausted(const std::string& what, CuResult code) const {
    Error error = driver_->error(what, code);
    size_t free = 0, total = 0;
    if (call_.memory_info(&free, &total) == cu_success) error.why = "device memory is exhausted: " + gibibytes(free) + " of " + gibibytes(total) + " are free (" + error.why + ")";
    error.fix = "end other programs on the device, or use a smaller model or input";
    return error;
  }

  std::shared_ptr<const Driver> driver_;
  const DriverTable& call_;
  std::shared_ptr<Context> context_;
  Caps caps_;
  std::string bus_;  // PCI, by which the management library knows the device
  std::mutex mutex_;
  void* flush_ = nullptr;
  CuStream own_stream_ = nullptr;
};

Result<CuDevice> device_of(const Driver& driver, int ordinal) {
  if (ordinal < 0 || ordinal >= driver.devices())
    return error_of(ErrorKind::device, "there is no device " + std::to_string(ordinal) + " of target cuda",
                    "this machine has " + std::to_string(driver.devices()) + (driver.devices() == 1 ? ", device 0" : ", devices 0 to " + std::to_string(driver.devices() - 1)),
                    "`rtx targets` lists them; choose one with --device");
  CuDevice device = 0;
  RTX_CHECK(driver.check("cannot identify the device", driver.call().device_get(&device, ordinal)));
  return device;
}

}  // namespace

Result<Caps> identify(const Driver& driver, int ordinal) {
  const auto& call = driver.call();
  RTX_TRY(const CuDevice device, device_of(driver, ordinal));
  DeviceFacts facts;
  char name[256] = {};
  RTX_CHECK(driver.check("cannot identify the device", call.device_name(name, sizeof name, device)));
  facts.name = name;
  // The driver writes an instance of a divided GPU behind its product: "NVIDIA H200 MIG 3g.71gb".
  if (const size_t at = facts.name.find(" MIG "); at != std::string::npos) facts.partition = facts.name.substr(at + 1), facts.name.resize(at);
  size_t memory = 0;
  RTX_CHECK(driver.check("cannot identify the device", call.device_memory(&memory, device)));
  facts.memory_bytes = static_cast<int64_t>(memory);
  const auto ask = [&](int attribute) {
    int value = 0;
    return call.device_attribute(&value, attribute, device) == cu_success ? value : 0;
  };
  facts.major = ask(cu_capability_major), facts.minor = ask(cu_capability_minor);
  facts.multiprocessors = ask(cu_multiprocessors);
  facts.l2_bytes = ask(cu_l2_bytes);
  facts.shared_bytes_per_group = ask(cu_shared_bytes_per_group);
  facts.max_threads_per_group = ask(cu_max_threads_per_group);
  facts.clock_khz = ask(cu_clock_khz), facts.memory_clock_khz = ask(cu_memory_clock_khz), facts.memory_bus_bits = ask(cu_memory_bus_bits);
  facts.driver = driver.name();
  return caps_of_device(facts);
}

Result<std::shared_ptr<Device>> make_device(std::shared_ptr<const Driver> driver, int ordinal) {
  RTX_TRY(Caps caps, identify(*driver, ordinal));
  RTX_TRY(const CuDevice device, device_of(*driver, ordinal));
  char bus[32] = {};
  (void)driver->call().device_bus(bus, sizeof bus, device);
  return std::shared_ptr<Device>(std::make_shared<CudaDevice>(std::move(driver), device, std::move(caps), bus));
}

}  // namespace rtx::backend::cuda
