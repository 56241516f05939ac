#pragma once
// What print_row's statements call on top of the prelude: lanes that come from masks, scalars and computed addresses.
// A mask is bool for one lane and i32 lanes of 0 / -1 for more.
template <int W> using mask = vec<i32, W>;

// A family's leaf may be a scalar or the vector itself.
template <class V, class X> DEVICE V widen(X x) {
  if constexpr (lanes::same<V, X>) return x;
  else return splat<V>(x);
}
template <int W, class M> DEVICE auto to_mask(M m) {
  if constexpr (W == 1) return bool(m);
  else if constexpr (lane_count<M> == 1) return splat<vec<i32, W>>(m ? -1 : 0);
  else return convert<i32>(m);
}
// base, base + step, ...
template <class V> DEVICE V ramp(lane_t<V> base, lane_t<V> step) {
  if constexpr (lane_count<V> == 1) {
    return base;
  } else {
    V r;
    for (int l = 0; l < lane_count<V>; ++l) r[l] = lane_t<V>(base + l * step);
    return r;
  }
}
// lane l is f(l); do_lanes calls f(l) for its effect.
template <class V, class F> DEVICE V by_lane(F f) {
  if constexpr (lane_count<V> == 1) {
    return f(0);
  } else {
    V r;
    for (int l = 0; l < lane_count<V>; ++l) r[l] = f(l);
    return r;
  }
}
template <int W, class F> DEVICE void do_lanes(F f) {
  for (int l = 0; l < W; ++l) f(l);
}
template <class V> DEVICE lane_t<V> lane(V x, int l) {
  if constexpr (lane_count<V> == 1) return x;
  else return x[l];
}
