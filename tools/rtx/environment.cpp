#include "rtx/environment.h"

#include <charconv>
#include <cstdlib>

#include "cache/cache.h"

namespace rtx::tools {

const std::vector<Variable>& environment_table() {
  static const std::vector<Variable> table = {
      {"RTX_CACHE_DIR", "where kernels are remembered (else $XDG_CACHE_HOME/rtx-synth, else ~/.cache/rtx-synth)"},
      {"RTX_CACHE_MAX_MB", "size bound of that directory in MiB (default 2048)"},
      {"RTX_CXX", "C++ compiler of the cpu target (else the first of c++, g++, clang++ on PATH)"},
      {"RTX_OPENBLAS", "OpenBLAS library of the unfused baseline (else libopenblas.so.0)"},
      {"RTX_VENDOR_LIBRARIES", "folders of cuBLASLt, cuDNN and cuFFT, joined by colons: libraries, toolkits, or a Python site-packages (else $CUDA_HOME, $CUDA_PATH, /usr/local/cuda, else where the loader finds them)"},
      {"RTX_NVRTC", "libnvrtc.so of the cuda target, or its folder (else in $CUDA_HOME, $CUDA_PATH, /usr/local/cuda*, else where the loader finds it)"},
      {"CUDA_HOME", "see RTX_NVRTC"},
      {"CUDA_PATH", "see RTX_NVRTC"},
      {"XDG_CONFIG_HOME", "signing keys live in rtx-synth below it (else ~/.config/rtx-synth)"},
      {"XDG_CACHE_HOME", "see RTX_CACHE_DIR"},
      {"HOME", "see the two above"},
      {"TMPDIR", "intermediate files (default /tmp)"},
      {"PATH", "where compilers are looked up"},
      {"NO_COLOR", "set: no colour on a terminal"},
  };
  return table;
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<int64_t> environment_number(const char* name, int64_t low, int64_t high, std::string* trouble) {
  const auto text = environment(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), value);
  if (read.ec == std::errc() && read.ptr == text->data() + text->size() && value >= low && value <= high) return value;
  *trouble = std::string(name) + " is '" + *text + "', not a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  return std::nullopt;
}

std::string key_directory() {
  if (auto config = environment("XDG_CONFIG_HOME"); config && config->front() == '/') return *config + "/rtx-synth";
  if (auto home = environment("HOME"); home && home->front() == '/') return (*home == "/" ? "" : *home) + "/.config/rtx-synth";
  return {};
}

std::string cache_directory() {
  return cache::default_directory([](const char* name) { return environment(name); });
}

std::string temporary_directory() { return environment("TMPDIR").value_or("/tmp"); }

}  // namespace rtx::tools
