// Loops around rows: how a nest becomes groups, and the text of one group.
#include <algorithm>

#include "codegen/nest.h"
#include "codegen/print.h"

namespace rtx::codegen {

Chunks divide(const LoopNest& nest, int64_t elements_per_group, int64_t row_multiple) {
  Chunks out;
  if (nest.order.empty()) return out;
  int64_t inside = 1;  // elements of one step of the loop looked at
  size_t at = nest.order.size() - 1;
  for (;; --at) {
    const int64_t n = nest.extents[static_cast<size_t>(nest.order[at])];
    if (at == 0 || inside * n > elements_per_group) break;
    inside *= n;
  }
  const bool row = at + 1 == nest.order.size();
  const int64_t n = nest.extents[static_cast<size_t>(nest.order[at])];
  int64_t chunk = std::clamp<int64_t>(elements_per_group / std::max<int64_t>(inside, 1), 1, n);
  if (row && chunk < n) chunk = std::min<int64_t>(n, (chunk + row_multiple - 1) / row_multiple * row_multiple);
  out.split = static_cast<int>(at);
  out.pieces = (n + chunk - 1) / chunk;
  if (!row) chunk = (n + out.pieces - 1) / out.pieces;
  out.chunk = chunk;
  out.pieces = (n + chunk - 1) / chunk;
  out.groups = out.pieces;
  for (size_t k = 0; k < at; ++k) out.groups *= nest.extents[static_cast<size_t>(nest.order[k])];
  return out;
}

namespace {

// What a row will read and write a page later is brought near: from memory, a chain that has little to compute waits for its loads and
// for the lines it is about to overwrite (GELU of 4096 x 1024 f32: 384 to 283 ns a row, docs/perf/cpu-norm.md).
constexpr int64_t kPrefetchBytes = 4096, kPrefetchFrom = 1 << 18;  // distance; evaluations of a nest that outgrows the caches

void prefetch(Source& source, const LoopNest& nest, const RowLoop& row, const std::string& i) {
  const auto name = [&](int id) { return id != row.inner ? "v" + std::to_string(id) : row.begin == "0" ? i : "(" + row.begin + " + " + i + ")"; };
  std::vector<std::string> seen;
  const auto fetch = [&](int buffer, const Index& offset, const char* how) {
    int64_t step = 0;
    bool elements = false;
    offset.walk([&](const Index& part) { elements = elements || part.kind() == Index::Kind::element; });
    if (elements || !offset.affine_in(row.inner, 1, &step) || step != 1) return;
    const int64_t ahead = kPrefetchBytes / ir::bytes_of(nest.dag.buffers[static_cast<size_t>(buffer)].dtype);
    const std::string place = "b" + std::to_string(buffer) + " + " + (offset + Index(ahead)).text(name, [](int) { return std::string(); });
    if (std::find(seen.begin(), seen.end(), place) != seen.end()) return;
    seen.push_back(place);
    source.line("__builtin_prefetch(" + place + how + ");");
  };
  for (const auto& e : nest.dag.elements)
    if (e.kind == Element::Kind::load && e.guard < 0) fetch(e.buffer, e.offset, "");
  for (const auto& s : nest.dag.stores) fetch(s.buffer, s.offset, ", 1");
}

}  // namespace

void print_nest(Source& source, const LoopNest& nest, const Chunks& chunks, const NestStyle& style) {
  RowLoop row;
  row.vector_width = style.vector_width;
  row.unroll = style.unroll;
  if (nest.order.empty()) {
    row.inner = -1;
    row.count = "1";
    row.vector_width = 1;
    print_row(source, nest.dag, row);
    return;
  }
  const auto split = static_cast<size_t>(chunks.split);
  const auto extent = [&](size_t k) { return nest.extents[static_cast<size_t>(nest.order[k])]; };
  const auto name = [&](size_t k) { return "v" + std::to_string(nest.order[k]); };
  // Group number -> outer loops and the chunk.
  std::string rest = style.group;
  std::string piece = "0";
  if (chunks.pieces > 1) {
    piece = split == 0 ? rest : "(" + rest + " % " + std::to_string(chunks.pieces) + ")";
    rest = "(" + rest + " / " + std::to_string(chunks.pieces) + ")";
  }
  int64_t below = 1;
  for (size_t k = split; k-- > 0;) {
    std::string text = below == 1 ? rest : rest + " / " + std::to_string(below);
    if (k > 0) text = "(" + text + ") % " + std::to_string(extent(k));
    source.line("const i64 " + name(k) + " = " + text + ";");
    below *= extent(k);
  }
  const size_t last = nest.order.size() - 1;
  const int64_t n = extent(split);
  std::string begin = "0", end = std::to_string(n), count = end;
  if (chunks.pieces > 1) {
    begin = source.fresh("first");
    end = source.fresh("last");
    source.line("const i64 " + begin + " = " + piece + " * " + std::to_string(chunks.chunk) + ";");
    if (n % chunks.chunk == 0) {
      source.line("const i64 " + end + " = " + begin + " + " + std::to_string(chunks.chunk) + ";");
      count = std::to_string(chunks.chunk);
    } else {
      source.line("const i64 " + end + " = " + begin + " + " + std::to_string(chunks.chunk) + " < " + std::to_string(n) + " ? " + begin + " + " +
                  std::to_string(chunks.chunk) + " : " + std::to_string(n) + ";");
      count = "(" + end + " - " + begin + ")";
    }
  }
  for (size_t k = split; k < last; ++k) {
    const std::string from = k == split ? begin : "0", to = k == split ? end : std::to_string(extent(k));
    source.open("for (i64 " + name(k) + " = " + from + "; " + name(k) + " < " + to + "; ++" + name(k) + ")");
  }
  row.inner = nest.order[last];
  row.begin = split == last ? begin : "0";
  row.begin_alignment = split == last ? chunks.chunk : 1;
  row.count = split == last ? count : std::to_string(extent(last));
  if (nest.count() >= kPrefetchFrom)
    row.after = [&](Source& s, int width, const std::string& i, const std::function<std::string(int)>&) {
      if (width > 1) prefetch(s, nest, row, i);
    };
  print_row(source, nest.dag, row);
  for (size_t k = split; k < last; ++k) source.close();
}

}  // namespace rtx::codegen
