#include "backend/cuda/device.h"

#include <chrono>
#include <cstring>
#include <list>
#include <mutex>

#include "backend/cuda/caps.h"
#include "backend/cuda/device_views.h"

namespace rtx::backend::cuda {

namespace {

constexpr int64_t kMostGroups = (int64_t{1} << 31) - 1;
constexpr int64_t kSharedWithoutAsking = 48 << 10;

struct Entry {
  CuFunction function = nullptr;
  std::string name;
  int64_t shared_bytes = kSharedWithoutAsking;  // allowed so far
  TensorMaps maps;
  std::mutex mutex;
};

// The device's primary context: made when something first needs it (a process that only tells others what to measure never does), kept
// until the device and every module loaded into it are gone.
class Context {
 public:
  Context(std::shared_ptr<const Driver> driver, CuDevice device) : driver(std::move(driver)), device_(device) {}
  ~Context() {
    if (context_) (void)driver->call().release_context(device_);
  }
  // Makes it the calling thread's, where it is not already.
  Status enter() {
    std::call_once(once_, [this] { made_ = driver->check("cannot use the device", driver->call().retain_context(&context_, device_)); });
    RTX_CHECK(Status(made_));
    CuContext now = nullptr;
    if (driver->call().current_context(&now) == cu_success && now == context_) return success();
    return driver->check("cannot use the device", driver->call().set_context(context_));
  }

  const std::shared_ptr<const Driver> driver;

 private:
  CuDevice device_;
  CuContext context_ = nullptr;
  std::once_flag once_;
  Status made_;
};

class CudaModule final : public Module {
 public:
  CudaModule(std::shared_ptr<Context> context, CuModule module) : context_(std::move(context)), driver_(context_->driver), module_(module) {}
  ~CudaModule() override {
    if (context_->enter().ok()) (void)driver_->call().unload_module(module_);
  }
  Result<Function> entry(const std::string& name) {
    const std::lock_guard lock(mutex_);
    for (auto& known : entries_)
      if (known.name == name) return Function{&known};
    CuFunction function = nullptr;
    RTX_CHECK(driver_->check("cannot load kernel " + name, driver_->call().get_function(&function, module_, name.c_str())));
    auto& made = entries_.emplace_back();
    made.function = function;
    made.name = name;
    return Function{&made};
  }

