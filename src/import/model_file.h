#pragma once
// Reading an ONNX file and the data that stands beside it. The file is untrusted.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "ir/tensor.h"
#include "onnx/onnx.pb.h"

namespace rtx::import {

struct MappedFile {
  const std::byte* bytes = nullptr;
  int64_t size = 0;
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
};

// Maps a regular file read-only.
Result<std::shared_ptr<const MappedFile>> map_file(const std::string& path);

// Files that external tensors name, relative to the model's folder and never outside it. Each is mapped once.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}
  Result<std::shared_ptr<const MappedFile>> open(const std::string& location);

 private:
  std::string folder_;
  std::unordered_map<std::string, std::shared_ptr<const MappedFile>> open_;
};

struct ModelFile {
  std::string path;
  std::shared_ptr<const onnx::ModelProto> proto;
  std::map<std::string, int64_t> opsets;  // default domain: ""
  std::shared_ptr<ExternalFiles> external;
};

Result<ModelFile> read_model(const std::string& path);

// Domains: "" and "ai.onnx" are one.
std::string canonical_domain(const std::string& domain);
template <class OpsetImports>
std::map<std::string, int64_t> opsets_of(const OpsetImports& imports) {
  std::map<std::string, int64_t> out;
  for (const auto& entry : imports) out[canonical_domain(entry.domain())] = entry.version();
  return out;
}

// The tensor of a TensorProto. `owner` keeps the proto alive: raw data is referred to, not copied. `external`
// may be null (refused then). Throws Failure or Unsupported (failure.h).
ir::HostTensor tensor_of(const onnx::TensorProto& proto, const std::shared_ptr<const void>& owner,
                         ExternalFiles* external);

// What the packaged schema does not know yet and the runtime keeps as unknown bytes: field `number` of a
// message, length-delimited.
std::vector<std::string> unknown_fields(const std::string& bytes, uint32_t number);

}  // namespace rtx::import
