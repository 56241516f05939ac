#include "backend/cpu/shared_object.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace rtx::backend::cpu {

namespace {

Error load_error(const std::string& name, const std::string& why) {
  return error_of(ErrorKind::device, "cannot load kernel " + name, why);
}

}  // namespace

Result<void*> open_shared_object(std::span<const std::byte> binary, const std::string& name) {
  // dlopen trusts its input, so a file that is no shared object of this machine is refused before it gets there.
  static constexpr unsigned char magic[] = {0x7f, 'E', 'L', 'F'};
  if (binary.size() < 64 || std::memcmp(binary.data(), magic, sizeof magic) != 0)
    return load_error(name, "the binary is not a shared object");
  const int file = memfd_create(name.substr(0, 200).c_str(), MFD_CLOEXEC);  // a name of more than 249 bytes is refused, and nobody reads it
  if (file < 0) return load_error(name, std::string("memfd_create: ") + std::strerror(errno));
  size_t done = 0;
  while (done < binary.size()) {
    const ssize_t count = write(file, binary.data() + done, binary.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      close(file);
      return load_error(name, std::string("write: ") + std::strerror(errno));
    }
    done += static_cast<size_t>(count);
  }
  // The loader knows loaded objects by the text of their path, and descriptor numbers come back: each path must be spelled anew.
  static std::atomic<uint64_t> loads{0};
  std::string path = "/proc/self/fd/";
  for (uint64_t count = ++loads; count != 0; count /= 2) path += count % 2 ? "./" : "/";
  path += std::to_string(file);
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* why = handle ? nullptr : dlerror();
  close(file);
  if (!handle) return load_error(name, why ? why : "dlopen failed");
  return handle;
}

}  // namespace rtx::backend::cpu
