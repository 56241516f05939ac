#pragma once
// Recognition: rewrites that turn written-out chains into the composite operator they spell (LayerNorm,
// RMSNorm, GELU erf and tanh, SiLU, softmax, rotary, attention with mask, causal and grouped heads), fold
// transposes into matmuls, and tidy casts and reshapes.
#include <string>
#include <vector>

#include "ir/graph.h"

namespace rtx::fuse {

struct RecogniseOptions {
  bool attention =
      true;  // false for the unfused baseline: attention stays matmul, scale, mask, softmax, matmul
};

struct Rewrite {
  std::string rule;   // "gelu: 0.5 x (1 + erf(x / sqrt 2))"
  std::string where;  // name of the node that was replaced
};

// Applies all rules to a fixed point; `log` (optional) gets what was done. Never changes the graph's inputs,
// outputs or values beyond rounding: interior values with a second reader or that are graph outputs block a
// rule.
ir::Graph recognise(const ir::Graph& graph, const RecogniseOptions& options = {},
                    std::vector<Rewrite>* log = nullptr);

}  // namespace rtx::fuse
