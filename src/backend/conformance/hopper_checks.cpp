// The Hopper set (docs/adr/0011) on a device that has it: where boxes land, what products read, which fragments come out.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/conformance/hopper_kernels.h"
#include "backend/conformance/rig.h"
#include "backend/tensor_view.h"
#include "codegen/source.h"

namespace rtx::backend::conformance {

namespace {

// Kernels of one text, and launches of them.
class Text {
 public:
  Text(Bench& bench, const char* kernels) : device_(bench.device()) {
    codegen::Source source(bench.dialect(), "hopper", "backend/conformance", "none", "0 Mflop");
    source.line(kernels);
    auto binary = bench.compile(source.take());
    if (!binary.ok()) {
      problem = binary.error().text();
      return;
    }
    auto module = device_.load(binary->bytes, "hopper");
    if (module.ok()) module_ = *std::move(module);
    else problem = module.error().text();
  }
  struct Shape {
    int64_t groups;
    int threads;
    int64_t scratch;
  };
  Status launch(const std::string& entry, Shape shape, const std::vector<void*>& arguments, const std::vector<TensorView>& views) {
    RTX_TRY(const Function function, device_.function(*module_, entry));
    RTX_CHECK(device_.launch(function, {shape.groups, 1, 1}, {shape.threads, 1, 1}, shape.scratch, arguments.data(), static_cast<int>(arguments.size()), nullptr, views));
    return device_.synchronize(nullptr);
  }

  std::string problem;

