#include "import/model_file.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <filesystem>

namespace rtx::import {

MappedFile::~MappedFile() {
  if (size > 0) munmap(const_cast<std::byte*>(bytes), static_cast<size_t>(size));
}

Result<std::shared_ptr<const MappedFile>> map_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return user_error("cannot read " + path, std::strerror(errno));
  struct stat facts {};
  if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    close(file);
    return user_error("cannot read " + path,
                      S_ISDIR(facts.st_mode) ? "it is a folder" : "it is not a regular file");
  }
  auto mapped = std::make_shared<MappedFile>();
  if (facts.st_size > 0) {
    void* bytes = mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    const int mistake = errno;
    close(file);
    if (bytes == MAP_FAILED) return user_error("cannot read " + path, std::strerror(mistake));
    mapped->bytes = static_cast<const std::byte*>(bytes);
    mapped->size = facts.st_size;
  } else {
    close(file);
  }
  return std::shared_ptr<const MappedFile>(std::move(mapped));
}

Result<std::shared_ptr<const MappedFile>> ExternalFiles::open(const std::string& location) {
  if (auto found = open_.find(location); found != open_.end()) return found->second;
  namespace fs = std::filesystem;
  const std::string what = "cannot read external data '" + location + "'";
  const fs::path relative(location);
  if (location.empty() || location.find('\0') != std::string::npos)
    return user_error(what, "the location is empty or holds a NUL");
  if (relative.is_absolute())
    return user_error(what, "the location is absolute; it must be relative to the model's folder");
  for (const auto& part : relative) {
    if (part == "..") return user_error(what, "the location leaves the model's folder ('..')");
  }
  std::error_code ignored;
  const fs::path folder = fs::canonical(folder_.empty() ? fs::path(".") : fs::path(folder_), ignored);
  const fs::path target = fs::canonical(folder / relative, ignored);
  if (ignored)
    return user_error(what, "the file is missing beside the model",
                      "put it beside the model under the name the model gives");
  const auto inside = std::mismatch(folder.begin(), folder.end(), target.begin(), target.end());
  if (inside.first != folder.end())
    return user_error(what, "a symbolic link leads out of the model's folder");
  RTX_TRY(auto file, map_file(target.string()));
  open_.emplace(location, file);
  return file;
}

std::string canonical_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

Result<ModelFile> read_model(const std::string& path) {
  RTX_TRY(auto file, map_file(path));
  const std::string what = "cannot read " + path;
  if (file->size == 0) return user_error(what, "the file is empty");
  if (file->size > INT_MAX) {
    return user_error(what, "the file is larger than 2 GiB, the limit of the format",
                      "store the weights as external data");
  }
  auto proto = std::make_shared<onnx::ModelProto>();
  {
    google::protobuf::LogSilencer silence;
    google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(file->bytes),
                                                  static_cast<int>(file->size));
    if (!proto->MergePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
      return user_error(what, "it is not an ONNX model, or it is truncated");
    }
  }
  if (!proto->has_graph()) return user_error(what, "it holds no graph");
  ModelFile model;
  model.path = path;
  model.opsets = opsets_of(proto->opset_import());
  if (model.opsets.find("") == model.opsets.end() && proto->ir_version() < 3) model.opsets[""] = 1;
  model.external = std::make_shared<ExternalFiles>(std::filesystem::path(path).parent_path().string());
  model.proto = std::move(proto);
  return model;
}

std::vector<std::string> unknown_fields(const std::string& bytes, uint32_t number) {
  std::vector<std::string> out;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  while (uint32_t tag = stream.ReadTag()) {
    uint32_t length = 0;
    uint64_t whole = 0;
    switch (tag & 7) {
      case 0:
        if (!stream.ReadVarint64(&whole)) return out;
        break;
      case 1:
        if (!stream.Skip(8)) return out;
        break;
      case 5:
        if (!stream.Skip(4)) return out;
        break;
      case 2: {
        std::string content;
        if (!stream.ReadVarint32(&length) || length > bytes.size() ||
            !stream.ReadString(&content, static_cast<int>(length)))
          return out;
        if (tag >> 3 == number) out.push_back(std::move(content));
        break;
      }
      default:
        return out;
    }
  }
  return out;
}

}  // namespace rtx::import
