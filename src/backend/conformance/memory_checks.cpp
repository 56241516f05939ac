#include <algorithm>
#include <cstdint>

#include "backend/conformance/rig.h"

namespace rtx::backend::conformance {

namespace {

// Around cache lines and pages, where copies change their ways.
const std::vector<int64_t> kSizes = {1, 3, 63, 64, 65, 4095, 4096, 4097, 1 << 20};

std::vector<unsigned char> pattern(int64_t bytes) {
  std::vector<unsigned char> out(static_cast<size_t>(bytes));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 131 + i / 251 + 7);
  return out;
}

std::string memory_is_aligned_to_64_bytes(Bench& bench) {
  for (const int64_t bytes : kSizes) {
    const Memory memory(bench.device(), bytes);
    RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
    RTX_HOLDS_OR_RETURN(reinterpret_cast<uintptr_t>(memory.pointer) % 64 == 0,
                        std::to_string(bytes) + " bytes stand at an address that 64 does not divide");
  }
  return {};
}

std::string allocations_do_not_overlap(Bench& bench) {
  const Memory a(bench.device(), 1000), b(bench.device(), 1000), c(bench.device(), 0);
  RTX_HOLDS_OR_RETURN(a.pointer && b.pointer, a.error + b.error);
  RTX_HOLDS_OR_RETURN(c.pointer, "no bytes are an allocation like any other: " + c.error);
  RTX_DONE_OR_RETURN(bench.device().fill(a.pointer, std::byte{1}, 1000, nullptr));
  RTX_DONE_OR_RETURN(bench.device().fill(b.pointer, std::byte{2}, 1000, nullptr));
  std::vector<unsigned char> found(1000);
  RTX_DONE_OR_RETURN(read(bench.device(), &found, a));
  RTX_HOLDS_OR_RETURN(std::count(found.begin(), found.end(), 1) == 1000,
                      "filling one allocation changed another");
  return {};
}

std::string exhausted_memory_is_an_error_that_names_the_size(Bench& bench) {
  const int64_t bytes = int64_t{1} << 60;
  const auto got = bench.device().allocate(bytes);
  if (got.ok()) bench.device().release(*got);
  RTX_HOLDS_OR_RETURN(!got.ok(), "an exabyte was handed out");
  RTX_HOLDS_OR_RETURN(got.error().kind == ErrorKind::device,
                      "exhausted memory is kind device, not " + got.error().text());
  RTX_HOLDS_OR_RETURN(got.error().text().find(std::to_string(bytes)) != std::string::npos,
                      "the size is not named: " + got.error().text());
  const auto negative = bench.device().allocate(-1);
  if (negative.ok()) bench.device().release(*negative);
  RTX_HOLDS_OR_RETURN(!negative.ok(), "a negative size was handed out");
  return {};
}

std::string copies_bring_back_what_they_took_at_any_size(Bench& bench) {
  for (const int64_t bytes : kSizes) {
    const Memory memory(bench.device(), bytes);
    RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
    const auto sent = pattern(bytes);
    std::vector<unsigned char> found(sent.size());
    RTX_DONE_OR_RETURN(write(bench.device(), memory, sent));
    RTX_DONE_OR_RETURN(read(bench.device(), &found, memory));
    RTX_HOLDS_OR_RETURN(found == sent, std::to_string(bytes) + " bytes came back changed");
  }
  return {};
}

std::string copies_may_start_anywhere_and_touch_nothing_else(Bench& bench) {
  const Memory memory(bench.device(), 256);
  RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
  RTX_DONE_OR_RETURN(bench.device().fill(memory.pointer, std::byte{9}, 256, nullptr));
  const auto sent = pattern(77);
  auto* const from = static_cast<std::byte*>(memory.pointer) + 13;
  RTX_DONE_OR_RETURN(bench.device().copy_in(from, sent.data(), 77, nullptr));
  std::vector<unsigned char> all(256), part(77);
  RTX_DONE_OR_RETURN(bench.device().copy_out(part.data(), from, 77, nullptr));
  RTX_DONE_OR_RETURN(read(bench.device(), &all, memory));
  RTX_HOLDS_OR_RETURN(part == sent, "a copy from an odd address came back changed");
  for (size_t i = 0; i < all.size(); ++i)
    RTX_HOLDS_OR_RETURN((i >= 13 && i < 90) || all[i] == 9,
                        "byte " + std::to_string(i) + " outside of the copy was written");
  return {};
}

std::string a_copy_within_the_device_touches_nothing_else(Bench& bench) {
  for (const int64_t bytes : kSizes) {
    const Memory from(bench.device(), bytes), to(bench.device(), bytes + 2);
    RTX_HOLDS_OR_RETURN(from.pointer && to.pointer, from.error + to.error);
    const auto sent = pattern(bytes);
    RTX_DONE_OR_RETURN(write(bench.device(), from, sent));
    RTX_DONE_OR_RETURN(bench.device().fill(to.pointer, std::byte{0x11}, bytes + 2, nullptr));
    RTX_DONE_OR_RETURN(
        bench.device().copy_within(static_cast<std::byte*>(to.pointer) + 1, from.pointer, bytes, nullptr));
    std::vector<unsigned char> found(static_cast<size_t>(bytes + 2));
    RTX_DONE_OR_RETURN(read(bench.device(), &found, to));
    RTX_HOLDS_OR_RETURN(found.front() == 0x11 && found.back() == 0x11,
                        "a copy of " + std::to_string(bytes) + " bytes wrote beyond them");
    RTX_HOLDS_OR_RETURN(std::equal(sent.begin(), sent.end(), found.begin() + 1),
                        std::to_string(bytes) + " bytes arrived changed");
  }
  return {};
}

std::string a_fill_writes_its_bytes_and_no_other(Bench& bench) {
  for (const int64_t bytes : kSizes) {
    const Memory memory(bench.device(), bytes + 2);
    RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
    RTX_DONE_OR_RETURN(bench.device().fill(memory.pointer, std::byte{0x11}, bytes + 2, nullptr));
    RTX_DONE_OR_RETURN(
        bench.device().fill(static_cast<std::byte*>(memory.pointer) + 1, std::byte{0xA5}, bytes, nullptr));
    std::vector<unsigned char> found(static_cast<size_t>(bytes + 2));
    RTX_DONE_OR_RETURN(read(bench.device(), &found, memory));
    RTX_HOLDS_OR_RETURN(found.front() == 0x11 && found.back() == 0x11,
                        "a fill of " + std::to_string(bytes) + " bytes wrote beside them");
    RTX_HOLDS_OR_RETURN(std::count(found.begin(), found.end(), 0xA5) == bytes,
                        "a fill of " + std::to_string(bytes) + " bytes left some");
  }
  return {};
}

std::string moving_no_bytes_is_no_error(Bench& bench) {
  RTX_DONE_OR_RETURN(bench.device().copy_in(nullptr, nullptr, 0, nullptr));
  RTX_DONE_OR_RETURN(bench.device().copy_out(nullptr, nullptr, 0, nullptr));
  RTX_DONE_OR_RETURN(bench.device().fill(nullptr, std::byte{1}, 0, nullptr));
  bench.device().release(nullptr);
  return {};
}

std::string flushing_caches_changes_no_memory(Bench& bench) {
  const Memory memory(bench.device(), 4096);
  RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
  const auto sent = pattern(4096);
  std::vector<unsigned char> found(sent.size());
  RTX_DONE_OR_RETURN(write(bench.device(), memory, sent));
  RTX_DONE_OR_RETURN(bench.device().flush_caches(nullptr));
  RTX_DONE_OR_RETURN(read(bench.device(), &found, memory));
  RTX_HOLDS_OR_RETURN(found == sent, "memory changed");
  return {};
}

}  // namespace

std::vector<Check> memory_checks() {
  return {
      {"memory_is_aligned_to_64_bytes", memory_is_aligned_to_64_bytes},
      {"allocations_do_not_overlap", allocations_do_not_overlap},
      {"exhausted_memory_is_an_error_that_names_the_size", exhausted_memory_is_an_error_that_names_the_size},
      {"copies_bring_back_what_they_took_at_any_size", copies_bring_back_what_they_took_at_any_size},
      {"copies_may_start_anywhere_and_touch_nothing_else", copies_may_start_anywhere_and_touch_nothing_else},
      {"a_copy_within_the_device_touches_nothing_else", a_copy_within_the_device_touches_nothing_else},
      {"a_fill_writes_its_bytes_and_no_other", a_fill_writes_its_bytes_and_no_other},
      {"moving_no_bytes_is_no_error", moving_no_bytes_is_no_error},
      {"flushing_caches_changes_no_memory", flushing_caches_changes_no_memory}};
}

}  // namespace rtx::backend::conformance
