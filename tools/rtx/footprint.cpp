#include "rtx/footprint.h"

#include <algorithm>

#include "base/text.h"
#include "rtx/console.h"

namespace rtx::tools {

std::vector<backend::Footprint> footprints(const std::string& target, const std::string& arch, std::span<const std::byte> binary, const std::vector<Launched>& launches) {
  std::vector<backend::Footprint> out;
  const auto& sides = backend::all_devices();
  const auto side = std::find_if(sides.begin(), sides.end(), [&](const auto& known) { return known.target == target; });
  if (side == sides.end() || !side->footprint) return out;
  for (const auto& launched : launches) {
    const auto same = [&](const auto& known) {
      return known.resources.entry == launched.entry && known.threads == launched.threads && known.scratch_bytes == launched.scratch_bytes;
    };
    if (std::any_of(out.begin(), out.end(), same)) continue;
    auto made = side->footprint(binary, arch, launched.entry, static_cast<int>(launched.threads), launched.scratch_bytes);
    if (made.ok()) out.push_back(*std::move(made));
  }
  return out;
}

std::string text(const backend::Footprint& footprint) {
  const auto& of = footprint.resources;
  return of.entry + ": " + std::to_string(of.registers) + " registers, " + human_bytes(static_cast<double>(of.static_shared + footprint.scratch_bytes)) + " shared, " +
         (of.stack > 0 ? std::to_string(of.stack) + " bytes of stack, " : std::string()) + std::to_string(footprint.threads) + " threads a group; " +
         std::to_string(footprint.groups) + (footprint.groups == 1 ? " group" : " groups") + " a core, " + number(100 * footprint.share, 2) + " % of its waves, limited by " + footprint.limit;
}

}  // namespace rtx::tools
