// Memory and copies. Host memory of the tests is pageable: a copy from it is read at once, a copy to it is complete when the call is.
#include <cstdlib>
#include <cstring>

#include "functions.h"

namespace fake {

CuResult allocate(CuAddress* address, size_t bytes) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemAlloc"); code != cu_success) return code;
  if (const CuResult code = unsafe_in_captures(); code != cu_success) return code;
  if (bytes == 0) return cu_invalid_value;
  if (state().used + static_cast<int64_t>(bytes) > (state().settings.memory_mib << 20)) return cu_out_of_memory;
  void* const memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory) return cu_out_of_memory;
  std::memset(memory, 0xCD, bytes);
  *address = reinterpret_cast<CuAddress>(memory);
  state().memory[*address] = {bytes, current};
  state().used += static_cast<int64_t>(bytes);
  return cu_success;
}

CuResult release(CuAddress address) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemFree"); code != cu_success) return code;
  if (const CuResult code = unsafe_in_captures(); code != cu_success) return code;
  const auto found = state().memory.find(address);
  if (found == state().memory.end()) return cu_invalid_value;
  (void)finish_all(current);
  state().used -= static_cast<int64_t>(found->second.bytes);
  state().memory.erase(found);
  std::free(reinterpret_cast<void*>(address));
  return cu_success;
}

CuResult memory_info(size_t* free, size_t* total) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemGetInfo"); code != cu_success) return code;
  *total = static_cast<size_t>(state().settings.memory_mib) << 20;
  *free = *total - static_cast<size_t>(state().used);
  return cu_success;
}

CuResult copy_in(CuAddress to, const void* from, size_t bytes, CuStream stream) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemcpyHtoDAsync"); code != cu_success) return code;
  if (!owns(current, to, bytes)) return cu_invalid_value;
  const auto* begin = static_cast<const unsigned char*>(from);
  return issue(stream, [to, held = std::vector<unsigned char>(begin, begin + bytes)] { return std::memcpy(reinterpret_cast<void*>(to), held.data(), held.size()), cu_success; });
}

CuResult copy_out(void* to, CuAddress from, size_t bytes, CuStream stream) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemcpyDtoHAsync"); code != cu_success) return code;
  if (!owns(current, from, bytes)) return cu_invalid_value;
  if (const CuResult code = issue(stream, [=] { return std::memcpy(to, reinterpret_cast<void*>(from), bytes), cu_success; }); code != cu_success) return code;
  Stream& used = *stream_of(stream);
  return used.recorded ? CuResult{cu_success} : finish(used);
}

CuResult copy_within(CuAddress to, CuAddress from, size_t bytes, CuStream stream) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemcpyDtoDAsync"); code != cu_success) return code;
  if (!owns(current, from, bytes) || !owns(current, to, bytes)) return cu_invalid_value;
  return issue(stream, [=] { return std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes), cu_success; });
}

CuResult fill(CuAddress to, unsigned char value, size_t bytes, CuStream stream) {
  const std::lock_guard lock(state().mutex);
  if (const CuResult code = enter("cuMemsetD8Async"); code != cu_success) return code;
  if (!owns(current, to, bytes)) return cu_invalid_value;
  return issue(stream, [=] { return std::memset(reinterpret_cast<void*>(to), value, bytes), cu_success; });
}

}  // namespace fake
