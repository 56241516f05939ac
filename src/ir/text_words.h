#pragma once
// Private to ir: the spelling of names in the text form, shared by the printer, the parser and Dim::text.
#include <string>
#include <string_view>

namespace rtx::ir {

constexpr bool starts_plain_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '%'; }
constexpr bool continues_plain_name(char c) { return starts_plain_name(c) || (c >= '0' && c <= '9') || c == '.' || c == '/'; }

// The name itself when it reads back as one word that means nothing else; otherwise in double quotes, with \" \\ \xHH inside.
std::string spelled(std::string_view name);

}  // namespace rtx::ir
