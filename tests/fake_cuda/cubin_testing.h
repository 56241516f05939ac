#pragma once
// An image for the fake driver: the header of a cubin, as far as anybody looks, and the names of kernels behind it.
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace fake {

constexpr char kMark[] = "fake cubin:";
constexpr size_t kHeaderBytes = 128;  // an ELF header and one section's

// `arch` 90 is sm_90a. Names as kernels.cpp knows them.
inline std::vector<std::byte> fake_cubin(const std::vector<std::string>& kernels, int arch = 90) {
  std::string text = kMark + std::to_string(arch);
  for (const auto& name : kernels) text += "," + name;
  text += ";";
  std::vector<std::byte> image(kHeaderBytes + text.size() + 1);
  const auto put = [&](size_t at, auto value) { std::memcpy(image.data() + at, &value, sizeof value); };
  std::memcpy(image.data(), "\177ELF\2\1\1", 7);
  put(18, static_cast<unsigned short>(190));  // EM_CUDA
  put(40, static_cast<unsigned long long>(64)), put(58, static_cast<unsigned short>(64)), put(60, static_cast<unsigned short>(1));
  std::memcpy(image.data() + kHeaderBytes, text.c_str(), text.size() + 1);
  return image;
}

}  // namespace fake
