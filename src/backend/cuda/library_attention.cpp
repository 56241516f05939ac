// Attention by cuDNN's graph interface: product, scale, causal mask, softmax, product, described as the chain of operations that its
// fused engines look for, with the log-sum-exp that they expect. All between the ends is virtual (f32, the softmax's result in the inputs' type). The fastest of the first
// engines that its heuristic names.
#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "backend/cuda/library_call.h"
#include "backend/cuda/library_tables.h"

namespace rtx::backend::cuda {

namespace {

constexpr int kMostEngines = 8;  // each is compiled before it can be timed

struct Attention {
  DnnType type = dnn_bf16;
  int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, keys = 0, dim = 0, value_dim = 0, causal_offset = 0;
  bool causal = false;
  float scale = 1;
};

struct Cudnn {
  DnnTable call;
  DnnHandle handle = nullptr;
  ~Cudnn() {
    if (handle) (void)call.destroy(handle);
  }
  Error error(const std::string& what, DnnStatus code) const {
    char words[512] = {};
    call.last_error(words, sizeof words);
    const char* text = call.status_text(code);
    std::string why = "cuDNN: " + (text ? std::string(text) : "status " + std::to_string(code));
    if (words[0]) why += std::string(": ") + words;
    std::replace(why.begin(), why.end(), '\n', ' ');
    return error_of(ErrorKind::device, what, std::move(why));
  }
};

Result<std::shared_ptr<Cudnn>> cudnn_at(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Cudnn>> known;
  const std::lock_guard lock(mutex);
  if (auto open = known[path].lock()) return open;
  auto made = std::make_shared<Cudnn>();
  RTX_TRY(made->call, open_cudnn(path));
  if (const DnnStatus code = made->call.create(&made->handle); code != 0) return made->error("cannot use cuDNN", code);
  known[path] = made;
  return made;
}

// Descriptors that live as long as the chain; after a failure everything is skipped and the first error kept.
class Chain {
 public:
  explicit Chain(const Cudnn& library) : library_(library), call_(library.call) {}
  ~Chain() {
    for (auto descriptor = all_.rbegin(); descriptor != all_.rend(); ++descriptor) (void)call_.destroy_descriptor(*descriptor);
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  DnnDescriptor make(DnnObject object) {
    DnnDescriptor descriptor = nullptr;
    check(call_.create_descriptor(object, &descriptor));
    if (descriptor) all_.push_back(descriptor);
    return descriptor;
  }
  template <class T>
  void set(DnnDescriptor descriptor, DnnAttribute attribute, DnnKind kind, const T* values, int64_t count) {
    if (ok()) check(call_.set(descriptor, attribute, kind, count, values));
  }
  template <class T>
  void set(DnnDescriptor descriptor, DnnAttribute attribute, DnnKind kind, T value) {
    set(descriptor, attribute, kind, &value, 1);
  }
  DnnDescriptor finish(DnnDescriptor descriptor) {
    if (ok()) check(call_.finalize(descriptor));
    return descriptor;
  }
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void forgive() { status_ = success(); }

  struct Shape {
    std::array<int64_t, 4> extents, strides;
  };
  DnnDescriptor tensor(int64_t id, DnnType type, const Shape& shape, bool is_virtual, bool by_value = false) {
    const DnnDescriptor t = make(dnn_tensor);
    set(t, dnn_tensor_type, dnn_kind_type, type);
    set(t, dnn_tensor_extents, dnn_kind_i64, shape.extents.data(), 4);
    set(t, dnn_tensor_strides, dnn_kind_i64, shape.strides.data(), 4);
    set(t, dnn_tensor_id, dnn_kind_i64, id);
    set(t, dnn_tensor_alignment, dnn_kind_i64, int64_t{16});
    set(t, dnn_tensor_virtual, dnn_kind_boolean, is_virtual);
    if (by_value) set(t, dnn_tensor_by_value, dnn_kind_boolean, true);
    return finish(t);
  }
  // y = mode(x [, b [, t]])
  void pointwise(DnnPointwise mode, DnnType compute, DnnDescriptor x, DnnDescriptor b, DnnDescriptor t, DnnDescriptor y, int64_t axis = -1) {
    const DnnDescriptor what = make(dnn_pointwise);
    set(what, dnn_pointwise_mode, dnn_kind_pointwise, mode);
    set(what, dnn_pointwise_type, dnn_kind_type, compute);
    if (axis >= 0) set(what, dnn_pointwise_axis, dnn_kind_i64, axis);
    finish(what);
    const DnnDescriptor operation = make(dnn_operation_pointwise);
    set(operation, dnn_operation_pointwise_what, dnn_kind_descriptor, what);
    set(operation, dnn_operation_pointwise_x, dnn_kind_descriptor, x);
    if (b) set(operation, dnn_operation_pointwise_b, dnn_kind_descriptor, b);
    if (t) set(operation, dnn_operation_pointwise_t, dnn_kind_descriptor, t);
    set(operation, dnn_operation_pointwise_y, dnn_kind_descriptor, y);
    operations_.push_back(finish(operation));
  }
  void matmul(DnnDescriptor a, DnnDescriptor b, DnnDescriptor c) {
    const DnnDescriptor what = make(dnn_matmul);
    set(what, dnn_matmul_type, dnn_kind_type, dnn_f32);
    finish(what);
    const DnnDescriptor operation = make(dnn_operation_matmul);
    set(operation, dnn_operation_matmul_a, dnn_kind_descriptor, a);
    set(operation, dnn_operation_matmul_b, dnn_kind_descriptor, b);
    set(operation, dnn_operation_matmul_c, dnn_kind_descriptor, c);
    set(operation, dnn_operation_matmul_what, dnn_kind_descriptor, what);
    operations_.push_back(finish(operation));
  }
  void reduce(DnnReduction mode, DnnDescriptor x, DnnDescriptor y) {
    const DnnDescriptor what = make(dnn_reduction);
    set(what, dnn_reduction_operator, dnn_kind_reduction, mode);
    set(what, dnn_reduction_type, dnn_kind_type, dnn_f32);
    finish(what);
    const DnnDescriptor operation = make(dnn_operation_reduction);
    set(operation, dnn_operation_reduction_x, dnn_kind_descriptor, x);
    set(operation, dnn_operation_reduction_y, dnn_kind_descriptor, y);
    set(operation, dnn_operation_reduction_what, dnn_kind_descriptor, what);
    operations_.push_back(finish(operation));
  }
  const std::vector<DnnDescriptor>& operations() const { return operations_; }

 private:
  void check(DnnStatus code) {
    if (ok() && code != 0) status_ = library_.error("cannot compute attention", code);
  }

  const Cudnn& library_;
  const DnnTable& call_;
  std::vector<DnnDescriptor> all_, operations_;
  Status status_;
};

// Numbers of the tensors that the caller, or the pack of arguments, names.
enum Id : int64_t { id_q = 1, id_k, id_v, id_out, id_scale, id_nothing, id_shift, id_first_virtual };

class AttentionCall final : public LibraryCall {
 public:
  AttentionCall(std::shared_ptr<Cudnn> library, const Attention& problem, Device& device)
      : library_(std::move(library)), problem_(problem), device_(device), chain_(*library_), shift_(static_cast<int32_t>(problem.causal_offset)) {}
  ~AttentionCall() override {
    if (workspace_) device_.release(workspace_);
  }

