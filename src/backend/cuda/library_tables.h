#pragma once
// The functions of cuBLASLt, cuDNN (its graph interface) and cuFFT that are used, with the types and numbers they need. Those of the
// vendor's headers, which are not needed to build; library_tables_test.cpp compares them where they are installed.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/cuda/driver_types.h"
#include "base/result.h"

namespace rtx::backend::cuda {

enum CudaType : int { cuda_f32 = 0, cuda_f64 = 1, cuda_f16 = 2, cuda_bf16 = 14 };

// cuBLASLt.
using LtStatus = int;
struct LtHandleBody;
using LtHandle = LtHandleBody*;
struct LtLayoutBody;
using LtLayout = LtLayoutBody*;
struct LtMatmulBody;
using LtMatmul = LtMatmulBody*;
struct LtPreferenceBody;
using LtPreference = LtPreferenceBody*;
struct LtAlgorithm {
  uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspace_bytes;
  LtStatus state;
  float waves;
  int reserved[4];
};
enum LtCompute : int { lt_compute_f32 = 68, lt_compute_f64 = 70, lt_compute_tf32 = 77 };
enum LtLayoutAttribute : int { lt_layout_batch = 5, lt_layout_batch_stride = 6 };
enum LtMatmulAttribute : int { lt_matmul_trans_a = 3, lt_matmul_trans_b = 4, lt_matmul_epilogue = 7, lt_matmul_bias = 8, lt_matmul_bias_type = 26 };
enum LtPreferenceAttribute : int { lt_preference_workspace = 1, lt_preference_align_a = 5, lt_preference_align_b = 6, lt_preference_align_c = 7, lt_preference_align_d = 8 };
enum LtEpilogue : uint32_t { lt_epilogue_none = 1, lt_epilogue_relu = 2, lt_epilogue_bias = 4, lt_epilogue_relu_bias = 6, lt_epilogue_gelu = 32, lt_epilogue_gelu_bias = 36 };

// X(field, symbol, result, parameters)
#define RTX_CUBLASLT_FUNCTIONS(X)                                                                                                         \
  X(create, cublasLtCreate, LtStatus, (LtHandle*))                                                                                        \
  X(destroy, cublasLtDestroy, LtStatus, (LtHandle))                                                                                       \
  X(version, cublasLtGetVersion, size_t, ())                                                                                              \
  X(matmul, cublasLtMatmul, LtStatus,                                                                                                     \
    (LtHandle, LtMatmul, const void* alpha, const void* a, LtLayout, const void* b, LtLayout, const void* beta, const void* c, LtLayout,  \
     void* d, LtLayout, const LtAlgorithm*, void* workspace, size_t workspace_bytes, CuStream))                                           \
  X(create_layout, cublasLtMatrixLayoutCreate, LtStatus, (LtLayout*, int type, uint64_t rows, uint64_t columns, int64_t leading))         \
  X(destroy_layout, cublasLtMatrixLayoutDestroy, LtStatus, (LtLayout))                                                                    \
  X(set_layout, cublasLtMatrixLayoutSetAttribute, LtStatus, (LtLayout, int attribute, const void*, size_t bytes))                         \
  X(create_matmul, cublasLtMatmulDescCreate, LtStatus, (LtMatmul*, int compute, int scale_type))                                          \
  X(destroy_matmul, cublasLtMatmulDescDestroy, LtStatus, (LtMatmul))                                                                      \
  X(set_matmul, cublasLtMatmulDescSetAttribute, LtStatus, (LtMatmul, int attribute, const void*, size_t bytes))                           \
  X(create_preference, cublasLtMatmulPreferenceCreate, LtStatus, (LtPreference*))                                                         \
  X(destroy_preference, cublasLtMatmulPreferenceDestroy, LtStatus, (LtPreference))                                                        \
  X(set_preference, cublasLtMatmulPreferenceSetAttribute, LtStatus, (LtPreference, int attribute, const void*, size_t bytes))             \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic, LtStatus,                                                                                  \
    (LtHandle, LtMatmul, LtLayout a, LtLayout b, LtLayout c, LtLayout d, LtPreference, int requested, LtHeuristic*, int* returned))       \
  X(status_text, cublasLtGetStatusString, const char*, (LtStatus))

