#pragma once
// RFC 1951 decompression, for the entries of .npz files.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rtx::import {

// False where the data is damaged or does not give exactly `plain` bytes.
bool inflate(const std::byte* packed, int64_t packed_size, int64_t plain, std::vector<std::byte>& out);

}  // namespace rtx::import
