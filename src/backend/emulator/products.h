#pragma once
// Products of a warpgroup (wgmma). Each of its 128 threads records its part as it comes; they are computed when the threads wait for
// them, as late as the machine might, so that whoever overwrites an operand too early is seen. Meanwhile the accumulators hold a
// NaN that nobody else writes.
#include <array>
#include <deque>
#include <list>
#include <string>
#include <vector>

#include "backend/emulator/async_scratch.h"

namespace rtx::backend::emulator {

constexpr int kWarpgroup = 128;

class Products {
 public:
  void begin();  // a new group
  bool idle() const { return products_.empty() && sets_.empty(); }

  // Each gives an empty string, or what is wrong. `lane` of the warpgroup.
  void fence(int lane) { lanes_[static_cast<size_t>(lane)].fenced = true; }
  std::string issue(int lane, const rtx_emulation::Product& mine, AsyncScratch& scratch);
  std::string commit(int lane);
  // All lanes came: computes what must be done for at most `open` groups to stay open.
  std::string wait(int open, AsyncScratch& scratch);

 private:
  // Accumulators: a place in each thread's registers, and the 64 x n matrix that they are.
  struct Set {
    int n = 0, open = 0, line = 0;
    std::array<float*, kWarpgroup> d{};
    std::vector<float> c;
  };
  struct Recorded {
    rtx_emulation::Product first;          // as lane 0's, or whoever came first
    Set* set = nullptr;
    std::vector<uint32_t> a, b;            // chunks of 16 bytes, in the order of decoding
    std::vector<std::array<uint32_t, 4>> registers;
    int came = 0;
  };
  struct Lane {
    size_t issued = 0, committed = 0;
    bool fenced = false;
  };
  std::string record(int lane, const rtx_emulation::Product& mine, AsyncScratch& scratch);
  std::string take_accumulators(int lane, const rtx_emulation::Product& mine, Set& set);
  std::string give_back(Set& set);
  void compute(const Recorded& product, const AsyncScratch& scratch);

  std::array<Lane, kWarpgroup> lanes_{};
  std::deque<Recorded> products_;  // not waited for, oldest first
  std::deque<size_t> ends_;        // of the open groups: counts of all products ever issued
  std::list<Set> sets_;
  size_t done_ = 0, groups_done_ = 0;
};

// Offsets in scratch of the chunks of an operand of `extent` rows (columns) and 32 bytes of depth, from a matrix view. K contiguous:
// row by row, two each. M (N) contiguous: 16 depths, each `extent` / 8 chunks. Sets `problem` where the view is none.
std::vector<uint32_t> operand_chunks(unsigned long long view, int extent, bool transposed, int* swizzle, std::string* problem);

}  // namespace rtx::backend::emulator
