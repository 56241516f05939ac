#include <fmt/core.h>

#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {

namespace {

// The f32 kernel.
class GeneralText : public GpuText {
 public:
  using GpuText::GpuText;

  void kernel(const std::string& name) {
    source_.open_kernel(name, threads());
    bind_all();
    buffers();
    source_.open("GROUP_LOOP(g)");
    coordinates("g");
    ranges();
    start();
    line("attention::Sums<{}, {}, {}> sums;", threads(), params_.block_q, s_.width);
    line("sums.clear();");
    key_range();
    source_.open(fmt::format("for (i64 block = begin; block < end; block += {})", params_.block_k));
    block();
    source_.close();
    line("barrier();  // where there was no block, rows of q are still on their way");
    line("sums.put(results);");
    line("barrier();");
    if (params_.splits > 1) partial_rows("results", s_.width, "greatest", "total");
    else result_rows("results", s_.width, "total");
    source_.close();
    source_.close_kernel(static_cast<int64_t>(arguments().size()));
  }
  int64_t scratch_bytes() const { return s_.bytes; }

 private:
  void buffers() {
    const auto pointer = [&](const char* name, int64_t offset) { line("f32* const {} = reinterpret_cast<f32*>(static_cast<u8*>(scratch) + {});", name, offset); };
    pointer("greatest", s_.greatest);
    pointer("total", s_.total);
    pointer("factor", s_.factor);
    pointer("q", s_.q);
    pointer("key_rows", s_.key_rows);
    pointer("value_rows", s_.value_rows);
    pointer("scores", s_.scores);
    pointer("results", s_.results);
  }

  // Rows of q in scratch, the padding of all rows zero.
  void start() {
    line("attention::clear(q, {}, thread(), {});", (s_.scores - s_.q) / 4, threads());
    source_.open(fmt::format("for (int r = thread(); r < {}; r += {})", params_.block_q, threads()));
    line("greatest[r] = -__builtin_inff();");
    line("total[r] = 0;");
    line("factor[r] = 0;");
    source_.close();
    line("barrier();");
    deal_rows("r", "rows", p_.depth, vector_of(p_.q.dag), [&](const std::string& lane, int64_t lanes) {
      head_and_query("r");
      row(p_.q.dag, names_q_, {.inner = kDepth, .count = std::to_string(p_.depth), .lane = lane, .lanes = lanes, .vector_width = vector_of(p_.q.dag)},
          [&](codegen::Source& s, int width, const std::string& i, const auto& value) {
            std::string q = value(p_.q.element);
            if (p_.scale != 1) q = width == 1 ? q + " * " + literal(p_.scale) : fmt::format("{} * splat<vec<f32, {}>>({})", q, width, literal(p_.scale));
            s.line(fmt::format("store(q + r * {} + {}, {});", s_.depth, i, q));
          });
    });
  }

  void block() {
    line("const int count = int(end - block < {0} ? end - block : {0});", params_.block_k);
    operand(p_.k, names_k_, kDepth, p_.depth, "key_rows", s_.depth);
    operand(p_.v, names_v_, kWidth, p_.width, "value_rows", s_.width);
    line("if (count < {0}) attention::clear(value_rows + count * {1}, ({0} - count) * {1}, thread(), {2});", params_.block_k, s_.width, threads());
    line("barrier();");
    line("attention::scores_of_block<{}, {}, {}, {}, {}>(q, key_rows, scores);", threads(), params_.block_q, params_.block_k, ceil_div(p_.depth, 4) * 4, s_.depth);
    line("barrier();");
    source_.open(fmt::format("for (int r = wave(); r < rows; r += {})", params_.waves));
    line("f32* const score = scores + r * {};", s_.keys);
    head_and_query("r");
    if (p_.softcap > 0) line("for (int j = wave_lane(); j < count; j += WAVE) score[j] = attention::soft_cap(score[j], {});", literal(p_.softcap));
    if (masked()) {
      if (p_.softcap > 0) line("wave_barrier();");
      row(p_.mask, names_mask_,
          {.inner = kKey, .begin = "block", .count = "count", .begin_alignment = params_.block_k, .lane = "wave_lane()", .lanes = 32,
           .leaf = [](int width, const std::string& i) { return width == 1 ? fmt::format("score[{}]", i) : fmt::format("load<vec<f32, {}>>(score + {})", width, i); }},
          [&](codegen::Source& s, int, const std::string& i, const auto& value) { s.line(fmt::format("store(score + {}, {});", i, value(p_.masked))); });
      line("wave_barrier();");
    }
    line("attention::weigh<{}>(score, low_of(i) - block, high_of(i) - block, count, greatest + r, total + r, factor + r);", params_.block_k);
    source_.close();
    line("barrier();");
    line("sums.template add<{}>(scores, value_rows, factor);", params_.block_k);
    line("barrier();");
  }

