#pragma once
// Private to reference: what an evaluator sees of a node, and one evaluator an operator class.
#include <string>
#include <vector>

#include "ir/infer.h"
#include "reference/reference.h"

namespace rtx::reference {

struct OutputType {
  ir::DType dtype;
  std::vector<int64_t> extents;
};

// One node about to be computed. Inputs are null where absent; types were checked by inference, index values were not.
struct Call {
  const ir::Node& node;
  std::vector<const RefTensor*> inputs;
  std::vector<OutputType> outputs;
  int threads = 1;

  const RefTensor& input(size_t i) const { return *inputs[i]; }
  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }
  ir::DType dtype() const { return outputs[0].dtype; }
  const std::vector<int64_t>& extents() const { return outputs[0].extents; }
  int64_t integer(std::string_view attribute, int64_t otherwise = 0) const { return node.attributes.integer(attribute, otherwise); }
};

using Results = std::vector<RefTensor>;

// A zeroed tensor of output `i`.
RefTensor make(const Call& call, size_t i = 0);
RefTensor make(ir::DType dtype, std::vector<int64_t> extents);

// Integers keep the low bits of their dtype; u64 lives as its bits.
int64_t wrap(ir::DType dtype, int64_t value);
void wrap_all(RefTensor& tensor);
// Toward zero, saturating at the dtype's limits; NaN gives 0, a bool is whether the value differs from 0.
int64_t truncate_real(ir::DType dtype, double value);
double real_of(ir::DType dtype, int64_t value);
// Every real rounded once to the tensor's dtype.
void round_all(RefTensor& tensor);

Result<Results> evaluate_pointwise(const Call& call);
Result<Results> evaluate_movement(const Call& call);
Result<Results> evaluate_gather(const Call& call);
Result<Results> evaluate_reduction(const Call& call);
Result<Results> evaluate_scan(const Call& call);
Result<Results> evaluate_normalization(const Call& call);
Result<Results> evaluate_matmul(const Call& call);
Result<Results> evaluate_rotary(const Call& call);
Result<Results> evaluate_attention(const Call& call);

Result<Results> evaluate_call(const Call& call);

}  // namespace rtx::reference
