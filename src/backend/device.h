#pragma once
// Device: the run side of a backend (memory, modules, launches, events). Deployed programs link only this.
//
// Thread rules: a Device may be used from several threads; a Stream serves one thread at a time.
#include <cstddef>
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
  // True when device memory is host memory (inputs may be used where they stand).
  virtual bool host_addressable() const = 0;

  // Seconds that `work` took on the device, by the device's own clock (events on a GPU, steady clock on a CPU).
  virtual Result<double> time(Stream stream, const std::function<Status()>& work) = 0;
  // Evicts the caches the way the timing protocol wants before a cold sample.
  virtual Status flush_caches(Stream stream) = 0;
};

}  // namespace rtx::backend
