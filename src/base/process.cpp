#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

extern char** environ;

namespace rtx {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::vector<char*> environment_with(const std::vector<std::string>& added) {
  std::vector<char*> out;
  for (char** item = environ; *item; ++item) {
    const char* equal = std::strchr(*item, '=');
    const size_t length = equal ? static_cast<size_t>(equal - *item) + 1 : 0;
    bool replaced = false;
    for (const auto& text : added) replaced |= length != 0 && text.compare(0, length, *item, length) == 0;
    if (!replaced) out.push_back(*item);
  }
  for (const auto& text : added) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

}  // namespace

Result<ProcessResult> run_process(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return error_of(ErrorKind::device, "cannot start " + arguments[0], std::strerror(errno));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);

  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  auto environment = environment_with(options.environment);

  pid_t child = 0;
  const int failed = posix_spawn(&child, arguments[0].c_str(), &actions, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(pipe_ends[1]);
  if (failed != 0) {
    close(pipe_ends[0]);
    return error_of(ErrorKind::device, "cannot start " + arguments[0], std::strerror(failed));
  }

  ProcessResult result;
  const auto start = Clock::now();
  char buffer[4096];
  for (bool open = true; open;) {
    struct pollfd wait = {pipe_ends[0], POLLIN, 0};
    const int ready = poll(&wait, 1, 100);
    if (ready > 0) {
      const ssize_t count = read(pipe_ends[0], buffer, sizeof buffer);
      if (count > 0) {
        if (result.output.size() < options.output_limit)
          result.output.append(buffer, std::min(static_cast<size_t>(count), options.output_limit - result.output.size()));
      } else if (count == 0 || errno != EINTR) {
        open = false;
      }
    }
    const bool stopped = options.stop && options.stop->load(std::memory_order_relaxed);
    if (open && (stopped || seconds_since(start) > options.timeout_seconds)) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      open = false;
    }
  }
  close(pipe_ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::string find_program(const std::string& name, const std::string& path) {
  const auto usable = [](const std::string& candidate) {
    struct stat info;
    return stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(candidate.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) return usable(name) ? name : std::string();
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    if (end > begin) {
      const std::string candidate = path.substr(begin, end - begin) + "/" + name;
      if (usable(candidate)) return candidate;
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace rtx
