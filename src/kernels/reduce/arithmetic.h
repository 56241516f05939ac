#pragma once
// How a reduction's sums are spelled: what they start with, how two are combined, how the total becomes the result. Shared by the
// emitters of CPUs and GPUs.
#include <string>

#include "kernels/reduce/reduce.h"

namespace rtx::kernels::reduce {

inline std::string number(int64_t x) { return std::to_string(x); }
inline std::string loop_name(int v) { return "v" + std::to_string(v); }

class Arithmetic {
 public:
  explicit Arithmetic(const Problem& problem);
  ir::DType lane_type() const { return lane_; }    // of the sums that threads or lanes hold
  ir::DType total_type() const { return total_; }  // of what they are added into
  // What nothing gives.
  std::string start(ir::DType type) const;
  std::string combined(ir::DType type, const std::string& a, const std::string& b, int width) const;
  // The result in the compute type of x, from a total of `width` lanes.
  std::string finished(const std::string& total, int width) const;

 protected:
  const Problem& p_;
  ir::DType lane_, total_;
};

}  // namespace rtx::kernels::reduce
