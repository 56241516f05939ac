// Matrix products by cuBLASLt: the fastest of its heuristics' first 16 on the arguments of the first call, with the workspace that the
// plan gives. The library counts columns first, so a row-major C = A B is asked for as C' = B' A'.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>

#include "backend/cuda/library_call.h"
#include "backend/cuda/library_tables.h"

namespace rtx::backend::cuda {

namespace {

constexpr int kMostHeuristics = 16;

struct ProductType {
  const char* name;
  CudaType type;
  LtCompute compute;
  CudaType scale;
  int64_t bytes;
};
constexpr ProductType kProductTypes[] = {
    {"f32", cuda_f32, lt_compute_f32, cuda_f32, 4},
    {"f64", cuda_f64, lt_compute_f64, cuda_f64, 8},
    {"f16", cuda_f16, lt_compute_f32, cuda_f32, 2},
    {"bf16", cuda_bf16, lt_compute_f32, cuda_f32, 2},
};
struct ProductEpilogue {
  const char* name;
  LtEpilogue value;
  bool bias;
};
constexpr ProductEpilogue kProductEpilogues[] = {
    {"none", lt_epilogue_none, false}, {"bias", lt_epilogue_bias, true},           {"relu", lt_epilogue_relu, false},
    {"gelu", lt_epilogue_gelu, false}, {"bias_relu", lt_epilogue_relu_bias, true}, {"bias_gelu", lt_epilogue_gelu_bias, true},
};

// One handle a library in the process: it holds the library's own memory on the device.
struct Cublaslt {
  LtTable call;
  LtHandle handle = nullptr;
  ~Cublaslt() {
    if (handle) (void)call.destroy(handle);
  }
  Error error(const std::string& what, LtStatus code) const {
    const char* text = call.status_text(code);
    return error_of(ErrorKind::device, what, "cuBLASLt: " + (text ? std::string(text) : "status " + std::to_string(code)));
  }
  Status check(const std::string& what, LtStatus code) const { return code == 0 ? success() : Status(error(what, code)); }
};

Result<std::shared_ptr<Cublaslt>> library_at(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Cublaslt>> known;
  const std::lock_guard lock(mutex);
  if (auto open = known[path].lock()) return open;
  auto made = std::make_shared<Cublaslt>();
  RTX_TRY(made->call, open_cublaslt(path));
  RTX_CHECK(made->check("cannot use cuBLASLt", made->call.create(&made->handle)));
  known[path] = made;
  return made;
}

struct Product {
  ProductType type{};
  ProductEpilogue epilogue{};
  bool trans_a = false, trans_b = false, residual = false, tf32 = false;
  int64_t m = 0, n = 0, k = 0, batch = 1, stride_a = 0, stride_b = 0, stride_c = 0, workspace_bytes = 0;
  std::vector<std::vector<int64_t>> at;  // one call each: where its matrices begin in a, b, c (elements)
};

class MatmulCall final : public LibraryCall {
 public:
  MatmulCall(std::shared_ptr<Cublaslt> library, Product problem, Device& device) : library_(std::move(library)), call_(library_->call), problem_(std::move(problem)), device_(device) {}
  ~MatmulCall() override {
    for (LtLayout layout : {left_, right_, out_})
      if (layout) (void)call_.destroy_layout(layout);
    if (matmul_) (void)call_.destroy_matmul(matmul_);
  }

  Status describe() {
    const auto& p = problem_;
    RTX_CHECK(check(call_.create_matmul(&matmul_, p.tf32 ? lt_compute_tf32 : p.type.compute, p.type.scale)));
    // B' is N x K where B is not transposed: its rows in memory are columns here.
    const int32_t trans_left = p.trans_b ? 1 : 0, trans_right = p.trans_a ? 1 : 0;
    RTX_CHECK(set(lt_matmul_trans_a, trans_left));
    RTX_CHECK(set(lt_matmul_trans_b, trans_right));
    RTX_CHECK(set(lt_matmul_epilogue, static_cast<uint32_t>(p.epilogue.value)));
    RTX_CHECK(layout(&left_, p.trans_b ? p.k : p.n, p.trans_b ? p.n : p.k, p.stride_b));
    RTX_CHECK(layout(&right_, p.trans_a ? p.m : p.k, p.trans_a ? p.k : p.m, p.stride_a));
    return layout(&out_, p.n, p.m, p.stride_c);
  }

