#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

namespace rtx {

namespace {

std::string reason() { return std::strerror(errno); }

struct Descriptor {
  int number = -1;
  explicit Descriptor(int n) : number(n) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
  int close() { return ::close(std::exchange(number, -1)); }
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// `size` is a first guess: files may grow, or report no size.
Result<std::string> read_all(int file, int64_t size, const std::string& path) {
  std::string out(static_cast<size_t>(std::max<int64_t>(size, 0)), '\0');
  size_t done = 0;
  for (;;) {
    if (done == out.size()) out.resize(out.size() + 4096);
    const ssize_t count = ::read(file, out.data() + done, out.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return user_error("cannot read " + path, reason());
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  out.resize(done);
  return out;
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (file.number < 0 || fstat(file.number, &info) != 0) return user_error("cannot read " + path, reason());
  if (S_ISDIR(info.st_mode)) return user_error("cannot read " + path, "it is a directory");
  if ((S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) && ::isatty(file.number) == 0) return user_error("cannot read " + path, "it is a device");
  return read_all(file.number, info.st_size, path);
}

Result<std::string> read_plain_file(const std::string& path, int64_t max_bytes) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat info {};
  if (file.number < 0 || fstat(file.number, &info) != 0) return user_error("cannot read " + path, reason());
  if (!S_ISREG(info.st_mode)) return user_error("cannot read " + path, "it is not a regular file");
  if (info.st_size > max_bytes) return user_error("cannot read " + path, "it is larger than " + std::to_string(max_bytes) + " bytes");
  return read_all(file.number, info.st_size, path);
}

Status can_write_file(const std::string& path) {
  const auto refused = [&](std::string why) { return error_of(ErrorKind::output, "cannot write " + path, std::move(why), "choose another place"); };
  struct stat info {};
  if (path.empty()) return refused("the name is empty");
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return refused(S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file");
  const std::string folder = folder_of(path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return refused(folder + ": " + reason());
  return success();
}

bool same_file(const std::string& a, const std::string& b) {
  struct stat one {}, other {};
  return ::stat(a.c_str(), &one) == 0 && ::stat(b.c_str(), &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

bool same_place(const std::string& a, const std::string& b) {
  const auto name_of = [](const std::string& path) { return path.substr(path.find_last_of('/') + 1); };  // npos + 1 is 0
  return same_file(a, b) || (!name_of(a).empty() && name_of(a) == name_of(b) && same_file(folder_of(a), folder_of(b)));
}

Status write_file_atomic(const std::string& path, std::string_view bytes, unsigned mode) {
  const auto failed = [&](const char* step) {
    return error_of(ErrorKind::output, "cannot write " + path, std::string(step) + ": " + reason(), "free space or choose another place");
  };
  struct stat there {};
  if (::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode)) {
    // A pipe that nobody reads is an error, not a reason to wait.
    Descriptor device(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK));
    if (device.number < 0 || fcntl(device.number, F_SETFL, O_WRONLY) != 0) return failed("open");
    if (!write_all(device.number, bytes)) return failed("write");
    return device.close() == 0 ? success() : failed("close");
  }
  std::string temporary = path + ".tmpXXXXXX";
  Descriptor file(mkostemp(temporary.data(), O_CLOEXEC));
  if (file.number < 0) return failed("create");
  const auto give_up = [&](const char* step) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    errno = saved;
    return failed(step);
  };
  if (fchmod(file.number, mode) != 0) return give_up("chmod");
  if (!write_all(file.number, bytes)) return give_up("write");
  if (fsync(file.number) != 0 && errno != EINVAL) return give_up("fsync");
  if (file.close() != 0) return give_up("close");
  if (::rename(temporary.c_str(), path.c_str()) != 0) return give_up("rename");
  return success();
}

bool file_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode);
}

bool directory_exists(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status make_directories(const std::string& path, unsigned mode) {
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end != path.size() && path[end] != '/') continue;
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) == 0) continue;
    const std::string why = reason();  // before another call overwrites it
    if (!directory_exists(part)) return error_of(ErrorKind::output, "cannot create directory " + path, part + ": " + why);
  }
  return success();
}

Result<std::string> make_temp_directory(const std::string& root, const std::string& prefix) {
  std::string path = root + "/" + prefix + "XXXXXX";
  if (!mkdtemp(path.data())) return error_of(ErrorKind::output, "cannot create a temporary directory in " + root, reason());
  return path;
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  if (DIR* directory = ::opendir(path.c_str())) {
    while (const dirent* item = ::readdir(directory)) {
      const std::string name = item->d_name;
      if (name != "." && name != "..") names.push_back(name);
    }
    ::closedir(directory);
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe waits for a writer before anyone can see that it is no file.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (file.number < 0 || fstat(file.number, &info) != 0) return user_error("cannot read " + path, reason());
  if (!S_ISREG(info.st_mode)) return user_error("cannot read " + path, "it is not a regular file");
  MappedFile out;
  out.size_ = static_cast<size_t>(info.st_size);
  if (out.size_ == 0) return out;
  void* address = ::mmap(nullptr, out.size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (address == MAP_FAILED) return user_error("cannot map " + path, reason());
  out.data_ = static_cast<const std::byte*>(address);
  return out;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}
MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace rtx
