#pragma once
// Whether what the caller binds is what the plan wants. Internal to the runtime.
#include <string>

#include "bundle/plan.h"
#include "runtime/program.h"

namespace rtx::runtime {

// Bytes from a dense tensor's first to behind its last element.
int64_t byte_count(const bundle::TensorInfo& info);
// dtype, extents, layout and alignment; nothing is copied to make them fit. Allocates only for an error.
Status check_binding(const bundle::TensorInfo& wanted, const TensorView& found, const char* role);
// "f32[2,3]", with strides when there are some.
std::string describe(ir::DType dtype, const std::vector<int64_t>& extents, const std::vector<int64_t>& strides);

}  // namespace rtx::runtime
