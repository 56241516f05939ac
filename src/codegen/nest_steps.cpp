// Nests for groups of many threads: every vector of a row is a step, and a step is a thread's.
#include "codegen/nest.h"
#include "codegen/print.h"

namespace rtx::codegen {

namespace {

int64_t row_of(const LoopNest& nest) { return nest.order.empty() ? 1 : nest.extents[static_cast<size_t>(nest.order.back())]; }

}  // namespace

int64_t steps_of(const LoopNest& nest, int64_t vector_width) {
  const int64_t row = row_of(nest);
  return nest.count() / row * (row / vector_width + row % vector_width);
}

void print_coordinates(Source& source, const std::vector<int64_t>& extents, const std::vector<int>& order, const std::string& number, int64_t count) {
  // Division of 32 bits is several times cheaper than of 64; where numbers are small enough it is what is printed.
  const bool small = count <= (int64_t{1} << 32);
  const std::string from = small ? source.fresh("rest") : number;
  if (small) source.line("[[maybe_unused]] const u32 " + from + " = u32(" + number + ");");
  const auto divisor = [&](int64_t d) { return std::to_string(d) + (small ? "u" : ""); };
  int64_t below = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const int64_t n = extents[static_cast<size_t>(order[k])];
    std::string text = below == 1 ? from : from + " / " + divisor(below);
    if (k > 0) text = (below == 1 ? text : "(" + text + ")") + " % " + divisor(n);
    source.line("const i64 v" + std::to_string(order[k]) + " = i64(" + text + ");");
    below *= n;
  }
}

void print_step(Source& source, const LoopNest& nest, int64_t vector_width, const std::string& step) {
  RowLoop row;
  if (nest.order.empty()) {
    row.inner = -1;
    row.count = "1";
    row.vector_width = 1;
    print_row(source, nest.dag, row);
    return;
  }
  const int64_t n = row_of(nest), whole = n / vector_width, rest = n % vector_width, each = whole + rest;
  const std::vector<int> outer(nest.order.begin(), nest.order.end() - 1);
  std::string number = step, place = "0";
  if (outer.empty()) {
    place = step;
  } else if (each > 1) {
    place = source.fresh("place");
    number = source.fresh("row");
    const bool small = steps_of(nest, vector_width) <= (int64_t{1} << 32);
    const std::string type = small ? "u32" : "i64", s = small ? "u32(" + step + ")" : step, d = std::to_string(each) + (small ? "u" : "");
    source.line("const " + type + " " + number + " = " + s + " / " + d + ";");
    source.line("const i64 " + place + " = i64(" + s + " - " + number + " * " + d + ");");
  }
  print_coordinates(source, nest.extents, outer, number, nest.count() / n);
  row.inner = nest.order.back();
  row.at = source.fresh("i");
  const auto body = [&](int64_t width, const std::string& position) {
    source.line("const i64 " + row.at + " = " + position + ";");
    row.vector_width = static_cast<int>(width);
    print_row(source, nest.dag, row);
  };
  const std::string w = std::to_string(vector_width);
  if (rest == 0 || whole == 0) {
    body(whole == 0 ? 1 : vector_width, whole == 0 || vector_width == 1 ? place : place + " * " + w);
    return;
  }
  source.open("if (" + place + " < " + std::to_string(whole) + ")");
  body(vector_width, place + " * " + w);
  source.close();
  source.open("else");
  body(1, std::to_string(whole * vector_width - whole) + " + " + place);
  source.close();
}

}  // namespace rtx::codegen
