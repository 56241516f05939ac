#pragma once
// Models and tensors as the command line names them: --shape x=1x128, --dim batch=2, --input x=file, data directories.
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/onnx.h"
#include "ir/graph.h"

namespace rtx::tools {

struct ModelOptions {
  std::vector<std::string> shapes;  // "x=1x128"
  std::vector<std::string> dims;    // "batch=2"
  std::vector<std::string> states;  // "past=present:1024"
  std::vector<std::string> values;  // "shape=file.npy": inputs whose values are fixed at compile time
  std::string dtype = "keep";       // keep, f32, f16, bf16
  std::vector<std::string> keep_f32;
};

// Imports with these options; errors name the file.
Result<ir::Graph> load_model(const std::string& path, const ModelOptions& options, const std::map<std::string, ir::HostTensor>& bound = {});
// True when the path is a bundle by its first bytes, whatever its name.
bool is_bundle(const std::string& path);

// .npy, .pb (TensorProto) and .npz with a single array.
Result<ir::HostTensor> load_tensor(const std::string& path);
// "NAME=FILE" pairs; a .npz gives all its arrays.
Result<std::map<std::string, ir::HostTensor>> load_named_tensors(const std::vector<std::string>& arguments);
// test_data_set_<k>/input_<i>.pb and output_<i>.pb (or the folder itself) in order.
struct DataSet {
  std::string directory;
  std::vector<ir::HostTensor> inputs, outputs;
};
Result<std::vector<DataSet>> load_data_sets(const std::string& directory);
// The model's inputs by name for a data set given by position; checks counts.
Result<std::map<std::string, ir::HostTensor>> by_name(const import::ModelInfo& info, const DataSet& data);
// Shapes and shape-deciding values of a data set as model options.
void bind_from_data(const import::ModelInfo& info, const std::map<std::string, ir::HostTensor>& data, ModelOptions* options,
                    std::map<std::string, ir::HostTensor>* bound);

}  // namespace rtx::tools
