#include "kernels/teams.h"

#include <algorithm>
#include <fmt/core.h>

#include "kernels/anchored.h"

namespace rtx::kernels {

Team team_of(int64_t threads) { return threads == kWave ? Team{kWave, kWave * kWavesWithRows} : Team{threads, threads}; }

RowPlace place_rows(const Team& team, int64_t rows, int64_t columns, const backend::Caps& caps) {
  const int64_t row = ceil_div(columns, 4) * 16, all = kPlacesBytes + team.rows() * row;
  if (all <= caps.scratch_bytes) return {all, 0};
  return {kPlacesBytes, ceil_div(rows, team.rows()) * team.rows() * row};
}

int64_t preferred_team(int64_t columns, int64_t width, int64_t rows, const backend::Caps& caps) {
  int64_t threads = kWave;
  // Two vectors a thread; many short rows fill a core with waves as well as with groups.
  while (threads < 1024 && columns > threads * width * 2) threads *= 2;
  if (rows < 2 * caps.cores)
    while (threads < 1024 && columns > threads * width) threads *= 2;
  if (threads == 64) threads = 128;
  return threads;
}

int64_t row_vector(const codegen::ElementDag& dag, int64_t columns) {
  int64_t bytes = 4;
  for (const auto& buffer : dag.buffers) bytes = std::min(bytes, std::max<int64_t>(2, ir::bytes_of(buffer.dtype)));
  int64_t width = 16 / bytes;
  while (width > 1 && columns % width != 0) width /= 2;  // else every other row begins off an access
  return width;
}

void open_rows(codegen::Source& source, const Team& team, int64_t rows, int64_t columns, const RowPlace& place, int64_t workspace) {
  source.line(fmt::format("constexpr int TEAM = {};", team.threads));
  source.line("[[maybe_unused]] void* const places = scratch;");
  const bool several = team.rows() > 1;
  const int64_t stride = ceil_div(columns, 4) * 4;
  if (place.workspace_bytes == 0)
    source.line(fmt::format("f32* const row = reinterpret_cast<f32*>(static_cast<u8*>(scratch) + {}){};", kPlacesBytes,
                            several ? fmt::format(" + wave() * {}", stride) : ""));
  source.open("GROUP_LOOP(g)");
  source.line(several ? fmt::format("const i64 r = g * {} + wave();", team.rows()) : "const i64 r = g;");
  if (place.workspace_bytes > 0) source.line(fmt::format("f32* const row = ARG(f32, {}) + r * {};", workspace, stride));
  source.open(rows % team.rows() == 0 ? "" : fmt::format("if (r < {})", rows));
}

void close_rows(codegen::Source& source) {
  source.close();
  source.close();
}

int64_t row_groups(const Team& team, int64_t rows) { return ceil_div(rows, team.rows()); }

codegen::RowLoop team_loop(const Team& team, int64_t columns, int64_t width, const std::map<int, std::string>& buffers) {
  codegen::RowLoop loop;
  loop.inner = 1;
  loop.outer = {{0, "r"}};
  loop.count = std::to_string(columns);
  loop.vector_width = static_cast<int>(width);
  loop.lane = "team_lane<TEAM>()";
  loop.lanes = team.threads;
  loop.buffers = buffers;
  return loop;
}

codegen::ElementDag without_stores(codegen::ElementDag dag) {
  dag.stores.clear();
  return dag;
}

}  // namespace rtx::kernels
