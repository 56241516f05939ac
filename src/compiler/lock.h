#pragma once
// The lock file of `rtx compile --lock`: the parameters chosen for each kernel key, one line each, to be obeyed later.
#include <map>
#include <string>

#include "base/result.h"

namespace rtx::compiler {

class Lock {
 public:
  // An existing file is read and obeyed; a missing one will be written by save(). An empty path locks nothing.
  static Result<Lock> open(const std::string& path);
  bool active() const { return !path_.empty(); }
  bool obeyed() const { return existed_; }
  // Parameters chosen for the key with this digest; null when the lock has none.
  const std::string* find(const std::string& digest) const;
  void record(const std::string& digest, const std::string& family, const std::string& parameters);
  // Writes a new lock; an obeyed one is left as it is.
  Status save() const;
  const std::string& path() const { return path_; }

 private:
  struct Line {
    std::string family, parameters;
  };
  std::string path_;
  bool existed_ = false;
  std::map<std::string, Line> lines_;
};

}  // namespace rtx::compiler
