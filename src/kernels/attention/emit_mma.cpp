#include "kernels/attention/gpu.h"

namespace rtx::kernels::attention {

namespace {

class MmaText : public GpuText {
 public:
  MmaText(codegen::Source& source, const Problem& problem, const Params& params, const backend::Caps& caps)
      : GpuText(source, problem, params, caps), s_(mma_shape_of(problem, params)), type_(codegen::type_text(problem.q.dtype)) {}

  void kernel(const std::string& name) {
    source_.open_kernel(name, static_cast<int>(threads()));
    bind_all();
    buffers();
    source_.open("GROUP_LOOP(g)");
    coordinates("g");
    ranges();
    key_range();
    line("const int start = int(begin), last = int(end);");
    loaders();
    line("using Tile = attention::Tile<{}, {}, {}, {}, {}, {}>;", type_, s_.fragments, s_.keys, s_.depth, s_.width, s_.q_stays);
    line("Tile tile_of_wave;");
    line("tile_of_wave.clear();");
    wave_ranges();
    load_q();
    line("copy_async_commit();");
    if (params_.stages == 1) one_stage();
    else many_stages();
    line("copy_async_wait<0>();");
    line("barrier();");
    finish();
    source_.close();
    source_.close_kernel(static_cast<int64_t>(arguments().size()));
  }
  int64_t groups() const { return tiling_.groups() * params_.splits; }

 private:
  void buffers() {
    line("{0}* const q = static_cast<{0}*>(scratch);", type_);
    line("{0}* const key_rows = reinterpret_cast<{0}*>(static_cast<u8*>(scratch) + {1});", type_, s_.key_rows);
    line("{0}* const value_rows = reinterpret_cast<{0}*>(static_cast<u8*>(scratch) + {1});", type_, s_.value_rows);
    const auto pointer = [&](const char* name, int64_t offset) { line("f32* const {} = reinterpret_cast<f32*>(static_cast<u8*>(scratch) + {});", name, offset); };
    pointer("results", s_.results);
    if (s_.waves_k > 1) pointer("places", s_.places);
    pointer("greatest", s_.greatest);
    pointer("totals", s_.total);
  }

  // C text of where an operand's row stands.
  std::string address(const Operand& from, const std::map<int, std::string>& names, Variable along, const std::string& head, const std::string& row) const {
    const auto& load = from.dag.elements[0];
    const auto offset = load.offset.substitute({{along, codegen::Index(0)}});
    const auto name = [&](int id) -> std::string { return "i64(" + (id == kBatch ? "b" : id == kHead ? head : row) + ")"; };
    return fmt::format("{} + {}", names.at(load.buffer), offset.text(name, [](int) { return std::string(); }));
  }
  // Whether its rows stand on 16 bytes: what the offsets allow, and then the pointer.
  static std::string aligned(const Operand& from, const std::map<int, std::string>& names, Variable along) {
    const auto& load = from.dag.elements[0];
    if (load.offset.substitute({{along, codegen::Index(0)}}).common_divisor() % 8 != 0) return "false";
    return fmt::format("(reinterpret_cast<u64>({}) & 15) == 0", names.at(load.buffer));
  }

  void load_q() {
    if (p_.q.in_place) {
      source_.open(fmt::format("attention::copy_rows<{}, {}, {}, {}, 0>(q, rows, {}, [&](int place)", threads(), params_.block_q, p_.depth, s_.depth / 8, aligned(p_.q, names_q_, kDepth)));
      line("const int r = place < rows ? place : 0;");
      head_and_query("r");
      line("return {};", address(p_.q, names_q_, kDepth, "h", "i"));
      source_.close(");");
      return;
    }
    line("attention::clear_rows(q, {}, thread(), {});", params_.block_q * (s_.depth + 8), threads());
    line("barrier();");
    deal_rows("r", "rows", p_.depth, vector_of(p_.q.dag), [&](const std::string& lane, int64_t lanes) {
      head_and_query("r");
      dag_row(p_.q, names_q_, kDepth, "h", lane, lanes, fmt::format("q + r * {}", s_.depth + 8));
    });
  }
  void dag_row(const Operand& from, const std::map<int, std::string>& names, Variable inner, const char* head, const std::string& lane, int64_t lanes, const std::string& to) {
    row(from.dag, names,
        {.inner = inner, .count = std::to_string(inner == kDepth ? p_.depth : p_.width), .lane = lane, .lanes = lanes, .vector_width = vector_of(from.dag), .head = head},
        [&](codegen::Source& s, int, const std::string& i, const auto& value) { s.line(fmt::format("store({} + {}, {});", to, i, value(from.element))); });
  }

