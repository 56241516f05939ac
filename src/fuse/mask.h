#pragma once
// Masks of written-out attention: what was added to or selected into the scores, and what the attention
// operator needs for it.
#include <optional>
#include <vector>

#include "fuse/match.h"

namespace rtx::fuse {

// One step between the scores and the softmax. From a float: scores + value. From a bool: where it says
// `keep`, scores, else `fill`.
struct MaskStep {
  ir::ValueId value = ir::kNoValue;
  bool selects = false;
  bool keep = true;  // which truth value keeps the score
  double fill = 0;
  ir::DType dtype = ir::DType::f32;  // of the scores
};

struct AttentionMask {
  bool causal = false;
  int64_t causal_offset = 0;
  std::vector<MaskStep> steps;  // what is left for the mask operand
};

// Which keys of each query a constant keeps. A causal one keeps keys j <= i + offset.
//
//   keys 0 1 2 3
//        1 1 0 0      offset 1
//        1 1 1 0
struct KeptKeys {
  bool all = false;
  std::optional<int64_t> causal_offset;
  bool every_query_keeps_one = false;
};

// `steps` from the softmax inwards; queries and keys are the last two extents of the scores. Nothing when the
// steps mean something that the operator cannot say exactly:
//   - a finite fill that depends on data: a row that it fills entirely attends to everything evenly, the
//   operator's gives NaN.
//     A fill so low that scores vanish beside it (the lowest f32) is the same as added, and is taken so
//   - a finite fill over another mask: in a row that both mask, which of the two wins depends on both
std::optional<AttentionMask> read_mask(Match& match, std::vector<MaskStep> steps, int64_t queries,
                                       int64_t keys);

// The mask operand, or kNoValue; nothing when the values do not combine.
std::optional<ir::ValueId> build_mask(Editor& editor, const std::vector<MaskStep>& steps);

}  // namespace rtx::fuse
