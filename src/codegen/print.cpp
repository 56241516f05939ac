#include "codegen/print.h"

#include <cstdlib>
#include <numeric>

#include "base/assert.h"

namespace rtx::codegen {

using ir::DType;

namespace {

class RowPrinter {
 public:
  RowPrinter(Source& source, const ElementDag& dag, const RowLoop& loop) : source_(source), dag_(dag), loop_(loop) {
    for (size_t k = 0; k < dag.elements.size(); ++k) varies_.push_back(varies(dag.elements[k]));
    names_.resize(dag.elements.size());
    contracted_.resize(dag.elements.size(), false);
    if (loop.contract) contract();
  }

  void print() {
    for (size_t k = 0; k < dag_.elements.size(); ++k)
      if (!varies_[k] && dag_.elements[k].kind != Element::Kind::constant) define(static_cast<int>(k), 1, "0");
    if (!loop_.at.empty()) return body(static_cast<int>(loop_.vector_width), loop_.at);
    const bool known = !loop_.count.empty() && loop_.count.find_first_not_of("0123456789") == std::string::npos;
    const int64_t count = known ? std::strtoll(loop_.count.c_str(), nullptr, 10) : -1;
    const int64_t width = loop_.vector_width;
    const bool vector = width > 1 && (!known || count >= width), tail = width == 1 || !known || count % width != 0;
    const std::string i = source_.fresh("i");
    if (!loop_.lane.empty()) return dealt(i, vector, tail, known, count);
    source_.line("i64 " + i + " = 0;");
    if (vector && loop_.steps > 1) {
      const std::string stride = std::to_string(width * loop_.steps);
      source_.open("for (; " + i + " + " + stride + " <= " + loop_.count + "; " + i + " += " + stride + ")");
      for (int step = 0; step < loop_.steps; ++step) {
        const std::string at = i + "_" + std::to_string(step);
        source_.open("");
        source_.line("const i64 " + at + " = " + i + " + " + std::to_string(step * width) + ";");
        body(static_cast<int>(width), at);
        source_.close();
      }
      source_.close();
    }
    if (vector) {
      if (loop_.unroll > 1)
        source_.line(source_.explicit_vectors() ? "#pragma GCC unroll " + std::to_string(loop_.unroll) : "UNROLL_BY(" + std::to_string(loop_.unroll) + ")");
      source_.open("for (; " + i + " + " + std::to_string(width) + " <= " + loop_.count + "; " + i + " += " + std::to_string(width) + ")");
      body(static_cast<int>(width), i);
      source_.close();
    }
    if (tail) {
      source_.open("for (; " + i + " < " + loop_.count + "; ++" + i + ")");
      body(1, i);
      source_.close();
    }
  }

 private:
  // The row's vectors, then the elements behind the last one, dealt to threads in turn. All threads leave together.
  void dealt(const std::string& i, bool vector, bool tail, bool known, int64_t count) {
    RTX_ASSERT(loop_.steps == 1, "threads that share a row take single vectors");
    const int64_t width = loop_.vector_width;
    const std::string w = std::to_string(width);
    if (vector) {
      if (loop_.unroll > 1) source_.line("UNROLL_BY(" + std::to_string(loop_.unroll) + ")");
      source_.open("for (i64 " + i + " = i64(" + loop_.lane + ") * " + w + "; " + i + " + " + w + " <= " + loop_.count + "; " + i + " += " +
                   std::to_string(width * loop_.lanes) + ")");
      body(static_cast<int>(width), i);
      source_.close();
    }
    if (tail) {
      std::string first = "i64(" + loop_.lane + ")";
      if (vector) first = (known ? std::to_string(count / width * width) : loop_.count + " / " + w + " * " + w) + " + " + first;
      source_.open("for (i64 " + i + " = " + first + "; " + i + " < " + loop_.count + "; " + i + " += " + std::to_string(loop_.lanes) + ")");
      body(1, i);
      source_.close();
    }
  }

