#include "backend/cuda/compile_library.h"

#include <algorithm>
#include <sstream>

namespace rtx::backend::cuda {

namespace {

constexpr int kMostCalls = 64;  // of a product whose batch has no single stride

// The position of a value among the body's inputs; -1 where it is none, or stands strided.
int dense_input(const ir::Graph& body, ir::ValueId id) {
  if (id == ir::kNoValue || !body.value(id).layout.dense()) return -1;
  const auto found = std::find(body.inputs.begin(), body.inputs.end(), id);
  return found == body.inputs.end() ? -1 : static_cast<int>(found - body.inputs.begin());
}

std::vector<int64_t> batch_of(const std::vector<int64_t>& extents) { return {extents.begin(), extents.end() - 2}; }

int64_t product(const std::vector<int64_t>& extents) {
  int64_t out = 1;
  for (const int64_t extent : extents) out *= extent;
  return out;
}

// Elements from one matrix of the output's batch to the next, by dimension of the batch, in an operand that broadcasts (0 there).
std::vector<int64_t> batch_strides(const std::vector<int64_t>& operand, size_t rank) {
  const auto batch = batch_of(operand);
  std::vector<int64_t> out(rank, 0);
  int64_t stride = operand[operand.size() - 1] * operand[operand.size() - 2];
  for (size_t i = 0; i < batch.size(); ++i) {
    const int64_t extent = batch[batch.size() - 1 - i];
    if (extent != 1) out[rank - 1 - i] = stride;
    stride *= extent;
  }
  return out;
}

// The batch as calls of one stride each: the inner dimensions that walk all operands evenly are a call, the rest a list of calls.
struct Calls {
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  std::vector<std::vector<int64_t>> at;
};
std::optional<Calls> calls_of(const std::vector<int64_t>& out, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const auto batch = batch_of(out);
  const size_t rank = batch.size();
  const std::vector<std::vector<int64_t>> strides = {batch_strides(a, rank), batch_strides(b, rank), batch_strides(out, rank)};
  Calls calls;
  size_t outer = rank;
  std::vector<int64_t> step(3, 0);
  while (outer > 0) {
    const size_t d = outer - 1;
    if (batch[d] == 1) {
      --outer;
      continue;
    }
    bool even = true;
    if (calls.batch > 1)
      for (size_t o = 0; o < 3; ++o) even = even && strides[o][d] == step[o] * calls.batch;
    else
      for (size_t o = 0; o < 3; ++o) step[o] = strides[o][d];
    if (!even) break;
    calls.batch *= batch[d];
    --outer;
  }
  calls.stride_a = step[0], calls.stride_b = step[1], calls.stride_c = step[2];
  const int64_t count = product({batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(outer)});
  if (count > kMostCalls) return std::nullopt;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> offsets(3, 0);
    int64_t rest = i;
    for (size_t d = outer; d-- > 0; rest /= batch[d])
      for (size_t o = 0; o < 3; ++o) offsets[o] += rest % batch[d] * strides[o][d];
    calls.at.push_back(std::move(offsets));
  }
  return calls;
}

// What stands behind a product, as far as the library's epilogue goes.
struct Tail {
  int bias = -1, residual = -1;  // positions among the body's inputs
  std::string activation;        // "gelu", "relu"
};
std::optional<Tail> tail_of(const ir::Graph& body, const ir::Node& matmul) {
  Tail tail;
  ir::ValueId last = matmul.outputs[0];
  const auto out = body.extents(last);
  const auto readers = body.readers();
  for (size_t seen = 1; seen < body.nodes.size(); ++seen) {
    const auto& uses = readers[static_cast<size_t>(last)];
    if (uses.size() != 1 || body.is_output(last) || body.value(last).dtype != body.value(matmul.outputs[0]).dtype) return std::nullopt;
    const auto& node = body.node(uses[0]);
    if (node.op == ir::Op::add) {
      const ir::ValueId other = node.inputs[0] == last ? node.inputs[1] : node.inputs[0];
      const int position = dense_input(body, other);
      if (position < 0 || body.value(other).dtype != body.value(last).dtype || body.extents(node.outputs[0]) != out) return std::nullopt;
      const auto extents = body.extents(other);
      const bool is_bias = !extents.empty() && extents.back() == out.back() && product(extents) == out.back();
      if (is_bias && tail.bias < 0 && tail.residual < 0 && tail.activation.empty()) tail.bias = position;
      else if (extents == out && tail.residual < 0 && tail.activation.empty()) tail.residual = position;
      else return std::nullopt;
    } else if ((node.op == ir::Op::relu || (node.op == ir::Op::gelu && node.attributes.integer("tanh") == 1)) && tail.activation.empty() && tail.residual < 0) {
      tail.activation = node.op == ir::Op::relu ? "relu" : "gelu";
    } else {
      return std::nullopt;
    }
    last = node.outputs[0];
  }
  if (body.outputs[0] != last) return std::nullopt;
  return tail;
}

}  // namespace

