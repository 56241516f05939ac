#include "codegen/element.h"

#include <cstdio>

namespace rtx::codegen {

namespace {

std::string number(const Element& e) {
  if (!ir::is_floating(e.dtype)) return std::to_string(e.integer);
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.17g", e.real);
  return buffer;
}

std::string attributes_text(const ir::Attributes& attributes) {
  std::string out;
  for (const auto& [key, value] : attributes.items) {
    out += ", " + key + "=";
    if (const auto* i = std::get_if<int64_t>(&value)) out += std::to_string(*i);
    else if (const auto* d = std::get_if<double>(&value)) {
      char buffer[40];
      std::snprintf(buffer, sizeof buffer, "%.17g", *d);
      out += buffer;
    } else out += ir::text(std::get<std::vector<int64_t>>(value));
  }
  return out;
}

int64_t cost(ir::Op op) {
  switch (op) {
    case ir::Op::cast: return 0;
    case ir::Op::exp: case ir::Op::log: case ir::Op::erf: case ir::Op::tanh: case ir::Op::sigmoid: case ir::Op::silu: return 12;
    case ir::Op::gelu: return 24;
    case ir::Op::pow: return 40;
    default: return 1;
  }
}

}  // namespace

std::string ElementDag::text() const {
  std::string out;
  for (size_t k = 0; k < elements.size(); ++k) {
    const Element& e = elements[k];
    out += "t" + std::to_string(k) + ": " + std::string(ir::name(e.dtype)) + " = ";
    switch (e.kind) {
      case Element::Kind::leaf: out += "leaf" + std::to_string(e.leaf); break;
      case Element::Kind::load:
        out += "b" + std::to_string(e.buffer) + "[" + e.offset.text() + "]";
        if (e.guard >= 0) out += " if t" + std::to_string(e.guard);
        break;
      case Element::Kind::constant: out += number(e); break;
      case Element::Kind::index: out += "index(" + e.offset.text() + ")"; break;
      case Element::Kind::in_range:
        out += std::to_string(e.low) + " <= " + e.offset.text() + " < " + std::to_string(e.high);
        break;
      case Element::Kind::op:
      case Element::Kind::select: {
        out += std::string(e.kind == Element::Kind::select ? "select" : ir::name(e.op)) + "(";
        for (size_t a = 0; a < e.arguments.size(); ++a) out += (a ? ", t" : "t") + std::to_string(e.arguments[a]);
        out += attributes_text(e.attributes) + ")";
        break;
      }
    }
    out += "; ";
  }
  for (const auto& s : stores) out += "b" + std::to_string(s.buffer) + "[" + s.offset.text() + "] = t" + std::to_string(s.value) + "; ";
  for (size_t k = 0; k < buffers.size(); ++k) {
    const auto& b = buffers[k];
    out += "b" + std::to_string(k) + " = " + (b.output ? "output " : "input ") + std::to_string(b.position) + " " +
           std::string(ir::name(b.dtype)) + "; ";
  }
  return out;
}

int64_t ElementDag::flops() const {
  int64_t sum = 0;
  for (const auto& e : elements)
    if (e.kind == Element::Kind::op) sum += cost(e.op);
  return sum;
}

}  // namespace rtx::codegen