 private:
  std::shared_ptr<Context> context_;
  std::shared_ptr<const Driver> driver_;
  CuModule module_;
  std::mutex mutex_;
  std::list<Entry> entries_;
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

CuStream stream_of(Stream stream) { return static_cast<CuStream>(stream); }
CuAddress address_of(const void* pointer) { return reinterpret_cast<CuAddress>(pointer); }

class CudaDevice final : public Device {
 public:
  CudaDevice(std::shared_ptr<const Driver> driver, CuDevice device, Caps caps)
      : driver_(std::move(driver)), call_(driver_->call()), context_(std::make_shared<Context>(driver_, device)), caps_(std::move(caps)) {}
  ~CudaDevice() override {
    if (flush_) release(flush_);
  }
  const Caps& caps() const override { return caps_; }
  Result<double> make_ready() override {
    const auto start = std::chrono::steady_clock::now();
    RTX_CHECK(enter());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Result<std::unique_ptr<Module>> load(std::span<const std::byte> binary, const std::string& name) override {
    if (!looks_like_cubin(binary)) return error_of(ErrorKind::device, "cannot load kernel " + name, "the binary is not a cubin");
    RTX_CHECK(enter());
    CuModule module = nullptr;
    RTX_CHECK(driver_->check("cannot load kernel " + name, call_.load_module(&module, binary.data())));
    return std::unique_ptr<Module>(std::make_unique<CudaModule>(context_, module));
  }
  Result<Function> function(Module& module, const std::string& entry) override {
    RTX_CHECK(enter());
    return static_cast<CudaModule&>(module).entry(entry);
  }

  Status launch(Function function, Dim3 grid, Dim3 group, int64_t scratch_bytes, void* const* arguments, int count, Stream stream,
                std::span<const TensorView> views) override {
    auto& entry = *static_cast<Entry*>(function.handle);
    if (grid.count() == 0) return success();
    if (grid.y != 1 || grid.z != 1 || grid.x > kMostGroups)
      return error_of(ErrorKind::device, "cannot launch " + entry.name, std::to_string(grid.count()) + " groups, at most " + std::to_string(kMostGroups) + " along x");
    if (scratch_bytes > caps_.scratch_bytes)
      return error_of(ErrorKind::device, "cannot launch " + entry.name, std::to_string(scratch_bytes) + " bytes of shared memory, the device has " + std::to_string(caps_.scratch_bytes));
    RTX_CHECK(enter());
    ViewParameters viewed;
    {
      const std::lock_guard lock(entry.mutex);
      if (!views.empty()) RTX_CHECK(fill_parameters(*driver_, entry.maps, views, arguments, count, &viewed));
      if (scratch_bytes > entry.shared_bytes) {
        RTX_CHECK(driver_->check("cannot launch " + entry.name, call_.set_function_attribute(entry.function, cu_function_dynamic_shared_bytes, static_cast<int>(scratch_bytes))));
        entry.shared_bytes = scratch_bytes;
      }
    }
    CuLaunchConfig config;
    config.grid_x = static_cast<unsigned>(grid.x);
    config.group_x = static_cast<unsigned>(group.x), config.group_y = static_cast<unsigned>(group.y), config.group_z = static_cast<unsigned>(group.z);
    config.shared_bytes = static_cast<unsigned>(scratch_bytes);
    config.stream = stream_of(stream);
    void* parameters[] = {views.empty() ? static_cast<void*>(const_cast<void**>(arguments)) : viewed.bytes};  // one: a struct
    return driver_->check("cannot launch " + entry.name, call_.launch(&config, entry.function, parameters, nullptr));
  }
  Status synchronize(Stream stream) override {
    RTX_CHECK(enter());
    return driver_->check("the device failed", call_.synchronize(stream_of(stream)));
  }

  Result<void*> allocate(int64_t bytes) override {
    const std::string what = "cannot allocate " + std::to_string(bytes) + " bytes on the device";
    if (bytes < 0) return error_of(ErrorKind::device, what, "the size is negative");
    RTX_CHECK(enter());
    CuAddress address = 0;
    RTX_CHECK(driver_->check(what, call_.allocate(&address, static_cast<size_t>(bytes > 0 ? bytes : 1))));
    return reinterpret_cast<void*>(address);
  }
  void release(void* pointer) override {
    if (pointer && enter().ok()) (void)call_.release(address_of(pointer));
  }
  Status copy_in(void* device, const void* host, int64_t bytes, Stream stream) override {
    if (bytes <= 0) return success();
    RTX_CHECK(enter());
    return driver_->check("cannot copy to the device", call_.copy_in(address_of(device), host, static_cast<size_t>(bytes), stream_of(stream)));
  }
  Status copy_out(void* host, const void* device, int64_t bytes, Stream stream) override {
    if (bytes <= 0) return success();
    RTX_CHECK(enter());
    RTX_CHECK(driver_->check("cannot copy from the device", call_.copy_out(host, address_of(device), static_cast<size_t>(bytes), stream_of(stream))));
    return synchronize(stream);
  }
  Status fill(void* device, std::byte value, int64_t bytes, Stream stream) override {
    if (bytes <= 0) return success();
    RTX_CHECK(enter());
    return driver_->check("cannot fill device memory", call_.fill(address_of(device), static_cast<unsigned char>(value), static_cast<size_t>(bytes), stream_of(stream)));
  }
  bool host_addressable() const override { return false; }

  Result<double> time(Stream stream, const std::function<Status()>& work) override {
    RTX_CHECK(enter());
    CuEvent events[2] = {};
    auto measured = [&]() -> Result<double> {
      for (auto& event : events) RTX_CHECK(driver_->check("cannot time", call_.create_event(&event, 0)));
      RTX_CHECK(driver_->check("cannot time", call_.record_event(events[0], stream_of(stream))));
      RTX_CHECK(work());
      RTX_CHECK(driver_->check("cannot time", call_.record_event(events[1], stream_of(stream))));
      RTX_CHECK(driver_->check("the device failed", call_.synchronize_event(events[1])));
      float milliseconds = 0;
      RTX_CHECK(driver_->check("cannot time", call_.elapsed(&milliseconds, events[0], events[1])));
      return double{milliseconds} / 1e3;
    }();
    for (auto* event : events)
      if (event) (void)call_.destroy_event(event);
    return measured;
  }
  Status flush_caches(Stream stream) override {
    const int64_t bytes = 2 * caps_.l2_bytes + (8 << 20);
    {
      const std::lock_guard lock(flush_mutex_);
      if (!flush_) {
        RTX_TRY(flush_, allocate(bytes));
      }
    }
    return fill(flush_, std::byte{1}, bytes, stream);
  }

 private:
  Status enter() const { return context_->enter(); }

  std::shared_ptr<const Driver> driver_;
  const DriverTable& call_;
  std::shared_ptr<Context> context_;
  Caps caps_;
  std::mutex flush_mutex_;
  void* flush_ = nullptr;
};

}  // namespace

Result<Caps> identify(const Driver& driver, int ordinal) {
  const auto& call = driver.call();
  if (ordinal < 0 || ordinal >= driver.devices())
    return error_of(ErrorKind::device, "there is no device " + std::to_string(ordinal), "this machine has " + std::to_string(driver.devices()), "choose another with --device");
  CuDevice device = 0;
  RTX_CHECK(driver.check("cannot identify the device", call.device_get(&device, ordinal)));
  DeviceFacts facts;
  char name[256] = {};
  RTX_CHECK(driver.check("cannot identify the device", call.device_name(name, sizeof name, device)));
  facts.name = name;
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
  facts.driver = "CUDA " + std::to_string(driver.version() / 1000) + "." + std::to_string(driver.version() % 1000 / 10);
  return caps_of_device(facts);
}

Result<std::shared_ptr<Device>> make_device(std::shared_ptr<const Driver> driver, int ordinal) {
  RTX_TRY(Caps caps, identify(*driver, ordinal));
  CuDevice device = 0;
  RTX_CHECK(driver->check("cannot use the device", driver->call().device_get(&device, ordinal)));
  return std::shared_ptr<Device>(std::make_shared<CudaDevice>(std::move(driver), device, std::move(caps)));
}

}  // namespace rtx::backend::cuda
