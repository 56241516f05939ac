#include "base/file_memory.h"

#include <sys/stat.h>

#include <cstdlib>
#include <sstream>

#include "base/files.h"

namespace rtx {

std::string file_stamp(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (!resolved) return {};
  const std::string real = resolved;
  std::free(resolved);
  struct stat info {};
  if (stat(real.c_str(), &info) != 0) return {};
  return real + " " + std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + " " + std::to_string(info.st_mtim.tv_nsec);
}

void FileMemory::read() {
  if (path_.empty()) return;
  const auto remembered = read_plain_file(path_, 1 << 20);  // a pipe or a device in its place is no memory
  std::istringstream file(remembered.ok() ? *remembered : std::string());
  for (std::string line; std::getline(file, line);)
    if (const auto tab = line.find('\t'); tab != std::string::npos) lines_[line.substr(0, tab)] = line.substr(tab + 1);
}

std::string FileMemory::find(const std::string& stamp) {
  if (auto known = lines_.find(stamp); known != lines_.end()) return known->second;
  read();
  const auto known = lines_.find(stamp);
  return known == lines_.end() ? std::string() : known->second;
}

void FileMemory::remember(const std::string& stamp, const std::string& text) {
  if (stamp.empty() || stamp.find_first_of("\t\n") != std::string::npos || text.find('\n') != std::string::npos) return;
  read();  // what another process has added since
  lines_[stamp] = text;
  if (path_.empty()) return;
  std::string all;
  for (const auto& [known, line] : lines_) all += known + "\t" + line + "\n";
  (void)write_file_atomic(path_, all);
}

}  // namespace rtx
