#include <charconv>
#include <unordered_map>

#include "base/assert.h"
#include "base/hash.h"
#include "base/text.h"
#include "ir/infer.h"
#include "ir/text.h"
#include "ir/text_lexer.h"

namespace rtx::ir {
namespace {

constexpr int kDeepestDimension = 64;

template <class T>
bool read_number(const std::string& text, T& out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size();
}

bool set_element(HostTensor& tensor, int64_t i, const std::string& text) {
  if (tensor.dtype() == DType::boolean) {
    if (text != "true" && text != "false" && text != "1" && text != "0") return false;
    tensor.set_int(i, text == "true" || text == "1");
    return true;
  }
  if (tensor.dtype() == DType::u64) {
    uint64_t value = 0;
    if (!read_number(text, value)) return false;
    tensor.set_int(i, static_cast<int64_t>(value));
    return true;
  }
  if (is_integer(tensor.dtype())) {
    int64_t value = 0;
    if (!read_number(text, value)) return false;
    tensor.set_int(i, value);
    return tensor.get_int(i) == value;
  }
  double value = 0;
  if (!read_number(text, value)) return false;
  float once = 0;  // a decimal near a tie is rounded once, not to double first
  if (tensor.dtype() == DType::f32 && read_number(text, once)) value = once;
  tensor.set_double(i, value);
  return true;
}

// What stands after a colon: both parts optional.
struct WrittenType {
  std::optional<DType> dtype;
  std::optional<Shape> shape;
  bool given() const { return dtype || shape; }
};

struct WrittenResult {
  std::string name;
  WrittenType type;
};

// An operand: a value, an absent input, or a literal that becomes a scalar constant of its neighbours' type.
struct Operand {
  ValueId value = kNoValue;
  std::string literal;
};

class Parser {
 public:
  Parser(std::string_view text, const std::map<std::string, HostTensor>& constants, bool structure_only = false)
      : lexer_(text), constants_(constants), structure_only_(structure_only) {}

  Result<Graph> parse() {
    while (lexer_.peek().kind != TokenKind::end) {
      const int line = lexer_.peek().line;
      if (auto status = statement(); !status.ok()) return std::move(status).error().in("line " + std::to_string(line));
      if (lexer_.peek().kind != TokenKind::end) RTX_CHECK(expect(";"));
    }
    if (!lexer_.problem().empty()) return fail(lexer_.problem());
    if (!returned_) return fail("there is no return statement");
    return std::move(graph_);
  }

 private:
  static Error fail(std::string why) { return user_error("graph text is not well formed", std::move(why)); }

  Status expect(std::string_view symbol) {
    if (!lexer_.peek().is(symbol)) return fail("expected '" + std::string(symbol) + "', found " + found());
    lexer_.take();
    return success();
  }
  std::string found() const {
    if (!lexer_.problem().empty()) return lexer_.problem();
    return lexer_.peek().kind == TokenKind::end ? "the end" : "'" + lexer_.peek().text + "'";
  }
  bool accept(std::string_view symbol) {
    if (!lexer_.peek().is(symbol)) return false;
    lexer_.take();
    return true;
  }
  bool accept_word(std::string_view word) {
    if (!lexer_.peek().is_word(word)) return false;
    lexer_.take();
    return true;
  }
  Result<std::string> name() {
    if (!lexer_.peek().is_name()) return fail("expected a name, found " + found());
    return lexer_.take().text;
  }

