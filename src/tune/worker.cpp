#include "tune/worker.h"

#include <signal.h>
#include <sys/prctl.h>

#include <array>

#include "ir/text.h"
#include "tune/companion.h"
#include "tune/frames.h"
#include "tune/trial.h"

namespace rtx::tune {

namespace {

using nlohmann::json;

struct Problem {
  ir::Graph body;
  std::vector<validate::Case> cases;
  validate::Bounds bounds;
};

json failure(const std::string& text) { return {{"kind", "crashed"}, {"text", text}}; }

using Problems = std::array<std::optional<Problem>, kChecks>;

std::optional<Problem>& problem_of(const json& request, Problems& problems) { return problems.at(request.at("check").get<size_t>()); }

json begin(const json& request, std::optional<Problem>* problem) {
  auto body = ir::parse(request.at("body").get<std::string>());
  if (!body.ok()) return failure("the body does not parse: " + body.error().what + " " + body.error().why);
  auto cases = validate::make_cases(*body, request.at("seed"), request.at("sampled"));
  if (!cases.ok()) return failure("the reference cannot run: " + cases.error().what + " " + cases.error().why);
  validate::Bounds bounds;
  bounds.rule = static_cast<validate::Rule>(request.at("rule").get<int>());
  bounds.terms = request.at("terms");
  *problem = Problem{*std::move(body), *std::move(cases), bounds};
  return {{"kind", "ready"}};
}

json evaluate(backend::Device& device, const json& request, const std::optional<Problem>& problem) {
  if (!problem) return failure("no problem was given");
  backend::Binary binary;
  const auto& bytes = request.at("binary").get_binary();
  binary.bytes.resize(bytes.size());
  if (!bytes.empty()) std::memcpy(binary.bytes.data(), bytes.data(), bytes.size());
  return to_json(try_candidate(device, plan_from_json(request.at("plan")), binary, problem->body, problem->cases, problem->bounds,
                               request.at("time"), request.at("timeout")));
}

}  // namespace

int serve_worker(backend::Device& device, int input, int output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // never outlive the tuner
  signal(SIGINT, SIG_IGN);           // Ctrl-C is the parent's to handle; it ends us by closing the pipe
  Problems problems;
  for (;;) {
    json request;
    if (read_frame(input, 1e9, &request) != ReadState::frame) return 0;
    const std::string type = request.value("type", "");
    json answer;
    try {  // nlohmann throws on a malformed request; nothing else here does
      answer = type == "problem" ? begin(request, &problem_of(request, problems)) : evaluate(device, request, problem_of(request, problems));
    } catch (const std::exception& error) {
      answer = failure(error.what());
    }
    if (!write_frame(output, answer)) return 0;
  }
}

}  // namespace rtx::tune
