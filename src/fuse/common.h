#pragma once
// Common subexpressions: nodes with the same operator, operands, attributes and types become one. Rules need
// it: exporters write x - mean(x) once for the numerator and once for the variance.
#include "fuse/recognise.h"

namespace rtx::fuse {

ir::Graph without_common_subexpressions(const ir::Graph& graph, std::vector<Rewrite>* log);

}  // namespace rtx::fuse
