#include "import/tensor_proto.h"

#include <fstream>

#include "import/element_type.h"
#include "import/failure.h"
#include "import/model_file.h"

namespace rtx::import {

Result<NamedTensor> read_tensor_proto(const std::string& path) {
  RTX_TRY(auto file, map_file(path));
  const std::string what = "cannot read " + path;
  if (file->size > INT32_MAX)
    return user_error(what, "the file is larger than 2 GiB, the limit of the format");
  auto proto = std::make_shared<onnx::TensorProto>();
  {
    google::protobuf::LogSilencer silence;
    if (!proto->ParsePartialFromArray(file->bytes, static_cast<int>(file->size))) {
      return user_error(what, "it is not an ONNX tensor, or it is truncated");
    }
  }
  try {
    return NamedTensor{proto->name(), tensor_of(*proto, proto, nullptr)};
  } catch (Failure& failure) {
    return user_error(what, failure.error.why, failure.error.fix);
  } catch (Unsupported& found) {
    return user_error("unsupported tensor in " + path, found.why);
  }
}

Status write_tensor_proto(const std::string& path, const std::string& name, const ir::HostTensor& tensor) {
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(dtype_to_onnx(tensor.dtype()));
  for (int64_t extent : tensor.extents()) proto.add_dims(extent);
  if (tensor.byte_size() > INT32_MAX - 65536)
    return user_error("cannot write " + path, "the tensor is larger than 2 GiB, the limit of the format");
  proto.set_raw_data(reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.byte_size()));
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out || !proto.SerializeToOstream(&out) || !out.flush())
    return error_of(ErrorKind::output, "cannot write " + path);
  return success();
}

}  // namespace rtx::import
