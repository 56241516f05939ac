#pragma once
// What was once found out about a file, kept as long as the file's resolved path, size and time stay the same: a compiler's version,
// say, so that the next run starts no process to ask for it.
#include <map>
#include <string>

namespace rtx {

// "path size seconds nanoseconds" of the file behind all links; empty when there is none.
std::string file_stamp(const std::string& path);

// Not thread-safe; several processes may share one memory file.
class FileMemory {
 public:
  // `path` of the memory; empty: remembers in this object only.
  explicit FileMemory(std::string path = {}) : path_(std::move(path)) {}
  // What is remembered under a stamp; empty when nothing is.
  std::string find(const std::string& stamp);
  // One line of text. A memory that cannot be written costs the question again next time, no more.
  void remember(const std::string& stamp, const std::string& text);

 private:
  void read();

  std::string path_;
  std::map<std::string, std::string> lines_;
};

}  // namespace rtx
