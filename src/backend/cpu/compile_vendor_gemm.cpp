// How OpenBLAS is given its best chance: a batch of matrices is spread over the thread pool with the library single-threaded, and so
// are the rows or columns of a single matrix, which beats the library's own threads (they sleep between calls, and share the cores
// with the pool that runs the other kernels). A matrix too small to cut goes to the library with all threads. Broadcast batch
// dimensions are strides, never copies.
#include <algorithm>
#include <sstream>

#include "backend/cpu/compile_vendor_gemm.h"

namespace rtx::backend::cpu {

namespace {

// Offset of matrix `g` of the output's batch in an operand, as C text over `g`.
std::string batch_offset(const std::vector<int64_t>& operand, const std::vector<int64_t>& out) {
  const size_t batch = out.size() - 2, rank = operand.size();
  std::string text;
  int64_t stride = operand[rank - 2] * operand[rank - 1], inner = 1;
  for (size_t d = batch; d-- > 0;) {
    const size_t from_right = out.size() - d;  // 3 for the innermost batch dimension
    if (from_right <= rank) {
      const int64_t extent = operand[rank - from_right];
      if (extent != 1) text += " + g / " + std::to_string(inner) + " % " + std::to_string(out[d]) + " * " + std::to_string(stride);
      stride *= extent;
    }
    inner *= out[d];
  }
  return text.empty() ? "0" : text.substr(3);
}

}  // namespace

std::optional<KernelPlan> vendor_gemm(const ir::Graph& body, int threads) {
  if (body.nodes.size() != 1 || body.nodes[0].op != ir::Op::matmul || body.outputs.size() != 1) return std::nullopt;
  const auto& node = body.nodes[0];
  const auto dtype = body.value(node.outputs[0]).dtype;
  if (dtype != ir::DType::f32 && dtype != ir::DType::f64) return std::nullopt;
  int position[2];
  for (int i = 0; i < 2; ++i) {
    const ir::ValueId id = node.inputs[static_cast<size_t>(i)];
    position[i] = -1;
    for (size_t p = 0; p < body.inputs.size(); ++p)
      if (body.inputs[p] == id) position[i] = static_cast<int>(p);
    if (position[i] < 0 || !body.value(id).layout.dense()) return std::nullopt;
  }
  const auto a = body.extents(node.inputs[0]), b = body.extents(node.inputs[1]), out = body.extents(node.outputs[0]);
  if (a.size() < 2 || b.size() < 2 || out.size() < 2) return std::nullopt;
  const bool ta = node.attributes.integer("trans_a") != 0, tb = node.attributes.integer("trans_b") != 0;
  int64_t m = out[out.size() - 2];
  const int64_t n = out[out.size() - 1], k = ta ? a[a.size() - 2] : a[a.size() - 1];
  int64_t batches = 1;
  for (size_t d = 0; d + 2 < out.size(); ++d) batches *= out[d];
  if (m * n * batches == 0 || k == 0 || m > INT32_MAX || n > INT32_MAX || k > INT32_MAX) return std::nullopt;
  // [.., M, K] times one [K, N] is a single matrix of all rows: the call a person would make.
  int64_t b_matrices = 1;
  for (size_t d = 0; d + 2 < b.size(); ++d) b_matrices *= b[d];
  const bool one_matrix = !ta && b_matrices == 1 && batches * m <= INT32_MAX;
  if (one_matrix) m *= batches, batches = 1;

  // One matrix is cut along its longer side, so that each thread packs the smaller operand whole and a share of the larger one.
  constexpr int kLeast = 32;  // rows or columns for a thread: a few of the library's tiles
  const bool cut = batches == 1 && !ta && threads > 1 && std::max(m, n) >= kLeast * threads;
  const bool by_rows = cut && m > n;
  const int64_t groups = cut ? threads : batches;

  const char* type = dtype == ir::DType::f32 ? "float" : "double";
  const char* call = dtype == ir::DType::f32 ? "cblas_sgemm" : "cblas_dgemm";
  std::ostringstream text;
  text << "// OpenBLAS for one matmul of the unfused baseline: " << m << " x " << n << " x " << k << ", batch " << batches << "\n"
       << "extern \"C\" void " << call << "(int, int, int, int, int, int, " << type << ", const " << type << "*, int, const " << type << "*, int, " << type
       << ", " << type << "*, int);\n"
       << "extern \"C\" void openblas_set_num_threads(int);\n"
       << "extern \"C\" void library_threads(void* const*, long, long, void*) { openblas_set_num_threads(" << (batches > 1 || cut ? 1 : threads) << "); }\n"
       << "extern \"C\" void library_matmul(void* const* args, long begin, long end, void*) {\n"
       << "  const " << type << "* a = static_cast<const " << type << "*>(args[0]);\n"
       << "  const " << type << "* b = static_cast<const " << type << "*>(args[1]);\n"
       << "  " << type << "* c = static_cast<" << type << "*>(args[2]);\n"
       << "  for (long g = begin; g < end; ++g) {\n";
  if (by_rows)
    text << "    const long row = " << m << " * g / " << groups << ", rows = " << m << " * (g + 1) / " << groups << " - row;\n"
         << "    " << call << "(101, 111, " << (tb ? 112 : 111) << ", rows, " << n << ", " << k << ", 1, a + row * " << k << ", " << k << ", b, " << (tb ? k : n)
         << ", 0, c + row * " << n << ", " << n << ");\n";
  else if (cut)
    text << "    const long column = " << n << " * g / " << groups << ", columns = " << n << " * (g + 1) / " << groups << " - column;\n"
         << "    " << call << "(101, 111, " << (tb ? 112 : 111) << ", " << m << ", columns, " << k << ", 1, a, " << k << ", b + column * " << (tb ? k : 1) << ", "
         << (tb ? k : n) << ", 0, c + column, " << n << ");\n";
  else
    text << "    " << call << "(101, " << (ta ? 112 : 111) << ", " << (tb ? 112 : 111) << ", " << m << ", " << n << ", " << k << ", 1, a + "
       << (batches > 1 ? "(" + batch_offset(a, out) + ")" : "0") << ", " << (ta ? m : k) << ", b + " << (batches > 1 ? "(" + batch_offset(b, out) + ")" : "0")
       << ", " << (tb ? k : n) << ", 0, c + g * " << m * n << ", " << n << ");\n";
  text << "  }\n}\n";
  KernelPlan plan;
  plan.name = "openblas_matmul_" + std::to_string(batches) + "x" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  plan.text = text.str();
  plan.numerics_class = "vendor";
  plan.steps.push_back({"library_threads", {1, 1, 1}, {1, 1, 1}, 0, {}});
  plan.steps.push_back({"library_matmul",
                        {groups, 1, 1},
                        {1, 1, 1},
                        0,
                        {{BufferKind::input, position[0]}, {BufferKind::input, position[1]}, {BufferKind::output, 0}}});
  return plan;
}

}  // namespace rtx::backend::cpu
