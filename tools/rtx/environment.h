#pragma once
// The environment, read here and nowhere else; `rtx --help` lists the table.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rtx::tools {

struct Variable {
  const char* name;
  const char* meaning;
};
const std::vector<Variable>& environment_table();
std::optional<std::string> environment(const char* name);  // nothing when unset or empty

// A whole number of the environment, within [low, high]; nothing when unset. `trouble` says why a value is not used: it names
// the variable and what it holds.
std::optional<int64_t> environment_number(const char* name, int64_t low, int64_t high, std::string* trouble);

std::string key_directory();     // $XDG_CONFIG_HOME/rtx-synth, else ~/.config/rtx-synth; empty: no place
std::string cache_directory();   // empty: no place
std::string temporary_directory();

}  // namespace rtx::tools