  Status describe() {
    const auto& p = problem_;
    const auto dense = [](int64_t b, int64_t h, int64_t s, int64_t d) { return Chain::Shape{{b, h, s, d}, {h * s * d, s * d, d, 1}}; };
    const Chain::Shape scores = dense(p.batch, p.heads, p.queries, p.keys), rows = dense(p.batch, p.heads, p.queries, 1), one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    // K is asked for transposed, which is another order of strides.
    const Chain::Shape k = {{p.batch, p.kv_heads, p.dim, p.keys}, {p.kv_heads * p.keys * p.dim, p.keys * p.dim, 1, p.dim}};
    int64_t next = id_first_virtual;
    const auto inner = [&](DnnType type, const Chain::Shape& shape) { return chain_.tensor(next++, type, shape, true); };
    const auto value = [&](Id id, DnnType type) { return chain_.tensor(id, type, one, false, true); };
    const DnnDescriptor q = chain_.tensor(id_q, p.type, dense(p.batch, p.heads, p.queries, p.dim), false);
    const DnnDescriptor kt = chain_.tensor(id_k, p.type, k, false);
    const DnnDescriptor v = chain_.tensor(id_v, p.type, dense(p.batch, p.kv_heads, p.keys, p.value_dim), false);
    const DnnDescriptor out = chain_.tensor(id_out, p.type, dense(p.batch, p.heads, p.queries, p.value_dim), false);
    const DnnDescriptor product = inner(dnn_f32, scores), scaled = inner(dnn_f32, scores);
    chain_.matmul(q, kt, product);
    chain_.pointwise(dnn_mul, dnn_f32, product, value(id_scale, dnn_f32), nullptr, scaled);
    DnnDescriptor last = scaled;
    if (p.causal) {
      DnnDescriptor row = inner(dnn_i32, scores);
      chain_.pointwise(dnn_index, dnn_f32, last, nullptr, nullptr, row, 2);
      const DnnDescriptor column = inner(dnn_i32, scores);
      chain_.pointwise(dnn_index, dnn_f32, last, nullptr, nullptr, column, 3);
      if (p.causal_offset != 0) {  // the diagonal ends at the last key: row + (keys - queries) >= column
        const DnnDescriptor shifted_row = inner(dnn_i32, scores);
        chain_.pointwise(dnn_add, dnn_i32, row, value(id_shift, dnn_i32), nullptr, shifted_row, 3);
        row = shifted_row;
      }
      const DnnDescriptor seen = inner(dnn_boolean, scores), masked = inner(dnn_f32, scores);
      chain_.pointwise(dnn_compare_ge, dnn_boolean, row, column, nullptr, seen);
      chain_.pointwise(dnn_select, dnn_f32, last, value(id_nothing, dnn_f32), seen, masked);
      last = masked;
    }
    const DnnDescriptor most = inner(dnn_f32, rows), shifted = inner(dnn_f32, scores), raised = inner(dnn_f32, scores), sum = inner(dnn_f32, rows), weights = inner(p.type, scores);
    chain_.reduce(dnn_reduce_max, last, most);
    chain_.pointwise(dnn_sub, dnn_f32, last, most, nullptr, shifted);
    chain_.pointwise(dnn_exp, dnn_f32, shifted, nullptr, nullptr, raised);
    chain_.reduce(dnn_reduce_add, raised, sum);
    // The fused engines look for the row's log-sum-exp too, whether or not anybody reads it.
    const DnnDescriptor logarithm = inner(dnn_f32, rows), log_sum = inner(dnn_f32, rows);
    chain_.pointwise(dnn_log, dnn_f32, sum, nullptr, nullptr, logarithm);
    chain_.pointwise(dnn_add, dnn_f32, most, logarithm, nullptr, log_sum);
    chain_.pointwise(dnn_div, dnn_f32, raised, sum, nullptr, weights);
    chain_.matmul(weights, v, out);
    const DnnDescriptor graph = chain_.make(dnn_graph);
    chain_.set(graph, dnn_graph_handle, dnn_kind_handle, library_->handle);
    chain_.set(graph, dnn_graph_operations, dnn_kind_descriptor, chain_.operations().data(), static_cast<int64_t>(chain_.operations().size()));
    chain_.finish(graph);
    const DnnDescriptor heuristics = chain_.make(dnn_heuristics);
    chain_.set(heuristics, dnn_heuristics_graph, dnn_kind_descriptor, graph);
    chain_.set(heuristics, dnn_heuristics_mode, dnn_kind_heuristic, dnn_heuristic_a);
    chain_.finish(heuristics);
    RTX_CHECK(Status(chain_.status()));
    return plans_of(heuristics);
  }

