#include <fmt/core.h>

#include "base/assert.h"
#include "kernels/anchored.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/gpu.h"

namespace rtx::kernels::attention {

namespace {

class Emitter {
 public:
  Emitter(codegen::Source& source, const Problem& problem, const Params& params, int lanes)
      : source_(source), p_(problem), params_(params), lanes_(lanes), s_(scratch_of(problem, params, lanes)) {}

  void kernel(const std::string& name) {
    source_.open(fmt::format("KERNEL({})", name));
    source_.fresh("i");  // the query; loops along rows count with another name
    names_q_ = arguments_.bind(source_, p_.q.dag);
    names_k_ = arguments_.bind(source_, p_.k.dag);
    names_v_ = arguments_.bind(source_, p_.v.dag);
    names_mask_ = arguments_.bind(source_, p_.mask);
    names_valid_ = arguments_.bind(source_, p_.valid_length);
    names_out_ = arguments_.bind(source_, p_.epilogue);
    buffers();
    source_.open("GROUP_LOOP(group)");
    group();
    source_.close();
    source_.close();
  }

  const std::vector<backend::BufferRef>& arguments() const { return arguments_.list(); }
  int64_t groups() const { return p_.batch * p_.key_heads * blocks(); }
  int64_t scratch_bytes() const { return s_.bytes(); }

 private:
  template <class... T>
  void line(const char* format, T&&... values) {
    source_.line(fmt::format(fmt::runtime(format), std::forward<T>(values)...));
  }
  int64_t blocks() const { return p_.by_key() ? 1 : ceil_div(p_.rows(), params_.rows_per_group); }
  int64_t rows_per_group() const { return p_.by_key() ? p_.rows() : params_.rows_per_group; }

  void buffers() {
    const auto pointer = [&](const char* name, int64_t offset) { line("f32* const {} = static_cast<f32*>(scratch) + {};", name, offset); };
    pointer("q", s_.q);
    if (!p_.by_key()) pointer("keys_t", s_.keys_t);
    if (!p_.k.in_place) pointer("key_rows", s_.key_rows);
    if (!value_in_place(p_, lanes_)) pointer("value_rows", s_.value_rows);
    pointer("scores", s_.scores);
    pointer("sums", s_.sums);
    line("auto* const running = reinterpret_cast<attention::Running*>(static_cast<f32*>(scratch) + {});", s_.running);
    line("auto* const seen = reinterpret_cast<attention::Range*>(static_cast<f32*>(scratch) + {});", s_.ranges);
  }

  void group() {
    const int64_t rows = p_.rows(), each = rows_per_group();
    line("const i64 head_pair = group / {}, b = head_pair / {}, kv = head_pair % {};", blocks(), p_.key_heads, p_.key_heads);
    line("const i64 first = group % {} * {};", blocks(), each);
    if (rows % each == 0) line("const i64 rows = {};", each);
    else line("const i64 rows = {0} - first < {1} ? {0} - first : {1};", rows, each);
    valid_keys();
    line("attention::Range all = {{keys, 0}};");
    rows_loop("rows", [&] {
      line("seen[r] = attention::range_of({}i, keys, {}, {}, {});", offset_text(), limit(p_.window_left >= 0, p_.window_left),
           p_.causal, limit(p_.window_right >= 0, p_.window_right));
      line("all = {{seen[r].low < all.low ? seen[r].low : all.low, seen[r].high > all.high ? seen[r].high : all.high}};");
      line("running[r] = {{-__builtin_inff(), 0.f}};");
      row(p_.q.dag, names_q_, kDepth, "0", std::to_string(p_.depth), [&](codegen::Source& s, int width, const std::string& i, const auto& value) {
        s.line(fmt::format("store(q + r * {} + {}, {});", s_.depth, i, scaled(value(p_.q.element), width)));
      });
    });
    line("attention::clear(sums, {});", s_.rows * s_.width);
    source_.open(fmt::format("for (i64 block = all.low / {0} * {0}; block < all.high; block += {0})", kKeyBlock));
    line("const i64 count = all.high - block < {0} ? all.high - block : {0};", kKeyBlock);
    keys();
    values();
    if (p_.by_key()) few_rows();
    else tiles();
    source_.close();
    results();
  }

  std::string offset_text() const { return p_.causal_offset == 0 ? "" : std::to_string(p_.causal_offset) + " + "; }
  static std::string limit(bool limited, int64_t value) { return limited ? std::to_string(value) : "-1"; }
  std::string scaled(const std::string& q, int width) const {
    if (p_.scale == 1) return q;
    const std::string scale = codegen::literal_text(ir::DType::f32, p_.scale, 0);
    return width == 1 ? q + " * " + scale : fmt::format("vec<f32, {}>({} * {})", width, q, scale);
  }

