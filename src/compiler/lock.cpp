#include "compiler/lock.h"

#include <sstream>

#include "base/files.h"

namespace rtx::compiler {

namespace {
constexpr char kHeader[] = "rtx-lock 1";
}

Result<Lock> Lock::open(const std::string& path) {
  Lock lock;
  lock.path_ = path;
  if (path.empty() || !file_exists(path)) return lock;
  RTX_TRY(const std::string text, read_file(path));
  lock.existed_ = true;
  std::istringstream lines(text);
  std::string line;
  int number = 1;
  if (!std::getline(lines, line) || line != kHeader)
    return user_error("cannot read the lock file " + path, "its first line is not \"" + std::string(kHeader) + "\"", "delete it to write a new one");
  while (std::getline(lines, line)) {
    ++number;
    if (line.empty()) continue;
    const auto first = line.find('\t'), second = first == std::string::npos ? first : line.find('\t', first + 1);
    if (second == std::string::npos)
      return user_error("cannot read the lock file " + path, "line " + std::to_string(number) + " is not \"digest<TAB>family<TAB>parameters\"");
    lock.lines_[line.substr(0, first)] = {line.substr(first + 1, second - first - 1), line.substr(second + 1)};
  }
  return lock;
}

const std::string* Lock::find(const std::string& digest) const {
  const auto found = lines_.find(digest);
  return found == lines_.end() ? nullptr : &found->second.parameters;
}

void Lock::record(const std::string& digest, const std::string& family, const std::string& parameters) { lines_[digest] = {family, parameters}; }

Status Lock::save() const {
  if (path_.empty() || existed_) return success();
  std::string text = std::string(kHeader) + "\n";
  for (const auto& [digest, line] : lines_) text += digest + "\t" + line.family + "\t" + line.parameters + "\n";
  return write_file_atomic(path_, text);
}

}  // namespace rtx::compiler
