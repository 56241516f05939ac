#pragma once
// Where a run's time goes: a line a region, beside what the device could do at best.
#include <string>
#include <vector>

#include "backend/caps.h"
#include "bundle/plan.h"
#include "runtime/program.h"

namespace rtx::tools {

struct RegionTime {
  std::string region, family, kernel;
  double ms = 0;
  double flops = 0, bytes = 0;  // 0: the plan does not tell
  double ceiling_ms = 0;  // the longer of its operations at the device's rate and its bytes at that of a copy
  bool by_bytes = false;  // which of the two
  double share() const { return ms > 0 ? ceiling_ms / ms : 0; }
};

// Steps of one region are added up. `times` are those of the plan's steps, in order.
std::vector<RegionTime> region_times(const bundle::Plan& plan, const std::vector<runtime::StepTime>& times,
                                     const backend::Caps& caps);
// The lines of a table: region, family, ms, share of the whole, rate, share of the ceiling; the last one is
// the sum.
std::vector<std::vector<std::string>> layer_table(const std::vector<RegionTime>& regions);

}  // namespace rtx::tools
