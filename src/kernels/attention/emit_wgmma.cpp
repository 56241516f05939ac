#include <algorithm>

#include "base/assert.h"
#include "kernels/attention/wgmma_rows.h"

namespace rtx::kernels::attention {

namespace {

constexpr int64_t kLongestTable = 16384;  // entries; more tiles than that even out by themselves

class WgmmaText : public WgmmaRows {
 public:
  WgmmaText(codegen::Source& source, const Problem& problem, const Params& params, const backend::Caps& caps)
      : WgmmaRows(source, problem, params, caps),
        groups_(wgmma_groups(problem, params, caps)),
        items_(tiling_.groups() * params.splits),
        type_(codegen::type_text(problem.q.dtype)) {
    for (const char* name : {"part", "stage", "parity", "ring", "turn", "item", "start", "low", "high", "leads", "q_parity", "after", "before", "count", "last", "more", "from", "tile_rows"}) source_.fresh(name);
    if (!even_tiles(problem) && items_ <= kLongestTable) schedule_ = schedule_of(problem, params, caps);
  }

  void kernel(const std::string& name) {
    widths();
    if (!schedule_.empty()) table(name);
    views();
    source_.open_kernel(name, static_cast<int>(threads()), static_cast<int>(s_.per_core), static_cast<int>(views_.size()));
    bind_all();
    for (size_t k = 0; k < view_buffers_.size(); ++k) views_[k].argument = argument_of(view_buffers_[k]);
    buffers();
    line("const int part = warpgroup() - 1;");
    source_.open("if (part < 0)");
    if (s_.shrunk > 0) line("registers_shrink<{}>();", s_.shrunk);
    source_.open("if (thread() == 0)");
    load();
    source_.close();
    source_.close();
    source_.open("else");
    if (s_.grown > 0) line("registers_grow<{}>();", s_.grown);
    multiply();
    source_.close();
    source_.close_kernel(static_cast<int64_t>(arguments().size()));
  }

  backend::Launch launch(const std::string& name) {
    backend::Launch out{name, {groups_, 1, 1}, {threads(), 1, 1}, s_.bytes, arguments()};
    out.views = views_;
    return out;
  }

 private:
  void widths() {
    for (const int64_t n : {params_.block_k, s_.width}) {
      line("#ifndef WGMMA_WIDTH_{}", n);
      line("#define WGMMA_WIDTH_{}", n);
      line("WGMMA_WIDTH({})", n);
      line("#endif");
    }
  }

  // Which tiles a group takes, one list behind the other. The functions are static: tables of others with their name are loaded too.
  void table(const std::string& name) {
    std::string items, starts;
    size_t count = 0;
    for (const auto& list : schedule_) {
      starts += std::to_string(count) + ", ";
      for (const int item : list) items += std::to_string(item) + (++count % 32 == 0 ? ",\n  " : ", ");
    }
    line("static DEVICE int {}_start(int group) {{", name);
    line("  static const u16 start[] = {{{}{}}};", starts, count);
    line("  return start[group];");
    line("}}");
    line("static DEVICE int {}_item(int place) {{", name);
    line("  static const u16 item[] = {{{}}};", items);
    line("  return item[place];");
    line("}}");
    name_ = name;
  }

  // Boxes are of the four coordinates along, row, head, batch; where a tile has rows of several heads, of the head in its group too.
  void view(const Layout& at, const codegen::ElementDag& dag, int64_t along, int64_t rows, int64_t heads, int64_t packed, int64_t box_along, int64_t box_rows, int swizzle) {
    const auto stride = [](int64_t elements) { return elements == 0 ? int64_t{16} : elements * 2; };
    backend::TensorView v;
    v.element = p_.q.dtype == ir::DType::f16 ? backend::ViewElement::f16 : backend::ViewElement::bf16;
    v.extents = {along}, v.box = {box_along};
    const auto dimension = [&](int64_t extent, int64_t step, int64_t box) {
      v.extents.push_back(extent);
      v.strides_bytes.push_back(stride(step));
      v.box.push_back(box);
    };
    if (packed > 1) dimension(packed, at.head, packed);
    dimension(rows, at.row, box_rows / packed);
    dimension(heads / packed, at.head * packed, 1);
    dimension(p_.batch, at.batch, 1);
    v.swizzle = swizzle;
    v.byte_offset = at.offset * 2;
    views_.push_back(v);
    const auto& buffer = dag.buffers[static_cast<size_t>(at.buffer)];
    view_buffers_.push_back({buffer.output ? backend::BufferKind::output : backend::BufferKind::input, buffer.position});
  }
  void views() {
    const int64_t packed = tiling_.heads;
    view(*layout_of(p_.q, p_, kQuery, kDepth), p_.q.dag, p_.depth, p_.queries, p_.query_heads, packed, 64, params_.block_q, 128);
    view(*layout_of(p_.k, p_, kKey, kDepth), p_.k.dag, p_.depth, p_.keys, p_.key_heads, 1, 64, params_.block_k, 128);
    view(*layout_of(p_.v, p_, kKey, kWidth), p_.v.dag, p_.width, p_.keys, p_.key_heads, 1, s_.swizzle / 2, params_.block_k, static_cast<int>(s_.swizzle));
    if (s_.results_by_view) view(*result_layout_of(p_), p_.epilogue, p_.width, p_.queries, p_.query_heads, packed, 64, 64, 128);
  }
  int argument_of(const backend::BufferRef& buffer) const {
    const auto& list = arguments();
    const auto found = std::find(list.begin(), list.end(), buffer);
    RTX_ASSERT(found != list.end(), "a view is of an argument");
    return static_cast<int>(found - list.begin());
  }

