// rtx verify: a compiled model against recorded data, or against the reference interpreter.
//
// Against the reference a whole model follows the several-regions rule (docs/adr/0009-numbers-of-whole-models.md). Its error, that of
// the same graph run node by node, and which bound judged are printed.
#include <cmath>
#include <nlohmann/json.hpp>

#include "rtx/options.h"
#include "rtx/verification.h"

namespace rtx::tools {

Result<int> verify_command(const VerifyCommand& command, const Common& common, Console& console) {
  if (command.emulate) {
    VerifyCommand here = command;
    RTX_TRY(here.target, emulated_target(command.target));
    here.emulate = false;
    here.tune = false;  // by times that mean nothing
    return verify_command(here, common, console);
  }
  RTX_CHECK([&]() -> Status {
    auto target = require_target(command.target, common.device, command.arch);
    return target.ok() ? success() : Status(std::move(target).error());
  }());
  Verifier verifier(common, console, true);
  RTX_TRY(const auto found, verifier.verify(command));
  const auto& rows = found.outputs;
  const auto& departures = found.departures;
  const bool agree = found.agrees();
  if (common.console.json) {
    nlohmann::json out = {{"agrees", agree}, {"outputs", nlohmann::json::array()}, {"departures", departures}};
    for (const auto& row : rows) {
      const auto& d = row.comparison.detail;
      const auto finite = [](double v) { return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr); };
      out["outputs"].push_back({{"data", row.data}, {"output", row.output}, {"agrees", row.comparison.agrees}, {"norm_error", finite(d.norm_error)},
                                {"norm_allowed", finite(d.norm_allowed)}, {"node_by_node_error", finite(row.node_by_node)},
                                {"region_tolerance", finite(row.region_tolerance)}, {"judged_by", row.judged_by},
                                {"max_difference", finite(d.max_difference)}, {"first_wrong", d.first_wrong}, {"first_nan", d.first_nan}, {"report", d.text()}});
    }
    RTX_CHECK(console.json(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
  } else {
    std::vector<std::vector<std::string>> table;
    for (const auto& row : rows)
      table.push_back({row.data, row.output, row.comparison.agrees ? "agrees" : "WRONG", number(row.comparison.detail.norm_error), number(row.comparison.detail.norm_allowed),
                       number(row.node_by_node), row.judged_by, number(row.comparison.detail.max_difference)});
    console.table({"data", "output", "verdict", "error", "allowed", "node by node", "judged by", "largest difference"}, table);
    for (const auto& row : rows)
      if (!row.comparison.agrees) console.line(row.comparison.detail.text());
    for (const auto& words : departures) console.line(words);
  }
  return agree ? 0 : 1;
}

}  // namespace rtx::tools