  void loaders() {
    bool cleared = false;
    const auto loader = [&](const char* name, const char* rows, const Operand& from, const std::map<int, std::string>& names, Variable inner, int64_t count, int64_t padded, int64_t stage) {
      if (!from.in_place && padded != count) {
        line("attention::clear_rows({}, {}, thread(), {});", rows, stage * params_.stages, threads());
        cleared = true;
      }
      if (from.in_place) line("const bool {}_aligned = {};", rows, aligned(from, names, inner));
      source_.open(fmt::format("const auto {} = [&](int block, int stage)", name));
      line("const int count = last - block < {0} ? last - block : {0};", params_.block_k);
      line("{}* const to = {} + stage * {};", type_, rows, stage);
      if (from.in_place) {
        line("const {}* const first_row = {};", type_, address(from, names, inner, "kv", "block"));
        line("attention::copy_rows<{}, {}, {}, {}, {}>(to, count, {}_aligned, [&](int r) {{ return first_row + i64(r) * {}; }});", threads(), params_.block_k, count, padded / 8,
             from.row_stride < (int64_t{1} << 31) ? from.row_stride : 0, rows, from.row_stride);
      } else {
        deal_rows("j", "count", count, vector_of(from.dag), [&](const std::string& lane, int64_t lanes) {
          line("[[maybe_unused]] const i64 key = i64(block) + j;");
          dag_row(from, names, inner, "kv", lane, lanes, fmt::format("to + j * {}", padded + 8));
        });
        line("if (count < {0}) attention::clear_rows(to + count * {1}, ({0} - count) * {1}, thread(), {2});", params_.block_k, padded + 8, threads());
      }
      source_.close(";");
    };
    loader("load_keys", "key_rows", p_.k, names_k_, kDepth, p_.depth, s_.depth, s_.key_stage);
    loader("load_values", "value_rows", p_.v, names_v_, kWidth, p_.width, s_.width, s_.value_stage);
    if (cleared) line("barrier();");
  }

  // The wave's rows and keys of a block; the keys that any of its rows sees and those that all see.
  void wave_ranges() {
    line("const int wave_row = wave() / {} * {};", s_.waves_k, s_.fragments * 16);
    line("const int wave_key = wave() % {} * {};", s_.waves_k, s_.keys);
    line("const auto query_of = [&](int r) {{ return (first + (r < rows ? r : rows - 1)) / {}; }};", tiling_.heads);
    line("const int any_low = int(low_of(query_of(wave_row))), any_high = wave_row < rows ? int(high_of(query_of(wave_row + {}))) : 0;", s_.fragments * 16 - 1);
    line("const int all_low = int(low_of(query_of(wave_row + {}))), all_high = int(high_of(query_of(wave_row)));", s_.fragments * 16 - 1);
  }

  void keep_q(int64_t open_copies) {
    if (!s_.q_stays) return;
    line("copy_async_wait<{}>();", open_copies);
    line("barrier();");
    line("tile_of_wave.keep_q(q + wave_row * {});", s_.depth + 8);
  }

  void one_stage() {
    line("if (start < last) load_keys(start, 0);");
    line("copy_async_commit();");
    keep_q(1);
    block_loop([&] {
      line("copy_async_wait<0>();");
      line("barrier();");
      line("load_values(block, 0);");
      line("copy_async_commit();");
      sees([&] { scores("key_rows"); });
      line("copy_async_wait<0>();");
      line("barrier();");
      line("if (block + {0} < last) load_keys(block + {0}, 0);", params_.block_k);
      line("copy_async_commit();");
      sees([&] { weights("value_rows"); });
    });
  }

  void many_stages() {
    const int64_t ahead = params_.stages - 1;
    line("int stage = 0;");
    for (int64_t s = 0; s < ahead; ++s) load_both(s == 0 ? "start" : fmt::format("start + {}", s * params_.block_k), std::to_string(s));
    keep_q(ahead);
    block_loop([&] {
      line("copy_async_wait<{}>();", ahead - 1);
      line("barrier();");
      line("const int free = stage == 0 ? {} : stage - 1;", ahead);
      load_both(fmt::format("block + {}", ahead * params_.block_k), "free");
      sees([&] {
        scores(fmt::format("key_rows + stage * {}", s_.key_stage));
        weights(fmt::format("value_rows + stage * {}", s_.value_stage));
      });
      line("stage = stage == {} ? 0 : stage + 1;", ahead);
    });
  }
  void load_both(const std::string& block, const std::string& stage) {
    source_.open(fmt::format("if ({} < last)", block));
    line("load_keys({}, {});", block, stage);
    line("load_values({}, {});", block, stage);
    source_.close();
    line("copy_async_commit();");
  }
  template <class F>
  void block_loop(F body) {
    source_.open(fmt::format("UNROLL_BY(1) for (int block = start; block < last; block += {})", params_.block_k));
    line("const int from = block + wave_key;");
    line("const bool sees = from < any_high && from + {} > any_low;", s_.keys);
    body();
    source_.close();
  }
  template <class F>
  void sees(F body) {
    source_.open("if (sees)");
    body();
    source_.close();
  }

