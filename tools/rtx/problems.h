#pragma once
// Problems without a model: "gemm m=128 n=384 k=384 dtype=f32 epilogue=bias,gelu" as a graph. `rtx tune` and `rtx bench suite` use them.
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace rtx::tools {

struct Setting {
  std::string name, otherwise, meaning;
};
// What a family's problems are named by; empty for an unknown family.
std::vector<Setting> settings_of(const std::string& family);
// Kind user when a key or value is not understood.
Result<ir::Graph> problem_graph(const std::string& family, const std::vector<std::string>& assignments);

}  // namespace rtx::tools