  // Marks the products that are printed as part of the sum that reads them.
  void contract() {
    RTX_ASSERT(source_.explicit_vectors(), "fused multiply-adds are named by the prelude of vectors");
    std::vector<int> readers(dag_.elements.size());
    for (const auto& e : dag_.elements) {
      for (const int a : e.arguments) ++readers[static_cast<size_t>(a)];
      if (e.guard >= 0) ++readers[static_cast<size_t>(e.guard)];
      e.offset.walk([&](const Index& part) {
        if (part.kind() == Index::Kind::element) ++readers[static_cast<size_t>(part.id())];
      });
    }
    for (const auto& s : dag_.stores) ++readers[static_cast<size_t>(s.value)];
    for (const auto& e : dag_.elements)
      if (const int product = product_of(e); product >= 0 && readers[static_cast<size_t>(product)] == 1) contracted_[static_cast<size_t>(product)] = true;
  }
  // The argument of a sum that is a product, -1: none.
  int product_of(const Element& e) const {
    if (e.kind != Element::Kind::op || e.op != ir::Op::add || compute_text(e.dtype) != "f32") return -1;
    for (const int a : e.arguments)
      if (const auto& x = dag_.elements[static_cast<size_t>(a)]; x.kind == Element::Kind::op && x.op == ir::Op::mul && varies_[static_cast<size_t>(a)]) return a;
    return -1;
  }

  bool varies(const Index& index) const {
    bool out = false;
    index.walk([&](const Index& part) {
      if (part.kind() == Index::Kind::variable) out = out || part.id() == loop_.inner;
      if (part.kind() == Index::Kind::element) out = out || varies_[static_cast<size_t>(part.id())];
    });
    return out;
  }
  bool varies(const Element& e) const {
    switch (e.kind) {
      case Element::Kind::leaf: return true;
      case Element::Kind::constant: return false;
      case Element::Kind::load: return varies(e.offset) || (e.guard >= 0 && varies_[static_cast<size_t>(e.guard)]);
      case Element::Kind::index:
      case Element::Kind::in_range: return varies(e.offset);
      default: break;
    }
    for (const int a : e.arguments)
      if (varies_[static_cast<size_t>(a)]) return true;
    return false;
  }

  void body(int width, const std::string& i) {
    for (size_t k = 0; k < dag_.elements.size(); ++k)
      if (varies_[k]) define(static_cast<int>(k), width, i);
    for (const auto& s : dag_.stores) store(s, width, i);
    if (loop_.after) loop_.after(source_, width, i, [&, width](int element) { return value(element, width); });
  }

  // The value of an element for `width` lanes.
  std::string value(int k, int width) const {
    const Element& e = dag_.elements[static_cast<size_t>(k)];
    const bool constant = e.kind == Element::Kind::constant;
    const std::string name = constant ? literal_text(e.dtype, e.real, e.integer) : names_[static_cast<size_t>(k)];
    if (width == 1 || (varies_[static_cast<size_t>(k)] && !constant)) return name;
    if (e.dtype == DType::boolean) return "to_mask<" + std::to_string(width) + ">(" + name + ")";
    return "splat<" + lanes_text(e.dtype, width) + ">(" + name + ")";
  }

  // How an offset moves along the lanes.
  struct Access {
    bool affine = false;
    int64_t step = 0;
  };
  Access access(const Index& offset, int width) const {
    Access out;
    if (!varies(offset)) return {true, 0};
    bool elements = false;
    offset.walk([&](const Index& part) {
      elements = elements || (part.kind() == Index::Kind::element && varies_[static_cast<size_t>(part.id())]);
    });
    const int64_t start = loop_.begin == "0" ? width : std::gcd<int64_t>(loop_.begin_alignment, width);
    out.affine = !elements && offset.affine_in(loop_.inner, width, &out.step, start);
    return out;
  }

  std::string variable(int id, const std::string& position) const {
    if (id == loop_.inner) return loop_.begin == "0" ? position : "(" + loop_.begin + " + " + position + ")";
    const auto found = loop_.outer.find(id);
    return found == loop_.outer.end() ? "v" + std::to_string(id) : found->second;
  }
  // Offset at position `i` of the row; `lane` (not empty): of that lane, i being the first.
  std::string offset_text(const Index& offset, const std::string& i, const std::string& lane = {}) const {
    const std::string position = lane.empty() ? i : "(" + i + " + " + lane + ")";
    return offset.text([&](int id) { return variable(id, position); },
                       [&](int id) {
                         const std::string& name = names_[static_cast<size_t>(id)];
                         if (dag_.elements[static_cast<size_t>(id)].kind == Element::Kind::constant) return value(id, 1);
                         return lane.empty() || !varies_[static_cast<size_t>(id)] ? name : "lane(" + name + ", " + lane + ")";
                       });
  }