  Status run(void* const* arguments, int count, CuStream stream) override {
    const int wanted = 4 + (problem_.epilogue.bias ? 1 : 0) + (problem_.residual ? 1 : 0);
    if (count != wanted) return error_of(ErrorKind::device, what(), std::to_string(count) + " arguments, it takes " + std::to_string(wanted));
    const std::lock_guard lock(mutex_);
    Arguments args;
    int next = 2;
    args.a = arguments[0], args.b = arguments[1];
    if (problem_.epilogue.bias) args.bias = arguments[next++];
    args.residual = problem_.residual ? arguments[next++] : nullptr;
    args.out = arguments[next++], args.workspace = arguments[next];
    if (problem_.epilogue.bias && args.bias != bias_) {
      RTX_CHECK(set(lt_matmul_bias, args.bias));
      bias_ = args.bias;
    }
    // An algorithm serves any arguments that stand as well as those it was chosen for.
    const auto alignment = alignments(args);
    bool fits = chosen_ >= 0;
    for (size_t i = 0; i < alignment.size(); ++i) fits = fits && alignment[i] >= alignment_[i];
    if (!fits) RTX_CHECK(choose(args, alignment, stream));
    return issue(args, heuristics_[static_cast<size_t>(chosen_)].algorithm, stream);
  }

  std::string choice() const override {
    return chosen_ < 0 ? std::string() : "heuristic " + std::to_string(chosen_ + 1) + " of " + std::to_string(heuristics_.size());
  }

 private:
  struct Arguments {
    const void *a = nullptr, *b = nullptr, *bias = nullptr, *residual = nullptr;
    void *out = nullptr, *workspace = nullptr;
  };
  using Alignments = std::array<uint32_t, 4>;  // left, right, C, D

  std::string what() const {
    return "cannot compute a product of " + std::to_string(problem_.batch) + " x " + std::to_string(problem_.m) + " x " + std::to_string(problem_.n) + " x " + std::to_string(problem_.k);
  }
  Status check(LtStatus code) const { return library_->check(what(), code); }
  template <class T>
  Status set(LtMatmulAttribute attribute, const T& value) {
    return check(call_.set_matmul(matmul_, attribute, &value, sizeof value));
  }
  Status layout(LtLayout* made, int64_t rows, int64_t columns, int64_t stride) {
    RTX_CHECK(check(call_.create_layout(made, problem_.type.type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows)));
    if (problem_.batch == 1) return success();
    const auto batch = static_cast<int32_t>(problem_.batch);
    RTX_CHECK(check(call_.set_layout(*made, lt_layout_batch, &batch, sizeof batch)));
    return check(call_.set_layout(*made, lt_layout_batch_stride, &stride, sizeof stride));
  }

  // Of every matrix that the calls touch, in bytes, at most 256.
  Alignments alignments(const Arguments& args) const {
    const auto of = [&](const void* base, size_t operand, int64_t stride) {
      auto bits = reinterpret_cast<uintptr_t>(base) | 256;
      for (const auto& row : problem_.at) bits |= static_cast<uintptr_t>(row[operand] * problem_.type.bytes);
      if (problem_.batch > 1) bits |= static_cast<uintptr_t>(stride * problem_.type.bytes);
      return static_cast<uint32_t>(bits & (~bits + 1));
    };
    const uint32_t out = of(args.out, 2, problem_.stride_c);
    return {of(args.b, 1, problem_.stride_b), of(args.a, 0, problem_.stride_a), args.residual ? of(args.residual, 2, problem_.stride_c) : out, out};
  }

  Status choose(const Arguments& args, const Alignments& alignment, CuStream stream) {
    LtPreference preference = nullptr;
    RTX_CHECK(check(call_.create_preference(&preference)));
    const auto workspace = static_cast<uint64_t>(problem_.workspace_bytes);
    LtStatus code = call_.set_preference(preference, lt_preference_workspace, &workspace, sizeof workspace);
    constexpr LtPreferenceAttribute kAlign[] = {lt_preference_align_a, lt_preference_align_b, lt_preference_align_c, lt_preference_align_d};
    for (size_t i = 0; i < alignment.size() && code == 0; ++i) code = call_.set_preference(preference, kAlign[i], &alignment[i], sizeof alignment[i]);
    heuristics_.assign(kMostHeuristics, {});
    int found = 0;
    if (code == 0) code = call_.heuristic(library_->handle, matmul_, left_, right_, out_, out_, preference, kMostHeuristics, heuristics_.data(), &found);
    (void)call_.destroy_preference(preference);
    chosen_ = -1;
    RTX_CHECK(check(code));
    heuristics_.resize(static_cast<size_t>(std::clamp(found, 0, kMostHeuristics)));
    heuristics_.erase(std::remove_if(heuristics_.begin(), heuristics_.end(), [](const LtHeuristic& h) { return h.state != 0; }), heuristics_.end());
    RTX_TRY(chosen_, fastest(device_, stream, static_cast<int>(heuristics_.size()), [&](int way) { return issue(args, heuristics_[static_cast<size_t>(way)].algorithm, stream); }));
    if (chosen_ < 0) return error_of(ErrorKind::device, what(), "cuBLASLt has no algorithm for it");
    alignment_ = alignment;
    return success();
  }