  Status run(void* const* arguments, int count, CuStream stream) override {
    if (count != 4) return error_of(ErrorKind::device, "cannot compute attention", std::to_string(count) + " arguments, it takes 4");
    const std::lock_guard lock(mutex_);
    if (chosen_ < 0) {
      RTX_TRY(chosen_, fastest(device_, stream, static_cast<int>(plans_.size()), [&](int way) { return issue(static_cast<size_t>(way), arguments, stream); }));
      if (chosen_ < 0) {
        const Status why = issue(0, arguments, stream);
        return why.ok() ? Status(error_of(ErrorKind::device, "cannot compute attention", "cuDNN's engines could not be timed")) : why;
      }
    }
    return issue(static_cast<size_t>(chosen_), arguments, stream);
  }

  std::string choice() const override { return chosen_ < 0 ? std::string() : "engine " + std::to_string(chosen_ + 1) + " of " + std::to_string(plans_.size()); }

 private:
  // Plans of the engines that can be made, in the heuristic's order.
  Status plans_of(DnnDescriptor heuristics) {
    std::array<DnnDescriptor, kMostEngines> configs{};
    for (auto& config : configs) config = chain_.make(dnn_engine_config);
    int64_t found = 0;
    if (const DnnStatus code = library_->call.get(heuristics, dnn_heuristics_results, dnn_kind_descriptor, kMostEngines, &found, configs.data()); code != 0) return library_->error("cannot compute attention", code);
    Status last = error_of(ErrorKind::device, "cannot compute attention", "cuDNN has no engine for it");
    for (int64_t i = 0; i < std::min<int64_t>(found, kMostEngines); ++i) {
      const DnnDescriptor plan = chain_.make(dnn_plan);
      chain_.set(plan, dnn_plan_handle, dnn_kind_handle, library_->handle);
      chain_.set(plan, dnn_plan_config, dnn_kind_descriptor, configs[static_cast<size_t>(i)]);
      chain_.finish(plan);
      int64_t bytes = 0, got = 0;
      if (chain_.ok() && library_->call.get(plan, dnn_plan_workspace, dnn_kind_i64, 1, &got, &bytes) == 0) {
        plans_.push_back(plan);
        workspace_bytes_ = std::max(workspace_bytes_, bytes);
      } else if (!chain_.ok()) {
        last = chain_.status();
        chain_.forgive();
      }
    }
    if (plans_.empty()) return last;
    if (workspace_bytes_ > 0) {
      RTX_TRY(workspace_, device_.allocate(workspace_bytes_));
    }
    return success();
  }

