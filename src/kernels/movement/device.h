#pragma once
// scatter_nd on one range of columns [first, last) of every slice. Groups own columns, so each element has one writer and updates
// of one slice apply in order.
namespace movement {
enum Reduction { replace, add, multiply, maximum, minimum };

template <int R, class C> DEVICE C combine(C old, C update) {
  if constexpr (R == add) return C(old + update);
  else if constexpr (R == multiply) return C(old * update);
  else if constexpr (R == maximum) return math::max(old, update);
  else return math::min(old, update);
}

// K: type kept in the target, S: stored type of the updates, C: what both are combined in.
template <int R, class K, class S, class C> DEVICE void update(K* out, const S* from, i64 first, i64 last) {
  if constexpr (R == replace) {
    __builtin_memcpy(out + first, from + first, (last - first) * sizeof(S));
  } else {
    for (i64 k = first; k < last; ++k) store(out + k, combine<R, C>(load<C>(out + k), load<C>(from + k)));
  }
}
}  // namespace movement
