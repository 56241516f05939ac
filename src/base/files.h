#pragma once
// Files: whole-file reads, atomic writes, read-only mappings, temporary directories.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx {

// Kind user when the file cannot be read (the caller adds what it was for). Pipes are read to their end; a device has none.
Result<std::string> read_file(const std::string& path);
// For files that a stranger may have put in place of ours: a link, a pipe, a device or more than `max_bytes` is kind user, at once.
Result<std::string> read_plain_file(const std::string& path, int64_t max_bytes);
// May a file be written here? Kind output where the folder is missing or closed, or the path is a folder, a device or a
// pipe: a rename over /dev/null would replace it for everybody.
Status can_write_file(const std::string& path);
// Do both paths lead to one existing file?
bool same_file(const std::string& a, const std::string& b);
// The same, or would both names, of files that need not exist yet, be one file of one folder?
bool same_place(const std::string& a, const std::string& b);
// Temporary file in the same directory, fsync, rename: readers see the old file or the new one. A device or a pipe is
// written as it is. Kind output on failure.
Status write_file_atomic(const std::string& path, std::string_view bytes, unsigned mode = 0644);
bool file_exists(const std::string& path);
bool directory_exists(const std::string& path);
// Like mkdir -p; kind output on failure.
Status make_directories(const std::string& path, unsigned mode = 0755);
// A fresh private directory root/prefixXXXXXX; kind output on failure.
Result<std::string> make_temp_directory(const std::string& root, const std::string& prefix);
void remove_tree(const std::string& path);                              // best effort
std::vector<std::string> list_directory(const std::string& path);       // names, sorted, without . and ..

// A read-only mapping of a whole file.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace rtx
