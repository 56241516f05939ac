#pragma once
// For tests: a family's result against the reference's, by the tolerance of its class.
#include <string>

#include "ir/graph.h"
#include "ir/tensor.h"
#include "kernels/family.h"
#include "reference/reference.h"

namespace rtx::kernels::testing {

// What is wrong with `found` as the body's value `id`; empty when nothing is. `scale` multiplies the norm tolerance.
std::string compare(const ir::Graph& body, ir::ValueId id, const ir::HostTensor& found, const reference::RefTensor& wanted, const Tolerance& tolerance,
                    double scale);

}  // namespace rtx::kernels::testing
