#pragma once
// What the fake driver knows. One lock for everything: it is a test's, and never waits for anything.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda/driver_types.h"

namespace fake {

using namespace rtx::backend::cuda;

// RTX_FAKE_CUDA: "key=value,key=value".
struct Settings {
  int init = 0;                    // what cuInit answers
  int version = 13000;             // CUDA that the driver supports
  int devices = 1;
  std::string name = "NVIDIA H200";
  int major = 9, minor = 0, sms = 132;
  int64_t memory_mib = 256;        // a device's
  int launch = 0;                  // what every launch answers
  std::string missing;             // a function that this driver does not have
  std::string release = "999.10";  // NVML: the driver's version
  int nvml = 0;                    // what nvmlInit answers
  int core_mhz = 1980, watts = 300, celsius = 40;
  uint64_t slowed = 0;             // NVML's mask of reasons
  int mig = 0;
  std::string log;                 // file to which every call's name is appended
};
Settings read_settings();

struct Context {
  CuDevice device = 0;
  bool primary = false;
  int users = 0;           // of a primary context
  CuResult failure = cu_success;  // a kernel's, which stays
};

using Work = std::function<CuResult()>;

struct Graph {
  std::vector<Work> nodes;
};
struct Stream {
  Context* context = nullptr;
  bool blocking = true;
  std::deque<Work> waiting;      // issued, not done
  std::unique_ptr<Graph> recorded;  // while it is being captured
  int mode = 0;
  bool broken = false;           // the capture is invalid
};
struct Event {
  double seconds = -1;           // when it was reached
  Stream* stream = nullptr;
  bool pending = false;
};
struct Function {
  std::string name;
  bool native = false;  // of a real cubin: loads, and computes nothing
  int shared = 48 << 10;
};
struct Module {
  Context* context = nullptr;
  std::set<std::string> entries;
  bool native = false;
  std::list<Function> functions;
};
struct Allocation {
  size_t bytes = 0;
  Context* context = nullptr;
};

struct State {
  std::recursive_mutex mutex;
  Settings settings;
  std::map<std::string, int64_t> counts;
  std::map<CuDevice, std::unique_ptr<Context>> primaries;
  std::list<std::unique_ptr<Context>> destroyed;  // primary ones that were released; a thread may still have one
  std::set<Context*> contexts;
  std::map<Context*, std::unique_ptr<Stream>> null_streams;
  std::set<Stream*> streams;
  std::set<Module*> modules;  // those of a context that failed stay for ever: it refuses to unload them
  std::map<CuAddress, Allocation> memory;
  int64_t used = 0;
};
State& state();
extern thread_local Context* current;
extern thread_local int thread_mode;  // how strict captures are with this thread

// Every function begins so: counts the call, and leaves with what the calling thread's context has to say.
CuResult enter(const char* call, bool needs_context = true);
// A call that a capture in this thread's sight forbids breaks that capture.
CuResult unsafe_in_captures();

Stream* stream_of(CuStream handle);           // null: the current context's default stream
CuResult issue(CuStream handle, Work work);   // records it, or lets it wait
CuResult finish(Stream& stream);              // does what waits in it, and what it waits for
CuResult finish_all(Context* context);
bool owns(const Context* context, CuAddress at, size_t bytes);
double now();

// The kernels: gives what running one answers, or nothing where there is no such kernel.
bool is_kernel(const std::string& name, int* arguments);
CuResult run_kernel(Context* context, const std::string& name, int64_t groups, void* const* arguments);

}  // namespace fake
