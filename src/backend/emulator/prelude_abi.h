#pragma once
// What an emulated kernel and the emulator's device share: the state of a thread and the calls a kernel makes. Part of every
// emulated text and included by the device as it stands. Any change here raises kVersion.
namespace rtx_emulation {

constexpr int kVersion = 1;
constexpr unsigned long long kStackBytes = 256 << 10;  // of a thread; a stack starts at a multiple of it
constexpr unsigned long long kThreadBytes = 256;       // the last bytes of a stack: the Thread

// What the 32 lanes of a wave do together. A lane describes its part here, on its own stack; the last one to arrive does the
// work for all.
struct Collective {
  enum Kind : int {
    barrier, shuffle, any, all, load_matrix, load_matrix_transposed, store_matrix, mma_f16, mma_bf16, mma_tf32, mma_f64,
  };
  Kind kind;
  int line;                  // of the text, for messages
  int number;                // shuffle: the lane read from; matrices: tiles; votes: this lane's, then the result
  unsigned long long value;  // shuffle: this lane's, then the result
  void *d, *a, *b;           // mma: fragments; matrices: d the registers, a the row
};

struct Hooks {
  void (*barrier)(int id, int count, int line);  // id 0: the whole group
  void (*collective)(Collective& mine);
  void (*copy_async)(void* to, const void* from, int bytes, int valid, int line);
  void (*copy_async_commit)();
  void (*copy_async_wait)(int open, int line);
  void (*misaligned)(const void* address, int bytes, int line);
  void (*trap)(int line);
};

struct Thread {
  const Hooks* hooks;
  void* scratch;
  void* const* arguments;
  long long group, groups;
  int thread, threads;
  void* crew;  // the device's
};

// What KERNEL says about an entry, beside it in the binary.
struct Entry {
  void (*run)();
  int arguments, threads;
};

__attribute__((always_inline)) inline Thread& self() {
  const unsigned long long here = reinterpret_cast<unsigned long long>(__builtin_frame_address(0));
  return *reinterpret_cast<Thread*>((here | (kStackBytes - 1)) - (kThreadBytes - 1));
}

}  // namespace rtx_emulation
