#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "ir/text.h"
#include "tune/frames.h"
#include "tune/staged_evaluator.h"
#include "tune/trial.h"

extern char** environ;

namespace rtx::tune {

namespace {

using nlohmann::json;

// The reference of a large region takes seconds; the worker computes it while it gets ready.
constexpr double kProblemSeconds = 300.0;
constexpr const char* kStopped = "nobody waits for its answer any longer";

// A spawned worker and the two pipes to it.
class WorkerProcess {
 public:
  static Result<std::unique_ptr<WorkerProcess>> start(const std::vector<std::string>& command) {
    int to_worker[2], from_worker[2];
    if (pipe2(to_worker, O_CLOEXEC) != 0) return failed(command, errno);
    if (pipe2(from_worker, O_CLOEXEC) != 0) {
      const int why = errno;
      close(to_worker[0]), close(to_worker[1]);
      return failed(command, why);
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to_worker[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from_worker[1], STDOUT_FILENO);
    std::vector<char*> argv;
    for (const auto& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_t child = 0;
    const int why = posix_spawn(&child, command[0].c_str(), &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(to_worker[0]), close(from_worker[1]);
    if (why != 0) {
      close(to_worker[1]), close(from_worker[0]);
      return failed(command, why);
    }
    auto worker = std::make_unique<WorkerProcess>();
    worker->child_ = child;
    worker->input_ = to_worker[1];
    worker->output_ = from_worker[0];
    return worker;
  }
  WorkerProcess() = default;
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;
  ~WorkerProcess() { end(true); }

  ReadState ask(const json& request, double timeout_seconds, const std::atomic<bool>* stop, json* answer) {
    if (!write_frame(input_, request)) return ReadState::closed;
    return read_frame(output_, timeout_seconds, answer, stop);
  }

  // Ends the process; the words say how it had ended.
  std::string end(bool kill_it) {
    if (child_ == 0) return {};
    if (kill_it) kill(child_, SIGKILL);
    close(input_), close(output_);
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = 0;
    if (WIFSIGNALED(status)) return std::string("the worker died of ") + strsignal(WTERMSIG(status));
    return "the worker ended with code " + std::to_string(WEXITSTATUS(status));
  }

 private:
  static Error failed(const std::vector<std::string>& command, int why) {
    return error_of(ErrorKind::device, "cannot start the tuning worker " + command[0], std::strerror(why));
  }
  pid_t child_ = 0;
  int input_ = -1, output_ = -1;
};

class WorkerEvaluator final : public StagedEvaluator {
 public:
  WorkerEvaluator(backend::Compiler& compiler, const backend::Caps& caps, const codegen::Dialect& dialect, std::vector<std::string> command,
                  uint64_t seed, int jobs, const std::atomic<bool>* stop, double full_flops)
      : StagedEvaluator(compiler, caps, dialect, jobs, full_flops), command_(std::move(command)), seed_(seed), stop_(stop) {
    signal(SIGPIPE, SIG_IGN);  // a worker that died is an outcome, not a signal
  }

 private:
  void forget_problem() override { worker_knows_.fill(false); }

  // Tries an artefact in the worker, which is told of a check's problem first.
  Outcome try_on(Check check, const kernels::BoundProblem& problem, const ir::Graph& body, const Artefact& artefact, bool time_it,
                 double timeout_seconds) override {
    if (auto ready = be_ready(check, problem, body); !ready.ok()) return Crashed{ready.error().what + ": " + ready.error().why};
    json request = {{"type", "candidate"}, {"check", static_cast<int>(check)}, {"plan", to_json(artefact.plan)}, {"time", time_it}, {"timeout", timeout_seconds}};
    std::vector<uint8_t> binary(artefact.binary.bytes.size());
    if (!binary.empty()) std::memcpy(binary.data(), artefact.binary.bytes.data(), binary.size());
    request["binary"] = json::binary(std::move(binary));
    json answer;
    switch (worker_->ask(request, timeout_seconds, stop_, &answer)) {
      case ReadState::timed_out: drop_worker(true); return TimedOut{timeout_seconds};
      case ReadState::closed: return Crashed{drop_worker(false)};
      case ReadState::stopped: drop_worker(true); return Crashed{kStopped};
      case ReadState::frame: break;
    }
    return outcome_from_json(answer);
  }

  Status be_ready(Check check, const kernels::BoundProblem& problem, const ir::Graph& body) {
    if (!worker_) {
      RTX_TRY(worker_, WorkerProcess::start(command_));
      worker_knows_.fill(false);
    }
    bool& knows = worker_knows_[static_cast<size_t>(check)];
    if (knows) return success();
    const auto bounds = bounds_of(problem.tolerance());
    const json request = {{"type", "problem"},
                          {"check", static_cast<int>(check)},
                          {"body", ir::to_text(body, {.inline_constants_up_to = 1 << 20})},
                          {"seed", seed_},
                          {"sampled", check == Check::sampled},
                          {"rule", static_cast<int>(bounds.rule)},
                          {"terms", bounds.terms}};
    json answer;
    switch (worker_->ask(request, kProblemSeconds, stop_, &answer)) {
      case ReadState::frame: break;
      case ReadState::stopped: drop_worker(true); return error_of(ErrorKind::interrupted, kStopped);
      default: return error_of(ErrorKind::device, "the tuning worker did not get ready", drop_worker(false));
    }
    if (answer.value("kind", "") != "ready") return error_of(ErrorKind::internal, "the tuning worker refused the problem", answer.value("text", ""));
    knows = true;
    return success();
  }

  std::string drop_worker(bool kill_it) {
    std::string words = worker_->end(kill_it);
    worker_.reset();
    return words;
  }

  std::vector<std::string> command_;
  uint64_t seed_;
  const std::atomic<bool>* stop_;
  std::array<bool, kChecks> worker_knows_{};
  std::unique_ptr<WorkerProcess> worker_;
};

}  // namespace

std::unique_ptr<Evaluator> make_worker_evaluator(backend::Compiler& compiler, const backend::Caps& caps, const codegen::Dialect& dialect,
                                                 std::vector<std::string> command, uint64_t seed, int jobs, const std::atomic<bool>* stop, double full_flops) {
  return std::make_unique<WorkerEvaluator>(compiler, caps, dialect, std::move(command), seed, jobs, stop, full_flops);
}

}  // namespace rtx::tune
