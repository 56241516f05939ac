#pragma once
// What a warpgroup of the kernel by warpgroup products does with its 64 rows beside the products: masks and weights of a block, and the
// results of a tile.
#include "kernels/attention/wgmma.h"

namespace rtx::kernels::attention {

enum View { kQ, kK, kV, kResult };  // of the launch

class WgmmaRows : public GpuText {
 public:
  WgmmaRows(codegen::Source& source, const Problem& problem, const Params& params, const backend::Caps& caps)
      : GpuText(source, problem, params, caps), s_(wgmma_shape_of(problem, params, caps)) {}

 protected:
  // Coordinates behind the one along a row, of the tile's row `row`.
  std::string q_place(const std::string& row) const;
  void row_ranges();  // the keys that all rows of the warpgroup see; those that each of the thread's two rows sees
  void scores();      // of the block at `from` to weights
  void finish();      // a tile
  bool results_in_q() const { return s_.results_in_q(); }

  const WgmmaShape s_;

 private:
  // The scale rides on the exponent where nothing stands between.
  bool plain() const { return !masked() && p_.softcap <= 0 && p_.scale > 0; }
  void mask();
  void pair_or_one(const char* at, int64_t end, const std::function<void(int)>& body);
  void each_pair(const std::function<void(int)>& body);
  void by_view();
  void by_thread();
  void parts();
};

}  // namespace rtx::kernels::attention
