#pragma once
// What a plain serial implementation in the graph's own dtypes would get: the yardstick for hard inputs, on which every
// implementation in that precision loses digits.
#include <vector>

#include "ir/graph.h"
#include "reference/reference.h"

namespace rtx::validate {

// ||serial - wanted|| / ||wanted|| over the outputs (largest). 0 when the graph has no floating output or cannot be run serially.
double serial_error(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const std::vector<reference::RefTensor>& wanted);

}  // namespace rtx::validate