  std::string pointer(int buffer) const {
    const auto found = loop_.buffers.find(buffer);
    return found == loop_.buffers.end() ? "b" + std::to_string(buffer) : found->second;
  }

  std::string load(const Element& e, int width, const std::string& i) const {
    const std::string lanes = e.dtype == DType::boolean ? (width == 1 ? "u8" : "vec<u8, " + std::to_string(width) + ">") : lanes_text(e.dtype, width);
    const std::string one = compute_text(e.dtype), p = pointer(e.buffer);
    const auto at = access(e.offset, width);
    const bool guard = e.guard >= 0, lane_guard = guard && varies_[static_cast<size_t>(e.guard)];
    std::string out;
    if (width > 1 && (lane_guard || !at.affine)) {
      const std::string single = "load<" + one + ">(" + p + " + " + offset_text(e.offset, i, "l") + ")";
      const std::string test = lane_guard ? "lane(" + value(e.guard, width) + ", l) ? " + single + " : " + one + "(0)" : single;
      out = "by_lane<" + lanes + ">([&](int l) { return " + test + "; })";
    } else {
      const std::string address = p + " + " + offset_text(e.offset, i);
      if (width == 1) out = "load<" + one + ">(" + address + ")";
      else if (at.step == 1) out = "load<" + lanes + ">(" + address + ")";
      else if (at.step == 0) out = "splat<" + lanes + ">(load<" + one + ">(" + address + "))";
      else out = "load_strided<" + lanes + ">(" + address + ", " + std::to_string(at.step) + ")";
    }
    if (guard && !(width > 1 && lane_guard)) out = "(" + value(e.guard, 1) + " ? " + out + " : " + lanes + "{})";
    if (e.dtype == DType::boolean) out = "to_mask<" + std::to_string(width) + ">(" + out + " != splat<" + lanes + ">(0))";
    return out;
  }

  std::string in_range(const Element& e, int width, const std::string& i) const {
    const bool test_low = e.offset.minimum() < e.low, test_high = e.offset.maximum() >= e.high;
    const auto at = access(e.offset, width);
    const std::string low = std::to_string(e.low), high = std::to_string(e.high);
    const auto scalar = [&](const std::string& c) {
      std::string out = test_low ? c + " >= " + low : "";
      if (test_high) out += (out.empty() ? "" : " && ") + c + " < " + high;
      return out.empty() ? std::string("true") : out;
    };
    if (width == 1) return scalar("(" + offset_text(e.offset, i) + ")");
    const std::string w = std::to_string(width);
    const int64_t limit = int64_t{1} << 30;
    if (!at.affine || e.offset.minimum() < -limit || e.offset.maximum() > limit || std::abs(e.low) > limit || std::abs(e.high) > limit)
      return "by_lane<mask<" + w + ">>([&](int l) { return (" + scalar("(" + offset_text(e.offset, i, "l") + ")") + ") ? -1 : 0; })";
    const std::string ramp = "ramp<mask<" + w + ">>(i32(" + offset_text(e.offset, i) + "), " + std::to_string(at.step) + ")";
    std::string out = test_low ? "(" + ramp + " >= " + low + ")" : "";
    if (test_high) out += (out.empty() ? "" : " & ") + ("(" + ramp + " < " + high + ")");
    return out.empty() ? "to_mask<" + w + ">(true)" : out;
  }