  void buffers() {
    line("u8* const q = static_cast<u8*>(scratch);");
    line("u8* const key_rows = q + {};", s_.keys_at);
    line("u8* const value_rows = q + {};", s_.values_at);
    if (s_.results_by_view && s_.result_buffers > 0) line("u8* const results = q + {};", s_.results_at);
    line("Mbarrier* const q_full = reinterpret_cast<Mbarrier*>(q + {});", s_.barriers_at);
    line("Mbarrier* const q_empty = q_full + 1;");
    int64_t at = 2;
    for (const char* name : {"keys_full", "values_full", "keys_empty", "values_empty"}) {
      line("Mbarrier* const {} = q_full + {};", name, at);
      at += params_.stages;
    }
    source_.open("if (thread() == 0)");
    for (size_t v = 0; v < views_.size(); ++v) line("prefetch_view(VIEW({}));", v);
    line("mbarrier_init(q_full, 1);");
    line("mbarrier_init(q_empty, {});", s_.consumers);
    source_.open(fmt::format("for (int k = 0; k < {}; ++k)", params_.stages));
    line("mbarrier_init(keys_full + k, 1);");
    line("mbarrier_init(values_full + k, 1);");
    line("mbarrier_init(keys_empty + k, {});", s_.consumers);
    line("mbarrier_init(values_empty + k, {});", s_.consumers);
    source_.close();
    line("mbarrier_init_done();");
    source_.close();
    line("barrier();");
  }

  // The tiles of this group, and of each the keys [start, last) that it takes, `count` blocks. Both roles count with the same words.
  template <class F>
  void tiles(F body) {
    if (!schedule_.empty()) {
      line("const int end_of_turns = {}_start(int(group()) + 1);", name_);
      line("int turn = {}_start(int(group())), next_item = {}_item(turn);", name_, name_);
      source_.open("UNROLL_BY(1) for (; turn < end_of_turns; ++turn)");
      line("const int item = next_item;");
      line("[[maybe_unused]] const bool more = turn + 1 < end_of_turns;");
      line("next_item = {}_item(more ? turn + 1 : turn);  // on its way while this tile is computed", name_);
    } else if (even_tiles(p_)) {
      source_.open(fmt::format("UNROLL_BY(1) for (int item = int(group()); item < {}; item += {})", items_, groups_));
      line("[[maybe_unused]] const bool more = item + {} < {};", groups_, items_);
    } else {  // forth and back: who had a long tile gets a short one
      line("const auto item_of = [](int turn) {{ return turn * {0} + (turn % 2 == 0 ? int(group()) : {0} - 1 - int(group())); }};", groups_);
      source_.open(fmt::format("UNROLL_BY(1) for (int turn = 0; item_of(turn) < {}; ++turn)", items_));
      line("const int item = item_of(turn);");
      line("[[maybe_unused]] const bool more = item_of(turn + 1) < {};", items_);
    }
    coordinates("item");
    ranges();
    key_range();
    // Where no key is seen, a block of which all is hidden.
    line("const int start = int(begin), count = end > begin ? (int(end - begin) + {0}) / {1} : 1;", params_.block_k - 1, params_.block_k);
    body();
    source_.close();
  }
  void load() {
    line("attention::Ring<{}> ring;", params_.stages);
    line("u32 q_parity = 1;");
    tiles([&] {
      line("mbarrier_wait(q_empty, q_parity);");
      line("q_parity ^= 1;");
      line("mbarrier_expect(q_full, {});", s_.q_bytes);
      for (int64_t c = 0; c < s_.pieces; ++c) line("load_view(q + {}, VIEW({}), q_full, {}, {});", c * params_.block_q * 128, int(kQ), c * 64, q_place("first"));
      source_.open(fmt::format("UNROLL_BY(1) for (int block = start + (count - 1) * {0}; block >= start; block -= {0})", params_.block_k));
      const auto rows = [&](const char* what, int view, int64_t pieces, int64_t elements, int64_t bytes, int64_t piece_bytes) {
        line("mbarrier_wait({}_empty + ring.stage, ring.parity ^ 1);", what);
        line("mbarrier_expect({}_full + ring.stage, {});", what, bytes);
        const std::string to = std::string(what, 3) == "key" ? "key_rows" : "value_rows";
        for (int64_t c = 0; c < pieces; ++c)
          line("load_view({} + ring.stage * {} + {}, VIEW({}), {}_full + ring.stage, {}, block, kv, b);", to, bytes, c * piece_bytes, view, what, c * elements);
      };
      rows("keys", kK, s_.pieces, 64, s_.key_bytes, params_.block_k * 128);
      rows("values", kV, s_.width * 2 / s_.swizzle, s_.swizzle / 2, s_.value_bytes, params_.block_k * s_.swizzle);
      line("ring.next();");
      source_.close();
    });
  }

