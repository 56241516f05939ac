#include "state.h"

#include <chrono>
#include <cstdlib>

namespace fake {

thread_local Context* current = nullptr;
thread_local int thread_mode = cu_capture_global;

State& state() {
  static auto* const one = new State;  // threads of a process that ends may still call
  return *one;
}

Settings read_settings() {
  Settings out;
  const char* text = std::getenv("RTX_FAKE_CUDA");
  std::string rest = text ? text : "";
  while (!rest.empty()) {
    const size_t comma = rest.find(','), equal = rest.find('=');
    const std::string key = rest.substr(0, equal), value = equal == std::string::npos ? "" : rest.substr(equal + 1, comma == std::string::npos ? comma : comma - equal - 1);
    rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    const auto number = std::atoll(value.c_str());
    const std::map<std::string, int*> numbers = {{"init", &out.init}, {"version", &out.version}, {"devices", &out.devices}, {"major", &out.major}, {"minor", &out.minor},
                                                 {"sms", &out.sms}, {"launch", &out.launch}, {"nvml", &out.nvml}, {"core_mhz", &out.core_mhz}, {"watts", &out.watts},
                                                 {"celsius", &out.celsius}, {"mig", &out.mig}};
    const std::map<std::string, std::string*> texts = {{"name", &out.name}, {"missing", &out.missing}, {"release", &out.release}, {"log", &out.log}};
    if (const auto found = numbers.find(key); found != numbers.end()) *found->second = static_cast<int>(number);
    else if (const auto words = texts.find(key); words != texts.end()) *words->second = value;
    else if (key == "memory_mib") out.memory_mib = number;
    else if (key == "slowed") out.slowed = static_cast<uint64_t>(number);
    else std::fprintf(stderr, "RTX_FAKE_CUDA has no '%s'\n", key.c_str()), std::abort();
  }
  return out;
}

CuResult enter(const char* call, bool needs_context) {
  State& s = state();
  ++s.counts[call];
  if (!s.settings.log.empty())
    if (std::FILE* file = std::fopen(s.settings.log.c_str(), "a")) std::fprintf(file, "%s\n", call), std::fclose(file);
  if (!needs_context) return cu_success;
  for (const auto& gone : s.destroyed)
    if (gone.get() == current) return cu_context_destroyed;
  if (!current || !s.contexts.count(current)) return cu_invalid_context;
  return current->failure;
}

CuResult unsafe_in_captures() {
  if (thread_mode == cu_capture_relaxed) return cu_success;
  CuResult out = cu_success;
  for (Stream* stream : state().streams)
    if (stream->recorded && stream->mode != cu_capture_relaxed) stream->broken = true, out = cu_capture_unsupported;
  return out;
}

Stream* stream_of(CuStream handle) {
  if (handle) {
    auto* const stream = reinterpret_cast<Stream*>(handle);
    return state().streams.count(stream) && stream->context == current ? stream : nullptr;
  }
  auto& made = state().null_streams[current];
  if (!made) made = std::make_unique<Stream>(), made->context = current;
  return made.get();
}

CuResult finish(Stream& stream) {
  while (!stream.waiting.empty() && stream.context->failure == cu_success) {
    const Work work = std::move(stream.waiting.front());
    stream.waiting.pop_front();
    if (const CuResult code = work(); code != cu_success) stream.context->failure = code;
  }
  return stream.context->failure;
}

CuResult finish_all(Context* context) {
  for (Stream* stream : state().streams)
    if (stream->context == context) (void)finish(*stream);
  if (const auto found = state().null_streams.find(context); found != state().null_streams.end()) (void)finish(*found->second);
  return context->failure;
}

// The default stream and blocking streams wait for each other.
CuResult issue(CuStream handle, Work work) {
  Stream* const stream = stream_of(handle);
  if (!stream) return cu_invalid_handle;
  if (stream->recorded) {
    if (stream->broken) return cu_capture_invalidated;
    stream->recorded->nodes.push_back(std::move(work));
    return cu_success;
  }
  if (!handle) {
    for (Stream* other : state().streams) {
      if (other->context != current || !other->blocking) continue;
      if (other->recorded) return other->broken = true, cu_capture_implicit;
      (void)finish(*other);
    }
  } else if (stream->blocking) {
    (void)finish(*stream_of(nullptr));
  }
  stream->waiting.push_back(std::move(work));
  return cu_success;
}

bool owns(const Context* context, CuAddress at, size_t bytes) {
  const auto& memory = state().memory;
  auto next = memory.upper_bound(at);
  if (next == memory.begin()) return false;
  const auto& [begin, allocation] = *--next;
  return allocation.context == context && at + bytes <= begin + allocation.bytes;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace fake

extern "C" int64_t fake_cuda_count(const char* what) {
  const std::lock_guard lock(fake::state().mutex);
  if (std::string(what) == "allocations") return static_cast<int64_t>(fake::state().memory.size());
  if (std::string(what) == "contexts") return static_cast<int64_t>(fake::state().contexts.size());
  const auto found = fake::state().counts.find(what);
  return found == fake::state().counts.end() ? 0 : found->second;
}
