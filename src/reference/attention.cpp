// Attention, one query row at a time: scores = scale q k, softcap, mask, softmax, weighted sum of v.
// A masked key takes no part: its v is not read, so that what lies behind valid_length may be anything.
#include <cmath>
#include <limits>

#include "reference/evaluator.h"
#include "reference/index.h"

namespace rtx::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Attention {
 public:
  explicit Attention(const Call& call)
      : call_(call), heads_(call.input(0).extents[1]), queries_(call.input(0).extents[2]), depth_(call.input(0).extents[3]),
        key_heads_(call.input(1).extents[1]), keys_(call.input(1).extents[2]), width_(call.input(2).extents[3]),
        scale_(call.node.attributes.real("scale", 1)), softcap_(call.node.attributes.real("softcap")), causal_(call.integer("causal") != 0),
        causal_offset_(call.integer("causal_offset")), window_left_(call.integer("window_left", -1)),
        window_right_(call.integer("window_right", -1)), empty_row_(call.integer("empty_row_nan") != 0 ? std::nan("") : 0.0) {
    if (call.has(3)) mask_strides_ = broadcast_strides(call.input(3).extents, {call.input(0).extents[0], heads_, queries_, keys_});
  }

  int64_t rows() const { return call_.input(0).extents[0] * heads_ * queries_; }

  void row(int64_t row, std::vector<double>& scores, double* out) const {
    const int64_t query = row % queries_;
    const int64_t head = row / queries_ % heads_;
    const int64_t batch = row / queries_ / heads_;
    const int64_t first_key = (batch * key_heads_ + head * key_heads_ / heads_) * keys_;
    double largest = -kInfinity;
    for (int64_t j = 0; j < keys_; ++j) {
      double& score = scores[static_cast<size_t>(j)];
      score = masked(batch, query, j) ? -kInfinity : with_mask(batch, head, query, j, product_of(row, first_key + j));
      if (std::isnan(score) || score > largest) largest = score;
    }
    if (largest == -kInfinity) {
      std::fill(out, out + width_, empty_row_);
      return;
    }
    weighted_sum(first_key, scores, largest, out);
  }

 private:
  bool masked(int64_t batch, int64_t query, int64_t key) const {
    if (call_.has(4) && key >= call_.input(4).integers[static_cast<size_t>(batch)]) return true;
    // The difference of two positions below 2^62 and an offset: in a wider type, so that no attribute overflows it.
    const __int128 distance = static_cast<__int128>(key) - query - causal_offset_;
    if (causal_ && distance > 0) return true;
    if (window_left_ >= 0 && distance < -static_cast<__int128>(window_left_)) return true;
    return window_right_ >= 0 && distance > window_right_;
  }

  double product_of(int64_t query_row, int64_t key_row) const {
    const double* q = call_.input(0).reals.data() + query_row * depth_;
    const double* k = call_.input(1).reals.data() + key_row * depth_;
    double sums[4] = {};
    int64_t d = 0;
    for (; d + 4 <= depth_; d += 4) {
      for (int64_t lane = 0; lane < 4; ++lane) sums[lane] += q[d + lane] * k[d + lane];
    }
    for (; d < depth_; ++d) sums[0] += q[d] * k[d];
    const double score = (sums[0] + sums[1] + (sums[2] + sums[3])) * scale_;
    return softcap_ > 0 ? softcap_ * std::tanh(score / softcap_) : score;
  }

  double with_mask(int64_t batch, int64_t head, int64_t query, int64_t key, double score) const {
    if (!call_.has(3)) return score;
    const auto at = static_cast<size_t>(batch * mask_strides_[0] + head * mask_strides_[1] + query * mask_strides_[2] + key * mask_strides_[3]);
    const RefTensor& mask = call_.input(3);
    if (mask.floating()) return score + mask.reals[at];
    return mask.integers[at] != 0 ? score : -kInfinity;
  }

  void weighted_sum(int64_t first_key, const std::vector<double>& scores, double largest, double* out) const {
    std::fill(out, out + width_, 0.0);
    double total = 0;
    for (int64_t j = 0; j < keys_; ++j) {
      const double score = scores[static_cast<size_t>(j)];
      if (score == -kInfinity && !std::isnan(largest)) continue;
      const double weight = std::exp(score - largest);
      const double* v = call_.input(2).reals.data() + (first_key + j) * width_;
      for (int64_t d = 0; d < width_; ++d) out[d] += weight * v[d];
      total += weight;
    }
    for (int64_t d = 0; d < width_; ++d) out[d] /= total;
  }

  const Call& call_;
  int64_t heads_, queries_, depth_, key_heads_, keys_, width_;
  double scale_, softcap_;
  bool causal_;
  int64_t causal_offset_, window_left_, window_right_;
  double empty_row_;
  Extents mask_strides_;
};

}  // namespace

Result<Results> evaluate_attention(const Call& call) {
  Results out;
  out.push_back(make(call));
  if (out[0].count() == 0) return out;
  const Attention attention(call);
  const int64_t width = call.extents()[3];
  in_parallel(attention.rows(), call.threads, [&](int64_t begin, int64_t end) {
    std::vector<double> scores(static_cast<size_t>(call.input(1).extents[2]));
    for (int64_t row = begin; row < end; ++row) attention.row(row, scores, out[0].reals.data() + row * width);
  });
  return out;
}

}  // namespace rtx::reference
