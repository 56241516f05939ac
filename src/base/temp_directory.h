#pragma once
// Temporary directories that do not outlive their owner for long: one that is killed leaves its directory behind, and the next
// process removes it.
#include <string>

#include "base/result.h"

namespace rtx {

// A fresh private directory root/prefixXXXXXX, removed with this object. A lock on its file `owner` lasts as long as this process,
// whatever ends it; unlike a process number it means the same in every container that shares `root`.
class TempDirectory {
 public:
  // Kind output on failure.
  static Result<TempDirectory> create(const std::string& root, const std::string& prefix);
  TempDirectory(TempDirectory&& other) noexcept;
  TempDirectory& operator=(TempDirectory&& other) noexcept;
  ~TempDirectory();
  const std::string& path() const { return path_; }

 private:
  TempDirectory(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}
  std::string path_;
  int lock_ = -1;
};

// Removes the directories root/prefix* that TempDirectory made for this user and whose owner is gone: nobody holds their lock.
// One that has no lock file yet, or none that can be locked, is left alone until it is an hour old. Best effort; gives their number.
int remove_abandoned_directories(const std::string& root, const std::string& prefix);

}  // namespace rtx
