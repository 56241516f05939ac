#include "kernels/nests.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "codegen/lower.h"
#include "kernels/anchored.h"
#include "kernels/nest_tiles.h"

namespace rtx::kernels {

using codegen::Element;
using codegen::ElementDag;
using codegen::Index;
using codegen::LoopNest;
using ir::DType;

namespace {

// Values that are only carried from loads to stores: f16, bf16 and booleans then move as plain bits.
void carry_as_bits(ElementDag& dag) {
  std::vector<bool> value(dag.elements.size(), false);
  std::vector<int> pending;
  for (const auto& s : dag.stores) pending.push_back(s.value);
  while (!pending.empty()) {
    const int k = pending.back();
    pending.pop_back();
    if (value[static_cast<size_t>(k)]) continue;
    value[static_cast<size_t>(k)] = true;
    const Element& e = dag.elements[static_cast<size_t>(k)];
    if (e.kind == Element::Kind::load) continue;
    if (e.kind == Element::Kind::constant && e.real == 0 && !std::signbit(e.real) && e.integer == 0) continue;
    if (e.kind != Element::Kind::select) return;
    pending.push_back(e.arguments[1]);
    pending.push_back(e.arguments[2]);
  }
  std::vector<bool> carried(dag.buffers.size(), true);
  for (size_t k = 0; k < dag.elements.size(); ++k)
    if (dag.elements[k].kind == Element::Kind::load && !value[k]) carried[static_cast<size_t>(dag.elements[k].buffer)] = false;
  const auto bits = [](DType d) { return d == DType::f16 || d == DType::bf16 ? DType::u16 : d == DType::boolean ? DType::u8 : d; };
  for (size_t k = 0; k < dag.elements.size(); ++k)
    if (value[k] && dag.elements[k].kind == Element::Kind::load && !carried[static_cast<size_t>(dag.elements[k].buffer)] &&
        bits(dag.elements[k].dtype) != dag.elements[k].dtype)
      return;
  for (size_t k = 0; k < dag.elements.size(); ++k)
    if (value[k]) dag.elements[k].dtype = bits(dag.elements[k].dtype);
  for (size_t k = 0; k < dag.buffers.size(); ++k)
    if (carried[k]) dag.buffers[k].dtype = bits(dag.buffers[k].dtype);
}

bool affine(const Index& offset) {
  bool ok = true;
  offset.walk([&](const Index& part) {
    ok = ok && part.kind() != Index::Kind::divide && part.kind() != Index::Kind::modulo && part.kind() != Index::Kind::element;
  });
  return ok;
}

}  // namespace

std::string NestProgram::text() const {
  std::string out;
  for (const auto& nest : nests) {
    out += "for";
    for (const int v : nest.order) out += " v" + std::to_string(v) + "<" + std::to_string(nest.extents[static_cast<size_t>(v)]);
    out += ": " + nest.dag.text() + "\n";
  }
  return out;
}

bool NestProgram::moves_only() const {
  for (const auto& nest : nests)
    for (const auto& e : nest.dag.elements)
      if (e.kind == Element::Kind::op && ir::is_floating(e.dtype)) return false;
  return true;
}

bool NestProgram::tiled() const {
  return std::any_of(nests.begin(), nests.end(), [](const LoopNest& n) { return find_tile(n).rows >= 0; });
}

int64_t NestProgram::count() const {
  int64_t sum = 0;
  for (const auto& nest : nests) sum += nest.count();
  return sum;
}

Result<NestProgram> lower_program(const ir::Graph& body) {
  NestProgram out;
  std::vector<std::vector<size_t>> groups;  // outputs of one shape share a nest
  for (size_t k = 0; k < body.outputs.size(); ++k) {
    const auto extents = body.extents(body.outputs[k]);
    if (ir::element_count(extents) == 0) continue;
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return body.extents(body.outputs[g[0]]) == extents; });
    if (same != groups.end()) same->push_back(k);
    else groups.push_back({k});
  }
  for (const auto& group : groups) {
    const auto extents = body.extents(body.outputs[group[0]]);
    codegen::Lowering lowering(body);
    const auto at = codegen::variables_of(extents);
    for (const size_t k : group) {
      RTX_TRY(const int value, lowering.element(body.outputs[k], at));
      RTX_CHECK(lowering.store(static_cast<int>(k), at, value));
    }
    LoopNest nest;
    nest.dag = lowering.take();
    nest.extents = extents;
    for (size_t d = 0; d < extents.size(); ++d)
      if (extents[d] > 1) nest.order.push_back(static_cast<int>(d));
    codegen::refine(nest);
    for (auto& piece : codegen::split_ranges(nest)) {
      codegen::refine(piece);
      codegen::arrange(piece);
      carry_as_bits(piece.dag);
      out.nests.push_back(std::move(piece));
    }
  }
  return out;
}

