#pragma once
// Private to ir: the words of the text form.
#include <string>
#include <string_view>

#include "base/result.h"

namespace rtx::ir {

enum class TokenKind : uint8_t { end, word, quoted, number, hash, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // of a quoted name: unescaped; of a hash: the digits; a symbol is one character or "->"
  int line = 1;
  bool is(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
  bool is_word(std::string_view word) const { return kind == TokenKind::word && text == word; }
  bool is_name() const { return kind == TokenKind::quoted || (kind == TokenKind::word && text != "_"); }
};

// One token ahead of the parser. An unreadable character becomes an end token with `problem` set.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }
  const Token& peek() const { return token_; }
  Token take() {
    Token out = std::move(token_);
    advance();
    return out;
  }
  const std::string& problem() const { return problem_; }

 private:
  void advance();
  void skip_blanks();
  void read_quoted();
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  size_t position_ = 0;
  int line_ = 1;
  Token token_;
  std::string problem_;
};

}  // namespace rtx::ir
