#include "base/temp_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "base/files.h"

namespace rtx {

namespace {

constexpr int kAbandonedAfterSeconds = 3600;

// The lock is taken before the file gets its name, so a file of that name that nobody has locked has lost its owner.
int take_ownership(const std::string& directory) {
  const std::string unnamed = directory + "/owner.new", named = directory + "/owner";
  const int file = ::open(unnamed.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return -1;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0 && ::rename(unnamed.c_str(), named.c_str()) == 0) return file;
  ::close(file);
  ::unlink(unnamed.c_str());
  return -1;
}

bool abandoned(const std::string& directory) {
  struct stat info {};
  if (::lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) return false;
  const int file = ::open((directory + "/owner").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return std::time(nullptr) - info.st_mtime > kAbandonedAfterSeconds;
  const bool nobody = ::flock(file, LOCK_EX | LOCK_NB) == 0;
  ::close(file);
  return nobody;
}

}  // namespace

Result<TempDirectory> TempDirectory::create(const std::string& root, const std::string& prefix) {
  RTX_TRY(std::string path, make_temp_directory(root, prefix));
  const int lock = take_ownership(path);  // without one (a file system that has no locks) age alone decides
  return TempDirectory(std::move(path), lock);
}

TempDirectory::TempDirectory(TempDirectory&& other) noexcept : path_(std::exchange(other.path_, {})), lock_(std::exchange(other.lock_, -1)) {}

TempDirectory& TempDirectory::operator=(TempDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  return *this;
}

TempDirectory::~TempDirectory() {
  if (!path_.empty()) remove_tree(path_);
  if (lock_ >= 0) ::close(lock_);
}

int remove_abandoned_directories(const std::string& root, const std::string& prefix) {
  int removed = 0;
  for (const auto& name : list_directory(root)) {
    if (name.compare(0, prefix.size(), prefix) != 0 || !abandoned(root + "/" + name)) continue;
    remove_tree(root + "/" + name);
    ++removed;
  }
  return removed;
}

}  // namespace rtx
