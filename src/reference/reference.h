#pragma once
// The reference: interprets any graph in double, integers exactly in 64 bit. The only oracle of validate, verify and tests.
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace rtx::reference {

// A tensor in the reference's number formats: doubles for floating dtypes, 64-bit integers (wrapped to the dtype's width) for the others.
struct RefTensor {
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> extents;
  std::vector<double> reals;      // of floating dtypes
  std::vector<int64_t> integers;  // of integer and boolean dtypes (u64 as its bits)

  bool floating() const { return ir::is_floating(dtype); }
  int64_t count() const { return static_cast<int64_t>(floating() ? reals.size() : integers.size()); }
};

RefTensor from_host(const ir::HostTensor& tensor);
// Rounds once to the tensor's dtype.
ir::HostTensor to_host(const RefTensor& tensor);

struct Options {
  // false: a region is double throughout, no inner rounding (casts between floating types round nothing either).
  // true: every node's result is rounded to its dtype: the node-by-node reference of the several-regions rule.
  bool round_each_op = false;
  int threads = 0;  // 0: as many as may run here
};

// Outputs of `graph` in order; inputs in the order of graph.inputs (dense row-major whatever the value's layout says).
Result<std::vector<RefTensor>> run(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const Options& options = {});
// Every value of the graph by ValueId.
Result<std::vector<RefTensor>> run_all(const ir::Graph& graph, const std::vector<ir::HostTensor>& inputs, const Options& options = {});
// One node whose inputs are all given (null: absent): the importer's constant folding. Each result rounded once to its dtype.
Result<std::vector<ir::HostTensor>> evaluate(const ir::Graph& graph, const ir::Node& node, const std::vector<const ir::HostTensor*>& inputs);

}  // namespace rtx::reference
