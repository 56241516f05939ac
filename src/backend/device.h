#pragma once
// Device: the run side of a backend (memory, modules, launches, events). Deployed programs link only this.
//
// Thread rules: a Device may be used from several threads; a Stream serves one thread at a time.
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/caps.h"
#include "backend/kernel.h"
#include "base/result.h"

namespace rtx::backend {

// A loaded binary; keeps its code alive.
class Module {
 public:
  virtual ~Module() = default;
};

// An entry of a module, resolved once; launching it does no look-up and no allocation.
struct Function {
  void* handle = nullptr;
};

// The caller's stream handle (a CUstream, say); null is the device's default. CPU: ignored, launches complete before they return.
using Stream = void*;

// Work kept to be issued again as a whole (a CUDA graph).
class Recording {
 public:
  virtual ~Recording() = default;
};

// What a device says of itself while it works; what it does not tell is 0.
struct Conditions {
  int core_mhz = 0, memory_mhz = 0;
  double watts = 0, watts_allowed = 0;
  double celsius = 0;
  bool divided = false;  // into partitions (MIG): others may be at work beside this one
  std::vector<std::string> slowed_by;  // why it runs below the clocks it could have: "power", "heat", ...
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const Caps& caps() const = 0;
  // Makes what the first use would make (a context): seconds it took; 0 where nothing was left to make.
  virtual Result<double> make_ready() { return 0.0; }

  virtual Result<std::unique_ptr<Module>> load(std::span<const std::byte> binary, const std::string& name) = 0;
  virtual Result<Function> function(Module& module, const std::string& entry) = 0;
  // `arguments` are device pointers, one per Launch argument; `views` are the Launch's, which only a device with tensor maps takes.
  // Asynchronous on the stream where the device has streams.
  virtual Status launch(Function function, Dim3 grid, Dim3 group, int64_t scratch_bytes, void* const* arguments, int argument_count,
                        Stream stream, std::span<const TensorView> views = {}) = 0;
  virtual Status synchronize(Stream stream) = 0;

  // 64-byte aligned (CPU) or the driver's alignment. Kind device when memory is exhausted, naming the size.
  virtual Result<void*> allocate(int64_t bytes) = 0;
  virtual void release(void* pointer) = 0;
  virtual Status copy_in(void* device, const void* host, int64_t bytes, Stream stream) = 0;
  virtual Status copy_out(void* host, const void* device, int64_t bytes, Stream stream) = 0;
  virtual Status fill(void* device, std::byte value, int64_t bytes, Stream stream) = 0;
  // Ranges that overlap must be the same.
  virtual Status copy_within(void* to, const void* from, int64_t bytes, Stream stream) {
    if (bytes <= 0 || to == from) return success();
    if (host_addressable()) return std::memmove(to, from, static_cast<size_t>(bytes)), success();
    std::vector<std::byte> host(static_cast<size_t>(bytes));
    RTX_CHECK(copy_out(host.data(), from, bytes, stream));
    RTX_CHECK(synchronize(stream));
    RTX_CHECK(copy_in(to, host.data(), bytes, stream));
    return synchronize(stream);
  }
  // Kernels take every argument's address for a multiple of this; 1: for one of an element. A GPU's widest access, and its views.
  virtual int64_t argument_alignment() const { return 1; }
  // True when device memory is host memory (inputs may be used where they stand).
  virtual bool host_addressable() const = 0;

  // Seconds that `work` took on the device, by the device's own clock (events on a GPU, steady clock on a CPU).
  virtual Result<double> time(Stream stream, const std::function<Status()>& work) = 0;
  // Evicts the caches the way the timing protocol wants before a cold sample.
  virtual Status flush_caches(Stream stream) = 0;

  // (optional) Keeps what `work` launches, copies and fills on the stream it is given; replay() does all of it in that order, as often
  // as it is called. Pointers and sizes stay as they are now. `work` must not wait, allocate or load. Whether it runs now or at each
  // replay is the device's choice, so what it refers to must live as long as the recording.
  virtual Result<std::unique_ptr<Recording>> capture(std::function<Status(Stream)> work) {
    return std::unique_ptr<Recording>(std::make_unique<RecordedFunction>(std::move(work)));
  }
  virtual Status replay(Recording& recording, Stream stream) { return static_cast<RecordedFunction&>(recording).work(stream); }
  // (optional) Is somebody recording this stream? Then whoever waits for it, or allocates, breaks the recording.
  virtual bool is_capturing(Stream) { return false; }
  // (optional) A stream of the device's own, in no order with anybody else's; null where there is none to have.
  virtual Result<Stream> own_stream() { return Stream{nullptr}; }
  // (optional) Clocks, power, temperature now. Kind device, with the reason, where nobody tells.
  virtual Result<Conditions> conditions() { return error_of(ErrorKind::device, "clocks, power and temperature are not known", "target " + caps().target + " does not tell them"); }

 private:
  struct RecordedFunction final : Recording {
    explicit RecordedFunction(std::function<Status(Stream)> given) : work(std::move(given)) {}
    std::function<Status(Stream)> work;
  };
};

}  // namespace rtx::backend
