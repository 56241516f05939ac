// A crew's asynchronous copies (copy_async), group by group.
//
// A copy is done when its group is waited for and not before: until then its place holds the pattern of memory that nobody wrote.
// Whatever else is found there was written while the machine might have copied at any moment.
#include <cstring>

#include "backend/emulator/crew.h"
#include "backend/emulator/pattern.h"

namespace rtx::backend::emulator {

void Crew::copy(const Copy& request) {
  const auto where = [&] { return thread_of_group() + " starts a copy in line " + std::to_string(request.line); };
  if (!member().scratch.holds(request.to, static_cast<size_t>(request.bytes))) fail([&] { return where() + " to a place outside of its group's scratch"; });
  if (reinterpret_cast<uintptr_t>(request.to) % static_cast<uintptr_t>(request.bytes) != 0 ||
      reinterpret_cast<uintptr_t>(request.from) % static_cast<uintptr_t>(request.bytes) != 0)
    fail([&] { return where() + " of " + std::to_string(request.bytes) + " bytes that is not aligned to them"; });
  if (request.valid < 0 || request.valid > request.bytes) fail([&] { return where() + " of which " + std::to_string(request.valid) + " bytes are valid"; });
  fill_pattern(request.to, static_cast<size_t>(request.bytes));
  copies_[static_cast<size_t>(current_)].list.push_back(request);
}

void Crew::commit() {
  Copies& mine = copies_[static_cast<size_t>(current_)];
  mine.ends.push_back(mine.list.size());
}

bool Crew::was_overtaken(const Copy& copy) {
  const auto bytes = static_cast<size_t>(copy.bytes), valid = static_cast<size_t>(copy.valid);
  if (find_change(copy.to, bytes) == bytes) return false;
  std::byte data[16] = {};
  if (valid > 0) std::memcpy(data, copy.from, valid);
  return std::memcmp(copy.to, data, bytes) != 0;  // two threads may copy the same to one place
}

void Crew::complete(int open) {
  Copies& mine = copies_[static_cast<size_t>(current_)];
  for (; mine.ends.size() - mine.first_open > static_cast<size_t>(open); ++mine.first_open)
    for (; mine.done < mine.ends[mine.first_open]; ++mine.done) {
      const Copy& copy = mine.list[mine.done];
      if (was_overtaken(copy)) fail([&] { return thread_of_group() + " waits for its copy of line " + std::to_string(copy.line) + " to a place that was written meanwhile"; });
      if (copy.valid > 0) std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.valid));
      std::memset(static_cast<std::byte*>(copy.to) + copy.valid, 0, static_cast<size_t>(copy.bytes - copy.valid));
    }
  if (mine.done < 512) return;
  mine.list.erase(mine.list.begin(), mine.list.begin() + static_cast<std::ptrdiff_t>(mine.done));
  mine.ends.erase(mine.ends.begin(), mine.ends.begin() + static_cast<std::ptrdiff_t>(mine.first_open));
  for (size_t& end : mine.ends) end -= mine.done;
  mine.done = mine.first_open = 0;
}

// Copies that nobody waited for end with their group; by then they may have landed on what was written later.
bool Crew::check_open_copies() {
  for (int t = 0; t < fiber_count_; ++t) {
    const Copies& theirs = copies_[static_cast<size_t>(t)];
    for (size_t k = theirs.done; k < theirs.list.size(); ++k)
      if (was_overtaken(theirs.list[k])) {
        current_ = t;
        run_->fail(thread_of_group() + " never waited for its copy of line " +
                   std::to_string(theirs.list[k].line) + ", and its place was written meanwhile");
        return false;
      }
  }
  return true;
}

}  // namespace rtx::backend::emulator