std::optional<KernelPlan> library_matmul(const ir::Graph& body, const std::string& cublaslt, bool tf32) {
  if (body.nodes.empty() || body.nodes[0].op != ir::Op::matmul || body.outputs.size() != 1) return std::nullopt;
  const auto& node = body.nodes[0];
  const auto dtype = body.value(node.outputs[0]).dtype;
  if (dtype != ir::DType::f32 && dtype != ir::DType::f64 && dtype != ir::DType::f16 && dtype != ir::DType::bf16) return std::nullopt;
  const int a_at = dense_input(body, node.inputs[0]), b_at = dense_input(body, node.inputs[1]);
  if (a_at < 0 || b_at < 0 || !body.value(body.outputs[0]).layout.dense()) return std::nullopt;
  for (const ir::ValueId id : node.inputs)
    if (body.value(id).dtype != dtype) return std::nullopt;
  auto a = body.extents(node.inputs[0]), b = body.extents(node.inputs[1]), out = body.extents(node.outputs[0]);
  if (a.size() < 2 || b.size() < 2 || out.size() < 2 || product(out) == 0) return std::nullopt;
  const bool ta = node.attributes.integer("trans_a") != 0, tb = node.attributes.integer("trans_b") != 0;
  const int64_t k = ta ? a[a.size() - 2] : a[a.size() - 1], n = out[out.size() - 1];
  int64_t m = out[out.size() - 2];
  if (k == 0) return std::nullopt;
  const auto tail = tail_of(body, node);
  if (!tail) return std::nullopt;
  // [.., M, K] times one [K, N] is a single matrix of all rows: the call a person would make.
  Calls calls;
  if (!ta && product(batch_of(b)) == 1) {
    m = product(out) / n;
    calls.at = {{0, 0, 0}};
  } else {
    auto found = calls_of(out, a, b);
    // The library's bias is one a call; a batch of them would need a stride that a caller's graph never has.
    if (!found || (tail->bias >= 0 && found->batch > 1)) return std::nullopt;
    calls = *std::move(found);
  }
  if (m > INT32_MAX || n > INT32_MAX || k > INT32_MAX) return std::nullopt;

  std::string epilogue = tail->bias >= 0 ? "bias" : "";
  if (!tail->activation.empty()) epilogue += (epilogue.empty() ? "" : "_") + tail->activation;
  if (epilogue.empty()) epilogue = "none";
  std::ostringstream text;
  text << kLibraryCall << "call matmul\nlibrary " << cublaslt << "\ntype " << ir::name(dtype) << "\nm " << m << "\nn " << n << "\nk " << k << "\ntrans_a " << ta << "\ntrans_b " << tb
       << "\nepilogue " << epilogue << "\nresidual " << (tail->residual >= 0) << "\ntf32 " << (tf32 && dtype == ir::DType::f32) << "\nworkspace " << kMatmulWorkspace << "\n";
  if (calls.batch > 1) text << "batch " << calls.batch << "\nstride_a " << calls.stride_a << "\nstride_b " << calls.stride_b << "\nstride_c " << calls.stride_c << "\n";
  for (const auto& at : calls.at) text << "at " << at[0] << " " << at[1] << " " << at[2] << "\n";
  KernelPlan plan;
  plan.name = "cublaslt_" + std::string(ir::name(dtype)) + "_" + std::to_string(calls.batch * static_cast<int64_t>(calls.at.size())) + "x" + std::to_string(m) + "x" + std::to_string(n) + "x" +
              std::to_string(k) + (epilogue == "none" ? "" : "_" + epilogue) + (tail->residual >= 0 ? "_residual" : "");
  plan.text = text.str();
  plan.numerics_class = "vendor";
  plan.workspace_bytes = {kMatmulWorkspace};
  Launch launch{"matmul", {1, 1, 1}, {1, 1, 1}, 0, {{BufferKind::input, a_at}, {BufferKind::input, b_at}}, {}};
  if (tail->bias >= 0) launch.arguments.push_back({BufferKind::input, tail->bias});
  if (tail->residual >= 0) launch.arguments.push_back({BufferKind::input, tail->residual});
  launch.arguments.push_back({BufferKind::output, 0});
  launch.arguments.push_back({BufferKind::workspace, 0});
  plan.steps.push_back(std::move(launch));
  return plan;
}

