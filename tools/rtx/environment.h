#pragma once
// The environment, read here and nowhere else; `rtx --help` lists the table.
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

std::string key_directory();     // $XDG_CONFIG_HOME/rtx-synth, else ~/.config/rtx-synth; empty: no place
std::string cache_directory();   // empty: no place
std::string temporary_directory();

}  // namespace rtx::tools
