#include "ir/text_lexer.h"

#include "ir/text_words.h"

namespace rtx::ir {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

void Lexer::skip_blanks() {
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (c == '/' && at(position_ + 1) == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    }
    if (at(position_) == '\n') ++line_;
    const char now = at(position_);
    if (now != ' ' && now != '\t' && now != '\r' && now != '\n') return;
  }
}

void Lexer::read_quoted() {
  token_.kind = TokenKind::quoted;
  for (++position_; position_ < text_.size(); ++position_) {
    char c = text_[position_];
    if (c == '"') {
      ++position_;
      return;
    }
    if (c == '\\') {
      c = at(++position_);
      if (c == 'x') {
        const int high = hex_value(at(position_ + 1));
        const int low = high < 0 ? -1 : hex_value(at(position_ + 2));
        if (low < 0) break;
        position_ += 2;
        c = static_cast<char>(high * 16 + low);
      } else if (c != '"' && c != '\\') {
        break;
      }
    }
    token_.text += c;
  }
  token_ = Token{TokenKind::end, {}, line_};
  problem_ = "a quoted name does not end or holds an unknown escape";
  position_ = text_.size();
}

void Lexer::advance() {
  skip_blanks();
  token_ = Token{TokenKind::end, {}, line_};
  if (position_ >= text_.size()) return;
  const size_t begin = position_;
  const char c = text_[begin];
  auto take_while = [&](auto&& fits) {
    while (position_ < text_.size() && fits(text_[position_])) ++position_;
    token_.text = std::string(text_.substr(begin, position_ - begin));
  };
  if (c == '"') {
    read_quoted();
  } else if (starts_plain_name(c)) {
    token_.kind = TokenKind::word;
    take_while(continues_plain_name);
  } else if (is_digit(c) || (c == '.' && is_digit(at(begin + 1)))) {
    token_.kind = TokenKind::number;
    take_while([&](char next) {
      const char before = position_ > begin ? text_[position_ - 1] : '\0';
      return is_digit(next) || next == '.' || next == 'e' || next == 'E' || ((next == '-' || next == '+') && (before == 'e' || before == 'E'));
    });
  } else if (c == '#') {
    token_.kind = TokenKind::hash;
    ++position_;
    take_while([](char next) { return hex_value(next) >= 0; });
    token_.text.erase(0, 1);
  } else if (c == '-' && at(begin + 1) == '>') {
    token_.kind = TokenKind::symbol;
    token_.text = "->";
    position_ += 2;
  } else if (std::string_view(":;,=()[]{}+-*/").find(c) != std::string_view::npos) {
    token_.kind = TokenKind::symbol;
    token_.text = c;
    ++position_;
  } else {
    problem_ = std::string("character '") + c + "' has no meaning here";
    position_ = text_.size();
  }
}

}  // namespace rtx::ir