  void define(int k, int width, const std::string& i) {
    const Element& e = dag_.elements[static_cast<size_t>(k)];
    if (contracted_[static_cast<size_t>(k)]) return;
    std::string text;
    switch (e.kind) {
      case Element::Kind::constant: return;
      case Element::Kind::leaf:
        RTX_ASSERT(loop_.leaf, "a family that has leaves says how they are spelled");
        text = loop_.leaf(e.leaf, width, i);
        text = e.dtype == DType::boolean ? "to_mask<" + std::to_string(width) + ">(" + text + ")"
                                         : "widen<" + lanes_text(e.dtype, width) + ">(" + text + ")";
        break;
      case Element::Kind::load: text = load(e, width, i); break;
      case Element::Kind::in_range: text = in_range(e, width, i); break;
      case Element::Kind::index: {
        const auto at = access(e.offset, width);
        const std::string lanes = lanes_text(e.dtype, width), one = compute_text(e.dtype);
        if (width == 1) text = one + "(" + offset_text(e.offset, i) + ")";
        else if (at.affine) text = "ramp<" + lanes + ">(" + one + "(" + offset_text(e.offset, i) + "), " + one + "(" + std::to_string(at.step) + "))";
        else text = "by_lane<" + lanes + ">([&](int l) { return " + one + "(" + offset_text(e.offset, i, "l") + "); })";
        break;
      }
      case Element::Kind::select:
      case Element::Kind::op: {
        if (const int product = product_of(e); product >= 0 && contracted_[static_cast<size_t>(product)]) {
          const auto& factors = dag_.elements[static_cast<size_t>(product)].arguments;
          const int other = e.arguments[0] == product ? e.arguments[1] : e.arguments[0];
          text = "math::fma(" + value(factors[0], width) + ", " + value(factors[1], width) + ", " + value(other, width) + ")";
          break;
        }
        std::vector<std::string> arguments;
        std::vector<DType> types;
        for (const int a : e.arguments) {
          arguments.push_back(value(a, width));
          types.push_back(dag_.elements[static_cast<size_t>(a)].dtype);
        }
        Element spelled = e;
        if (e.kind == Element::Kind::select) spelled.op = ir::Op::where;
        text = operator_text(spelled, arguments, types, width);
        break;
      }
    }
    auto& name = names_[static_cast<size_t>(k)];
    if (name.empty()) name = source_.fresh("t" + std::to_string(k));
    source_.line("const " + lanes_text(e.dtype, width) + " " + name + " = " + text + ";");
  }

  void store(const Store& s, int width, const std::string& i) const {
    const Element& e = dag_.elements[static_cast<size_t>(s.value)];
    const std::string p = pointer(s.buffer);
    std::string x = value(s.value, width);
    if (e.dtype == DType::boolean) x = "as_bool(" + x + ")";
    const auto at = access(s.offset, width);
    if (width == 1 || (at.affine && at.step == 1)) {
      source_.line("store(" + p + " + " + offset_text(s.offset, i) + ", " + x + ");");
    } else if (at.affine) {
      source_.line("store_strided(" + p + " + " + offset_text(s.offset, i) + ", " + std::to_string(at.step) + ", " + x + ");");
    } else {
      source_.line("do_lanes<" + std::to_string(width) + ">([&](int l) { store(" + p + " + " + offset_text(s.offset, i, "l") + ", lane(" + x + ", l)); });");
    }
  }

  Source& source_;
  const ElementDag& dag_;
  const RowLoop& loop_;
  std::vector<bool> varies_;
  std::vector<bool> contracted_;
  std::vector<std::string> names_;
};

}  // namespace

void print_row(Source& source, const ElementDag& dag, const RowLoop& loop) { RowPrinter(source, dag, loop).print(); }

void print_buffers(Source& source, const ElementDag& dag, int first_argument) {
  for (size_t k = 0; k < dag.buffers.size(); ++k) {
    const std::string type = (dag.buffers[k].output ? "" : "const ") + type_text(dag.buffers[k].dtype);
    source.line(type + "* const b" + std::to_string(k) + " = ARG(" + type + ", " + std::to_string(first_argument + static_cast<int>(k)) + ");");
  }
}

std::vector<backend::BufferRef> buffer_arguments(const ElementDag& dag) {
  std::vector<backend::BufferRef> out;
  for (const auto& b : dag.buffers)
    out.push_back({b.output ? backend::BufferKind::output : backend::BufferKind::input, b.position});
  return out;
}

}  // namespace rtx::codegen
