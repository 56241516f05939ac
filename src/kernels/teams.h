#pragma once
// Row families on groups of many threads: a team of threads has a row, and a row's f32 values stand in scratch between its passes.
// A team is one wave (several rows in a group, no barrier between their threads) or the whole group. Rows that a group's memory cannot
// hold stand in a workspace instead.
#include <string>

#include "backend/caps.h"
#include "codegen/element.h"
#include "codegen/print.h"

namespace rtx::kernels {

struct Team {
  int64_t threads = 32;  // of the team
  int64_t group = 128;   // of the group
  int64_t rows() const { return group / threads; }
};
constexpr int64_t kWave = 32, kWavesWithRows = 4;
constexpr int64_t kPlacesBytes = 256;  // what team_reduce needs, in front of the rows

// A team of `threads`: one wave shares its group with others.
Team team_of(int64_t threads);
// Where the rows of a kernel stand.
struct RowPlace {
  int64_t scratch_bytes = 0;
  int64_t workspace_bytes = 0;  // 0: they stand in scratch
};
RowPlace place_rows(const Team& team, int64_t rows, int64_t columns, const backend::Caps& caps);
// The team that suits rows of this length: some vectors of `width` a thread.
int64_t preferred_team(int64_t columns, int64_t width, int64_t rows, const backend::Caps& caps);
// Elements of one access of the narrowest buffer: a thread's vector along a row.
int64_t row_vector(const codegen::ElementDag& dag, int64_t columns);

// Opens the kernel's loops: "places", "row" and the row number `r`, or leaves the team idle when there is none. Everything until
// close_rows is text of one row. `workspace` is the number of the argument that has the rows, where they do not stand in scratch.
void open_rows(codegen::Source& source, const Team& team, int64_t rows, int64_t columns, const RowPlace& place, int64_t workspace);
void close_rows(codegen::Source& source);
int64_t row_groups(const Team& team, int64_t rows);
// A loop along the row by the team.
codegen::RowLoop team_loop(const Team& team, int64_t columns, int64_t width, const std::map<int, std::string>& buffers);
// The DAG without its stores: for a row that is computed a second time.
codegen::ElementDag without_stores(codegen::ElementDag dag);

}  // namespace rtx::kernels
