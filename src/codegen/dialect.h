#pragma once
// Dialect: how one target spells the kernel language. Data, not behaviour: the shared printers read it.
#include <string>

#include "backend/caps.h"

namespace rtx::codegen {

struct Dialect {
  std::string target;                 // "cpu"
  std::string prelude;                // embedded file that every text starts with: "backend/cpu/prelude.h"
  std::string global;                 // qualifier of pointers into device memory ("" on a CPU, "__restrict__"-free)
  bool explicit_vectors = true;       // CPU: rows are processed by vec<T, W>; GPU: by lanes of the group
  int preferred_lanes_f32 = 8;        // vector width in f32 elements
  std::string comment;                // what stands in the first lines of a text: "cpu x86-64-v3"
};

}  // namespace rtx::codegen
