// The tables against the vendor's headers and libraries, where they are installed; and what an unusable library says.
#include <gtest/gtest.h>

#include "backend/cuda/library_search.h"
#include "backend/cuda/library_tables.h"
#include "backend/cuda/library_testing.h"
#include "base/files.h"

#if __has_include(</usr/local/cuda/include/cublasLt.h>)
#include </usr/local/cuda/include/cublasLt.h>
namespace cuda = rtx::backend::cuda;
static_assert(sizeof(cuda::LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t) && sizeof(cuda::LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cuda::LtHeuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(int(cuda::cuda_f32) == CUDA_R_32F && int(cuda::cuda_f64) == CUDA_R_64F && int(cuda::cuda_f16) == CUDA_R_16F && int(cuda::cuda_bf16) == CUDA_R_16BF);
static_assert(int(cuda::lt_compute_f32) == CUBLAS_COMPUTE_32F && int(cuda::lt_compute_f64) == CUBLAS_COMPUTE_64F && int(cuda::lt_compute_tf32) == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(int(cuda::lt_layout_batch) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && int(cuda::lt_layout_batch_stride) == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(int(cuda::lt_matmul_trans_a) == CUBLASLT_MATMUL_DESC_TRANSA && int(cuda::lt_matmul_trans_b) == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(int(cuda::lt_matmul_epilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE && int(cuda::lt_matmul_bias) == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(int(cuda::lt_matmul_bias_type) == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(int(cuda::lt_preference_workspace) == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(int(cuda::lt_preference_align_a) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && int(cuda::lt_preference_align_d) == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(unsigned(cuda::lt_epilogue_none) == CUBLASLT_EPILOGUE_DEFAULT && unsigned(cuda::lt_epilogue_relu) == CUBLASLT_EPILOGUE_RELU);
static_assert(unsigned(cuda::lt_epilogue_bias) == CUBLASLT_EPILOGUE_BIAS && unsigned(cuda::lt_epilogue_relu_bias) == CUBLASLT_EPILOGUE_RELU_BIAS);
static_assert(unsigned(cuda::lt_epilogue_gelu) == CUBLASLT_EPILOGUE_GELU && unsigned(cuda::lt_epilogue_gelu_bias) == CUBLASLT_EPILOGUE_GELU_BIAS);
#endif

#if __has_include(</usr/local/cuda/include/cudnn_graph.h>)
#include </usr/local/cuda/include/cuda_runtime_api.h>
#include </usr/local/cuda/include/cudnn_graph.h>
#define RTX_SAME(ours, theirs) static_assert(int(rtx::backend::cuda::ours) == int(theirs))
RTX_SAME(dnn_f32, CUDNN_DATA_FLOAT);
RTX_SAME(dnn_f16, CUDNN_DATA_HALF);
RTX_SAME(dnn_i32, CUDNN_DATA_INT32);
RTX_SAME(dnn_bf16, CUDNN_DATA_BFLOAT16);
RTX_SAME(dnn_boolean, CUDNN_DATA_BOOLEAN);
RTX_SAME(dnn_mul, CUDNN_POINTWISE_MUL);
RTX_SAME(dnn_div, CUDNN_POINTWISE_DIV);
RTX_SAME(dnn_sub, CUDNN_POINTWISE_SUB);
RTX_SAME(dnn_add, CUDNN_POINTWISE_ADD);
RTX_SAME(dnn_exp, CUDNN_POINTWISE_EXP);
RTX_SAME(dnn_log, CUDNN_POINTWISE_LOG);
RTX_SAME(dnn_compare_ge, CUDNN_POINTWISE_CMP_GE);
RTX_SAME(dnn_index, CUDNN_POINTWISE_GEN_INDEX);
RTX_SAME(dnn_select, CUDNN_POINTWISE_BINARY_SELECT);
RTX_SAME(dnn_reduce_add, CUDNN_REDUCE_TENSOR_ADD);
RTX_SAME(dnn_reduce_max, CUDNN_REDUCE_TENSOR_MAX);
RTX_SAME(dnn_heuristic_a, CUDNN_HEUR_MODE_A);
RTX_SAME(dnn_kind_handle, CUDNN_TYPE_HANDLE);
RTX_SAME(dnn_kind_type, CUDNN_TYPE_DATA_TYPE);
RTX_SAME(dnn_kind_boolean, CUDNN_TYPE_BOOLEAN);
RTX_SAME(dnn_kind_i64, CUDNN_TYPE_INT64);
RTX_SAME(dnn_kind_pointer, CUDNN_TYPE_VOID_PTR);
RTX_SAME(dnn_kind_heuristic, CUDNN_TYPE_HEUR_MODE);
RTX_SAME(dnn_kind_pointwise, CUDNN_TYPE_POINTWISE_MODE);
RTX_SAME(dnn_kind_descriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR);
RTX_SAME(dnn_kind_reduction, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
RTX_SAME(dnn_pointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
RTX_SAME(dnn_engine_config, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
RTX_SAME(dnn_heuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
RTX_SAME(dnn_plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
RTX_SAME(dnn_operation_pointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
RTX_SAME(dnn_graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
RTX_SAME(dnn_variant_pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
RTX_SAME(dnn_tensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
RTX_SAME(dnn_matmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
RTX_SAME(dnn_operation_matmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
RTX_SAME(dnn_reduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
RTX_SAME(dnn_operation_reduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
RTX_SAME(dnn_pointwise_mode, CUDNN_ATTR_POINTWISE_MODE);
RTX_SAME(dnn_pointwise_type, CUDNN_ATTR_POINTWISE_MATH_PREC);
RTX_SAME(dnn_pointwise_axis, CUDNN_ATTR_POINTWISE_AXIS);
RTX_SAME(dnn_heuristics_mode, CUDNN_ATTR_ENGINEHEUR_MODE);
RTX_SAME(dnn_heuristics_graph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
RTX_SAME(dnn_heuristics_results, CUDNN_ATTR_ENGINEHEUR_RESULTS);
RTX_SAME(dnn_plan_handle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
RTX_SAME(dnn_plan_config, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
RTX_SAME(dnn_plan_workspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
RTX_SAME(dnn_operation_pointwise_what, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
RTX_SAME(dnn_operation_pointwise_x, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
RTX_SAME(dnn_operation_pointwise_b, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
RTX_SAME(dnn_operation_pointwise_y, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
RTX_SAME(dnn_operation_pointwise_t, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
RTX_SAME(dnn_graph_handle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
RTX_SAME(dnn_graph_operations, CUDNN_ATTR_OPERATIONGRAPH_OPS);
RTX_SAME(dnn_tensor_alignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
RTX_SAME(dnn_tensor_type, CUDNN_ATTR_TENSOR_DATA_TYPE);
RTX_SAME(dnn_tensor_extents, CUDNN_ATTR_TENSOR_DIMENSIONS);
RTX_SAME(dnn_tensor_strides, CUDNN_ATTR_TENSOR_STRIDES);
RTX_SAME(dnn_tensor_id, CUDNN_ATTR_TENSOR_UNIQUE_ID);
RTX_SAME(dnn_tensor_virtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
RTX_SAME(dnn_tensor_by_value, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
RTX_SAME(dnn_pack_ids, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
RTX_SAME(dnn_pack_pointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
RTX_SAME(dnn_pack_workspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
RTX_SAME(dnn_matmul_type, CUDNN_ATTR_MATMUL_COMP_TYPE);
RTX_SAME(dnn_operation_matmul_a, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
RTX_SAME(dnn_operation_matmul_b, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
RTX_SAME(dnn_operation_matmul_c, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
RTX_SAME(dnn_operation_matmul_what, CUDNN_ATTR_OPERATION_MATMUL_DESC);
RTX_SAME(dnn_reduction_operator, CUDNN_ATTR_REDUCTION_OPERATOR);
RTX_SAME(dnn_reduction_type, CUDNN_ATTR_REDUCTION_COMP_TYPE);
RTX_SAME(dnn_operation_reduction_x, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
RTX_SAME(dnn_operation_reduction_y, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
RTX_SAME(dnn_operation_reduction_what, CUDNN_ATTR_OPERATION_REDUCTION_DESC);
#endif

#if __has_include(</usr/local/cuda/include/cufft.h>)
#include </usr/local/cuda/include/cufft.h>
static_assert(int(rtx::backend::cuda::fft_c2c) == CUFFT_C2C && int(rtx::backend::cuda::fft_r2c) == CUFFT_R2C && CUFFT_FORWARD == -1);
#endif

namespace rtx::backend::cuda {
namespace {

// Calls of their declared types: what does not convert does not compile, so the parameters are the vendor's too.
#if __has_include(</usr/local/cuda/include/cublasLt.h>)
template <class Ours, class Theirs>
struct SameShape;
template <class R, class... A, class S, class... B>
struct SameShape<R (*)(A...), S (*)(B...)> {
  static constexpr bool value = sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...);
};
#define RTX_SHAPE(field, symbol, result, parameters) static_assert(SameShape<decltype(LtTable::field), decltype(&::symbol)>::value, #symbol);
RTX_CUBLASLT_FUNCTIONS(RTX_SHAPE)
#undef RTX_SHAPE
#endif
#if __has_include(</usr/local/cuda/include/cudnn_graph.h>)
#define RTX_SHAPE(field, symbol, result, parameters) static_assert(SameShape<decltype(DnnTable::field), decltype(&::symbol)>::value, #symbol);
RTX_CUDNN_FUNCTIONS(RTX_SHAPE)
#undef RTX_SHAPE
#endif
#if __has_include(</usr/local/cuda/include/cufft.h>)
#define RTX_SHAPE(field, symbol, result, parameters) static_assert(SameShape<decltype(FftTable::field), decltype(&::symbol)>::value, #symbol);
RTX_CUFFT_FUNCTIONS(RTX_SHAPE)
#undef RTX_SHAPE
#endif

TEST(LibraryTables, the_installed_libraries_have_every_function_of_the_tables) {
  LibrarySearch search;
  search.loader = false;
  const auto cublaslt = find_library(search, cublaslt_names()), cudnn = find_library(search, cudnn_names()), cufft = find_library(search, cufft_names());
  if (!cublaslt.ok() || !cudnn.ok() || !cufft.ok()) GTEST_SKIP() << "no CUDA toolkit with its libraries here";
  const auto lt = open_cublaslt(*cublaslt);
  ASSERT_TRUE(lt.ok()) << lt.error().text();
  EXPECT_GE(lt->version(), 120000u);
  const auto dnn = open_cudnn(*cudnn);
  ASSERT_TRUE(dnn.ok()) << dnn.error().text();
  EXPECT_GE(dnn->version(), 90000u);
  const auto fft = open_cufft(*cufft);
  ASSERT_TRUE(fft.ok()) << fft.error().text();
}

TEST(LibraryTables, a_missing_library_says_where_it_was_looked_for_and_what_to_install) {
  LibrarySearch search;
  search.folders = {"/nonexistent/a"};
  search.roots = {""};
  search.system = "";
  search.loader = false;
  const auto path = find_library(search, cudnn_names());
  ASSERT_FALSE(path.ok());
  EXPECT_EQ(path.error().kind, ErrorKind::device);
  EXPECT_EQ(path.error().what, "there is no cuDNN");
  EXPECT_EQ(path.error().why, "libcudnn.so.9 is not below /nonexistent/a");
  EXPECT_NE(path.error().fix.find("nvidia-cudnn-cu13"), std::string::npos);
}

TEST(LibraryTables, a_wheel_in_site_packages_is_found_and_goes_before_the_toolkit) {
  const std::string site = ::testing::TempDir() + "site-packages", wheel = site + "/nvidia/cu13/lib";
  ASSERT_TRUE(make_directories(wheel).ok());
  std::ofstream(wheel + "/libcublasLt.so.13") << "";
  LibrarySearch search;
  search.folders = {site};
  const auto path = find_library(search, cublaslt_names());
  ASSERT_TRUE(path.ok()) << path.error().text();
  EXPECT_EQ(*path, wheel + "/libcublasLt.so.13");
}

TEST(LibraryTables, a_library_that_lacks_functions_names_them) {
  const auto table = open_cufft(testing::make_library("no_fft", "int cufftGetVersion(int* v) { return 0; }\n"));
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().what, "cannot use cuFFT");
  EXPECT_NE(table.error().why.find("lacks cufftPlanMany, cufftSetStream"), std::string::npos) << table.error().why;
}

}  // namespace
}  // namespace rtx::backend::cuda