std::optional<KernelPlan> library_attention(const ir::Graph& body, const std::string& cudnn) {
  if (body.nodes.size() != 1 || body.nodes[0].op != ir::Op::attention || body.outputs.size() != 1 || !body.value(body.outputs[0]).layout.dense()) return std::nullopt;
  const auto& node = body.nodes[0];
  const auto& attributes = node.attributes;
  const auto dtype = body.value(node.outputs[0]).dtype;
  if (dtype != ir::DType::f16 && dtype != ir::DType::bf16) return std::nullopt;
  for (size_t i = 3; i < node.inputs.size(); ++i)
    if (node.inputs[i] != ir::kNoValue) return std::nullopt;
  if (attributes.integer("window_left", -1) >= 0 || attributes.integer("window_right", -1) >= 0 || attributes.real("softcap") != 0) return std::nullopt;
  int at[3];
  for (size_t i = 0; i < 3; ++i) {
    at[i] = dense_input(body, node.inputs[i]);
    if (at[i] < 0 || body.value(node.inputs[i]).dtype != dtype) return std::nullopt;
  }
  const auto q = body.extents(node.inputs[0]), k = body.extents(node.inputs[1]), v = body.extents(node.inputs[2]);
  if (product(q) == 0 || product(k) == 0 || product(v) == 0) return std::nullopt;  // their product may be a multiple of 2^64
  const bool causal = attributes.integer("causal") != 0;
  const int64_t offset = attributes.integer("causal_offset");
  if (causal && offset != 0 && offset != k[2] - q[2]) return std::nullopt;
  std::ostringstream text;
  text.precision(17);
  text << kLibraryCall << "call attention\nlibrary " << cudnn << "\ntype " << ir::name(dtype) << "\nbatch " << q[0] << "\nheads " << q[1] << "\nkv_heads " << k[1] << "\nqueries " << q[2]
       << "\nkeys " << k[2] << "\ndim " << q[3] << "\nvalue_dim " << v[3] << "\ncausal " << causal << "\ncausal_offset " << offset << "\nscale " << attributes.real("scale", 1) << "\n";
  KernelPlan plan;
  plan.name = "cudnn_attention_" + std::string(ir::name(dtype)) + "_" + std::to_string(q[0]) + "x" + std::to_string(q[1]) + "x" + std::to_string(q[2]) + "x" + std::to_string(k[2]) + "x" +
              std::to_string(q[3]) + (causal ? "_causal" : "");
  plan.text = text.str();
  plan.numerics_class = "vendor";
  plan.steps.push_back({"attention", {1, 1, 1}, {1, 1, 1}, 0, {{BufferKind::input, at[0]}, {BufferKind::input, at[1]}, {BufferKind::input, at[2]}, {BufferKind::output, 0}}, {}});
  return plan;
}

KernelPlan library_fourier(const std::vector<int64_t>& extents, int64_t batch, bool real, const std::string& cufft) {
  std::ostringstream text;
  text << kLibraryCall << "call fourier\nlibrary " << cufft << "\nkind " << (real ? "r2c" : "c2c") << "\nbatch " << batch << "\nextents";
  std::string sizes;
  for (const int64_t extent : extents) text << " " << extent, sizes += "x" + std::to_string(extent);
  text << "\n";
  KernelPlan plan;
  plan.name = std::string("cufft_") + (real ? "r2c_" : "c2c_") + std::to_string(batch) + sizes;
  plan.text = text.str();
  plan.numerics_class = "vendor";
  plan.steps.push_back({"fourier", {1, 1, 1}, {1, 1, 1}, 0, {{BufferKind::input, 0}, {BufferKind::output, 0}}, {}});
  return plan;
}

}  // namespace rtx::backend::cuda