  void scores(const std::string& key_rows) {
    line("tile_of_wave.multiply(q + wave_row * {0}, {1} + wave_key * {0});", s_.depth + 8, key_rows);
    if (!plain()) {
      const std::string scaled = p_.scale == 1 ? "score" : "score * " + literal(p_.scale);
      if (p_.softcap > 0) line("tile_of_wave.each_score([](f32 score) {{ return attention::soft_cap({}, {}); }});", scaled, literal(p_.softcap));
      else if (p_.scale != 1) line("tile_of_wave.each_score([](f32 score) {{ return {}; }});", scaled);
    }
    if (masked()) mask();
    source_.open(fmt::format("if (from < all_low || from + {} > all_high)", s_.keys));
    each_row([&] { line("tile_of_wave.hide(m, half, int(low_of(i) - from), int(high_of(i) - from));"); });
    source_.close();
  }
  // The scale rides on the exponent where nothing stands between.
  bool plain() const { return !masked() && p_.softcap <= 0 && p_.scale > 0; }

  template <class F>
  void each_row(F body) {
    source_.open(fmt::format("UNROLL for (int m = 0; m < {}; ++m)", s_.fragments));
    source_.open("UNROLL for (int half = 0; half < 2; ++half)");
    line("const int place = wave_row + Tile::row(m, half), r = place < rows ? place : rows - 1;");
    head_and_query("r");
    body();
    source_.close();
    source_.close();
  }

  // Two neighbouring scores at a time where both are there.
  void mask() {
    each_row([&] {
      source_.open(fmt::format("UNROLL for (int n = 0; n < {}; ++n)", s_.keys / 8));
      line("const i64 col = i64(from) + Tile::column(n);");
      line("f32& low = tile_of_wave.score[m][n][half * 2];");
      line("f32& high = tile_of_wave.score[m][n][half * 2 + 1];");
      const auto masked_scores = [&](int width) {
        row(p_.mask, names_mask_,
            {.inner = kKey, .begin = "col", .count = std::to_string(width), .begin_alignment = 2, .vector_width = width,
             .leaf = [](int w, const std::string&) { return w == 1 ? "low" : "attention::pair(low, high)"; }},
            [&](codegen::Source& s, int w, const std::string&, const auto& value) {
              s.line(fmt::format("const auto masked = {};", value(p_.masked)));
              s.line("low = lane(masked, 0);");
              if (w == 2) s.line("high = lane(masked, 1);");
            });
      };
      source_.open(fmt::format("if (col + 2 <= {})", p_.keys));
      masked_scores(2);
      source_.close();
      if (p_.keys % 2 != 0) {
        source_.open(fmt::format("else if (col < {})", p_.keys));
        masked_scores(1);
        source_.close();
      }
      source_.close();
    });
  }

  void weights(const std::string& value_rows) {
    constexpr double log2_e = 1.4426950408889634;
    line("tile_of_wave.weigh({});", literal(plain() ? p_.scale * log2_e : log2_e));
    line("tile_of_wave.add({} + wave_key * {});", value_rows, s_.width + 8);
  }

  void finish() {
    const std::string put = fmt::format("tile_of_wave.put(results + wave_row * {0}, {0}, ", s_.result_stride);
    if (s_.waves_k == 1) {
      line("{}false);", put);
      line("tile_of_wave.put_rows(greatest + wave_row, totals + wave_row);");
      line("barrier();");
    } else {
      line("tile_of_wave.tell<{}>(places, wave() % {}, wave_row);", params_.block_q, s_.waves_k);
      line("barrier();");
      line("tile_of_wave.agree<{}, {}>(places, wave_row);", params_.block_q, s_.waves_k);
      line("if (wave_key == 0) tile_of_wave.put_rows(greatest + wave_row, totals + wave_row);");
      for (int64_t w = 0; w < s_.waves_k; ++w) {
        line("if (wave_key == {}) {}{});", w * s_.keys, put, w > 0);
        line("barrier();");
      }
    }
    if (params_.splits > 1) partial_rows("results", s_.result_stride, "greatest", "totals");
    else result_rows("results", s_.result_stride, "totals");
  }

  const MmaShape s_;
  const std::string type_;
};

}  // namespace

backend::Launch emit_mma(codegen::Source& source, const std::string& name, const Problem& p, const Params& params, const backend::Caps& caps) {
  MmaText text(source, p, params, caps);
  text.kernel(name);
  return {name, {text.groups(), 1, 1}, {params.waves * 32, 1, 1}, mma_shape_of(p, params).bytes, text.arguments()};
}

}  // namespace rtx::kernels::attention
