#include <algorithm>

#include "kernels/attention/gpu.h"

namespace rtx::kernels::attention {

GpuText::GpuText(codegen::Source& source, const Problem& problem, const Params& params, const backend::Caps& caps)
    : source_(source), p_(problem), params_(params), tiling_(tiling_of(problem, params, caps)) {
  for (const char* name : {"b", "h", "i", "kv", "key", "keys", "block", "unit", "tile", "first", "rows", "r", "j", "end", "total", "col"}) source_.fresh(name);
}

void GpuText::bind_all() {
  names_q_ = arguments_.bind(source_, p_.q.dag);
  names_k_ = arguments_.bind(source_, p_.k.dag);
  names_v_ = arguments_.bind(source_, p_.v.dag);
  names_mask_ = arguments_.bind(source_, p_.mask);
  names_valid_ = arguments_.bind(source_, p_.valid_length);
  if (params_.splits == 1) names_out_ = arguments_.bind(source_, p_.epilogue);
  list_ = arguments_.list();
  if (params_.splits > 1) bind_workspace("f32");
}

void GpuText::bind_output() {
  names_out_ = arguments_.bind(source_, p_.epilogue);
  list_ = arguments_.list();
  bind_workspace("const f32");
}

void GpuText::bind_workspace(const char* type) {
  int index = 0;
  for (const char* name : {"partial", "parts"}) {
    line("{}* const {} = ARG({}, {});", type, name, type, list_.size());
    list_.push_back({backend::BufferKind::workspace, index++});
  }
}

void GpuText::coordinates(const std::string& group) {
  const Tiling& t = tiling_;
  const char* const tile = "tile";
  if (params_.splits > 1) {
    line("const int split = int({0} % {1}), tile = int({0} / {1});", group, params_.splits);
  } else {
    line("const int tile = int({});", group);
  }
  if (t.section == 1) line("const int unit = {} / {}, first = ({} - {} % {}) * {};", tile, t.blocks, t.blocks - 1, tile, t.blocks, params_.block_q);
  else
    line("const int unit = {0} / {1} * {2} + {0} % {2}, first = ({3} - {0} / {2} % {4}) * {5};", tile, t.section * t.blocks, t.section, t.blocks - 1, t.blocks,
         params_.block_q);
  if (t.rows % params_.block_q == 0) line("constexpr int rows = {};", params_.block_q);
  else line("const int rows = {0} - first < {1} ? {0} - first : {1};", t.rows, params_.block_q);
  unit_coordinates();
}

void GpuText::unit_coordinates() {
  const int64_t units = p_.key_heads * p_.query_heads / p_.key_heads / tiling_.heads, share = p_.query_heads / p_.key_heads;
  line("[[maybe_unused]] const int b = unit / {};", units);
  if (tiling_.heads == 1) line("[[maybe_unused]] const int h = unit % {}, kv = h / {};", units, share);
  else line("[[maybe_unused]] const int kv = unit % {};", units);
}

void GpuText::head_and_query(const std::string& r) {
  const int64_t n = tiling_.heads;
  if (n == 1) line("[[maybe_unused]] const int i = first + {};", r);
  else line("[[maybe_unused]] const int h = kv * {0} + (first + {1}) % {0}, i = (first + {1}) / {0};", n, r);
}

void GpuText::ranges() {
  if (p_.valid < 0) {
    line("constexpr i64 keys = {};", p_.keys);
  } else {
    line("i64 keys = 0;");
    codegen::RowLoop loop;
    loop.inner = kWidth;
    loop.count = "1";
    loop.vector_width = 1;
    loop.outer = {{kBatch, "i64(b)"}};
    loop.buffers = names_valid_;
    loop.after = [&](codegen::Source& s, int, const std::string&, const auto& value) { s.line(fmt::format("keys = attention::clamped({}, {});", value(p_.valid), p_.keys)); };
    source_.open("");
    codegen::print_row(source_, p_.valid_length, loop);
    source_.close();
  }
  const std::string position = p_.causal_offset == 0 ? "query" : fmt::format("query + {}", p_.causal_offset);
  const auto limit = [](int64_t window) { return window >= 0 ? window : -1; };
  line("const auto low_of = [&]([[maybe_unused]] i64 query) {{ return attention::first_key({}, keys, {}); }};", position, limit(p_.window_left));
  line("const auto high_of = [&]([[maybe_unused]] i64 query) {{ return attention::end_key({}, keys, {}, {}); }};", position, p_.causal, limit(p_.window_right));
}

void GpuText::key_range() {
  // A later query's range starts and ends no earlier.
  line("const i64 begin_of_tile = low_of(first / {0}) / {1} * {1}, end_of_tile = high_of((first + rows - 1) / {0});", tiling_.heads, params_.block_k);
  if (params_.splits == 1) {
    line("const i64 begin = begin_of_tile, end = end_of_tile;");
    return;
  }
  line("const i64 share = ((end_of_tile - begin_of_tile + {0}) / {1} + {2}) / {3} * {1};", params_.block_k - 1, params_.block_k, params_.splits - 1, params_.splits);
  line("const i64 begin = begin_of_tile + split * share, end = begin + share < end_of_tile ? begin + share : end_of_tile;");
}

int GpuText::vector_of(const codegen::ElementDag& dag) {
  // Sixteen bytes of the narrowest buffer, which also is the one that counts most elements.
  int64_t bytes = 4;
  for (const auto& buffer : dag.buffers) bytes = std::min(bytes, ir::bytes_of(buffer.dtype));
  return bytes >= 4 ? 4 : 8;
}

void GpuText::row(const codegen::ElementDag& dag, const std::map<int, std::string>& names, const Row& row, const After& after) {
  codegen::RowLoop loop;
  loop.inner = row.inner;
  loop.begin = row.begin;
  loop.count = row.count;
  loop.begin_alignment = row.begin_alignment;
  loop.vector_width = row.vector_width;
  loop.lane = row.lane;
  loop.lanes = row.lanes;
  loop.outer = {{kBatch, "i64(b)"}, {kHead, "i64(" + row.head + ")"}, {kQuery, "i64(i)"}, {kKey, "key"}};
  loop.outer.erase(row.inner);
  loop.buffers = names;
  if (row.leaf) loop.leaf = [&](int, int width, const std::string& i) { return row.leaf(width, i); };
  if (after) loop.after = after;
  codegen::print_row(source_, dag, loop);
}

void GpuText::deal_rows(const std::string& r, const std::string& count, int64_t elements, int width,
                        const std::function<void(const std::string& lane, int64_t lanes)>& body) {
  int64_t lanes = 1;
  while (lanes < 32 && lanes * width < elements) lanes *= 2;
  if (lanes == 1) source_.open(fmt::format("for (int {0} = thread(); {0} < {1}; {0} += {2})", r, count, threads()));
  else source_.open(fmt::format("for (int {0} = thread() / {3}; {0} < {1}; {0} += {2})", r, count, threads() / lanes, lanes));
  body(lanes == 1 ? "0" : fmt::format("(thread() % {})", lanes), lanes);
  source_.close();
}

void GpuText::result_rows(const std::string& results, int64_t stride, const std::string& total) {
  const int width = vector_of(p_.epilogue);
  deal_rows("r", "rows", p_.width, width, [&](const std::string& lane, int64_t lanes) {
    head_and_query("r");
    // A row that saw no key has total 0 and sums 0.
    line(p_.empty_row_nan ? "const f32 all = {0}[r];" : "const f32 all = {0}[r] == 0 ? 1.f : {0}[r];", total);
    line("const f32* const sum = {} + r * {};", results, stride);
    // A quotient costs as much as a block of keys; its last bit is lost in 16-bit results anyway.
    const bool half = std::all_of(p_.epilogue.stores.begin(), p_.epilogue.stores.end(), [&](const codegen::Store& s) { return ir::bytes_of(p_.epilogue.buffers[static_cast<size_t>(s.buffer)].dtype) == 2; });
    if (half) line("const f32 inverse = 1.f / all;");
    const char* const by = half ? "* {0}inverse{1}" : "/ {0}all{1}";
    row(p_.epilogue, names_out_,
        {.count = std::to_string(p_.width), .lane = lane, .lanes = lanes, .vector_width = width, .leaf = [by](int w, const std::string& i) {
           if (w == 1) return fmt::format("sum[{}] ", i) + fmt::format(fmt::runtime(by), "", "");
           const std::string v = fmt::format("vec<f32, {}>", w);
           return fmt::format("load<{}>(sum + {}) ", v, i) + fmt::format(fmt::runtime(by), "splat<" + v + ">(", ")");
         }});
  });
}

void GpuText::partial_rows(const std::string& results, int64_t stride, const std::string& greatest, const std::string& total) {
  deal_rows("r", "rows", p_.width, 4, [&](const std::string& lane, int64_t lanes) {
    line("const i64 at = (i64(split) * {} + unit) * {} + first + r;", tiling_.units, tiling_.rows);
    line("for (int x = {}; x < {}; x += {}) partial[at * {} + x] = {}[r * {} + x];", lane, p_.width, lanes, p_.width, results, stride);
    source_.open(fmt::format("if ({} == 0)", lane));
    line("parts[at * 2] = {}[r];", greatest);
    line("parts[at * 2 + 1] = {}[r];", total);
    source_.close();
  });
}

}  // namespace rtx::kernels::attention