  // A ring of named barriers: one warpgroup issues its products while another works on its scores.
  bool takes_turns() const { return params_.turns != 0; }
  void my_turn() {
    if (takes_turns()) line("barrier(1 + part, 256);");
  }
  void your_turn() {
    if (takes_turns()) line("barrier_arrive(part == {} ? 1 : 2 + part, 256);", s_.consumers - 1);
  }

  void multiply() {
    line("using Rows = attention::Rows64<{}, {}, {}, {}, {}, {}>;", type_, params_.block_q, params_.block_k, s_.depth, s_.width, s_.swizzle);
    line("attention::Ring<{}> ring;", params_.stages);
    line("u32 q_parity = 0;");
    line("const bool leads = thread() % 128 == 0;");
    line("const u8* const q_rows = q + part * 8192;");
    if (takes_turns()) line("if (part == {}) barrier_arrive(1, 256);  // the first begins", s_.consumers - 1);
    line("Rows tile_rows;");
    tiles([&] {
      line("tile_rows.clear();");
      row_ranges();
      line("int from = start + (count - 1) * {};", params_.block_k);
      line("mbarrier_wait(q_full, q_parity);");
      line("q_parity ^= 1;");
      line("mbarrier_wait(keys_full + ring.stage, ring.parity);");
      products_of_keys();
      line("wgmma_wait<0>();");
      line("if (leads) mbarrier_arrive(keys_empty + ring.stage);");
      scores();
      if (p_.valid >= 0) clear_values();
      await_next_keys();
      line("tile_rows.take_weights();");
      source_.open(fmt::format("UNROLL_BY(1) for (from -= {0}; from >= start; from -= {0})", params_.block_k));
      line("const auto before = ring;");
      line("ring.next();");
      my_turn();
      products_of_keys();
      products_of_values("before");
      your_turn();
      line("wgmma_wait<1>();");
      line("if (leads) mbarrier_arrive(keys_empty + ring.stage);");
      scores();
      await_next_keys();
      line("wgmma_wait<0>();");
      line("if (leads) mbarrier_arrive(values_empty + before.stage);");
      line("tile_rows.take_weights();");
      line("tile_rows.scale_down();");
      source_.close();
      if (!results_in_q()) line("if (leads) mbarrier_arrive(q_empty);");
      products_of_values("ring");
      line("tile_rows.finish_total();");
      line("const int last = ring.stage;");
      line("ring.next();");
      line("wgmma_wait<0>();");
      line("if (leads) mbarrier_arrive(values_empty + last);");
      finish();
    });
    if (s_.results_by_view) line("if (leads) store_view_wait<0>();");
  }
  // Awaited before the products with the values are: compilers move that wait up as far as the last branch, and without this one,
  // which hangs on all weights, it would stand before the powers of two, which are to be computed meanwhile.
  void await_next_keys() {
    source_.open(fmt::format("if (tile_rows.weighed() && from - {} >= start)", params_.block_k));
    line("auto after = ring;");
    line("after.next();");
    line("mbarrier_wait(keys_full + after.stage, after.parity);");
    source_.close();
  }
  // What stands behind the valid length may be anything; it is in the first block that is taken, which is the last one.
  void clear_values() {
    source_.open(fmt::format("if (keys - from < {} && keys < {})", params_.block_k, p_.keys));
    line("mbarrier_wait(values_full + ring.stage, ring.parity);");
    line("Rows::clear_values<{}>(value_rows + ring.stage * {}, int(keys - from));", s_.consumers, s_.value_bytes);
    line("proxy_fence();");
    line("barrier({}, {});", 1 + 2 * s_.consumers, s_.consumers * 128);
    source_.close();
  }
  void products_of_keys() {
    line("wgmma_fence();");
    line("tile_rows.multiply(q_rows, key_rows + ring.stage * {});", s_.key_bytes);
    line("wgmma_commit();");
  }
  void products_of_values(const char* ring) {
    line("mbarrier_wait(values_full + {0}.stage, {0}.parity);", ring);
    line("wgmma_fence();");
    line("tile_rows.add(value_rows + {}.stage * {});", ring, s_.value_bytes);
    line("wgmma_commit();");
  }

  const int64_t groups_, items_;
  const std::string type_;
  std::string name_;
  std::vector<std::vector<int>> schedule_;
  std::vector<backend::TensorView> views_;
  std::vector<backend::BufferRef> view_buffers_;
};

}  // namespace

backend::Launch emit_wgmma(codegen::Source& source, const std::string& name, const Problem& p, const Params& params, const backend::Caps& caps) {
  WgmmaText text(source, p, params, caps);
  text.kernel(name);
  return text.launch(name);
}

}  // namespace rtx::kernels::attention