  Status issue(size_t plan, void* const* arguments, CuStream stream) {
    std::vector<int64_t> ids = {id_q, id_k, id_v, id_out, id_scale};
    std::vector<void*> pointers = {arguments[0], arguments[1], arguments[2], arguments[3], &problem_.scale};
    if (problem_.causal) ids.push_back(id_nothing), pointers.push_back(&nothing_);
    if (problem_.causal && problem_.causal_offset != 0) ids.push_back(id_shift), pointers.push_back(&shift_);
    Chain pack(*library_);
    const DnnDescriptor variant = pack.make(dnn_variant_pack);
    pack.set(variant, dnn_pack_ids, dnn_kind_i64, ids.data(), static_cast<int64_t>(ids.size()));
    pack.set(variant, dnn_pack_pointers, dnn_kind_pointer, pointers.data(), static_cast<int64_t>(pointers.size()));
    pack.set(variant, dnn_pack_workspace, dnn_kind_pointer, workspace_);
    pack.finish(variant);
    RTX_CHECK(Status(pack.status()));
    DnnStatus code = library_->call.set_stream(library_->handle, stream);
    if (code == 0) code = library_->call.execute(library_->handle, plans_[plan], variant);
    return code == 0 ? success() : Status(library_->error("cannot compute attention", code));
  }

  std::shared_ptr<Cudnn> library_;
  Attention problem_;
  Device& device_;
  Chain chain_;
  std::mutex mutex_;
  std::vector<DnnDescriptor> plans_;
  int64_t workspace_bytes_ = 0;
  void* workspace_ = nullptr;
  float nothing_ = -std::numeric_limits<float>::infinity();
  int32_t shift_;
  int chosen_ = -1;
};

}  // namespace

Result<std::unique_ptr<LibraryCall>> make_attention_call(CallText& text, Device& device) {
  Attention p;
  const std::string type = text.text("type");
  if (type != "bf16" && type != "f16") return error_of(ErrorKind::device, "cannot load a library call", "attention of type '" + type + "'");
  p.type = type == "bf16" ? dnn_bf16 : dnn_f16;
  p.batch = text.integer("batch"), p.heads = text.integer("heads"), p.kv_heads = text.integer("kv_heads");
  p.queries = text.integer("queries"), p.keys = text.integer("keys"), p.dim = text.integer("dim"), p.value_dim = text.integer("value_dim");
  p.causal = text.integer("causal") != 0, p.causal_offset = text.integer("causal_offset");
  p.scale = static_cast<float>(text.real("scale", 1));
  RTX_CHECK(text.fault());
  for (const int64_t size : {p.batch, p.heads, p.kv_heads, p.queries, p.keys, p.dim, p.value_dim})
    if (size <= 0 || size > INT32_MAX) return error_of(ErrorKind::device, "cannot load a library call", "attention of impossible sizes");
  RTX_CHECK([&]() -> Status {
    auto ready = device.make_ready();
    return ready.ok() ? success() : Status(std::move(ready).error());
  }());
  RTX_TRY(auto library, cudnn_at(text.text("library")));
  auto call = std::make_unique<AttentionCall>(std::move(library), p, device);
  RTX_CHECK(call->describe());
  return std::unique_ptr<LibraryCall>(std::move(call));
}

}  // namespace rtx::backend::cuda
