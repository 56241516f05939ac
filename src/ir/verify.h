#pragma once
// The verifier: what must hold of a graph between stages (SSA, order, arity, inferred types, layouts, alias rules of states).
// A violation after one of our passes is a bug of ours; in an imported model the importer reports it as the user's.
#include "ir/graph.h"

namespace rtx::ir {

Status verify(const Graph& graph);

}  // namespace rtx::ir
