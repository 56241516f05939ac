#include "backend/null/device.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>

namespace rtx::backend::null {

namespace {

// A real one: the vendor's handle, released here.
class TextModule final : public Module {
 public:
  explicit TextModule(std::string text) : text_(std::move(text)) {}
  // A stable address for an entry of the text; null when it has none.
  const std::string* entry(const std::string& name) {
    if (text_.find("KERNEL(" + name + ",") == std::string::npos) return nullptr;
    std::lock_guard lock(mutex_);
    const auto known = std::find(entries_.begin(), entries_.end(), name);
    return known != entries_.end() ? &*known : &entries_.emplace_back(name);
  }

 private:
  std::string text_;
  std::mutex mutex_;
  std::list<std::string> entries_;
};

Error load_failed(const std::string& name, const std::string& why) {
  return error_of(ErrorKind::device, "cannot load kernel " + name, why);
}

class NullDevice final : public Device {
 public:
  // A real one asks the driver. Every field counts: families state rules on them, keys and bundles carry the
  // four names.
  NullDevice() {
    caps_.target = "null";
    caps_.device = "null; 1 core";
    caps_.arch = "text";
    caps_.driver = "none";
    caps_.vector_bits = 0;
  }
  const Caps& caps() const override { return caps_; }

  // Bytes of others are looked at before a driver gets them.
  Result<std::unique_ptr<Module>> load(std::span<const std::byte> binary, const std::string& name) override {
    std::string text(reinterpret_cast<const char*>(binary.data()), binary.size());
    if (text.substr(0, 3) != "// " || text.find('\0') != std::string::npos)
      return load_failed(name, "the binary is not the text of a kernel");
    return std::unique_ptr<Module>(std::make_unique<TextModule>(std::move(text)));
  }
  Result<Function> function(Module& module, const std::string& entry) override {
    const std::string* found = static_cast<TextModule&>(module).entry(entry);
    if (!found) return load_failed(entry, "the binary has no such entry");
    return Function{const_cast<std::string*>(found)};
  }

  // A launch that cannot be made is an error, never silence: somebody would take what was in the output for a
  // result.
  Status launch(Function function, Dim3, Dim3, int64_t, void* const*, int, Stream, std::span<const TensorView>) override {
    return error_of(ErrorKind::device, "cannot launch " + *static_cast<const std::string*>(function.handle),
                    "the null device computes nothing", "use another target; `rtx targets` lists them");
  }
  Status synchronize(Stream) override { return success(); }

  Result<void*> allocate(int64_t bytes) override {
    constexpr int64_t kMost = int64_t{1} << 48;  // beyond it, rounding up could overflow
    void* pointer =
        bytes < 0 || bytes > kMost
            ? nullptr
            : std::aligned_alloc(64, static_cast<size_t>((std::max<int64_t>(bytes, 1) + 63) / 64 * 64));
    if (!pointer)
      return error_of(ErrorKind::device, "cannot allocate " + std::to_string(bytes) + " bytes",
                      "memory is exhausted");
    return pointer;
  }
  void release(void* pointer) override { std::free(pointer); }
  Status copy_in(void* device, const void* host, int64_t bytes, Stream) override {
    if (bytes > 0) std::memcpy(device, host, static_cast<size_t>(bytes));
    return success();
  }
  Status copy_out(void* host, const void* device, int64_t bytes, Stream) override {
    return copy_in(host, device, bytes, nullptr);
  }
  Status fill(void* device, std::byte value, int64_t bytes, Stream) override {
    if (bytes > 0) std::memset(device, static_cast<int>(value), static_cast<size_t>(bytes));
    return success();
  }
  bool host_addressable() const override { return true; }

  // A real one: events on the stream, the device's own clock.
  Result<double> time(Stream, const std::function<Status()>& work) override {
    const auto start = std::chrono::steady_clock::now();
    RTX_CHECK(work());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  Status flush_caches(Stream) override { return success(); }

 private:
  Caps caps_;
};

}  // namespace

std::shared_ptr<Device> make_device() { return std::make_shared<NullDevice>(); }

}  // namespace rtx::backend::null