  Status statement() {
    if (lexer_.peek().is(";")) return success();
    if (returned_) return fail("return must be the last statement");
    if (accept_word("graph")) return graph_statement();
    if (accept_word("symbol")) return symbol_statement();
    if (accept_word("state")) return state_statement();
    if (accept_word("specialized")) return specialized_statement();
    if (accept_word("return")) return return_statement();
    if (accept("(")) {
      std::vector<WrittenResult> results;
      do {
        RTX_TRY(auto result, result_name());
        results.push_back(std::move(result));
      } while (accept(","));
      RTX_CHECK(expect(")"));
      RTX_CHECK(expect("="));
      return node_statement(std::move(results));
    }
    RTX_TRY(auto first, name());
    if (accept("=")) return node_statement({{std::move(first), {}}});
    RTX_CHECK(expect(":"));
    if (accept_word("const")) return constant_statement(std::move(first));
    RTX_TRY(auto type, written_type());
    if (accept("=")) return node_statement({{std::move(first), std::move(type)}});
    return input_statement(std::move(first), std::move(type));
  }

  Result<WrittenResult> result_name() {
    RTX_TRY(auto result, name());
    WrittenResult out{std::move(result), {}};
    if (accept(":")) {
      RTX_TRY(out.type, written_type());
    }
    return out;
  }

  Status graph_statement() {
    RTX_TRY(graph_.name, name());
    return success();
  }

  Status symbol_statement() {
    Symbol symbol;
    RTX_TRY(symbol.name, name());
    while (lexer_.peek().kind == TokenKind::word) {
      const std::string word = lexer_.take().text;
      RTX_CHECK(expect("="));
      RTX_TRY(int64_t value, integer());
      if (word == "min") symbol.minimum = value;
      else if (word == "max") symbol.maximum = value;
      else if (word == "multiple") symbol.multiple = value;
      else return fail("a symbol has min, max and multiple, not " + word);
    }
    symbols_[symbol.name] = symbol;
    return success();
  }

  Status state_statement() {
    State state;
    RTX_TRY(state.name, name());
    RTX_CHECK(expect(":"));
    RTX_TRY(state.input, defined_value());
    RTX_CHECK(expect("->"));
    RTX_TRY(state.output, defined_value());
    while (lexer_.peek().kind == TokenKind::word) {
      const std::string word = lexer_.take().text;
      RTX_CHECK(expect("="));
      RTX_TRY(int64_t value, integer());
      if (word == "axis" && value >= 0 && value < 64) state.axis = static_cast<int>(value);
      else if (word == "max") state.maximum = value;
      else return fail("a state has axis and max, not " + word + "=" + std::to_string(value));
    }
    graph_.states.push_back(std::move(state));
    return success();
  }

  Status specialized_statement() {
    RTX_TRY(auto input, name());
    RTX_CHECK(expect(":"));
    RTX_TRY(auto type, full_type());
    RTX_TRY(auto tensor, elements(*type.dtype, *type.shape));
    graph_.specialized.push_back({std::move(input), std::move(tensor)});
    return success();
  }

  Status return_statement() {
    returned_ = true;
    bool renamed = false;
    std::vector<std::string> names;
    while (lexer_.peek().is_name()) {
      RTX_TRY(ValueId id, defined_value());
      graph_.outputs.push_back(id);
      names.push_back(graph_.value(id).name);
      if (accept_word("as")) {
        RTX_TRY(names.back(), name());
        renamed = true;
      }
      if (!accept(",")) break;
    }
    if (renamed) graph_.output_names = std::move(names);
    return success();
  }

  Status input_statement(std::string input, WrittenType type) {
    if (!type.dtype || !type.shape) return fail("input " + input + " needs an element type and a shape");
    Layout layout;
    RTX_CHECK(written_layout(layout));
    const bool weight = accept_word("weight");
    RTX_CHECK(define(input, static_cast<ValueId>(graph_.values.size())));
    const ValueId id = graph_.add_input(std::move(input), *type.dtype, std::move(*type.shape), std::move(layout));
    graph_.value(id).weight = weight;
    return success();
  }

  Status written_layout(Layout& layout) {
    if (accept_word("strides")) {
      RTX_TRY(layout.strides, integer_list());
    }
    if (accept_word("offset")) {
      RTX_TRY(layout.offset, integer());
    }
    return success();
  }

