#include "kernels/gemm/gemm.h"

namespace rtx::kernels::gemm {

Work Family::work(const Problem& p) {
  Work work;
  const double results = double(p.batches) * double(p.m) * double(p.n);
  const double stored = double(p.batches) * double(p.m) * double(p.result_columns());
  work.flops = 2 * results * double(p.k) + stored * double(p.epilogue.flops());
  work.bytes_read = double(p.a.elements * ir::bytes_of(p.a.dtype)) + double(p.b.elements * ir::bytes_of(p.b.dtype));
  for (const auto& buffer : p.epilogue.buffers)
    if (!buffer.output) work.bytes_read += double(buffer.elements * ir::bytes_of(buffer.dtype));
  for (const auto& store : p.epilogue.stores)
    work.bytes_written += stored * double(ir::bytes_of(p.epilogue.buffers[size_t(store.buffer)].dtype));
  return work;
}

Tolerance Family::tolerance(const Problem& p) {
  if (!ir::is_floating(p.arithmetic)) return {ToleranceClass::exact, 1};
  return {ToleranceClass::reduction, p.k > 0 ? p.k : 1};
}

}  // namespace rtx::kernels::gemm
