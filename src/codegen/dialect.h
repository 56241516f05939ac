#pragma once
// Dialect: how one target spells the kernel language. Data, not behaviour: the shared printers read it.
#include <string>
#include <vector>

#include "backend/caps.h"

namespace rtx::codegen {

struct Dialect {
  std::string target;                 // "cpu"
  std::vector<std::string> preludes;  // embedded files that every text starts with: "backend/cpu/prelude.h"
  bool explicit_vectors = true;       // CPU: a group is one thread with wide vectors; false, a GPU: many threads (docs/adr/0010)
  int preferred_lanes_f32 = 8;        // vector width in f32 elements
  std::string comment;                // what stands in the first lines of a text: "cpu x86-64-v3"
};

}  // namespace rtx::codegen