  void operand(const Operand& from, const std::map<int, std::string>& names, Variable inner, int64_t count, const char* to, int64_t stride) {
    deal_rows("j", "count", count, vector_of(from.dag), [&](const std::string& lane, int64_t lanes) {
      line("[[maybe_unused]] const i64 key = block + j;");
      row(from.dag, names, {.inner = inner, .count = std::to_string(count), .lane = lane, .lanes = lanes, .vector_width = vector_of(from.dag), .head = "kv"},
          [&](codegen::Source& s, int, const std::string& i, const auto& value) { s.line(fmt::format("store({} + j * {} + {}, {});", to, stride, i, value(from.element))); });
    });
  }

  const GpuScratch s_ = gpu_scratch_of(p_, params_);
};

// Combines the splits' sums, a wave a row.
class CombiningText : public GpuText {
 public:
  using GpuText::GpuText;
  static constexpr int64_t kRows = 4;

  void kernel(const std::string& name, bool power_of_two) {
    source_.open_kernel(name, threads());
    bind_output();
    source_.open("GROUP_LOOP(g)");
    line("const i64 at = g * {} + wave();", kRows);
    source_.open(fmt::format("if (at < {})", tiling_.units * tiling_.rows));
    line("const int unit = int(at / {0}), first = int(at % {0});", tiling_.rows);
    unit_coordinates();
    head_and_query("0");
    line("f32* const weight = static_cast<f32*>(scratch) + wave() * {};", params_.splits);
    line("const f32 all = attention::weights_of_splits<attention::{}>(parts + at * 2, {}, {}, weight);", power_of_two ? "PowerOfTwo" : "Exponential", tiling_.units * tiling_.rows * 2, params_.splits);
    line(p_.empty_row_nan ? "const f32 total = all;" : "const f32 total = all == 0 ? 1.f : all;");
    const int width = vector_of(p_.epilogue);
    row(p_.epilogue, names_out_,
        {.count = std::to_string(p_.width), .lane = "wave_lane()", .lanes = 32, .vector_width = width,
         .leaf = [&](int w, const std::string& i) {
           return fmt::format("attention::sum_of_splits<vec<f32, {}>>(partial + at * {} + {}, {}, {}, weight) / {}", w, p_.width, i, tiling_.units * tiling_.rows * p_.width, params_.splits,
                              w == 1 ? "total" : fmt::format("splat<vec<f32, {}>>(total)", w));
         }});
    source_.close();
    source_.close();
    source_.close_kernel(static_cast<int64_t>(arguments().size()));
  }
  int64_t groups() const { return ceil_div(tiling_.units * tiling_.rows, kRows); }
  int64_t scratch_bytes() const { return kRows * params_.splits * 4; }
};

// Where splits begin depends on the tile under a causal mask or a window.
std::string numerics_class(const Problem& p, const Params& params) {
  std::string out = params.mma == 0 ? fmt::format("attention f32 keys {}", params.block_k)
                    : params.mma == 2 ? fmt::format("attention wgmma {} keys {}", ir::name(p.q.dtype), params.block_k)
                                    : fmt::format("attention mma {} keys {} by {}", ir::name(p.q.dtype), params.block_k, mma_shape_of(p, params).waves_k);
  if (params.splits > 1) out += fmt::format(" splits {} of {}", params.splits, params.block_q);
  return out;
}

}  // namespace

Result<backend::KernelPlan> emit_gpu(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  backend::KernelPlan plan;
  plan.name = fmt::format("attention_{}_{}x{}x{}x{}x{}{}", ir::name(p.q.dtype), p.batch, p.query_heads, p.queries, p.keys, p.depth, p.causal ? "_causal" : "");
  plan.numerics_class = numerics_class(p, params);
  const auto work = Attention::work(p);
  codegen::Source source(dialect, plan.name, "kernels/attention/emit_gpu.cpp", gpu_space(p, caps).text(params), work_text(work.flops, work.bytes()));
  if (p.elements() == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("kernels/attention/device_gpu.h");
  const Tiling tiling = tiling_of(p, params, caps);
  if (params.splits > 1) plan.workspace_bytes = {params.splits * tiling.units * tiling.rows * p.width * 4, params.splits * tiling.units * tiling.rows * 2 * 4};
  if (params.mma != 0) {
    source.include("kernels/attention/device_mma.h");
    if (params.mma == 2) source.include("kernels/attention/device_wgmma.h");
    plan.steps.push_back((params.mma == 2 ? emit_wgmma : emit_mma)(source, plan.name, p, params, caps));
  } else {
    GeneralText text(source, p, params, caps);
    text.kernel(plan.name);
    plan.steps.push_back({plan.name, {tiling.groups() * params.splits, 1, 1}, {params.waves * 32, 1, 1}, text.scratch_bytes(), text.arguments()});
  }
  if (params.splits > 1) {
    Params four = params;
    four.waves = CombiningText::kRows;
    CombiningText text(source, p, four, caps);
    text.kernel(plan.name + "_combine", params.mma != 0);
    plan.steps.push_back({plan.name + "_combine", {text.groups(), 1, 1}, {four.waves * 32, 1, 1}, text.scratch_bytes(), text.arguments()});
  }
  plan.text = source.take();
  return plan;
}

}  // namespace rtx::kernels::attention
