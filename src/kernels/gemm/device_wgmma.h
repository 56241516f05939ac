#pragma once
// GEMM of f16 and bf16 by products of whole warpgroups, whose operands tensor views bring (capabilities "tma" and "wgmma").
//
//   group        persistent: tiles number group(), group() + groups(), ... of C; warpgroup 0 copies, the CONSUMERS behind it multiply
//   ring         STAGES blocks of A (BM x 64) and B (BN x 64); the thread that copies runs ahead, across tiles too
//   cooperative  the consumers share a tile, BM / CONSUMERS rows each
//   ping-pong    two consumers with a tile each, in turn: one finishes its tile while the other multiplies
//
// A caller's `P` has what device_gpu.h wants and
//   CONSUMERS, PING_PONG, STAGES, RASTER     RASTER > 0: bands of so many rows of tiles, column by column; < 0: bands of columns
//   A_ALONG_K, B_ALONG_K                     K is the contiguous axis; else M (N) is
//   A_BATCHES, B_BATCHES, C_BATCHES          the view has the batch as third dimension
//   BOXES                                    of 64 x 64 results on their way out through a view of C (InView); 0: C leaves by rows (InRows) or
//                                            as sums of one part (InParts)
//   IN_TURN                                  columns take turns (in_turn): a result has two sums
//   OTHER_VIEW, OTHER_BATCHES                each box first brings what one more view has there (a residual, say), while the tile is multiplied
//   REGISTERS_COPY, REGISTERS_MULTIPLY       a thread's, dealt anew at the start; 0: as launched
// Every element is one chain over K in steps of 16, whatever the parameters but SPLIT.
#include "kernels/gemm/device_gpu.h"