// cuDNN's graph interface.
using DnnStatus = int;
struct DnnHandleBody;
using DnnHandle = DnnHandleBody*;
using DnnDescriptor = void*;
enum DnnType : int { dnn_f32 = 0, dnn_f16 = 2, dnn_i32 = 4, dnn_bf16 = 9, dnn_boolean = 11 };
enum DnnPointwise : int { dnn_mul = 1, dnn_div = 6, dnn_sub = 9, dnn_add = 0, dnn_exp = 13, dnn_log = 15, dnn_compare_ge = 303, dnn_index = 501, dnn_select = 601 };
enum DnnReduction : int { dnn_reduce_add = 0, dnn_reduce_max = 3 };
enum DnnHeuristicMode : int { dnn_heuristic_a = 3 };
// What an attribute's values are.
enum DnnKind : int {
  dnn_kind_handle = 0, dnn_kind_type = 1, dnn_kind_boolean = 2, dnn_kind_i64 = 3, dnn_kind_pointer = 6, dnn_kind_heuristic = 8,
  dnn_kind_pointwise = 14, dnn_kind_descriptor = 15, dnn_kind_reduction = 18,
};
enum DnnObject : int {
  dnn_pointwise = 0, dnn_engine_config = 3, dnn_heuristics = 4, dnn_plan = 5, dnn_operation_pointwise = 13, dnn_graph = 15, dnn_variant_pack = 16,
  dnn_tensor = 17, dnn_matmul = 18, dnn_operation_matmul = 19, dnn_reduction = 21, dnn_operation_reduction = 22,
};
enum DnnAttribute : int {
  dnn_pointwise_mode = 0, dnn_pointwise_type = 1, dnn_pointwise_axis = 9,
  dnn_heuristics_mode = 200, dnn_heuristics_graph = 201, dnn_heuristics_results = 202,
  dnn_plan_handle = 400, dnn_plan_config = 401, dnn_plan_workspace = 402,
  dnn_operation_pointwise_what = 750, dnn_operation_pointwise_x = 751, dnn_operation_pointwise_b = 752, dnn_operation_pointwise_y = 753, dnn_operation_pointwise_t = 758,
  dnn_graph_handle = 800, dnn_graph_operations = 801,
  dnn_tensor_alignment = 900, dnn_tensor_type = 901, dnn_tensor_extents = 902, dnn_tensor_strides = 903, dnn_tensor_id = 906, dnn_tensor_virtual = 907, dnn_tensor_by_value = 908,
  dnn_pack_ids = 1000, dnn_pack_pointers = 1001, dnn_pack_workspace = 1003,
  dnn_matmul_type = 1500, dnn_operation_matmul_a = 1520, dnn_operation_matmul_b = 1521, dnn_operation_matmul_c = 1522, dnn_operation_matmul_what = 1523,
  dnn_reduction_operator = 1600, dnn_reduction_type = 1601, dnn_operation_reduction_x = 1610, dnn_operation_reduction_y = 1611, dnn_operation_reduction_what = 1612,
};

#define RTX_CUDNN_FUNCTIONS(X)                                                                                                \
  X(create, cudnnCreate, DnnStatus, (DnnHandle*))                                                                             \
  X(destroy, cudnnDestroy, DnnStatus, (DnnHandle))                                                                            \
  X(version, cudnnGetVersion, size_t, ())                                                                                     \
  X(set_stream, cudnnSetStream, DnnStatus, (DnnHandle, CuStream))                                                             \
  X(status_text, cudnnGetErrorString, const char*, (DnnStatus))                                                               \
  X(last_error, cudnnGetLastErrorString, void, (char* text, size_t bytes))                                                    \
  X(create_descriptor, cudnnBackendCreateDescriptor, DnnStatus, (int object, DnnDescriptor*))                                 \
  X(destroy_descriptor, cudnnBackendDestroyDescriptor, DnnStatus, (DnnDescriptor))                                            \
  X(finalize, cudnnBackendFinalize, DnnStatus, (DnnDescriptor))                                                               \
  X(set, cudnnBackendSetAttribute, DnnStatus, (DnnDescriptor, int attribute, int kind, int64_t count, const void* values))    \
  X(get, cudnnBackendGetAttribute, DnnStatus, (DnnDescriptor, int attribute, int kind, int64_t asked, int64_t* count, void* values)) \
  X(execute, cudnnBackendExecute, DnnStatus, (DnnHandle, DnnDescriptor plan, DnnDescriptor pack))

// cuFFT.
using FftStatus = int;
using FftPlan = int;
enum FftKind : int { fft_c2c = 0x29, fft_r2c = 0x2a };

#define RTX_CUFFT_FUNCTIONS(X)                                                                                                     \
  X(version, cufftGetVersion, FftStatus, (int*))                                                                                   \
  X(plan_many, cufftPlanMany, FftStatus,                                                                                           \
    (FftPlan*, int rank, int* extents, int* in_embed, int in_stride, int in_distance, int* out_embed, int out_stride, int out_distance, int kind, int batch)) \
  X(set_stream, cufftSetStream, FftStatus, (FftPlan, CuStream))                                                                    \
  X(execute_c2c, cufftExecC2C, FftStatus, (FftPlan, void* in, void* out, int direction))                                           \
  X(execute_r2c, cufftExecR2C, FftStatus, (FftPlan, void* in, void* out))                                                          \
  X(destroy, cufftDestroy, FftStatus, (FftPlan))

#define RTX_LIBRARY_FIELD(field, symbol, result, parameters) result(*field) parameters = nullptr;
struct LtTable {
  RTX_CUBLASLT_FUNCTIONS(RTX_LIBRARY_FIELD)
};
struct DnnTable {
  RTX_CUDNN_FUNCTIONS(RTX_LIBRARY_FIELD)
};
struct FftTable {
  RTX_CUFFT_FUNCTIONS(RTX_LIBRARY_FIELD)
};
#undef RTX_LIBRARY_FIELD

// Opened by path and checked symbol by symbol. Kind device: it cannot be opened, or which symbols it lacks.
Result<LtTable> open_cublaslt(const std::string& path);
Result<DnnTable> open_cudnn(const std::string& path);
Result<FftTable> open_cufft(const std::string& path);

}  // namespace rtx::backend::cuda
