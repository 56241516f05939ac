#pragma once
// What memory holds that nobody wrote: 0x7ff7 in every 16 bits, a NaN in f16, bf16, f32 and f64. Guard zones hold the same, so
// that reading one shows as NaN and writing one shows as a change.
#include <cstddef>

namespace rtx::backend::emulator {

constexpr size_t kZoneBytes = 4096;

void fill_pattern(void* at, size_t bytes);
// The first byte that differs, or `bytes` when none does.
size_t find_change(const void* at, size_t bytes);
// The last one, or `bytes`.
size_t find_last_change(const void* at, size_t bytes);

}  // namespace rtx::backend::emulator