  Status constant_statement(std::string constant) {
    RTX_TRY(auto type, full_type());
    auto add = [&](HostTensor tensor) -> Status {
      RTX_CHECK(define(constant, static_cast<ValueId>(graph_.values.size())));
      graph_.add_constant(constant, std::move(tensor));
      return success();
    };
    if (lexer_.peek().is("{")) {
      RTX_TRY(auto tensor, elements(*type.dtype, *type.shape));
      return add(std::move(tensor));
    }
    const std::string hash = lexer_.peek().kind == TokenKind::hash ? lexer_.take().text : std::string();
    auto given = constants_.find(constant);
    if (given == constants_.end() && structure_only_) {
      RTX_CHECK(define(constant, static_cast<ValueId>(graph_.values.size())));
      graph_.add_input(constant, *type.dtype, *type.shape);
      graph_.inputs.pop_back();
      return success();
    }
    if (given == constants_.end()) return fail("the values of constant " + constant + " are not in the text and not given beside it");
    const HostTensor& tensor = given->second;
    if (tensor.dtype() != *type.dtype || to_shape(tensor.extents()) != *type.shape) {
      return fail("constant " + constant + " is given as " + std::string(ir::name(tensor.dtype())) + text(tensor.extents()));
    }
    if (!hash.empty() && blake2b_hex(tensor.bytes(), static_cast<size_t>(tensor.byte_size()), 16).substr(0, 16) != hash) {
      return fail("the values given for constant " + constant + " do not have hash " + hash);
    }
    return add(tensor);
  }

  Status node_statement(std::vector<WrittenResult> results) {
    if (lexer_.peek().kind != TokenKind::word) return fail("expected an operator, found " + found());
    const std::string word = lexer_.take().text;
    const auto op = op_from_name(word);
    if (!op) return unknown_operator(word);
    RTX_CHECK(expect("("));
    std::vector<Operand> operands;
    Attributes attributes;
    while (!lexer_.peek().is(")")) {
      RTX_CHECK(argument(operands, attributes));
      if (!accept(",")) break;
    }
    RTX_CHECK(expect(")"));
    if (accept(":")) {
      RTX_TRY(results[0].type, written_type());
    }
    Layout layout;
    RTX_CHECK(written_layout(layout));
    std::vector<ValueId> inputs = resolve(*op, operands);
    RTX_TRY(auto ids, add(*op, std::move(inputs), std::move(attributes), results));
    for (size_t i = 0; i < ids.size(); ++i) {
      Value& value = graph_.value(ids[i]);
      const WrittenType& type = results[i].type;
      if ((type.dtype && *type.dtype != value.dtype) || (type.shape && *type.shape != value.shape)) {
        return fail(results[i].name + " is " + std::string(ir::name(value.dtype)) + text(value.shape) + ", not what its type says");
      }
      RTX_CHECK(define(results[i].name, ids[i]));
      value.name = results[i].name;
    }
    graph_.value(ids[0]).layout = std::move(layout);
    return success();
  }

  Result<std::vector<ValueId>> add(Op op, std::vector<ValueId> inputs, Attributes attributes, const std::vector<WrittenResult>& results) {
    const bool states_type = op == Op::cast || op == Op::reshape || op == Op::slice || op == Op::expand;
    if (!states_type || inputs.empty()) return graph_.try_add_nodes(op, std::move(inputs), static_cast<int>(results.size()), std::move(attributes));
    const WrittenType& type = results[0].type;
    if (op == Op::cast ? !type.dtype : !type.shape) return fail("the result of " + std::string(ir::name(op)) + " needs a type after a colon");
    const bool has_input = inputs[0] != kNoValue;
    const DType dtype = type.dtype ? *type.dtype : has_input ? graph_.value(inputs[0]).dtype : DType::f32;
    const Shape shape = type.shape ? *type.shape : Shape();
    RTX_TRY(ValueId id, graph_.try_add_node_as(op, std::move(inputs), dtype, shape, std::move(attributes)));
    if (results.size() != 1) return fail("the operator has one result");
    return std::vector<ValueId>{id};
  }

