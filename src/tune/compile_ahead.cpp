#include <condition_variable>
#include <deque>
#include <thread>

#include "tune/evaluator.h"

namespace rtx::tune {

class CompileAhead::Pool {
 public:
  using Answer = Result<std::shared_ptr<const Artefact>>;

  Pool(backend::Compiler& compiler, backend::Caps caps, codegen::Dialect dialect, int jobs)
      : compiler_(compiler), caps_(std::move(caps)), dialect_(std::move(dialect)) {
    for (int i = 0; i < std::max(jobs, 0); ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      waiting_.clear();
    }
    changed_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  Answer compile(const kernels::BoundProblem& problem, const std::string& parameters) {
    RTX_TRY(backend::KernelPlan plan, problem.emit(parameters, caps_, dialect_));
    backend::CompileRequest request;
    request.name = plan.name;
    request.text = plan.text;
    request.arch = caps_.arch;
    RTX_TRY(backend::Binary binary, compiler_.compile(request));
    return std::shared_ptr<const Artefact>(std::make_shared<Artefact>(Artefact{std::move(plan), std::move(binary)}));
  }

  void start(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& candidates) {
    std::lock_guard lock(mutex_);
    for (const auto& candidate : candidates) {
      if (slots_.count(candidate.parameters) != 0) continue;
      auto slot = std::make_shared<Slot>();
      slot->parameters = candidate.parameters;
      slot->problem = &problem;
      slots_[candidate.parameters] = slot;
      if (!threads_.empty()) waiting_.push_back(slot);
    }
    changed_.notify_all();
  }

  Answer get(const kernels::BoundProblem& problem, const std::string& parameters) {
    std::unique_lock lock(mutex_);
    auto& slot_reference = slots_[parameters];
    if (!slot_reference) {
      slot_reference = std::make_shared<Slot>();
      slot_reference->parameters = parameters;
      slot_reference->problem = &problem;
    }
    const auto slot = slot_reference;
    if (slot->state == State::waiting) {  // nobody has begun: do it here
      slot->state = State::running;
      lock.unlock();
      Answer answer = compile(problem, parameters);
      lock.lock();
      slot->answer = answer;
      slot->state = State::done;
      changed_.notify_all();
      return answer;
    }
    changed_.wait(lock, [&] { return slot->state == State::done; });
    return *slot->answer;
  }

  void clear() {
    std::unique_lock lock(mutex_);
    waiting_.clear();
    changed_.wait(lock, [&] { return running_ == 0; });
    slots_.clear();
  }

 private:
  enum class State { waiting, running, done };
  struct Slot {
    std::string parameters;
    const kernels::BoundProblem* problem = nullptr;
    State state = State::waiting;
    std::optional<Answer> answer;
  };

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      if (ending_) return;
      const auto slot = waiting_.front();
      waiting_.pop_front();
      if (slot->state != State::waiting) continue;
      slot->state = State::running;
      ++running_;
      lock.unlock();
      Answer answer = compile(*slot->problem, slot->parameters);
      lock.lock();
      slot->answer = std::move(answer);
      slot->state = State::done;
      --running_;
      changed_.notify_all();
    }
  }

  backend::Compiler& compiler_;
  backend::Caps caps_;
  codegen::Dialect dialect_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Slot>> waiting_;
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  std::vector<std::thread> threads_;
  int running_ = 0;
  bool ending_ = false;
};

Outcome not_compiled(const Error& error) {
  if (backend::is_rejected_binary(error)) return CompileRejected{error.why};
  return CompileFailed{error.what + ": " + error.why};
}

CompileAhead::CompileAhead(backend::Compiler& compiler, backend::Caps caps, codegen::Dialect dialect, int jobs)
    : pool_(std::make_unique<Pool>(compiler, std::move(caps), std::move(dialect), jobs)) {}
CompileAhead::~CompileAhead() = default;

void CompileAhead::start(const kernels::BoundProblem& problem, const std::vector<kernels::Candidate>& candidates) { pool_->start(problem, candidates); }
Result<std::shared_ptr<const Artefact>> CompileAhead::get(const kernels::BoundProblem& problem, const std::string& parameters) {
  return pool_->get(problem, parameters);
}
void CompileAhead::clear() { pool_->clear(); }

}  // namespace rtx::tune
