#pragma once
// What an emulated kernel and the emulator's device share: the state of a thread and the calls a kernel makes. Part of every
// emulated text and included by the device as it stands. Any change here raises kVersion.
namespace rtx_emulation {

constexpr int kVersion = 2;
constexpr unsigned long long kStackBytes = 256 << 10;  // of a thread; a stack starts at a multiple of it
constexpr unsigned long long kThreadBytes = 256;       // the last bytes of a stack: the Thread

// What the 32 lanes of a wave do together. A lane describes its part here, on its own stack; the last one to arrive does the
// work for all.
struct Collective {
  enum Kind : int {
    barrier, shuffle, any, all, elect, load_matrix, load_matrix_transposed, store_matrix, mma_f16, mma_bf16, mma_tf32, mma_f64,
  };
  Kind kind;
  int line;                  // of the text, for messages
  int number;                // shuffle: the lane read from; matrices: tiles; votes: this lane's, then the result
  unsigned long long value;  // shuffle: this lane's, then the result
  void *d, *a, *b;           // mma: fragments; matrices: d the registers, a the row
};

// ---- the Hopper set (docs/adr/0011) ---------------------------------------------------------------------------------------------
struct Mbarrier {
  enum Kind : int { init, init_done, arrive, arrive_remote, expect, wait };
  Kind kind;
  int line;
  void* at;
  int number;  // init: arrivals; arrive_remote: rank; expect: bytes; wait: parity
};
struct Box {
  enum Kind : int { load, load_multicast, store };
  Kind kind;
  int line, rank;
  void* shared;
  const void* view;
  void* mbarrier;
  int at[5];  // coordinates, innermost first
  int mask;
};
// A thread's part of a warpgroup's product.
struct Product {
  enum Kind : int { f16, bf16, tf32, e4m3 };
  Kind kind;
  int line, n;
  float* d;                  // n / 2 accumulators
  const unsigned* registers;  // A's four, or null
  unsigned long long a, b;   // matrix views
  bool transposed_a, transposed_b, accumulate;
};
// Groups of asynchronous work, of products or of boxes stored.
struct Groups {
  enum Kind : int { fence_products, commit_products, wait_products, commit_stores, wait_stores_read, wait_stores };
  Kind kind;
  int line, open;
};

struct Hooks {
  void (*barrier)(int id, int count, int line);  // id 0: the whole group
  void (*collective)(Collective& mine);
  void (*copy_async)(void* to, const void* from, int bytes, int valid, int line);
  void (*copy_async_commit)();
  void (*copy_async_wait)(int open, int line);
  void (*misaligned)(const void* address, int bytes, int line);
  void (*trap)(int line);
  void (*barrier_arrive)(int id, int count, int line);
  void (*mbarrier)(const Mbarrier& request);
  void (*box)(const Box& request);
  void (*product)(const Product& mine);
  void (*groups)(const Groups& request);
  void (*proxy_fence)();
  void (*registers)(int count, bool grow, int line);
  void (*cluster_barrier)(int line);
  void* (*remote)(const void* at, int bytes, int rank, int line);
};

struct Thread {
  const Hooks* hooks;
  void* scratch;
  void* const* arguments;
  long long group, groups;
  int thread, threads;
  void* crew;  // the device's
  const void* views;
  int cluster_rank;
};

// What KERNEL says about an entry, beside it in the binary.
struct Entry {
  void (*run)();
  int arguments, threads, views, cluster, per_core;
};

__attribute__((always_inline)) inline Thread& self() {
  const unsigned long long here = reinterpret_cast<unsigned long long>(__builtin_frame_address(0));
  return *reinterpret_cast<Thread*>((here | (kStackBytes - 1)) - (kThreadBytes - 1));
}

}  // namespace rtx_emulation
