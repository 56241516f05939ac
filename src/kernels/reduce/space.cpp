#include <algorithm>

#include "kernels/reduce/reduce.h"

namespace rtx::kernels::reduce {

static_assert(KernelFamily<Family>);

std::string Family::key(const Problem& p) {
  std::string out = "reduce " + p.name + " " + std::string(ir::name(p.op)) + " " + std::string(ir::name(p.dtype)) + (p.columns ? " columns" : " rows");
  for (const int v : p.kept) out += " kept v" + std::to_string(v) + "<" + std::to_string(p.extent(v));
  for (const int v : p.reduced) out += " reduced v" + std::to_string(v) + "<" + std::to_string(p.extent(v));
  return out + "\n" + p.prologue.text() + "x = t" + std::to_string(p.x) + "\n" + p.epilogue.text();
}

Space<Params> Family::space(const Problem& p, const backend::Caps& caps) {
  if (caps.lanes_per_wave > 1) return space_gpu(p, caps);
  const int64_t lanes = std::max(caps.vector_bits / 32, 4), cores = std::max(caps.cores, 1);
  const int64_t row = p.columns ? p.extent(p.kept.back()) : p.reduced.empty() ? 1 : p.extent(p.reduced.back());
  Params best;
  int64_t widest = ir::bytes_of(p.dtype);
  for (const auto& e : p.prologue.elements)
    if (e.kind != codegen::Element::Kind::constant) widest = std::max(widest, e.dtype == ir::DType::boolean ? 4 : ir::bytes_of(ir::compute_dtype(e.dtype)));
  if (p.op == ir::Op::reduce_mean && !ir::is_floating(p.dtype)) widest = 8;
  // One register: compilers take wider vectors apart lane by lane where they are compared or converted.
  const int64_t fits = std::clamp<int64_t>(4 * lanes / widest, 4, 64);
  best.vector_width = fits;
  const int64_t strips = p.columns ? (row + 1023) / 1024 * (p.outputs / row) : p.outputs;
  best.parts = strips < 2 * cores && p.outputs * p.terms >= (1 << 17) && !p.reduced.empty() ? 16 : 1;
  if (p.columns) best.outputs_per_group = strips >= 4 * cores ? 1024 : 256;
  else best.outputs_per_group = std::clamp<int64_t>(p.outputs / (8 * cores), 1, std::max<int64_t>(1, 65536 / std::max<int64_t>(p.terms, 1)));
  // A power of two, so that it is one of the axis's values.
  int64_t power = 1;
  while (power * 2 <= best.outputs_per_group && power < 4096) power *= 2;
  best.outputs_per_group = power;
  Space<Params> space;
  space.axis("vector_width", &Params::vector_width, {4, 8, 16, 32, 64})
      .axis("outputs_per_group", &Params::outputs_per_group, {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096})
      .axis("parts", &Params::parts, {1, 4, 16, 64})
      .require("a vector of the widest type fits one register", [=](const Params& c) { return c.vector_width <= fits; })
      .require("a vector fills a quarter of a register", [=](const Params& c) { return c.vector_width * 4 >= fits; })
      .require("groups keep every core busy, or the work is small",
               [=, n = p.outputs](const Params& c) { return c.outputs_per_group == power || n / c.outputs_per_group >= cores; })
      .require("strips are wider than a vector", [columns = p.columns](const Params& c) { return !columns || c.outputs_per_group >= 2 * c.vector_width; })
      .require("parts are for few outputs over much data", [=, b = best.parts](const Params& c) { return (c.parts == 1) == (b == 1); })
      .prefer(best);
  return space;
}

Work Family::work(const Problem& problem) { return problem.work; }

Tolerance Family::tolerance(const Problem& problem) { return {ToleranceClass::reduction, std::max<int64_t>(problem.terms, 1)}; }

}  // namespace rtx::kernels::reduce
