#include "rtx/layers.h"

#include <algorithm>
#include <map>

#include "ir/text.h"
#include "kernels/family.h"
#include "rtx/console.h"

namespace rtx::tools {

namespace {

struct KernelWork {
  double flops = 0, bytes = 0;
  bool narrow = false;  // products of 16-bit operands, which matrix units compute
};

// A kernel's record has its region as text; its family says what that takes.
KernelWork work_of(const bundle::KernelRecord& record) {
  KernelWork out;
  const auto body = ir::parse_structure(record.region);
  const auto* family = kernels::family(record.family);
  if (!body.ok() || !family) return out;
  const auto problem = family->bind(*body);
  if (!problem.ok()) return out;
  const auto work = (*problem)->work();
  out.flops = work.flops;
  out.bytes = work.bytes();
  for (const auto& node : body->nodes) {
    if (node.op != ir::Op::matmul && node.op != ir::Op::attention) continue;
    const auto dtype = body->value(node.inputs[0]).dtype;
    out.narrow = dtype == ir::DType::f16 || dtype == ir::DType::bf16;
  }
  return out;
}

}  // namespace

std::vector<RegionTime> region_times(const bundle::Plan& plan, const std::vector<runtime::StepTime>& times,
                                     const backend::Caps& caps) {
  std::map<int, KernelWork> known;
  std::vector<RegionTime> out;
  int before = -1;
  for (size_t i = 0; i < times.size() && i < plan.steps.size(); ++i) {
    const auto& step = plan.steps[i];
    const auto& record = plan.kernels[static_cast<size_t>(step.kernel)];
    if (!out.empty() && before == step.kernel && out.back().region == step.region) {
      out.back().ms += times[i].ms;
      continue;
    }
    before = step.kernel;
    const auto [work, fresh] = known.try_emplace(step.kernel);
    if (fresh) work->second = work_of(record);
    const auto& w = work->second;
    RegionTime region{step.region, record.family, record.name, times[i].ms, w.flops, w.bytes, 0, false};
    const double rate = w.narrow && caps.peak_gflops_16 > 0 ? caps.peak_gflops_16 : caps.peak_gflops_f32;
    const double computing = w.flops / (rate * 1e6), moving = w.bytes / (caps.copy_gbps * 1e6);
    region.ceiling_ms = std::max(computing, moving);
    region.by_bytes = moving > computing;
    out.push_back(std::move(region));
  }
  return out;
}

std::vector<std::vector<std::string>> layer_table(const std::vector<RegionTime>& regions) {
  double whole = 0, ceiling = 0;
  for (const auto& region : regions) whole += region.ms, ceiling += region.ceiling_ms;
  const auto percent = [](double share) { return number(100 * share) + " %"; };
  std::vector<std::vector<std::string>> table;
  for (const auto& region : regions) {
    std::string rate = "-", share = "-";
    if (region.ms > 0 && region.ceiling_ms > 0) {
      rate = region.by_bytes ? number(region.bytes / (region.ms * 1e6), 4) + " GB/s"
                             : number(region.flops / (region.ms * 1e9)) + " TFLOP/s";
      share = percent(region.share());
    }
    table.push_back({region.region, region.family, number(region.ms, 4),
                     whole > 0 ? percent(region.ms / whole) : "-", rate, share, region.kernel});
  }
  table.push_back(
      {"all", "", number(whole, 4), "", "", whole > 0 && ceiling > 0 ? percent(ceiling / whole) : "-", ""});
  return table;
}

}  // namespace rtx::tools
