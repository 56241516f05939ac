#pragma once
// Several regions in a row: a block, a model (docs/adr/0009-numbers-of-whole-models.md).
#include "validate/validate.h"

namespace rtx::validate {

struct WholeComparison {
  Comparison comparison;
  double node_by_node = 0;      // error of the same graph run node by node, each operator exact and each tensor rounded to its dtype
  double region_tolerance = 0;  // what one region of the output's kind may lose
  bool judged_by_nodes = false; // which of the two was the bound
};

// Output `index` of a graph, against the reference (`exact`) and against the reference rounded after every node (`rounded`). Where an
// f16 or bf16 tensor leads to the output its error may be that of `rounded`, and what f32 sums lose on top (and over few elements, where
// roundings do not average out, 4 / sqrt(count) of it more); elsewhere it may be the
// larger of the error of `rounded` and the region's tolerance. Outputs that are not floating are equal.
WholeComparison compare_whole(const ir::Graph& graph, size_t index, const ir::HostTensor& found, const reference::RefTensor& exact,
                              const reference::RefTensor& rounded);

}  // namespace rtx::validate