namespace gemm {

template <class P> struct WgmmaTile {
  static constexpr int depth = 64;  // of K in a stage: 128 bytes, one swizzled line
  static constexpr int threads = (P::CONSUMERS + 1) * 128;
  static constexpr int rows = P::PING_PONG ? P::BM : P::BM / P::CONSUMERS, bands = rows / 64;  // a warpgroup's
  static constexpr int pieces = P::BN / 64;                                                    // of a row, on its way out
  static constexpr int bytes_a = P::BM * 128, bytes_b = P::BN * 128, stage = bytes_a + bytes_b;
  static constexpr int pitch = 68;                                                             // of a wave's 16 x 64 sums in scratch
  static constexpr int finish_bytes = P::BOXES > 0 ? P::BOXES * 8192 : 4 * 16 * pitch * 4;     // a warpgroup's
  static constexpr int finish_at = P::STAGES * stage, barriers_at = finish_at + P::CONSUMERS * finish_bytes;
  static constexpr int barriers = 2 * P::STAGES + (P::OTHER_VIEW ? P::CONSUMERS * P::BOXES : 0);
  static constexpr i64 scratch_bytes = barriers_at + barriers * 8;
  static constexpr int m_tiles = int(parts(P::M, P::BM)), n_tiles = int(parts(P::N, P::BN)), matrix = m_tiles * n_tiles;
  static constexpr int tiles = matrix * int(P::BATCHES) * P::SPLIT;
  static_assert(P::BM % 64 == 0 && P::BN % 64 == 0 && rows % 64 == 0 && (!P::PING_PONG || P::CONSUMERS == 2), "warpgroups multiply 64 rows");
};

struct Tile {
  int m, n, batch, split, k, steps;  // first row, column and depth; blocks of K
};
template <class P> DEVICE Tile tile_at(int t) {
  using G = WgmmaTile<P>;
  constexpr bool by_rows = P::RASTER > 0;
  constexpr int band = by_rows ? P::RASTER : -P::RASTER, across = by_rows ? G::m_tiles : G::n_tiles, along = by_rows ? G::n_tiles : G::m_tiles;
  const u32 in_matrix = u32(t) % u32(G::matrix), rest = u32(t) / u32(G::matrix);
  const u32 first = in_matrix / u32(band * along) * u32(band), within = in_matrix - first * u32(along);
  const u32 width = first + band <= u32(across) ? u32(band) : u32(across) - first;
  const u32 x = first + within % width, y = within / width;
  Tile tile;
  tile.m = int(by_rows ? x : y) * P::BM;
  tile.n = int(by_rows ? y : x) * P::BN;
  tile.batch = int(rest % u32(P::BATCHES));
  tile.split = int(rest / u32(P::BATCHES));
  tile.k = tile.split * int(P::SPLIT_K);
  if constexpr (P::SPLIT == 1) tile.steps = int(parts(P::K, G::depth));
  else tile.steps = int(parts(least(P::SPLIT_K, P::K - tile.k), G::depth));
  return tile;
}

// A place in the ring, and how often it has come round.
template <int STAGES> struct RingPlace {
  int stage = 0;
  u32 parity = 0;
  DEVICE void next() {
    if (++stage == STAGES) stage = 0, parity ^= 1;
  }
  DEVICE void skip(int steps) {
    const u32 to = u32(stage + steps);
    parity ^= to / STAGES & 1;
    stage = int(to % STAGES);
  }
};

// ROWS x 64 of an operand in atoms of 64 x 64, 128 bytes a line.
template <bool ALONG_K, bool BATCHES, int ROWS> DEVICE void load_block(u8* to, const TensorMap* view, Mbarrier* full, int row, int k, int batch) {
  const auto load = [&](u8* at, int x, int y) {
    if constexpr (BATCHES) load_view(at, view, full, x, y, batch);
    else load_view(at, view, full, x, y);
  };
  if constexpr (ALONG_K) load(to, k, row);
  else UNROLL for (int i = 0; i < ROWS / 64; ++i) load(to + i * 8192, row + i * 64, k);
}
// The block as an operand of products, from line `row` on; a step is 16 of K.
template <bool ALONG_K> DEVICE u64 block_view(const u8* block, int row) { return matrix_view(block + row * 128, ALONG_K ? 16 : 8192, 1024, 128); }
template <bool ALONG_K> DEVICE u64 block_step(u64 view, int step) { return matrix_view_step(view, step * (ALONG_K ? 32 : 2048)); }

// One thread: all blocks of all tiles of this group.
template <class P> DEVICE void copy_tiles(const TensorMap* a, const TensorMap* b, u8* stages, Mbarrier* full, Mbarrier* empty) {
  using G = WgmmaTile<P>;
  RingPlace<P::STAGES> at;
  UNROLL_BY(1) for (int t = int(group()); t < G::tiles; t += int(groups())) {
    const Tile tile = tile_at<P>(t);
    UNROLL_BY(1) for (int step = 0; step < tile.steps; ++step, at.next()) {
      mbarrier_wait(empty + at.stage, at.parity ^ 1);
      mbarrier_expect(full + at.stage, G::stage);
      u8* const to = stages + at.stage * G::stage;
      const int k = tile.k + step * G::depth;
      load_block<P::A_ALONG_K, P::A_BATCHES, P::BM>(to, a, full + at.stage, tile.m, k, tile.batch);
      load_block<P::B_ALONG_K, P::B_BATCHES, P::BN>(to + G::bytes_a, b, full + at.stage, tile.n, k, tile.batch);
    }
  }
}

// A warpgroup: its rows of one tile. One block's products are under way while the next one's are issued; `issued` is called behind the last.
template <class P, class Issued>
DEVICE void multiply_tile(f32 (&sums)[WgmmaTile<P>::bands][P::BN / 2], const u8* stages, Mbarrier* full, Mbarrier* empty, RingPlace<P::STAGES>& at, int steps,
                          int row, Issued issued) {
  using G = WgmmaTile<P>;
  const bool first = thread() % 128 == 0;
  int before = at.stage;
  UNROLL_BY(1) for (int step = 0; step < steps; ++step, at.next()) {
    mbarrier_wait(full + at.stage, at.parity);
    const u8* const block = stages + at.stage * G::stage;
    const u64 b = block_view<P::B_ALONG_K>(block + G::bytes_a, 0);
    wgmma_fence();
    UNROLL for (int i = 0; i < G::bands; ++i) {
      const u64 a = block_view<P::A_ALONG_K>(block, row + i * 64);
      UNROLL for (int k = 0; k < G::depth / 16; ++k)
        wgmma<P::BN, !P::A_ALONG_K, !P::B_ALONG_K>(sums[i], block_step<P::A_ALONG_K>(a, k), block_step<P::B_ALONG_K>(b, k), k > 0 || step > 0, typename P::A{});
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (first && step > 0) mbarrier_arrive(empty + before);
    before = at.stage;
  }
  issued();
  wgmma_wait<0>();
  if (first) mbarrier_arrive(empty + before);
}

// ---- what becomes of a warpgroup's sums: called with the first row of the tile that is its own, and its part of scratch ----------------
// Through scratch, a wave's 16 rows in pieces of 64 columns; rows(piece of sums, first row, first column) gets them.
template <class P, class Rows> DEVICE void sums_by_rows(const f32 (&sums)[WgmmaTile<P>::bands][P::BN / 2], void* room, const Tile& tile, int row, Rows rows) {
  using G = WgmmaTile<P>;
  const int w = wave() % 4;
  f32* const staged = static_cast<f32*>(room) + w * 16 * G::pitch;
  f32* const mine = staged + wave_lane() / 4 * G::pitch + wave_lane() % 4 * 2;
  // Not unrolled: what the rows become is in the text once, and only the way into scratch is there for each piece.
  UNROLL_BY(1) for (int part = 0; part < G::bands * G::pieces; ++part) {
    UNROLL for (int i = 0; i < G::bands; ++i)
      UNROLL for (int piece = 0; piece < G::pieces; ++piece) {
        if (part != i * G::pieces + piece) continue;
        UNROLL for (int j = 0; j < 8; ++j)
          UNROLL for (int h = 0; h < 2; ++h)
            store_aligned(mine + h * 8 * G::pitch + j * 8, by_lane<vec<f32, 2>>([&](int e) { return sums[i][piece * 32 + j * 4 + h * 2 + e]; }));
      }
    wave_barrier();
    rows(staged, tile.m + row + part / G::pieces * 64 + w * 16, tile.n + part % G::pieces * 64);
    wave_barrier();
  }
}

template <class P, class Epilogue> struct InRows {
  Epilogue epilogue;
  DEVICE void begin(void*, const Tile&, int) {}
  DEVICE void operator()(const f32 (&sums)[WgmmaTile<P>::bands][P::BN / 2], void* room, const Tile& tile, int row) {
    sums_by_rows<P>(sums, room, tile, row, [&](const f32* staged, int m, int n) { finish_rows<P, 16, 64, WgmmaTile<P>::pitch>(staged, epilogue, tile.batch, m, n); });
  }
  DEVICE void end() {}
};

// Sums of one part of K, dense, as [split][batch][m][n]: for sum_parts.
template <class P> struct InParts {
  f32* to;
  DEVICE void begin(void*, const Tile&, int) {}
  DEVICE void operator()(const f32 (&sums)[WgmmaTile<P>::bands][P::BN / 2], void* room, const Tile& tile, int row) {
    f32* const part = to + (i64(tile.split) * P::BATCHES + tile.batch) * P::M * P::N;
    sums_by_rows<P>(sums, room, tile, row, [&](const f32* staged, int m, int n) {
      UNROLL_BY(1) for (int r = wave_lane() / 16; r < 16; r += 2) {
        if (m + r >= P::M) continue;
        const int column = wave_lane() % 16 * 4;
        f32* const line = part + i64(m + r) * P::N + n;
        if (P::N % 4 == 0 || n + column + 4 <= P::N) {
          if (n + column < P::N) store(line + column, aligned<vec<f32, 4>>(staged + r * WgmmaTile<P>::pitch + column));
        } else {
          UNROLL for (int l = 0; l < 4; ++l)
            if (n + column + l < P::N) line[column + l] = staged[r * WgmmaTile<P>::pitch + column + l];
        }
      }
    });
  }
  DEVICE void end() {}
};

template <class T> DEVICE u32 packed(vec<f32, 2> x) {
  if constexpr (lanes::same<T, bf16>) return pack_bf16(x[0], x[1]);
  else return pack_f16(x[0], x[1]);
}
template <class T> DEVICE vec<f32, 2> unpacked(u32 x) { return convert<f32>(__builtin_bit_cast(lanes::Vec<T, 2>, x)); }

// The epilogue is computed where the sums are, two neighbours at once, and 64 x 64 results leave as a box of the view of C; boxes take turns.
// `pair` may be asked beyond C's edges, where it gets the nearest place inside; the view drops what is outside.
template <class P, class C, class O, class Epilogue> struct InView {
  using G = WgmmaTile<P>;
  static constexpr int per = P::IN_TURN ? 2 : 1;          // sums of a result
  static constexpr int pieces = G::pieces / per;          // boxes across a tile
  static constexpr int all = G::bands * pieces;           // of a warpgroup's part of a tile
  static constexpr int N = int(P::N) / per;
  const TensorMap* view;
  const TensorMap* other;
  Epilogue epilogue;
  u32 used = 0;  // boxes before this tile

  DEVICE static u8* box_at(void* room, u32 k) { return static_cast<u8*>(room) + k % P::BOXES * 8192; }
  // Behind the ring's barriers; `room` tells whose.
  DEVICE static Mbarrier* arrived(void* room, u32 k) {
    u8* const all_rooms = static_cast<u8*>(scratch) + G::finish_at;
    const int own = int(static_cast<u8*>(room) - all_rooms) / G::finish_bytes;
    return reinterpret_cast<Mbarrier*>(static_cast<u8*>(scratch) + G::barriers_at) + 2 * P::STAGES + own * P::BOXES + k % P::BOXES;
  }
  // One thread: box k gets what `other` has there.
  DEVICE void fetch(void* room, const Tile& tile, int row, int part) {
    const u32 k = used + u32(part);
    const int m = tile.m + row + part / pieces * 64, n = tile.n / per + part % pieces * 64;
    mbarrier_expect(arrived(room, k), 8192);
    if constexpr (P::OTHER_BATCHES) load_view(box_at(room, k), other, arrived(room, k), n, m, tile.batch);
    else load_view(box_at(room, k), other, arrived(room, k), n, m);
  }
  DEVICE void begin(void* room, const Tile& tile, int row) {
    if constexpr (P::OTHER_VIEW)
      if (thread() % 128 == 0) {
        store_view_wait_read<0>();
        UNROLL_BY(1) for (int part = 0; part < (all < P::BOXES ? all : P::BOXES); ++part) fetch(room, tile, row, part);
      }
  }
  DEVICE void operator()(const f32 (&sums)[G::bands][P::BN / 2], void* room, const Tile& tile, int row) {
    const int own = warpgroup(), line = wave() % 4 * 16;
    const bool first = thread() % 128 == 0;
    UNROLL for (int i = 0; i < G::bands; ++i)
      UNROLL for (int piece = 0; piece < pieces; ++piece) {
        const int part = i * pieces + piece;
        const u32 k = used + u32(part);
        u8* const box = box_at(room, k);
        if constexpr (P::OTHER_VIEW) {
          mbarrier_wait(arrived(room, k), k / P::BOXES & 1);
        } else {
          if (first) store_view_wait_read<P::BOXES - 1>();
          barrier(own, 128);
        }
        const int m = tile.m + row + i * 64, n = tile.n / per + piece * 64;
        UNROLL for (int j = 0; j < 4; ++j) {
          if (n + j * 16 >= N) continue;  // a block of its own in the text, or the compiler mixes the steps and runs out of registers
          const int to = line + wave_lane() % 16, chunk = j * 2 + wave_lane() / 16;
          u8* const place = box + to * 128 + (chunk ^ (to & 7)) * 16;
          u32 r[4] = {};
          if constexpr (P::OTHER_VIEW) load_matrix(r, place);
          UNROLL for (int q = 0; q < 4; ++q) {
            const int at_m = m + line + wave_lane() / 4 + q % 2 * 8, at_n = n + j * 16 + q / 2 * 8 + wave_lane() % 4 * 2;
            // 8 columns are 4 sums of a thread, two of each of its rows.
            const int eight = (piece * 8 + j * 2 + q / 2) * per;
            const auto sums_of = [&](int part_of) { return by_lane<vec<f32, 2>>([&](int e) { return sums[i][(eight + part_of) * 4 + q % 2 * 2 + e]; }); };
            r[q] = packed<C>(epilogue.pair(sums_of(0), sums_of(per - 1), unpacked<O>(r[q]), tile.batch, at_m < int(P::M) ? at_m : int(P::M) - 1, at_n < N ? at_n : N - 2));
          }
          store_matrix(place, r);
        }
        proxy_fence();
        barrier(own, 128);
        if (first) {
          if constexpr (P::C_BATCHES) store_view(view, box, n, m, tile.batch);
          else store_view(view, box, n, m);
          store_view_commit();
          if (P::OTHER_VIEW && part >= 1 && part + P::BOXES - 1 < all) {  // the box before this one is free
            store_view_wait_read<1>();
            fetch(room, tile, row, part + P::BOXES - 1);
          }
        }
      }
    used += all;
  }
  DEVICE void end() {
    if (thread() % 128 == 0) store_view_wait<0>();
  }
};

// The kernel. `finish` is one of the above.
template <class P, class Finish> DEVICE void wgmma_tiles(const TensorMap* a, const TensorMap* b, Finish finish) {
  using G = WgmmaTile<P>;
  u8* const stages = static_cast<u8*>(scratch);
  Mbarrier* const full = reinterpret_cast<Mbarrier*>(stages + G::barriers_at);
  Mbarrier* const empty = full + P::STAGES;
  constexpr int turn = 8;  // named barriers turn + own: this consumer may issue
  if (thread() == 0) {
    UNROLL_BY(1) for (int s = 0; s < P::STAGES; ++s) {
      mbarrier_init(full + s, 1);
      mbarrier_init(empty + s, P::PING_PONG ? 1 : P::CONSUMERS);
    }
    UNROLL_BY(1) for (int s = 2 * P::STAGES; s < G::barriers; ++s) mbarrier_init(full + s, 1);
    mbarrier_init_done();
    prefetch_view(a);
    prefetch_view(b);
  }
  barrier();
  const int own = warpgroup();
  if (own == 0) {
    if constexpr (P::REGISTERS_COPY > 0) registers_shrink<P::REGISTERS_COPY>();
    if (thread() == 0) copy_tiles<P>(a, b, stages, full, empty);
    return;
  }
  if constexpr (P::REGISTERS_MULTIPLY > 0) registers_grow<P::REGISTERS_MULTIPLY>();
  void* const room = stages + G::finish_at + (own - 1) * G::finish_bytes;
  const int row = P::PING_PONG ? 0 : (own - 1) * G::rows;
  RingPlace<P::STAGES> at;
  f32 sums[G::bands][P::BN / 2];
  if constexpr (P::PING_PONG) {
    int whose = 1;  // the tile is
    if (own == 2) barrier_arrive(turn + 1, 256);
    UNROLL_BY(1) for (int t = int(group()); t < G::tiles; t += int(groups()), whose = 3 - whose) {
      const Tile tile = tile_at<P>(t);
      if (whose == own) {
        finish.begin(room, tile, row);
        barrier(turn + own, 256);
        multiply_tile<P>(sums, stages, full, empty, at, tile.steps, row, [&] {
          if (t + int(groups()) < G::tiles) barrier_arrive(turn + 3 - own, 256);
        });
        finish(sums, room, tile, row);
      } else {
        at.skip(tile.steps);
      }
    }
  } else {
    UNROLL_BY(1) for (int t = int(group()); t < G::tiles; t += int(groups())) {
      const Tile tile = tile_at<P>(t);
      finish.begin(room, tile, row);
      multiply_tile<P>(sums, stages, full, empty, at, tile.steps, row, [] {});
      finish(sums, room, tile, row);
    }
  }
  finish.end();
}

}  // namespace gemm
