#include <array>

#include "base/hash.h"
#include "cache/cache.h"

namespace rtx::cache {

namespace {

struct Field {
  const char* name;
  std::string Key::*member;
};

// The canonical order; a change here is a new kKeyVersion.
constexpr std::array<Field, 9> kFields = {{{"op", &Key::op},
                                           {"problem", &Key::problem},
                                           {"flags", &Key::flags},
                                           {"target", &Key::target},
                                           {"device", &Key::device},
                                           {"arch", &Key::arch},
                                           {"driver", &Key::driver},
                                           {"toolchain", &Key::toolchain},
                                           {"synth_sha", &Key::synth_sha}}};

// One field is one line: line breaks inside a value are written as \n.
std::string escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') out += "\\n";
    else if (c == '\\') out += "\\\\";
    else out += c;
  }
  return out;
}

std::string unescaped(std::string_view value) {
  std::string out;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) out += value[++i] == 'n' ? '\n' : value[i];
    else out += value[i];
  }
  return out;
}

}  // namespace

std::string Key::text() const {
  std::string out = "key_version: " + std::to_string(kKeyVersion) + "\n";
  for (const auto& field : kFields) out += std::string(field.name) + ": " + escaped(this->*(field.member)) + "\n";
  return out;
}

std::string Key::digest() const { return blake2b_hex(text(), 16); }

std::optional<Key> Key::parse(std::string_view text) {
  Key key;
  const auto take_line = [&](std::string_view name) -> std::optional<std::string> {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::string prefix = std::string(name) + ": ";
    if (line.substr(0, prefix.size()) != prefix) return std::nullopt;
    return unescaped(line.substr(prefix.size()));
  };
  const auto version = take_line("key_version");
  if (!version || *version != std::to_string(kKeyVersion)) return std::nullopt;
  for (const auto& field : kFields) {
    auto value = take_line(field.name);
    if (!value) return std::nullopt;
    key.*(field.member) = std::move(*value);
  }
  if (!text.empty()) return std::nullopt;
  return key;
}

std::string default_directory(const std::function<std::optional<std::string>(const char*)>& environment) {
  const auto usable = [&](const char* name) {
    auto value = environment(name);
    return value && !value->empty() ? value : std::nullopt;
  };
  if (auto directory = usable("RTX_CACHE_DIR")) return *directory;
  if (auto directory = usable("XDG_CACHE_HOME"); directory && directory->front() == '/') return *directory + "/rtx-synth";
  if (auto home = usable("HOME"); home && home->front() == '/') return (*home == "/" ? "" : *home) + "/.cache/rtx-synth";
  return {};
}

}  // namespace rtx::cache