  Status issue(const Arguments& args, const LtAlgorithm& algorithm, CuStream stream) {
    const float one_f32 = 1, beta_f32 = problem_.residual ? 1 : 0;
    const double one_f64 = 1, beta_f64 = beta_f32;
    const bool wide = problem_.type.scale == cuda_f64;
    const void *one = wide ? static_cast<const void*>(&one_f64) : &one_f32, *beta = wide ? static_cast<const void*>(&beta_f64) : &beta_f32;
    const auto at = [&](const void* base, int64_t elements) { return static_cast<const std::byte*>(base) + elements * problem_.type.bytes; };
    for (const auto& row : problem_.at) {
      auto* out = static_cast<std::byte*>(args.out) + row[2] * problem_.type.bytes;
      const void* c = args.residual ? at(args.residual, row[2]) : out;
      RTX_CHECK(check(call_.matmul(library_->handle, matmul_, one, at(args.b, row[1]), left_, at(args.a, row[0]), right_, beta, c, out_, out, out_, &algorithm,
                                   args.workspace, static_cast<size_t>(problem_.workspace_bytes), stream)));
    }
    return success();
  }

  std::shared_ptr<Cublaslt> library_;
  const LtTable& call_;
  Product problem_;
  Device& device_;
  std::mutex mutex_;
  LtMatmul matmul_ = nullptr;
  LtLayout left_ = nullptr, right_ = nullptr, out_ = nullptr;
  const void* bias_ = nullptr;
  std::vector<LtHeuristic> heuristics_;
  int chosen_ = -1;
  Alignments alignment_{};
};

}  // namespace

Result<std::unique_ptr<LibraryCall>> make_matmul_call(CallText& text, Device& device) {
  Product p;
  const auto type = std::find_if(std::begin(kProductTypes), std::end(kProductTypes), [&](const ProductType& t) { return text.text("type") == t.name; });
  const auto epilogue = std::find_if(std::begin(kProductEpilogues), std::end(kProductEpilogues), [&](const ProductEpilogue& e) { return text.text("epilogue") == e.name; });
  if (type == std::end(kProductTypes)) return error_of(ErrorKind::device, "cannot load a library call", "a product of type '" + text.text("type") + "'");
  if (epilogue == std::end(kProductEpilogues)) return error_of(ErrorKind::device, "cannot load a library call", "a product with epilogue '" + text.text("epilogue") + "'");
  p.type = *type, p.epilogue = *epilogue;
  p.m = text.integer("m"), p.n = text.integer("n"), p.k = text.integer("k");
  p.trans_a = text.integer("trans_a") != 0, p.trans_b = text.integer("trans_b") != 0;
  p.residual = text.integer("residual") != 0, p.tf32 = text.integer("tf32") != 0;
  p.batch = text.integer("batch", 1);
  p.stride_a = text.integer("stride_a"), p.stride_b = text.integer("stride_b"), p.stride_c = text.integer("stride_c");
  p.workspace_bytes = text.integer("workspace");
  p.at = text.rows("at");
  if (p.at.empty()) p.at.push_back({0, 0, 0});
  RTX_CHECK(text.fault());
  if (p.m <= 0 || p.n <= 0 || p.k <= 0 || p.batch <= 0 || p.batch > INT32_MAX || p.workspace_bytes < 0 || std::any_of(p.at.begin(), p.at.end(), [](const auto& row) { return row.size() != 3; }))
    return error_of(ErrorKind::device, "cannot load a library call", "a product of impossible sizes");
  RTX_CHECK([&]() -> Status {
    auto ready = device.make_ready();  // the library takes the thread's context
    return ready.ok() ? success() : Status(std::move(ready).error());
  }());
  RTX_TRY(auto library, library_at(text.text("library")));
  auto call = std::make_unique<MatmulCall>(std::move(library), std::move(p), device);
  RTX_CHECK(call->describe());
  return std::unique_ptr<LibraryCall>(std::move(call));
}

}  // namespace rtx::backend::cuda
