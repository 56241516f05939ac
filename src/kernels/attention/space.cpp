#include <algorithm>

#include "kernels/anchored.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/gpu.h"

namespace rtx::kernels::attention {

bool Problem::by_key() const { return rows() <= kFewRows; }

bool value_in_place(const Problem& p, int64_t lanes) {
  // A copy converts each half value once instead of once a row tile; for few rows there is nothing to save.
  return p.v.in_place && p.width % lanes == 0 && (p.v.dtype == ir::DType::f32 || p.by_key());
}

Scratch scratch_of(const Problem& p, const Params& params, int64_t lanes) {
  const auto up = [](int64_t n, int64_t to) { return ceil_div(n, to) * to; };
  Scratch s;
  s.lanes = lanes;
  s.rows = p.by_key() ? p.rows() : up(std::min(params.rows_per_group, p.rows()), kRowTile);
  s.depth = p.depth;
  s.width = up(p.width, lanes);
  const auto take = [&](int64_t& offset, int64_t count) {
    offset = s.end;
    s.end += up(count, 16);
  };
  take(s.q, s.rows * s.depth);
  if (!p.by_key()) take(s.keys_t, p.depth * kKeyBlock);
  if (!p.k.in_place) take(s.key_rows, kKeyBlock * p.depth);
  if (!value_in_place(p, lanes)) take(s.value_rows, kKeyBlock * s.width);
  take(s.scores, (p.by_key() ? s.rows : kRowTile) * kKeyBlock);
  take(s.sums, s.rows * s.width);
  take(s.running, s.rows * 2);
  take(s.ranges, s.rows * 4);
  return s;
}

Space<Params> Attention::space(const Problem& problem, const backend::Caps& caps) {
  if (caps.lanes_per_wave > 1) return gpu_space(problem, caps);
  const auto work = Attention::work(problem);
  const int64_t rows = std::max<int64_t>(1, problem.rows()), cores = std::max(1, caps.cores), lanes = caps.vector_bits / 32;
  const int64_t heads = std::max<int64_t>(1, problem.batch * problem.key_heads), scratch = caps.scratch_bytes;
  const bool by_key = problem.by_key();
  const double arithmetic = work.flops / std::max(1.0, caps.peak_gflops_f32 * 1e6), memory = work.bytes() / std::max(1.0, caps.copy_gbps * 1e6);
  const auto groups_of = [=](const Params& p) { return heads * ceil_div(rows, p.rows_per_group); };
  const auto milliseconds = [=](const Params& p) {
    const int64_t groups = groups_of(p);
    const double turns = static_cast<double>(ceil_div(groups, cores) * cores) / static_cast<double>(groups);
    // Each group transposes the keys it sees: about as long as two query rows take.
    const double transposing = by_key ? 0.0 : 2.0 / static_cast<double>(std::min(p.rows_per_group, rows));
    return std::max(arithmetic * (1.0 + transposing), memory) * turns;
  };
  const std::vector<int64_t> axis = by_key ? std::vector<int64_t>{kFewRows} : std::vector<int64_t>{16, 32, 64, 128, 256};
  Params best{axis[0]};
  for (const int64_t candidate : axis)
    if ((candidate == axis[0] || candidate < 2 * rows) && milliseconds({candidate}) < 0.99 * milliseconds(best)) best = {candidate};
  return Space<Params>{}
      .axis("rows", &Params::rows_per_group, axis)
      .require("a group has less than twice as many rows as there are",
               [=](const Params& p) { return p.rows_per_group == axis[0] || p.rows_per_group < 2 * rows; })
      .require("the buffers fit the thread's scratch", [=](const Params& p) { return scratch_of(problem, p, lanes).bytes() <= scratch; })
      .prefer(best)
      .estimate(milliseconds);
}

Work Attention::work(const Problem& p) {
  double scores = static_cast<double>(p.batch * p.query_heads) * static_cast<double>(p.queries) * static_cast<double>(p.keys);
  if (p.causal && p.queries > 1) scores /= 2;
  constexpr double exponential = 16;
  const double each = 2.0 * static_cast<double>(p.depth + p.width) + exponential + 4 + static_cast<double>(p.mask.flops());
  return {scores * each, bytes_read(p.body), bytes_written(p.body)};
}

Tolerance Attention::tolerance(const Problem& p) { return {ToleranceClass::attention, std::max<int64_t>({1, p.keys, p.depth})}; }

}  // namespace rtx::kernels::attention
