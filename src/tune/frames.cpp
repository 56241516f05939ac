#include "tune/frames.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace rtx::tune {

using nlohmann::json;

namespace {

constexpr uint32_t kMaxFrame = 1u << 30;

bool write_all(int file, const void* data, size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = write(file, bytes, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

ReadState read_all(int file, void* data, size_t size, std::chrono::steady_clock::time_point deadline, const std::atomic<bool>* stop) {
  constexpr int64_t kPatienceMs = 1000, kPatienceForStopMs = 50;
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return ReadState::timed_out;
    if (stop && stop->load(std::memory_order_relaxed)) return ReadState::stopped;
    struct pollfd wait = {file, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(std::min(left, stop ? kPatienceForStopMs : kPatienceMs)));
    if (ready < 0 && errno != EINTR) return ReadState::closed;
    if (ready <= 0) continue;
    const ssize_t count = read(file, bytes, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return ReadState::closed;
    bytes += count;
    size -= static_cast<size_t>(count);
  }
  return ReadState::frame;
}

json launches(const std::vector<backend::Launch>& from) {
  json out = json::array();
  for (const auto& launch : from) {
    json arguments = json::array();
    for (const auto& ref : launch.arguments) arguments.push_back({static_cast<int>(ref.kind), ref.index});
    json views = json::array();
    for (const auto& view : launch.views)
      views.push_back({view.argument, static_cast<int>(view.element), view.extents, view.strides_bytes, view.box, view.swizzle, view.byte_offset});
    out.push_back({{"entry", launch.entry},
                   {"grid", {launch.grid.x, launch.grid.y, launch.grid.z}},
                   {"group", {launch.group.x, launch.group.y, launch.group.z}},
                   {"scratch", launch.scratch_bytes},
                   {"arguments", arguments},
                   {"views", views}});
  }
  return out;
}

std::vector<backend::Launch> launches(const json& from) {
  std::vector<backend::Launch> out;
  for (const auto& item : from) {
    backend::Launch launch;
    launch.entry = item.at("entry");
    launch.grid = {item.at("grid")[0], item.at("grid")[1], item.at("grid")[2]};
    launch.group = {item.at("group")[0], item.at("group")[1], item.at("group")[2]};
    launch.scratch_bytes = item.at("scratch");
    for (const auto& ref : item.at("arguments")) launch.arguments.push_back({static_cast<backend::BufferKind>(ref[0].get<int>()), ref[1]});
    for (const auto& view : item.at("views"))
      launch.views.push_back({view[0], static_cast<backend::ViewElement>(view[1].get<int>()), view[2].get<std::vector<int64_t>>(),
                              view[3].get<std::vector<int64_t>>(), view[4].get<std::vector<int64_t>>(), view[5], view[6]});
    out.push_back(std::move(launch));
  }
  return out;
}

}  // namespace

bool write_frame(int file, const json& message) {
  const std::vector<uint8_t> body = json::to_cbor(message);
  const auto size = static_cast<uint32_t>(body.size());
  return write_all(file, &size, sizeof size) && write_all(file, body.data(), body.size());
}

ReadState read_frame(int file, double timeout_seconds, json* message, const std::atomic<bool>* stop) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1e3));
  uint32_t size = 0;
  if (auto state = read_all(file, &size, sizeof size, deadline, stop); state != ReadState::frame) return state;
  if (size > kMaxFrame) return ReadState::closed;
  std::vector<uint8_t> body(size);
  if (auto state = read_all(file, body.data(), body.size(), deadline, stop); state != ReadState::frame) return state;
  *message = json::from_cbor(body, true, false);
  return message->is_object() ? ReadState::frame : ReadState::closed;
}

json to_json(const backend::KernelPlan& plan) {
  return {{"name", plan.name},
          {"workspace", plan.workspace_bytes},
          {"prepared", plan.prepared_bytes},
          {"prepare", launches(plan.prepare)},
          {"steps", launches(plan.steps)}};
}

backend::KernelPlan plan_from_json(const json& in) {
  backend::KernelPlan plan;
  plan.name = in.at("name");
  plan.workspace_bytes = in.at("workspace").get<std::vector<int64_t>>();
  plan.prepared_bytes = in.at("prepared").get<std::vector<int64_t>>();
  plan.prepare = launches(in.at("prepare"));
  plan.steps = launches(in.at("steps"));
  return plan;
}

json to_json(const Outcome& outcome) {
  struct Visitor {
    json operator()(const Measured& m) const { return {{"kind", "measured"}, {"median", m.median_ms}, {"low", m.low_ms}, {"high", m.high_ms}, {"samples", m.samples}}; }
    json operator()(const Rejected& r) const { return {{"kind", "rejected"}, {"text", r.rule}}; }
    json operator()(const CompileFailed& c) const { return {{"kind", "compile"}, {"text", c.log}}; }
    json operator()(const CompileRejected& r) const { return {{"kind", "compile rejected"}, {"text", r.reason}}; }
    json operator()(const WrongResult& w) const { return {{"kind", "wrong"}, {"text", w.report}, {"no_memory", w.no_memory}}; }
    json operator()(const TimedOut& t) const { return {{"kind", "timeout"}, {"seconds", t.seconds}}; }
    json operator()(const Crashed& c) const { return {{"kind", "crashed"}, {"text", c.report}}; }
  };
  return std::visit(Visitor{}, outcome);
}

Outcome outcome_from_json(const json& in) {
  const std::string kind = in.value("kind", ""), words = in.value("text", "");
  if (kind == "measured") return Measured{in.at("median"), in.at("low"), in.at("high"), in.at("samples")};
  if (kind == "rejected") return Rejected{words};
  if (kind == "compile") return CompileFailed{words};
  if (kind == "compile rejected") return CompileRejected{words};
  if (kind == "wrong") return WrongResult{words, in.value("no_memory", false)};
  if (kind == "timeout") return TimedOut{in.value("seconds", 0.0)};
  return Crashed{words.empty() ? "the worker answered nonsense" : words};
}

}  // namespace rtx::tune
