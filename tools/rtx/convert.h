#pragma once
// Changes to an imported graph that the command line asks for: another floating type, states.
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace rtx::tools {

// --dtype: every floating value becomes `dtype` ("keep": nothing changes); graph inputs and outputs keep their types behind casts, and
// nodes named in `keep_f32` compute in f32. Kind user when a name is unknown.
Result<ir::Graph> convert_floats(ir::Graph graph, const std::string& dtype, const std::vector<std::string>& keep_f32);

// --state IN=OUT:MAX: the output OUT replaces the input IN from run to run. The two must have one shape (a buffer of fixed capacity).
Status declare_states(ir::Graph& graph, const std::vector<std::string>& arguments);

}  // namespace rtx::tools
