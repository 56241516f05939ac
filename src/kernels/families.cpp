// The list of families. First come those that anchor on an operator with arithmetic worth planning; what they leave, pointwise and
// movement gather up; loopnest takes the rest.
#include "kernels/attention/attention.h"
#include "kernels/family.h"
#include "kernels/gemm/gemm.h"
#include "kernels/loopnest/loopnest.h"
#include "kernels/movement/movement.h"
#include "kernels/norm/norm.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/reduce.h"
#include "kernels/rotary/rotary.h"
#include "kernels/softmax/softmax.h"

namespace rtx::kernels {

const std::vector<std::unique_ptr<AnyFamily>>& families() {
  static const std::vector<std::unique_ptr<AnyFamily>> list = [] {
    std::vector<std::unique_ptr<AnyFamily>> out;
    out.push_back(erase<attention::Attention>());
    out.push_back(erase<gemm::Family>());
    out.push_back(erase<norm::Norm>());
    out.push_back(erase<softmax::Softmax>());
    out.push_back(erase<rotary::Rotary>());
    out.push_back(erase<reduce::Family>());
    out.push_back(erase<pointwise::Family>());
    out.push_back(erase<movement::Family>());
    out.push_back(erase<loopnest::Family>());
    return out;
  }();
  return list;
}

const AnyFamily* family(std::string_view name) {
  for (const auto& candidate : families())
    if (candidate->name() == name) return candidate.get();
  return nullptr;
}

std::vector<fuse::Pattern> patterns() {
  std::vector<fuse::Pattern> out;
  for (const auto& candidate : families()) out.push_back(candidate->pattern());
  return out;
}

}  // namespace rtx::kernels
