#pragma once
// NumPy files: .npy both ways, .npz (stored or deflated) in.
#include <string>
#include <vector>

#include "base/result.h"
#include "import/tensor_proto.h"

namespace rtx::import {

// bfloat16 has no NumPy type; it is written as <u2 bits, and read back only where the caller reinterprets it.
Result<ir::HostTensor> read_npy(const std::string& path);
Result<std::vector<NamedTensor>> read_npz(const std::string& path);  // names without ".npy"
Status write_npy(const std::string& path, const ir::HostTensor& tensor);

}  // namespace rtx::import