Space<NestParams> nest_space(const NestProgram& program, const backend::Caps& caps) {
  if (caps.lanes_per_wave > 1) return nest_space_gpu(program, caps);
  const int64_t register_bytes = std::max(caps.vector_bits / 8, 16);
  int64_t widest = 1;  // bytes of a lane; masks are 32 bits wide
  bool gathers = false;
  for (const auto& nest : program.nests) {
    for (const auto& e : nest.dag.elements) {
      if (e.kind == Element::Kind::constant || nest.order.empty()) continue;
      widest = std::max(widest, e.dtype == DType::boolean ? 4 : ir::bytes_of(ir::compute_dtype(e.dtype)));
      gathers = gathers || !affine(e.offset);
    }
  }
  if (gathers) widest = std::max<int64_t>(widest, 4);
  const bool tiled = program.tiled();
  NestParams best;
  best.vector_width = std::clamp<int64_t>(register_bytes / widest, 4, 64);
  best.unroll = program.moves_only() ? 2 : 1;
  const int64_t per_core = program.count() / std::max(caps.cores, 1);
  best.elements_per_group = per_core >= 8 * 65536 ? 65536 : per_core >= 4 * 16384 ? 16384 : 4096;
  int64_t stored = 8;
  for (const auto& nest : program.nests)
    for (const auto& st : nest.dag.stores) stored = std::min(stored, ir::bytes_of(nest.dag.buffers[static_cast<size_t>(st.buffer)].dtype));
  best.tile = std::max<int64_t>(16, 128 / stored);  // two lines of a row
  best.vector_width = tiled ? std::min(best.vector_width, best.tile) : best.vector_width;
  Space<NestParams> space;
  // Compilers take vectors of several registers apart lane by lane where they are compared or converted: 20 times slower (GCC 12).
  return space.axis("vector_width", &NestParams::vector_width, {4, 8, 16, 32, 64})
      .axis("unroll", &NestParams::unroll, {1, 2, 4})
      .axis("elements_per_group", &NestParams::elements_per_group, {4096, 16384, 65536, 262144})
      .axis("tile", &NestParams::tile, {16, 32, 64, 128})
      .require("a step of the widest type fits one register", [=](const NestParams& p) { return p.vector_width == 4 || p.vector_width * widest <= register_bytes; })
      .require("a step of the widest type fills half a register", [=](const NestParams& p) { return p.vector_width >= 64 || p.vector_width * widest * 2 >= register_bytes || p.vector_width == best.vector_width; })
      .require("the tile matters only to nests that read across their rows", [=](const NestParams& p) { return tiled || p.tile == best.tile; })
      .require("rows of a tile hold whole steps", [=](const NestParams& p) { return !tiled || p.tile % p.vector_width == 0; })
      .prefer(best);
}

double nest_estimate(double milliseconds, const NestParams& p) {
  const double group = p.elements_per_group > 0 ? 64.0 / static_cast<double>(p.elements_per_group) : 0.04 / static_cast<double>(p.vector_width);
  return milliseconds * (1.0 + group + 0.01 * static_cast<double>(p.unroll));
}

Work work_of(const ir::Graph& body, double flops) { return {flops, bytes_read(body), bytes_written(body)}; }

std::string plan_name(std::string_view family, const ir::Graph& body) {
  std::string out(family);
  if (!body.outputs.empty()) {
    const ir::ValueId v = body.outputs[0];
    out += "_" + std::string(ir::name(body.value(v).dtype)) + "_";
    const auto extents = body.extents(v);
    for (size_t d = 0; d < extents.size(); ++d) out += (d ? "x" : "") + std::to_string(extents[d]);
    if (extents.empty()) out += "scalar";
  }
  for (const auto& node : body.nodes) {
    if (out.size() > 72) break;
    if (ir::name(node.op) != family) out += "_" + std::string(ir::name(node.op));
  }
  return out;
}

std::string work_text(const Work& work) {
  const auto scaled = [](double x, const char* unit) {
    static const char* const prefix[] = {"", "k", "M", "G", "T"};
    int p = 0;
    for (; x >= 1000 && p < 4; ++p) x /= 1000;
    char text[48];
    std::snprintf(text, sizeof text, "%.3g %s%s", x, prefix[p], unit);
    return std::string(text);
  };
  return scaled(work.flops, "flop") + ", " + scaled(work.bytes(), "B");
}

bool all_nodes(const ir::Graph& body, const std::function<bool(const ir::Node&)>& holds) {
  return std::all_of(body.nodes.begin(), body.nodes.end(), holds);
}

}  // namespace rtx::kernels
