#include "kernels/attention/wgmma_rows.h"

namespace rtx::kernels::attention {

std::string WgmmaRows::q_place(const std::string& row) const {
  return tiling_.heads == 1 ? fmt::format("{}, h, b", row) : fmt::format("0, ({}) / {}, kv, b", row, tiling_.heads);
}

void WgmmaRows::row_ranges() {
  line("const auto query_of = [&](int r) {{ return (first + (r < rows ? r : rows - 1)) / {}; }};", tiling_.heads);
  line("const int all_high = int(high_of(query_of(part * 64)));");
  if (p_.window_left >= 0) line("const int all_low = int(low_of(query_of(part * 64 + 63)));");
  line("int low[2] = {{0, 0}}, high[2];");
  source_.open("UNROLL for (int half = 0; half < 2; ++half)");
  line("const int query = query_of(part * 64 + Rows::row(half));");
  line("high[half] = int(high_of(query));");
  if (p_.window_left >= 0) line("low[half] = int(low_of(query));");
  source_.close();
}

void WgmmaRows::scores() {
  constexpr double log2_e = 1.4426950408889634;
  if (!plain()) {
    if (p_.softcap > 0) line("tile_rows.each_score([](f32 score) {{ return attention::soft_cap_fast(score, {}, {}); }});", literal(p_.scale / p_.softcap * 2 * log2_e), literal(p_.softcap));
    else if (p_.scale != 1) line("tile_rows.each_score([](f32 score) {{ return score * {}; }});", literal(p_.scale));
  }
  if (masked()) mask();
  const bool left = p_.window_left >= 0;
  source_.open(fmt::format("if (from + {} > all_high{})", params_.block_k, left ? " || from < all_low" : ""));
  line("const int low_here[2] = {{low[0] - from, low[1] - from}}, high_here[2] = {{high[0] - from, high[1] - from}};");
  line("tile_rows.hide<{}>(low_here, high_here);", left);
  source_.close();
  line("tile_rows.weigh({});", literal(plain() ? p_.scale * log2_e : log2_e));
}

// Two neighbouring scores at a time where both are there.
void WgmmaRows::mask() {
  source_.open("UNROLL for (int half = 0; half < 2; ++half)");
  line("const int place = part * 64 + Rows::row(half), r = place < rows ? place : rows - 1;");
  head_and_query("r");
  source_.open(fmt::format("UNROLL for (int n = 0; n < {}; ++n)", params_.block_k / 8));
  line("const i64 col = i64(from) + Rows::column(n);");
  line("f32& first_score = tile_rows.score[4 * n + 2 * half];");
  line("f32& second_score = tile_rows.score[4 * n + 2 * half + 1];");
  const auto masked_scores = [&](int width) {
    row(p_.mask, names_mask_,
        {.inner = kKey, .begin = "col", .count = std::to_string(width), .begin_alignment = 2, .vector_width = width,
         .leaf = [](int w, const std::string&) { return w == 1 ? "first_score" : "attention::pair(first_score, second_score)"; }},
        [&](codegen::Source& s, int w, const std::string&, const auto& value) {
          s.line(fmt::format("const auto masked = {};", value(p_.masked)));
          s.line("first_score = lane(masked, 0);");
          if (w == 2) s.line("second_score = lane(masked, 1);");
        });
  };
  pair_or_one("col", p_.keys, masked_scores);
  source_.close();
  source_.close();
}

void WgmmaRows::pair_or_one(const char* at, int64_t end, const std::function<void(int)>& body) {
  source_.open(fmt::format("if ({} + 2 <= {})", at, end));
  body(2);
  source_.close();
  if (end % 2 == 0) return;
  source_.open(fmt::format("else if ({} < {})", at, end));
  body(1);
  source_.close();
}

void WgmmaRows::finish() {
  if (params_.splits > 1) return parts();
  line("f32 by[2];");
  // A row that saw no key has total 0 and sums 0.
  line(p_.empty_row_nan ? "UNROLL for (int half = 0; half < 2; ++half) by[half] = 1.f / tile_rows.total[half];"
                        : "UNROLL for (int half = 0; half < 2; ++half) by[half] = 1.f / (tile_rows.total[half] == 0 ? 1.f : tile_rows.total[half]);");
  if (s_.results_by_view) by_view();
  else by_thread();
}

void WgmmaRows::by_view() {
  const int64_t pieces = ceil_div(s_.width, 64), buffers = s_.result_buffers;
  if (results_in_q()) line("barrier({} + part, 128);", 1 + s_.consumers);
  for (int64_t c = 0; c < pieces; ++c) {
    std::string to = fmt::format("q + {} + part * 8192", c * params_.block_q * 128);
    if (buffers > 0) {
      to = fmt::format("results + part * {} + {}", buffers * 8192, c % buffers * 8192);
      // As many stores may be under way as there are other buffers; a tile begins with the first.
      line("if (leads) store_view_wait_read<{}>();", c == 0 && pieces % buffers != 0 ? 0 : buffers - 1);
      line("barrier({} + part, 128);", 1 + s_.consumers);
    }
    line("tile_rows.put<{}>({}, by);", c, to);
    line("proxy_fence();");
    line("barrier({} + part, 128);", 1 + s_.consumers);
    source_.open("if (leads)");
    source_.open("if (part * 64 < rows)");
    line("store_view(VIEW({}), {}, {}, {});", int(kResult), to, c * 64, q_place("first + part * 64"));
    source_.close();
    line("store_view_commit();");
    source_.close();
  }
  if (!results_in_q()) return;
  source_.open("if (leads)");
  line("store_view_wait_read<0>();");
  line("mbarrier_arrive(q_empty);");
  source_.close();
}

void WgmmaRows::each_pair(const std::function<void(int)>& body) {
  source_.open("UNROLL for (int half = 0; half < 2; ++half)");
  line("const int r = part * 64 + Rows::row(half);");
  source_.open("if (r < rows)");
  head_and_query("r");
  if (params_.splits > 1) line("const i64 at = (i64(split) * {} + unit) * {} + first + r;", tiling_.units, tiling_.rows);
  source_.open(fmt::format("UNROLL for (int n = 0; n < {}; ++n)", s_.width / 8));
  line("const int x = Rows::column(n);");
  pair_or_one("x", p_.width, body);
  source_.close();
}

void WgmmaRows::by_thread() {
  each_pair([&](int width) {
    row(p_.epilogue, names_out_,
        {.begin = "x", .count = std::to_string(width), .begin_alignment = 2, .vector_width = width, .leaf = [](int w, const std::string&) {
           const std::string first = "tile_rows.sum[4 * n + 2 * half]", second = "tile_rows.sum[4 * n + 2 * half + 1]";
           return w == 1 ? first + " * by[half]" : fmt::format("attention::pair({} * by[half], {} * by[half])", first, second);
         }});
  });
  source_.close();
  source_.close();
}

void WgmmaRows::parts() {
  each_pair([&](int width) {
    line("partial[at * {} + x] = tile_rows.sum[4 * n + 2 * half];", p_.width);
    if (width == 2) line("partial[at * {} + x + 1] = tile_rows.sum[4 * n + 2 * half + 1];", p_.width);
  });
  source_.open("if (wave_lane() % 4 == 0)");
  line("parts[at * 2] = tile_rows.base[half];");
  line("parts[at * 2 + 1] = tile_rows.total[half];");
  source_.close();
  source_.close();
  source_.close();
}

}  // namespace rtx::kernels::attention
