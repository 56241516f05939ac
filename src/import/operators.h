#pragma once
// Which ONNX operators there are and how each becomes nodes of the IR. One row an operator; rows stand in the
// files by theme.
#include <string>
#include <vector>

#include "import/lowering.h"

namespace rtx::import {

using Lower = void (*)(Lowering&);

struct OperatorRow {
  const char* name;  // com.microsoft operators as "com.microsoft::Gelu"
  Lower lower;
  // Inputs whose values decide shapes or attributes, as bits: 1 << i.
  uint32_t value_inputs = 0;
};
using OperatorRows = std::vector<OperatorRow>;

OperatorRows pointwise_operators();
OperatorRows activation_operators();
OperatorRows shape_operators();
OperatorRows index_operators();
OperatorRows constant_operators();
OperatorRows reduction_operators();
OperatorRows norm_operators();
OperatorRows matrix_operators();
OperatorRows attention_operators();
OperatorRows microsoft_attention_operators();

// Null where there is no such operator. Domain and name as in the file.
const OperatorRow* find_operator(const std::string& domain, const std::string& name);

}  // namespace rtx::import
