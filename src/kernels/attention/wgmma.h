#pragma once
// Attention by warpgroup products (Hopper): what its text, its space and its schedule share.
//
// A group stays on its core and takes tile after tile. Its first warpgroup brings boxes of q, k and v to scratch, through a ring of
// blocks that runs on from tile to tile; the others have 64 query rows each (device_wgmma.h).
#include <optional>
#include <vector>

#include "kernels/attention/gpu.h"

namespace rtx::kernels::attention {

// How rows of an operand or a result stand in their buffer: in elements; a coordinate of one value has stride 0.
struct Layout {
  int buffer = 0;  // of the DAG
  int64_t offset = 0, along = 0, row = 0, head = 0, batch = 0;
};
// Of an operand that is read in place, and of a result that is stored as it is; none where a coordinate is looked up otherwise.
std::optional<Layout> layout_of(const Operand& operand, const Problem& problem, Variable row, Variable along);
std::optional<Layout> result_layout_of(const Problem& problem);
// Whether a tensor map can describe it: rows are contiguous and start at multiples of 16 bytes.
bool has_view(const Layout& layout, int64_t row_elements);

struct WgmmaShape {
  int64_t depth = 0, width = 0;   // padded to sixteens
  int64_t consumers = 1;          // warpgroups that multiply
  int64_t pieces = 1;             // of 64 elements along the depth
  int64_t swizzle = 128;          // of values, in bytes; as wide as their pieces
  bool results_by_view = false;   // else each thread stores what it has
  int64_t result_buffers = 0;     // of a warpgroup, 8 KiB each; 0: results go where q was
  bool results_in_q() const { return results_by_view && result_buffers == 0; }
  int64_t q_bytes = 0, key_bytes = 0, value_bytes = 0;                  // a tile's; a block's
  int64_t keys_at = 0, values_at = 0, results_at = 0, barriers_at = 0;  // offsets; q is at 0
  int64_t bytes = 0;
  int64_t registers = 0;          // a thread's that multiplies, about
  int64_t grown = 0, shrunk = 0;  // registers of a thread that multiplies and of one that loads; 0: as launched
  int64_t per_core = 1;           // groups
};
WgmmaShape wgmma_shape_of(const Problem& problem, const Params& params, const backend::Caps& caps);
// Why the problem is none for this kernel; empty when it is.
std::string wgmma_refusal(const Problem& problem, const backend::Caps& caps);

// The tiles (and splits) of each group, in their order. Even ones are dealt round robin. Uneven ones come longest first by sections
// whose keys and values fit the L2 cache; each goes to the group that has had least, so that all end at about the same time.
std::vector<std::vector<int>> schedule_of(const Problem& problem, const Params& params, const backend::Caps& caps);
int64_t wgmma_groups(const Problem& problem, const Params& params, const backend::Caps& caps);
bool even_tiles(const Problem& problem);

backend::Launch emit_wgmma(codegen::Source& source, const std::string& name, const Problem& problem, const Params& params, const backend::Caps& caps);

// The point to start from; mma is not 2 where this kernel is not the one.
Params preferred_wgmma(const Problem& problem, const backend::Caps& caps, const std::function<bool(const Params&)>& legal);
double wgmma_estimate(const Problem& problem, const Params& params, const backend::Caps& caps, const Work& work);

}  // namespace rtx::kernels::attention
