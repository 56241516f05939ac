#pragma once
// Evaluating one node whose inputs are all constants, by the reference interpreter.
#include <optional>
#include <vector>

#include "ir/infer.h"

namespace rtx::import {

// Absent where the interpreter refuses.
std::optional<std::vector<ir::HostTensor>> fold(const ir::Graph& graph, const ir::Node& node,
                                                const std::vector<ir::ValueType>& types);

}  // namespace rtx::import