  void valid_keys() {
    if (p_.valid < 0) {
      line("const i64 keys = {};", p_.keys);
      return;
    }
    line("i64 keys = 0;");
    codegen::RowLoop loop = loop_over(kWidth, "0", "1", names_valid_);
    loop.vector_width = 1;
    loop.after = [&](codegen::Source& s, int, const std::string&, const auto& value) {
      s.line(fmt::format("keys = attention::clamped({}, {});", value(p_.valid), p_.keys));
    };
    source_.open("");
    codegen::print_row(source_, p_.valid_length, loop);
    source_.close();
  }

  // for each of the group's rows: r its place in the group, h its query head, i its query
  template <class F>
  void rows_loop(const std::string& count, F body) {
    source_.open(fmt::format("for (i64 r = 0; r < {}; ++r)", count));
    head_and_query("r");
    body();
    source_.close();
  }
  void head_and_query(const std::string& r) {
    if (p_.query_heads == p_.key_heads) line("[[maybe_unused]] const i64 h = kv, i = first + {};", r);
    else line("[[maybe_unused]] const i64 h = kv * {} + (first + {}) / {}, i = (first + {}) % {};", p_.query_heads / p_.key_heads, r, p_.queries, r, p_.queries);
  }

  codegen::RowLoop loop_over(Variable inner, const std::string& begin, const std::string& count, const std::map<int, std::string>& names) const {
    codegen::RowLoop loop;
    loop.inner = inner;
    loop.begin = begin;
    loop.count = count;
    loop.begin_alignment = begin == "0" ? 1 : kKeyBlock;
    loop.vector_width = lanes_;
    loop.outer = {{kBatch, "b"}, {kHead, "h"}, {kQuery, "i"}, {kKey, "(block + j)"}};
    loop.buffers = names;
    return loop;
  }
  template <class After>
  void row(const codegen::ElementDag& dag, const std::map<int, std::string>& names, Variable inner, const std::string& begin,
           const std::string& count, After after) {
    codegen::RowLoop loop = loop_over(inner, begin, count, names);
    if (&dag == &p_.k.dag || &dag == &p_.v.dag) loop.outer[kHead] = "kv";
    loop.leaf = [&](int, int width, const std::string& i) {
      return width == 1 ? fmt::format("score[{}]", i) : fmt::format("load<vec<f32, {}>>(score + {})", width, i);
    };
    loop.after = after;
    codegen::print_row(source_, dag, loop);
  }

  // The operand's row of the block's first key, where it stands.
  std::string first_row(const Operand& operand, const std::map<int, std::string>& names, Variable along) const {
    const auto& load = operand.dag.elements[0];
    const auto offset = load.offset.substitute({{along, codegen::Index(0)}});
    const auto name = [](int id) -> std::string { return id == kBatch ? "b" : id == kHead ? "kv" : "block"; };
    return fmt::format("{} + {}", names.at(load.buffer), offset.text(name, [](int) { return std::string(); }));
  }

  void keys() {
    std::string rows = "key_rows";
    int64_t stride = p_.depth;
    if (p_.k.in_place) {
      line("const auto* const key_rows = {};", first_row(p_.k, names_k_, kDepth));
      stride = p_.k.row_stride;
    } else {
      source_.open("for (i64 j = 0; j < count; ++j)");
      row(p_.k.dag, names_k_, kDepth, "0", std::to_string(p_.depth), [&](codegen::Source& s, int, const std::string& i, const auto& value) {
        s.line(fmt::format("store(key_rows + j * {} + {}, {});", p_.depth, i, value(p_.k.element)));
      });
      source_.close();
    }
    if (!p_.by_key()) line("attention::transpose<{}>({}, {}, count, keys_t);", p_.depth, rows, stride);
  }

  void values() {
    if (value_in_place(p_, lanes_)) {
      line("const auto* const value_rows = {};", first_row(p_.v, names_v_, kWidth));
      return;
    }
    source_.open("for (i64 j = 0; j < count; ++j)");
    for (int64_t pad = p_.width; pad < s_.width; ++pad) line("value_rows[j * {} + {}] = 0;", s_.width, pad);
    row(p_.v.dag, names_v_, kWidth, "0", std::to_string(p_.width), [&](codegen::Source& s, int, const std::string& i, const auto& value) {
      s.line(fmt::format("store(value_rows + j * {} + {}, {});", s_.width, i, value(p_.v.element)));
    });
    source_.close();
  }

  // Row `number` of the tile, row `r` of the group: its scores as the softmax sees them, and the largest.
  void mask(const std::string& r, const std::string& number, const std::string& count) {
    line("f32* const score = scores + {} * {};", number, kKeyBlock);
    if (p_.softcap > 0) line("attention::soft_cap(score, {}, {});", count, codegen::literal_text(ir::DType::f32, p_.softcap, 0));
    if (p_.masked >= 0) {
      head_and_query(r);
      row(p_.mask, names_mask_, kKey, "block", count, [&](codegen::Source& s, int, const std::string& i, const auto& value) {
        s.line(fmt::format("store(score + {}, {});", i, value(p_.masked)));
      });
    }
    line("attention::hide(score, seen[{0}].low - block, seen[{0}].high - block, {1});", r, count);
    line("greatest[{}] = attention::greatest_of(score, {}, running[{}].greatest);", number, count, r);
  }

