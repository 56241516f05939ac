#include "backend/cuda/library_tables.h"

#include <dlfcn.h>

#include "backend/cuda/library_search.h"

namespace rtx::backend::cuda {

namespace {

Error lacking(const std::string& path, const std::string& product, const std::string& symbols) {
  return error_of(ErrorKind::device, "cannot use " + product, path + " lacks " + symbols, "install a newer " + product);
}

}  // namespace

#define RTX_LIBRARY_FIND(field, symbol, result, parameters)                       \
  table.field = reinterpret_cast<result(*) parameters>(dlsym(handle, #symbol)); \
  if (!table.field) missing += (missing.empty() ? "" : ", ") + std::string(#symbol);
#define RTX_LIBRARY_OPEN(function, Table, product, functions)    \
  Result<Table> function(const std::string& path) {              \
    RTX_TRY(void* handle, open_library(path, product));          \
    Table table;                                                 \
    std::string missing;                                         \
    functions(RTX_LIBRARY_FIND) if (!missing.empty()) return lacking(path, product, missing); \
    return table;                                                \
  }
RTX_LIBRARY_OPEN(open_cublaslt, LtTable, "cuBLASLt", RTX_CUBLASLT_FUNCTIONS)
RTX_LIBRARY_OPEN(open_cudnn, DnnTable, "cuDNN", RTX_CUDNN_FUNCTIONS)
RTX_LIBRARY_OPEN(open_cufft, FftTable, "cuFFT", RTX_CUFFT_FUNCTIONS)
#undef RTX_LIBRARY_OPEN
#undef RTX_LIBRARY_FIND

}  // namespace rtx::backend::cuda
