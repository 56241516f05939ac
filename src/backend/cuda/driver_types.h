#pragma once
// The driver's functions that are used, one line each, with the types they need. Those of cuda.h, which is not needed to build;
// driver_test.cpp compares them with it where it is installed.
#include <cstddef>
#include <cstdint>

namespace rtx::backend::cuda {

using CuResult = int;
using CuDevice = int;
using CuAddress = unsigned long long;
struct CuContextHandle;
using CuContext = CuContextHandle*;
struct CuModuleHandle;
using CuModule = CuModuleHandle*;
struct CuFunctionHandle;
using CuFunction = CuFunctionHandle*;
struct CuStreamHandle;
using CuStream = CuStreamHandle*;
struct CuEventHandle;
using CuEvent = CuEventHandle*;
struct CuGraphHandle;
using CuGraph = CuGraphHandle*;
struct CuGraphExecHandle;
using CuGraphExec = CuGraphExecHandle*;

enum CuCode : CuResult {
  cu_success = 0,
  cu_invalid_value = 1,
  cu_out_of_memory = 2,
  cu_stub_library = 34,
  cu_no_device = 100,
  cu_invalid_context = 201,
  cu_context_destroyed = 709,
  cu_no_binary_for_gpu = 209,
  cu_invalid_handle = 400,
  cu_not_found = 500,
  cu_illegal_address = 700,
  cu_out_of_resources = 701,
  cu_timeout = 702,
  cu_assert = 710,
  cu_hardware_stack_error = 714,
  cu_launch_failed = 719,
  cu_not_supported = 801,
  cu_capture_unsupported = 900,
  cu_capture_invalidated = 901,
  cu_capture_implicit = 906,
};
// A kernel failed while it ran, and the context with it: every later call says so again.
constexpr bool is_kernel_failure(CuResult code) {
  return code == cu_illegal_address || code == cu_timeout || code == cu_assert || (code >= cu_hardware_stack_error && code <= cu_launch_failed);
}

enum CuStreamFlag : unsigned { cu_stream_blocking = 0, cu_stream_non_blocking = 1 };
enum CuCaptureMode : int { cu_capture_global = 0, cu_capture_thread = 1, cu_capture_relaxed = 2 };

enum CuAttribute : int {
  cu_max_threads_per_group = 1,
  cu_clock_khz = 13,
  cu_multiprocessors = 16,
  cu_memory_clock_khz = 36,
  cu_memory_bus_bits = 37,
  cu_l2_bytes = 38,
  cu_capability_major = 75,
  cu_capability_minor = 76,
  cu_shared_bytes_per_group = 97,  // opt-in maximum
  cu_memory_pools = 115,
};

enum CuFunctionAttribute : int { cu_function_registers = 4, cu_function_dynamic_shared_bytes = 8 };

struct alignas(64) CuTensorMap { uint64_t word[16]; };

struct CuLaunchConfig {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned group_x = 1, group_y = 1, group_z = 1;
  unsigned shared_bytes = 0;
  CuStream stream = nullptr;
  void* attributes = nullptr;
  unsigned attribute_count = 0;
};

// X(field, symbol asked for, since CUDA version, parameters); all return CuResult.
#define RTX_CUDA_FUNCTIONS(X)                                                                                  \
  X(error_name, cuGetErrorName, 6000, (CuResult, const char** text))                                           \
  X(error_string, cuGetErrorString, 6000, (CuResult, const char** text))                                       \
  X(device_count, cuDeviceGetCount, 2000, (int* count))                                                        \
  X(device_get, cuDeviceGet, 2000, (CuDevice* device, int ordinal))                                            \
  X(device_name, cuDeviceGetName, 2000, (char* name, int bytes, CuDevice device))                              \
  X(device_memory, cuDeviceTotalMem, 3020, (size_t* bytes, CuDevice device))                                   \
  X(device_attribute, cuDeviceGetAttribute, 2000, (int* value, int attribute, CuDevice device))                \
  X(device_bus, cuDeviceGetPCIBusId, 4010, (char* text, int bytes, CuDevice device))                           \
  X(primary_state, cuDevicePrimaryCtxGetState, 7000, (CuDevice device, unsigned* flags, int* active))          \
  X(retain_context, cuDevicePrimaryCtxRetain, 7000, (CuContext* context, CuDevice device))                     \
  X(release_context, cuDevicePrimaryCtxRelease, 11000, (CuDevice device))                                      \
  X(current_context, cuCtxGetCurrent, 4000, (CuContext* context))                                              \
  X(set_context, cuCtxSetCurrent, 4000, (CuContext context))                                                   \
  X(context_device, cuCtxGetDevice, 2000, (CuDevice* device))                                                  \
  X(load_module, cuModuleLoadData, 2010, (CuModule* module, const void* image))                                \
  X(unload_module, cuModuleUnload, 2000, (CuModule module))                                                    \
  X(get_function, cuModuleGetFunction, 2000, (CuFunction* function, CuModule module, const char* name))        \
  X(set_function_attribute, cuFuncSetAttribute, 9000, (CuFunction function, int attribute, int value))         \
  X(encode_tiled, cuTensorMapEncodeTiled, 12000,                                                               \
    (CuTensorMap* map, int element, uint32_t rank, void* address, const uint64_t* extents, const uint64_t* strides, \
     const uint32_t* box, const uint32_t* steps, int interleave, int swizzle, int promotion, int outside))     \
  X(function_attribute, cuFuncGetAttribute, 2020, (int* value, int attribute, CuFunction function))            \
  X(launch, cuLaunchKernelEx, 11060, (const CuLaunchConfig*, CuFunction, void** parameters, void** extra))     \
  X(allocate, cuMemAlloc, 3020, (CuAddress* address, size_t bytes))                                            \
  X(release, cuMemFree, 3020, (CuAddress address))                                                             \
  X(memory_info, cuMemGetInfo, 3020, (size_t* free, size_t* total))                                            \
  X(copy_in, cuMemcpyHtoDAsync, 3020, (CuAddress to, const void* from, size_t bytes, CuStream stream))         \
  X(copy_out, cuMemcpyDtoHAsync, 3020, (void* to, CuAddress from, size_t bytes, CuStream stream))              \
  X(copy_within, cuMemcpyDtoDAsync, 3020, (CuAddress to, CuAddress from, size_t bytes, CuStream stream))       \
  X(fill, cuMemsetD8Async, 3020, (CuAddress to, unsigned char value, size_t bytes, CuStream stream))           \
  X(synchronize, cuStreamSynchronize, 2000, (CuStream stream))                                                 \
  X(create_stream, cuStreamCreate, 2000, (CuStream* stream, unsigned flags))                                   \
  X(destroy_stream, cuStreamDestroy, 4000, (CuStream stream))                                                  \
  X(is_capturing, cuStreamIsCapturing, 10000, (CuStream stream, int* status))                                  \
  X(begin_capture, cuStreamBeginCapture, 10010, (CuStream stream, int mode))                                   \
  X(end_capture, cuStreamEndCapture, 10000, (CuStream stream, CuGraph* graph))                                 \
  X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010, (int* mode))                              \
  X(instantiate, cuGraphInstantiateWithFlags, 11040, (CuGraphExec* made, CuGraph graph, uint64_t flags))       \
  X(upload_graph, cuGraphUpload, 11010, (CuGraphExec graph, CuStream stream))                                  \
  X(launch_graph, cuGraphLaunch, 10000, (CuGraphExec graph, CuStream stream))                                  \
  X(destroy_graph, cuGraphDestroy, 10000, (CuGraph graph))                                                     \
  X(destroy_graph_exec, cuGraphExecDestroy, 10000, (CuGraphExec graph))                                        \
  X(create_event, cuEventCreate, 2000, (CuEvent* event, unsigned flags))                                       \
  X(destroy_event, cuEventDestroy, 4000, (CuEvent event))                                                      \
  X(record_event, cuEventRecord, 2000, (CuEvent event, CuStream stream))                                       \
  X(synchronize_event, cuEventSynchronize, 2000, (CuEvent event))                                              \
  X(elapsed, cuEventElapsedTime, 2000, (float* milliseconds, CuEvent start, CuEvent end))

struct DriverTable {
  CuResult (*init)(unsigned flags) = nullptr;
  CuResult (*version)(int* version) = nullptr;
#define RTX_CUDA_FIELD(field, symbol, since, parameters) CuResult(*field) parameters = nullptr;
  RTX_CUDA_FUNCTIONS(RTX_CUDA_FIELD)
#undef RTX_CUDA_FIELD
};

}  // namespace rtx::backend::cuda