  Error unknown_operator(const std::string& word) {
    std::vector<std::string> known;
    for (size_t i = 0; i < static_cast<size_t>(Op::count_); ++i) known.emplace_back(ir::name(static_cast<Op>(i)));
    Error error = fail("there is no operator " + word);
    if (auto near = nearest(word, known); !near.empty()) error.fix = "did you mean " + near + "?";
    return error;
  }

  Status argument(std::vector<Operand>& operands, Attributes& attributes) {
    const Token& next = lexer_.peek();
    if (accept_word("_")) {
      operands.push_back({});
      return success();
    }
    if (next.is("-") || next.kind == TokenKind::number || next.is_word("inf") || next.is_word("nan") || next.is_word("true") || next.is_word("false")) {
      Operand literal;
      RTX_TRY(literal.literal, number_text());
      operands.push_back(std::move(literal));
      return success();
    }
    RTX_TRY(auto word, name());
    if (!accept("=")) {
      RTX_TRY(ValueId id, find(word));
      operands.push_back({id, {}});
      return success();
    }
    RTX_TRY(auto value, attribute());
    if (!attributes.items.emplace(word, std::move(value)).second) return fail("attribute " + word + " is given twice");
    return success();
  }

  Result<Attribute> attribute() {
    if (lexer_.peek().is("[")) {
      RTX_TRY(auto list, integer_list());
      return Attribute(std::move(list));
    }
    RTX_TRY(auto written, number_text());
    int64_t whole = 0;
    if (read_number(written, whole)) return Attribute(whole);
    if (written.find_first_of(".enE") == std::string::npos) return fail("'" + written + "' is not a 64-bit integer");
    double number = 0;
    if (read_number(written, number)) return Attribute(number);
    return fail("'" + written + "' is not a number");
  }

  // Literals become scalars of the first real operand's type (of the branches, for where).
  std::vector<ValueId> resolve(Op op, const std::vector<Operand>& operands) {
    DType dtype = DType::f32;
    for (size_t i = op == Op::where ? 1 : 0; i < operands.size(); ++i) {
      if (operands[i].value == kNoValue) continue;
      dtype = graph_.value(operands[i].value).dtype;
      break;
    }
    std::vector<ValueId> inputs;
    for (const auto& operand : operands) {
      if (operand.literal.empty()) {
        inputs.push_back(operand.value);
        continue;
      }
      HostTensor scalar(dtype, {});
      if (!set_element(scalar, 0, operand.literal)) scalar = HostTensor::scalar(DType::f32, 0);  // infer refuses the mixed types
      std::string fresh = graph_.fresh_name("literal");
      names_[fresh] = static_cast<ValueId>(graph_.values.size());
      inputs.push_back(graph_.add_constant(std::move(fresh), std::move(scalar)));
    }
    return inputs;
  }

  Result<std::string> number_text() {
    std::string out = accept("-") ? "-" : "";
    const Token& next = lexer_.peek();
    const bool word = next.is_word("inf") || next.is_word("nan") || (out.empty() && (next.is_word("true") || next.is_word("false")));
    if (next.kind != TokenKind::number && !word) return fail("expected a number, found " + found());
    return out + lexer_.take().text;
  }

  Result<int64_t> integer() {
    RTX_TRY(auto written, number_text());
    int64_t value = 0;
    if (!read_number(written, value)) return fail("'" + written + "' is not a 64-bit integer");
    return value;
  }

  Result<std::vector<int64_t>> integer_list() {
    RTX_CHECK(expect("["));
    std::vector<int64_t> out;
    while (!lexer_.peek().is("]")) {
      RTX_TRY(int64_t value, integer());
      out.push_back(value);
      if (!accept(",")) break;
    }
    RTX_CHECK(expect("]"));
    return out;
  }

