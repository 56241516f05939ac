#pragma once
// The functions of NVRTC that are used, one line each: the table that is filled when the library is opened, and what a library must
// have to pass for NVRTC. Types are those of nvrtc.h, which is not needed to build.
#include <cstddef>

namespace rtx::backend::cuda {

using NvrtcResult = int;
struct NvrtcProgramHandle;
using NvrtcProgram = NvrtcProgramHandle*;

enum NvrtcCode : NvrtcResult {
  nvrtc_success = 0,
  nvrtc_out_of_memory = 1,
  nvrtc_invalid_option = 5,
  nvrtc_compilation_failed = 6,
  nvrtc_builtin_failed = 7,  // its second library, libnvrtc-builtins, is missing or another version's
  nvrtc_cancelled = 16,
};

// X(name, result, parameters)
#define RTX_NVRTC_FUNCTIONS(X)                                                                                     \
  X(nvrtcGetErrorString, const char*, (NvrtcResult))                                                               \
  X(nvrtcVersion, NvrtcResult, (int* major, int* minor))                                                           \
  X(nvrtcGetNumSupportedArchs, NvrtcResult, (int* count))                                                          \
  X(nvrtcGetSupportedArchs, NvrtcResult, (int* archs))                                                             \
  X(nvrtcCreateProgram, NvrtcResult,                                                                               \
    (NvrtcProgram* program, const char* text, const char* name, int headers, const char* const*, const char* const*)) \
  X(nvrtcDestroyProgram, NvrtcResult, (NvrtcProgram* program))                                                     \
  X(nvrtcCompileProgram, NvrtcResult, (NvrtcProgram program, int options, const char* const* option))              \
  X(nvrtcGetCUBINSize, NvrtcResult, (NvrtcProgram program, size_t* bytes))                                         \
  X(nvrtcGetCUBIN, NvrtcResult, (NvrtcProgram program, char* cubin))                                               \
  X(nvrtcGetProgramLogSize, NvrtcResult, (NvrtcProgram program, size_t* bytes))                                    \
  X(nvrtcGetProgramLog, NvrtcResult, (NvrtcProgram program, char* log))

// Newer libraries have these; without them nothing else is lost than what the comment says.
#define RTX_NVRTC_OPTIONAL(X)                                                                             \
  /* time limits and Ctrl-C within a compilation */                                                       \
  X(nvrtcSetFlowCallback, NvrtcResult, (NvrtcProgram program, int (*callback)(void*, void*), void* payload))

struct NvrtcTable {
#define RTX_NVRTC_FIELD(name, result, parameters) result(*name) parameters = nullptr;
  RTX_NVRTC_FUNCTIONS(RTX_NVRTC_FIELD)
  RTX_NVRTC_OPTIONAL(RTX_NVRTC_FIELD)
#undef RTX_NVRTC_FIELD
};

}  // namespace rtx::backend::cuda