  void weigh(const std::string& r, const std::string& number, const std::string& count) {
    line("attention::rescale<{0}>(sums + {1} * {0}, attention::weights(scores + {2} * {3}, {4}, greatest[{2}], running[{1}]));", s_.width, r,
         number, kKeyBlock, count);
  }

  void tiles() {
    source_.open(fmt::format("for (i64 tile = 0; tile < rows; tile += {})", kRowTile));
    line("const attention::Range of_tile = attention::range_of_tile(seen + tile, rows - tile);");
    line("if (of_tile.low >= block + count || of_tile.high <= block) continue;");
    // Keys behind the last one that the tile sees would add zeros.
    line("const i64 used = of_tile.high - block < count ? of_tile.high - block : count;");
    line("attention::scores_of_tile<{}>(q + tile * {}, keys_t, used, scores);", p_.depth, s_.depth);
    line("f32 greatest[{}];", kRowTile);
    source_.open(fmt::format("for (i64 t = 0; t < {0} && tile + t < rows; ++t)", kRowTile));
    line("const i64 r = tile + t;");
    mask("r", "t", "used");
    source_.close();
    source_.open(fmt::format("for (i64 t = 0; t < {0} && tile + t < rows; ++t)", kRowTile));
    weigh("(tile + t)", "t", "used");
    source_.close();
    product(kRowTile, "sums + tile * " + std::to_string(s_.width), "used");
    source_.close();
  }

  void few_rows() {
    const int64_t stride = p_.k.in_place ? p_.k.row_stride : p_.depth;
    line("attention::scores_by_key<{}, {}>(q, key_rows, {}, count, scores);", s_.rows, p_.depth, stride);
    line("f32 greatest[{}];", s_.rows);
    source_.open(fmt::format("for (i64 r = 0; r < {}; ++r)", s_.rows));
    mask("r", "r", "count");
    source_.close();
    source_.open(fmt::format("for (i64 r = 0; r < {}; ++r)", s_.rows));
    weigh("r", "r", "count");
    source_.close();
    product(s_.rows, "sums", "count");
  }

  void product(int64_t rows, const std::string& sums, const std::string& count) {
    line("attention::product<{}, {}, true>(scores, {}, value_rows, {}, {}, {}, {});", rows, s_.width / lanes_, kKeyBlock,
         value_in_place(p_, lanes_) ? p_.v.row_stride : s_.width, sums, s_.width, count);
  }

  void results() {
    rows_loop("rows", [&] {
      // A row that saw no key has total 0 and sums 0.
      line(p_.empty_row_nan ? "const f32 total = running[r].total;" : "const f32 total = running[r].total == 0 ? 1.f : running[r].total;");
      line("const f32* const sum = sums + r * {};", s_.width);
      codegen::RowLoop loop = loop_over(kWidth, "0", std::to_string(p_.width), names_out_);
      loop.leaf = [&](int, int width, const std::string& i) {
        return width == 1 ? fmt::format("sum[{}] / total", i) : fmt::format("load<vec<f32, {}>>(sum + {}) / total", width, i);
      };
      codegen::print_row(source_, p_.epilogue, loop);
    });
  }

  codegen::Source& source_;
  const Problem& p_;
  const Params& params_;
  const int lanes_;
  const Scratch s_;
  Arguments arguments_;
  std::map<int, std::string> names_q_, names_k_, names_v_, names_mask_, names_valid_, names_out_;
};

}  // namespace

Result<backend::KernelPlan> Attention::emit(const Problem& p, const Params& params, const backend::Caps& caps, const codegen::Dialect& dialect) {
  if (!dialect.explicit_vectors) return emit_gpu(p, params, caps, dialect);
  backend::KernelPlan plan;
  plan.name = fmt::format("attention_{}_{}x{}x{}x{}x{}{}", ir::name(p.q.dtype), p.batch, p.query_heads, p.queries, p.keys, p.depth,
                          p.causal ? "_causal" : "");
  const int lanes = dialect.preferred_lanes_f32;
  plan.numerics_class = fmt::format("attention {} keys {} lanes {}", kKeyBlock, caps.vector_bits / 32, p.by_key() ? "by key" : "by block");
  const auto work = Attention::work(p);
  codegen::Source source(dialect, plan.name, "kernels/attention/emit.cpp", fmt::format("rows={}", params.rows_per_group),
                         work_text(work.flops, work.bytes()));
  if (p.elements() == 0) {
    plan.text = source.take();
    return plan;
  }
  source.include("codegen/row.inc.h");
  source.include("kernels/attention/device.h");
  Emitter emitter(source, p, params, lanes);
  emitter.kernel(plan.name);

  plan.text = source.take();
  backend::Launch launch;
  launch.entry = plan.name;
  launch.grid.x = emitter.groups();
  launch.scratch_bytes = emitter.scratch_bytes();
  launch.arguments = emitter.arguments();
  plan.steps = {launch};
  return plan;
}

}  // namespace rtx::kernels::attention