  Result<WrittenType> written_type() {
    WrittenType out;
    if (lexer_.peek().kind == TokenKind::word) {
      const std::string word = lexer_.take().text;
      out.dtype = dtype_from_name(word);
      if (!out.dtype) return fail("'" + word + "' is not an element type");
    }
    if (accept("[")) {
      Shape shape;
      while (!lexer_.peek().is("]")) {
        RTX_TRY(auto dim, dimension(0));
        shape.push_back(std::move(dim));
        if (!accept(",")) break;
      }
      RTX_CHECK(expect("]"));
      if (is_bound(shape)) {
        auto count = checked_element_count(extents(shape));
        if (!count.ok()) return fail(count.error().what);
      }
      out.shape = std::move(shape);
    }
    if (!out.given()) return fail("expected a type, found " + found());
    return out;
  }

  Result<WrittenType> full_type() {
    RTX_TRY(auto type, written_type());
    if (!type.dtype || !type.shape || !is_bound(*type.shape)) return fail("a tensor needs an element type and a constant shape");
    return type;
  }

  Result<Dim> dimension(int depth) {
    if (depth > kDeepestDimension) return fail("a dimension is nested too deeply");
    if (accept("(")) {
      RTX_TRY(auto left, dimension(depth + 1));
      const Token op = lexer_.take();
      RTX_TRY(auto right, dimension(depth + 1));
      RTX_CHECK(expect(")"));
      if (op.is("+")) return left + right;
      if (op.is("-")) return left - right;
      if (op.is("*")) return left * right;
      if (op.is("/")) return left / right;
      return fail("a dimension has no operator '" + op.text + "'");
    }
    if (lexer_.peek().is_name()) {
      const std::string symbol = lexer_.take().text;
      auto declared = symbols_.find(symbol);
      return Dim::symbol(declared == symbols_.end() ? Symbol{.name = symbol} : declared->second);
    }
    RTX_TRY(int64_t value, integer());
    return Dim(value);
  }

  Result<HostTensor> elements(DType dtype, const Shape& shape) {
    RTX_CHECK(expect("{"));
    std::vector<std::string> written;
    while (!lexer_.peek().is("}")) {
      RTX_TRY(auto element, number_text());
      written.push_back(std::move(element));
      if (!accept(",")) break;
    }
    RTX_CHECK(expect("}"));
    const auto sizes = extents(shape);
    if (element_count(sizes) != static_cast<int64_t>(written.size())) {
      return fail("shape " + text(sizes) + " has " + std::to_string(element_count(sizes)) + " elements, found " + std::to_string(written.size()));
    }
    HostTensor tensor(dtype, sizes);
    for (size_t i = 0; i < written.size(); ++i) {
      if (!set_element(tensor, static_cast<int64_t>(i), written[i])) {
        return fail("'" + written[i] + "' is not a value of " + std::string(ir::name(dtype)));
      }
    }
    return tensor;
  }

  Status define(const std::string& value, ValueId id) {
    if (!names_.emplace(value, id).second) return fail("value " + value + " is defined twice");
    return success();
  }

  Result<ValueId> find(const std::string& value) const {
    auto found = names_.find(value);
    if (found == names_.end()) return fail("value " + value + " is not defined before its use");
    return found->second;
  }

  Result<ValueId> defined_value() {
    RTX_TRY(auto word, name());
    return find(word);
  }

  Lexer lexer_;
  const std::map<std::string, HostTensor>& constants_;
  bool structure_only_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> names_;
  std::map<std::string, Symbol> symbols_;
  bool returned_ = false;
};

}  // namespace

Result<Graph> parse(std::string_view text, const std::map<std::string, HostTensor>& constants) { return Parser(text, constants).parse(); }

Result<Graph> parse_structure(std::string_view text) { return Parser(text, {}, true).parse(); }

Graph parse_or_die(std::string_view text) {
  auto graph = parse(text);
  if (!graph.ok()) assertion_failed(graph.error().text().c_str(), "a test's graph text parses", __FILE_NAME__, __LINE__);
  return *std::move(graph);
}

}  // namespace rtx::ir
