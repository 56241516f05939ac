#pragma once
// What a plain serial implementation in the graph's own dtypes would get: the yardstick for hard inputs, on which every
// implementation in that precision loses digits.
#include <vector>

#include "ir/graph.h"
#include "reference/reference.h"

namespace rtx::validate {

struct SerialError {
  double norm = 0;                        // ||serial - wanted|| / ||wanted||, largest of the outputs
  std::vector<std::vector<double>> rows;  // largest |serial - wanted| in each row of each output, at least typical of all rows; empty for outputs not floating
};
// Of few attention rows, whose loss is luck, the largest of four orders of a score's terms. Nothing where the graph has no floating output or
// cannot be run serially.
SerialError serial_error(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const std::vector<reference::RefTensor>& wanted);

}  // namespace rtx::validate