 private:
  Device& device_;
  std::unique_ptr<Module> module_;
};

template <class T>
struct Data : Memory {
  Data(Device& device, std::vector<T> from) : Memory(device, static_cast<int64_t>(from.size() * sizeof(T))), host(std::move(from)) {
    if (pointer)
      if (auto done = write(device, *this, host); !done.ok()) error = done.error().text();
  }
  std::vector<T> host;
};

size_t chunk_place(size_t row_bytes, int swizzle, size_t offset) {
  const size_t row = offset / row_bytes, chunk = offset % row_bytes / 16, in = offset % 16;
  const size_t mixed = swizzle == 128 ? chunk ^ (row & 7) : swizzle == 64 ? chunk ^ (row / 2 & 3) : swizzle == 32 ? chunk ^ (row / 4 & 1) : chunk;
  return row * row_bytes + mixed * 16 + in;
}

struct BoxCase {
  TensorView view;
  std::vector<int32_t> at;
  int64_t elements;  // of the whole tensor's memory
};
std::vector<BoxCase> box_cases() {
  std::vector<BoxCase> out;
  const auto add = [&](ViewElement element, std::vector<int64_t> extents, std::vector<int64_t> box, int swizzle, std::vector<int32_t> at) {
    BoxCase c;
    c.view.element = element, c.view.extents = extents, c.view.box = std::move(box), c.view.swizzle = swizzle, c.at = std::move(at);
    int64_t bytes = extents[0] * bytes_of(element);
    for (size_t d = 1; d < extents.size(); ++d) {
      bytes = (bytes + 15) / 16 * 16;
      c.view.strides_bytes.push_back(bytes);
      bytes *= extents[d];
    }
    c.elements = bytes / bytes_of(element);
    out.push_back(std::move(c));
  };
  add(ViewElement::bf16, {200, 37}, {64, 16}, 128, {64, 8});
  add(ViewElement::bf16, {200, 37}, {64, 16}, 128, {160, 30});  // past two ends
  add(ViewElement::bf16, {200, 37}, {64, 16}, 128, {-24, -3});  // before both starts
  add(ViewElement::f16, {100, 20}, {32, 16}, 64, {50, 9});
  add(ViewElement::u16, {100, 20}, {16, 32}, 32, {93, -1});
  add(ViewElement::u8, {50, 9}, {48, 5}, 0, {-5, 6});
  add(ViewElement::f32, {7, 3}, {4, 8}, 0, {5, -4});
  add(ViewElement::u32, {40, 6, 5}, {32, 3, 4}, 128, {20, -1, 3});
  add(ViewElement::bf16, {24, 5, 4, 3}, {8, 2, 3, 2}, 0, {18, 4, 2, -1});
  add(ViewElement::f32, {9, 4, 3, 3, 2}, {8, 2, 2, 2, 3}, 32, {3, 3, -1, 2, 0});
  return out;
}

// The tensor's bytes, by place in memory; the value of a byte depends on where it is.
std::vector<uint8_t> memory_of(const BoxCase& c) {
  std::vector<uint8_t> out(static_cast<size_t>(c.elements * bytes_of(c.view.element)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<uint8_t>(1 + (i * 7 + i / 256) % 250);
  return out;
}
// Calls with the byte offset in the box and that in memory, -1 where the box lies outside.
template <class Visit>
void for_each_byte(const BoxCase& c, Visit visit) {
  const TensorView& v = c.view;
  const int64_t width = bytes_of(v.element), total = box_bytes(v) / width;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i, place = v.byte_offset;
    bool inside = true;
    for (size_t d = 0; d < v.extents.size(); ++d) {
      const int64_t k = rest % v.box[d] + c.at[d];
      rest /= v.box[d];
      inside = inside && k >= 0 && k < v.extents[d];
      place += k * (d == 0 ? width : v.strides_bytes[d - 1]);
    }
    for (int64_t e = 0; e < width; ++e) visit(static_cast<size_t>(i * width + e), inside ? place + e : -1);
  }
}
std::vector<int32_t> parameters_of(const BoxCase& c) {
  std::vector<int32_t> out = {static_cast<int32_t>(box_bytes(c.view))};
  out.insert(out.end(), c.at.begin(), c.at.end());
  return out;
}
std::string name_of(const BoxCase& c) {
  std::string out = std::string(name(c.view.element)) + ", swizzle " + std::to_string(c.view.swizzle) + ", at";
  for (const int32_t k : c.at) out += " " + std::to_string(k);
  return out;
}

std::string boxes_of_every_rank_and_swizzle_arrive_where_they_belong(Bench& bench) {
  Text text(bench, kBoxKernels);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  for (const BoxCase& c : box_cases()) {
    const auto bytes = static_cast<size_t>(box_bytes(c.view));
    Data<uint8_t> x(bench.device(), memory_of(c)), y(bench.device(), std::vector<uint8_t>(bytes, 0xee));
    Data<int32_t> p(bench.device(), parameters_of(c));
    RTX_DONE_OR_RETURN(text.launch("load_" + std::to_string(c.at.size()), {1, 128, static_cast<int64_t>(bytes) + 64}, {x.pointer, y.pointer, p.pointer}, {c.view}));
    RTX_DONE_OR_RETURN(read(bench.device(), &y.host, y));
    std::string wrong;
    for_each_byte(c, [&](size_t at, int64_t from) {
      const uint8_t wanted = from < 0 ? 0 : x.host[static_cast<size_t>(from)], found = y.host[chunk_place(static_cast<size_t>(c.view.box[0] * bytes_of(c.view.element)), c.view.swizzle, at)];
      if (wrong.empty() && found != wanted) wrong = "byte " + std::to_string(at) + " of the box is " + std::to_string(found) + ", not " + std::to_string(wanted) + " (" + name_of(c) + ")";
    });
    RTX_HOLDS_OR_RETURN(wrong.empty(), wrong);
  }
  return {};
}

std::string boxes_are_stored_clipped_and_swizzled_back(Bench& bench) {
  Text text(bench, kBoxKernels);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  for (const BoxCase& c : box_cases()) {
    const auto bytes = static_cast<size_t>(box_bytes(c.view));
    Data<uint8_t> y(bench.device(), memory_of(c));
    Data<int32_t> p(bench.device(), parameters_of(c));
    std::vector<uint8_t> wanted = y.host;
    for_each_byte(c, [&](size_t at, int64_t to) {
      if (to >= 0) wanted[static_cast<size_t>(to)] = static_cast<uint8_t>(chunk_place(static_cast<size_t>(c.view.box[0] * bytes_of(c.view.element)), c.view.swizzle, at) % 251);
    });
    RTX_DONE_OR_RETURN(text.launch("store_" + std::to_string(c.at.size()), {1, 128, static_cast<int64_t>(bytes)}, {y.pointer, p.pointer}, {c.view}));
    RTX_DONE_OR_RETURN(read(bench.device(), &y.host, y));
    const auto differs = std::mismatch(wanted.begin(), wanted.end(), y.host.begin());
    RTX_HOLDS_OR_RETURN(differs.first == wanted.end(), "byte " + std::to_string(differs.first - wanted.begin()) + " of the tensor is " + std::to_string(*differs.second) + ", not " +
                                                           std::to_string(*differs.first) + " (" + name_of(c) + ")");
  }
  return {};
}

std::string f32_is_rounded_to_tf32_as_it_is_loaded(Bench& bench) {
  Text text(bench, kBoxKernels);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  BoxCase c = box_cases()[6];
  c.view.element = ViewElement::tf32, c.at = {0, 0};
  std::vector<float> numbers(static_cast<size_t>(c.elements), 1.f);
  const float hard[] = {1.f + 0x1.8p-11f, 1.f + 0x0.8p-11f, -1.f - 0x1.8p-11f, 3.14159274f};
  std::copy(std::begin(hard), std::end(hard), numbers.begin());
  Data<float> x(bench.device(), numbers), y(bench.device(), std::vector<float>(32));
  Data<int32_t> p(bench.device(), parameters_of(c));
  RTX_DONE_OR_RETURN(text.launch("load_2", {1, 128, 192}, {x.pointer, y.pointer, p.pointer}, {c.view}));
  RTX_DONE_OR_RETURN(read(bench.device(), &y.host, y));
  const float wanted[] = {1.f + 0x1p-10f, 1.f, -1.f - 0x1p-10f, 3.140625f};
  for (size_t i = 0; i < 4; ++i) RTX_HOLDS_OR_RETURN(y.host[i] == wanted[i], "number " + std::to_string(i) + " is " + std::to_string(y.host[i]) + ", not " + std::to_string(wanted[i]));
  return {};
}

// ---- products -----------------------------------------------------------------------------------------------------------------------

// Small whole numbers: products and sums of them are exact everywhere.
double whole(int64_t row, int64_t k, int seed) { return static_cast<double>((row * 7 + k * 3 + row * k % 5 + seed) % 9 - 4); }
uint16_t bf16_of(double x) {
  const auto number = static_cast<float>(x);
  uint32_t code;
  std::memcpy(&code, &number, 4);
  return static_cast<uint16_t>(code >> 16);
}
uint16_t f16_of(double x) {
  if (x == 0) return 0;
  const int exponent = std::ilogb(x);
  return static_cast<uint16_t>((x < 0 ? 0x8000 : 0) | (exponent + 15) << 10 | static_cast<int>((std::fabs(std::ldexp(x, -exponent)) - 1) * 1024));
}
uint8_t e4m3_of(double x) {
  if (x == 0) return 0;
  const int exponent = std::ilogb(x);
  return static_cast<uint8_t>((x < 0 ? 0x80 : 0) | (exponent + 7) << 3 | static_cast<int>((std::fabs(std::ldexp(x, -exponent)) - 1) * 8));
}

// One operand of `extent` rows (columns) and `depth` elements of K: how it lies in memory and in scratch.
struct Operand {
  TensorView view;
  std::vector<int32_t> layout;   // leading, stride, swizzle
  std::vector<int32_t> offsets;  // of the four steps along K
  std::vector<int32_t> boxes;    // place, c0, c1
};
Operand operand(int argument, int64_t extent, ViewElement element, bool transposed, int swizzle, int32_t base) {
  Operand out;
  const int64_t width = bytes_of(element), depth = 128 / width;
  const int64_t inner = transposed ? extent : depth, rows = transposed ? depth : extent, piece = (swizzle ? swizzle : 16) / width;
  out.view.argument = argument, out.view.element = element, out.view.swizzle = swizzle;
  out.view.extents = {inner, rows}, out.view.strides_bytes = {inner * width}, out.view.box = {piece, rows};
  const auto block = static_cast<int32_t>(rows * piece * width);  // bytes of one box
  for (int32_t i = 0; i < inner / piece; ++i) out.boxes.insert(out.boxes.end(), {base + i * block, i * static_cast<int32_t>(piece), 0});
  const int32_t s = swizzle;
  if (!transposed) {
    out.layout = s ? std::vector<int32_t>{16, 8 * s, s} : std::vector<int32_t>{block, 128, 0};
    for (int32_t q = 0; q < 4; ++q) out.offsets.push_back(s ? q * 32 / s * block + q * 32 % s : q * 2 * block);
  } else {  // without a swizzle a box is 8 elements wide and all of K deep
    out.layout = s ? std::vector<int32_t>{block, 8 * s, s} : std::vector<int32_t>{128, block, 0};
    for (int32_t q = 0; q < 4; ++q) out.offsets.push_back(s ? q * 16 * s : q * 256);
  }
  return out;
}
std::vector<int32_t> parameters_of(const Operand& a, const Operand& b, bool a_from_registers) {
  std::vector<int32_t> p = a.layout;
  p.insert(p.end(), b.layout.begin(), b.layout.end());
  p.insert(p.end(), a.offsets.begin(), a.offsets.end());
  p.insert(p.end(), b.offsets.begin(), b.offsets.end());
  p.push_back(a_from_registers ? 0 : static_cast<int32_t>(a.boxes.size() / 3));
  p.push_back(static_cast<int32_t>(b.boxes.size() / 3));
  if (!a_from_registers) p.insert(p.end(), a.boxes.begin(), a.boxes.end());
  p.insert(p.end(), b.boxes.begin(), b.boxes.end());
  return p;
}

template <class T, class Encode>
std::vector<T> matrix(int64_t extent, int64_t depth, bool transposed, int seed, Encode encode) {
  std::vector<T> out(static_cast<size_t>(extent * depth));
  for (int64_t r = 0; r < extent; ++r)
    for (int64_t k = 0; k < depth; ++k) out[static_cast<size_t>(transposed ? k * extent + r : r * depth + k)] = encode(whole(r, k, seed));
  return out;
}

template <class T, class Encode>
std::string multiply(Bench& bench, Text& text, const std::string& entry, ViewElement element, bool ta, bool tb, int sa, int sb, int64_t n, double start, Encode encode) {
  const bool registers = entry.find("registers") != std::string::npos;
  const int64_t depth = 128 / bytes_of(element);
  const Operand a = operand(0, 64, element, ta, sa, 0), b = operand(1, n, element, tb, sb, 32768);
  Data<T> x(bench.device(), matrix<T>(64, depth, ta, 1, encode)), w(bench.device(), matrix<T>(n, depth, tb, 2, encode));
  Data<float> y(bench.device(), std::vector<float>(static_cast<size_t>(64 * n), NAN));
  Data<int32_t> p(bench.device(), parameters_of(a, b, registers));
  RTX_DONE_OR_RETURN(text.launch(entry, {1, 128, 65536 + 64}, {x.pointer, w.pointer, y.pointer, p.pointer}, {a.view, b.view}));
  RTX_DONE_OR_RETURN(read(bench.device(), &y.host, y));
  for (int64_t i = 0; i < 64; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = start;
      for (int64_t k = 0; k < depth; ++k) sum += whole(i, k, 1) * whole(j, k, 2);
      const float found = y.host[static_cast<size_t>(i * n + j)];
      RTX_HOLDS_OR_RETURN(found == sum, entry + ", swizzles " + std::to_string(sa) + " and " + std::to_string(sb) + ": element (" + std::to_string(i) + ", " + std::to_string(j) + ") is " +
                                            std::to_string(found) + ", not " + std::to_string(sum));
    }
  return {};
}

std::string products_read_operands_in_every_major_and_swizzle(Bench& bench) {
  Text text(bench, kProductKernels);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  for (const int sa : {128, 64, 32, 0})
    for (const int sb : {128, 64, 32, 0})
      for (const bool ta : {false, true})
        for (const bool tb : {false, true}) {
          const std::string entry = std::string("product_") + (ta ? "1" : "0") + (tb ? "1" : "0");
          if (std::string wrong = multiply<uint16_t>(bench, text, entry, ViewElement::bf16, ta, tb, sa, sb, 128, 0, bf16_of); !wrong.empty()) return wrong;
        }
  return {};
}

std::string products_take_a_from_registers_and_other_types(Bench& bench) {
  Text text(bench, kProductKernels);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  for (const int s : {128, 64, 32, 0}) {
    std::string wrong;
    for (const bool tb : {false, true})
      if (wrong.empty()) wrong = multiply<uint16_t>(bench, text, std::string("product_registers_") + (tb ? "1" : "0"), ViewElement::bf16, false, tb, 128, s, 128, 0, bf16_of);
    if (wrong.empty()) wrong = multiply<uint16_t>(bench, text, "product_f16", ViewElement::f16, false, false, s, s, 64, 100, f16_of);
    if (wrong.empty()) wrong = multiply<float>(bench, text, "product_tf32", ViewElement::tf32, false, false, s, s, 64, 100, [](double x) { return static_cast<float>(x); });
    if (wrong.empty()) wrong = multiply<uint8_t>(bench, text, "product_e4m3", ViewElement::u8, false, false, s, s, 64, 100, e4m3_of);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

std::string a_ring_of_boxes_under_products_multiplies_ragged_matrices(Bench& bench) {
  Text text(bench, kRingKernel);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  struct Case {
    int64_t m, n, k;
  };
  for (const Case c : {Case{128, 128, 64}, Case{128, 256, 192}, Case{200, 136, 328}, Case{1, 8, 8}, Case{129, 8, 640}}) {
    const auto view = [](int argument, int64_t rows, int64_t columns, int64_t box_rows) {
      TensorView out;
      out.argument = argument, out.element = ViewElement::bf16, out.swizzle = 128;
      out.extents = {columns, rows}, out.strides_bytes = {columns * 2}, out.box = {64, box_rows};
      return out;
    };
    const int64_t tiles_n = (c.n + 127) / 128, tiles = (c.m + 127) / 128 * tiles_n;
    Data<uint16_t> a(bench.device(), matrix<uint16_t>(c.m, c.k, false, 1, bf16_of)), b(bench.device(), matrix<uint16_t>(c.n, c.k, false, 2, bf16_of));
    Data<uint16_t> y(bench.device(), std::vector<uint16_t>(static_cast<size_t>(c.m * c.n + 512), 0x7fff));  // the rest stays as it is
    Data<int32_t> p(bench.device(), {static_cast<int32_t>(tiles_n), static_cast<int32_t>((c.k + 63) / 64)});
    RTX_DONE_OR_RETURN(text.launch("ring", {tiles, 384, kRingScratch}, {a.pointer, b.pointer, y.pointer, p.pointer}, {view(0, c.m, c.k, 128), view(1, c.n, c.k, 128), view(2, c.m, c.n, 64)}));
    RTX_DONE_OR_RETURN(read(bench.device(), &y.host, y));
    const std::string shape = std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k);
    for (int64_t i = 0; i < c.m; ++i)
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < c.k; ++k) sum += whole(i, k, 1) * whole(j, k, 2);
        const uint32_t code = static_cast<uint32_t>(y.host[static_cast<size_t>(i * c.n + j)]) << 16;
        float found;
        std::memcpy(&found, &code, 4);
        RTX_HOLDS_OR_RETURN(std::fabs(found - sum) <= 0.004 * std::fabs(sum), shape + ": element (" + std::to_string(i) + ", " + std::to_string(j) + ") is " + std::to_string(found) + ", not " + std::to_string(sum));
      }
    for (size_t i = static_cast<size_t>(c.m * c.n); i < y.host.size(); ++i) RTX_HOLDS_OR_RETURN(y.host[i] == 0x7fff, shape + ": something was written behind the matrix");
  }
  return {};
}

std::string clusters_share_boxes_arrivals_and_scratch(Bench& bench) {
  Text text(bench, kClusterKernel);
  RTX_HOLDS_OR_RETURN(text.problem.empty(), text.problem);
  constexpr int64_t clusters = 3;
  std::vector<int32_t> numbers(64 * 32 * clusters);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<int32_t>(i * 3 + 1);
  Data<int32_t> x(bench.device(), numbers), y(bench.device(), std::vector<int32_t>(2 * clusters * 2049, -1));
  TensorView view;
  view.element = ViewElement::u32, view.extents = {32, 64 * clusters}, view.strides_bytes = {128}, view.box = {32, 32};
  RTX_DONE_OR_RETURN(text.launch("share", {2 * clusters, 128, 8192 + 64}, {x.pointer, y.pointer}, {view}));
  RTX_DONE_OR_RETURN(read(bench.device(), &y.host, y));
  for (size_t g = 0; g < 2 * clusters; ++g)
    for (size_t i = 0; i <= 2048; ++i) {
      const int32_t wanted = i == 2048 ? 1000 + static_cast<int32_t>(g ^ 1) : x.host[g / 2 * 2048 + i], found = y.host[g * 2049 + i];
      RTX_HOLDS_OR_RETURN(found == wanted, "number " + std::to_string(i) + " of group " + std::to_string(g) + " is " + std::to_string(found) + ", not " + std::to_string(wanted));
    }
  return {};
}

}  // namespace

const std::vector<Check>& hopper_checks() {
  static const std::vector<Check> all = {
      {"boxes_of_every_rank_and_swizzle_arrive_where_they_belong", boxes_of_every_rank_and_swizzle_arrive_where_they_belong},
      {"boxes_are_stored_clipped_and_swizzled_back", boxes_are_stored_clipped_and_swizzled_back},
      {"f32_is_rounded_to_tf32_as_it_is_loaded", f32_is_rounded_to_tf32_as_it_is_loaded},
      {"products_read_operands_in_every_major_and_swizzle", products_read_operands_in_every_major_and_swizzle},
      {"products_take_a_from_registers_and_other_types", products_take_a_from_registers_and_other_types},
      {"a_ring_of_boxes_under_products_multiplies_ragged_matrices", a_ring_of_boxes_under_products_multiplies_ragged_matrices},
      {"clusters_share_boxes_arrivals_and_scratch", clusters_share_boxes_arrivals_and_scratch}};
  return all;
}

}  // namespace rtx::backend::conformance
