#include "kernels/family_testing.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "backend/all_compile.h"
#include "backend/all_device.h"
#include "ir/text.h"
#include "kernels/compare_testing.h"
#include "kernels/family_data_testing.h"
#include "reference/reference.h"

namespace rtx::kernels::testing {

namespace {

using backend::BufferKind;

// A target's device and compiler, made once.
struct Rig {
  std::shared_ptr<backend::Device> device;
  std::unique_ptr<backend::Compiler> compiler;
  codegen::Dialect dialect;
  std::string missing;  // why there is none
};
std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}
Rig make_rig(const std::string& target) {
  Rig out;
  for (const auto& side : backend::all_devices()) {
    if (side.target != target) continue;
    if (auto here = side.identify(2, 0); !here.ok()) return out.missing = here.error().text(), std::move(out);
    if (auto device = side.device(2, "", 0); device.ok()) out.device = *device;
  }
  for (const auto& side : backend::all_compilers()) {
    if (side.target != target || !out.device) continue;
    backend::CompileSettings settings;
    settings.path = variable("PATH", "/usr/bin:/bin");
    settings.nvrtc = variable("RTX_NVRTC");
    out.compiler = side.compiler(settings);
    out.dialect = side.dialect(out.device->caps());
  }
  if (!out.compiler) out.missing = "this build has no target " + target;
  return out;
}
Rig& rig(Target target) {
  if (target == Target::emulated) {
    static Rig gpu = make_rig(variable("RTX_TEST_GPU", "cuda-emulated"));
    return gpu;
  }
  static Rig cpu = make_rig("cpu");
  return cpu;
}

// Emission and one compilation for many plans --------------------------------------------------------------------------------------

struct Prepared {
  Rig* rig = nullptr;
  ir::Graph body;
  std::unique_ptr<BoundProblem> problem;
  backend::KernelPlan plan;
  TestCase test;
};

void rename(backend::KernelPlan& plan, const std::string& fresh) {
  const std::string old = plan.name;
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = plan.text.find(old, at);
    out += plan.text.substr(at, found - at);
    if (found == std::string::npos) break;
    out += fresh;
    at = found + old.size();
  }
  plan.text = out;
  for (auto* steps : {&plan.prepare, &plan.steps})
    for (auto& launch : *steps)
      if (launch.entry.rfind(old, 0) == 0) launch.entry = fresh + launch.entry.substr(old.size());
  plan.name = fresh;
}

// Texts one after another; what each inlines ("// ---- path" to "// ---- end of path") stays once.
std::string joined(const std::vector<Prepared>& all) {
  std::set<std::string> seen;
  std::string out;
  for (const auto& p : all) {
    std::string skipping;
    for (size_t at = 0; at < p.plan.text.size();) {
      const size_t end = std::min(p.plan.text.find('\n', at), p.plan.text.size());
      const std::string line = p.plan.text.substr(at, end - at);
      at = end + 1;
      if (skipping.empty() && line.rfind("// ---- ", 0) == 0 && line.size() > 10 && line.substr(line.size() - 2) == ".h" && line.find(' ', 8) == std::string::npos) {
        if (!seen.insert(line.substr(8)).second) skipping = "// ---- end of " + line.substr(8);
      }
      if (skipping.empty()) out += line + "\n";
      if (line == skipping) skipping.clear();
    }
  }
  return out;
}

Result<Prepared> prepare(const AnyFamily& family, const TestCase& test, size_t number, Target target) {
  Prepared out;
  out.rig = &rig(target);
  if (!out.rig->missing.empty()) return error_of(ErrorKind::device, out.rig->missing);
  const backend::Caps& caps = out.rig->device->caps();
  out.test = test;
  RTX_TRY(out.body, ir::parse(test.text));
  RTX_TRY(out.problem, family.bind(out.body));
  std::string parameters = test.parameters;
  if (parameters.empty()) {
    const auto candidates = out.problem->candidates(caps);
    if (candidates.empty()) return user_error("no legal parameters");
    parameters = candidates.front().parameters;
  }
  RTX_TRY(out.plan, out.problem->emit(parameters, caps, out.rig->dialect));
  rename(out.plan, "k" + std::to_string(number) + "_" + out.plan.name);
  return out;
}

struct Buffers {
  std::vector<std::unique_ptr<Guarded>> inputs, outputs, workspace, prepared;
  Guarded* at(const backend::BufferRef& ref) {
    const auto k = static_cast<size_t>(ref.index);
    switch (ref.kind) {
      case BufferKind::input: return inputs[k].get();
      case BufferKind::output: return outputs[k].get();
      case BufferKind::workspace: return workspace[k].get();
      case BufferKind::prepared: return prepared[k].get();
    }
    return nullptr;
  }
  Status move(Status (Guarded::*how)()) {
    for (const auto* side : {&inputs, &outputs, &workspace, &prepared})
      for (const auto& buffer : *side) RTX_CHECK((buffer.get()->*how)());
    return success();
  }
};

Status launch_all(backend::Device& device, backend::Module& module, const std::vector<backend::Launch>& launches, Buffers& buffers) {
  for (const auto& launch : launches) {
    if (launch.grid.count() == 0) continue;
    std::vector<void*> arguments;
    for (const auto& ref : launch.arguments) arguments.push_back(buffers.at(ref)->pointer());
    RTX_TRY(const auto function, device.function(module, launch.entry));
    RTX_CHECK(device.launch(function, launch.grid, launch.group, launch.scratch_bytes, arguments.data(), static_cast<int>(arguments.size()), nullptr,
                            launch.views));
  }
  return device.synchronize(nullptr);
}

Result<Buffers> make_buffers(const Prepared& p, const std::vector<ir::HostTensor>& inputs) {
  Buffers out;
  const auto add = [&](std::vector<std::unique_ptr<Guarded>>& to, int64_t bytes, int64_t shift) -> Status {
    RTX_TRY(auto made, Guarded::make(*p.rig->device, bytes, shift));
    to.push_back(std::move(made));
    return success();
  };
  const auto add_value = [&](std::vector<std::unique_ptr<Guarded>>& to, ir::ValueId id) {
    const int64_t size = ir::bytes_of(p.body.value(id).dtype);
    return add(to, span_of(p.body, id) * size, p.test.unaligned ? size : 0);
  };
  for (size_t k = 0; k < p.body.inputs.size(); ++k) {
    RTX_CHECK(add_value(out.inputs, p.body.inputs[k]));
    ir::HostTensor copy = inputs[k];
    move_elements(p.body, p.body.inputs[k], copy.mutable_bytes(), out.inputs.back()->data(), true);
  }
  for (const ir::ValueId id : p.body.outputs) RTX_CHECK(add_value(out.outputs, id));
  for (const int64_t bytes : p.plan.workspace_bytes) RTX_CHECK(add(out.workspace, bytes, 0));
  for (const int64_t bytes : p.plan.prepared_bytes) RTX_CHECK(add(out.prepared, bytes, 0));
  RTX_CHECK(out.move(&Guarded::upload));
  return out;
}

std::string run(backend::Module& module, const Prepared& p, std::vector<ir::HostTensor>* results) {
  auto inputs = make_inputs(p.body, p.test);
  auto made = make_buffers(p, inputs);
  if (!made) return made.error().text();
  Buffers& buffers = *made;
  for (size_t k = 0; k < inputs.size(); ++k)  // elements of an overlapping view are one: read back what is there
    move_elements(p.body, p.body.inputs[k], inputs[k].mutable_bytes(), buffers.inputs[k]->data(), false);
  auto wanted = reference::run(p.body, inputs);
  if (!wanted) return wanted.error().text();
  for (const auto* launches : {&p.plan.prepare, &p.plan.steps})
    if (auto status = launch_all(*p.rig->device, module, *launches, buffers); !status) return status.error().text();
  if (auto status = buffers.move(&Guarded::download); !status) return status.error().text();
  for (const auto* side : {&buffers.inputs, &buffers.outputs, &buffers.workspace, &buffers.prepared})
    for (size_t k = 0; k < side->size(); ++k)
      if (!(*side)[k]->intact()) return "bytes outside of a buffer were written";
  Tolerance tolerance = p.problem->tolerance();
  if (p.test.terms > 0) tolerance.terms = p.test.terms;
  std::string out;
  for (size_t k = 0; k < p.body.outputs.size(); ++k) {
    const ir::ValueId id = p.body.outputs[k];
    ir::HostTensor found(p.body.value(id).dtype, p.body.extents(id));
    move_elements(p.body, id, found.mutable_bytes(), buffers.outputs[k]->data(), false);
    out += compare(p.body, id, found, (*wanted)[k], tolerance, p.test.scale);
    if (results) results->push_back(found);
  }
  return out;
}

Result<std::unique_ptr<backend::Module>> build(Rig& on, const std::string& text, const std::string& name) {
  backend::CompileRequest request;
  request.name = name;
  request.text = text;
  request.arch = on.device->caps().arch;
  if (const char* directory = std::getenv("RTX_SAVE_TEMPS")) request.save_temps = directory;
  RTX_TRY(const auto binary, on.compiler->compile(request));
  return on.device->load(binary.bytes, name);
}

}  // namespace

const std::string& unavailable(Target target) { return rig(target).missing; }

std::string check(const AnyFamily& family, const std::vector<TestCase>& cases, Target target) {
  std::string out;
  std::vector<Prepared> all;
  for (const auto& test : cases) {
    auto made = prepare(family, test, all.size(), target);
    if (!made) out += test.text + ": " + made.error().text() + "\n";
    else all.push_back(std::move(*made));
  }
  if (all.empty()) return out;
  std::string text = joined(all);
  for (const auto& p : all)
    if (p.test.change) p.test.change(text);
  auto module = build(rig(target), text, std::string(family.name()));
  if (!module) return out + module.error().text();
  for (const auto& p : all)
    if (const std::string wrong = run(**module, p, nullptr); !wrong.empty()) out += p.test.text + " (" + p.plan.name + "): " + wrong + "\n";
  return out;
}

std::string check_everywhere(const AnyFamily& family, const std::vector<TestCase>& cases) {
  std::string out = check(family, cases, Target::cpu);
  if (!unavailable(Target::emulated).empty()) return out;
  if (const std::string gpu = check(family, cases, Target::emulated); !gpu.empty()) out += "on a GPU: " + gpu;
  return out;
}

std::string check_candidates(const AnyFamily& family, const TestCase& test, size_t limit, Target target) {
  if (!unavailable(target).empty()) return unavailable(target);
  auto body = ir::parse(test.text);
  if (!body) return body.error().text();
  auto problem = family.bind(*body);
  if (!problem) return problem.error().text();
  const auto candidates = (*problem)->candidates(rig(target).device->caps());
  std::vector<Prepared> all;
  const size_t step = std::max<size_t>(1, (candidates.size() + limit - 1) / limit);
  for (size_t k = 0; k < candidates.size(); k += step) {
    TestCase one = test;
    one.parameters = candidates[k].parameters;
    auto made = prepare(family, one, all.size(), target);
    if (!made) return one.parameters + ": " + made.error().text();
    all.push_back(std::move(*made));
  }
  if (all.empty()) return "no legal parameters";
  auto module = build(rig(target), joined(all), std::string(family.name()));
  if (!module) return module.error().text();
  std::string out;
  std::map<std::string, std::vector<ir::HostTensor>> by_class;
  for (const auto& p : all) {
    std::vector<ir::HostTensor> results;
    if (const std::string wrong = run(**module, p, &results); !wrong.empty()) out += p.test.parameters + ": " + wrong + "\n";
    const auto [known, fresh] = by_class.emplace(p.plan.numerics_class, results);
    if (!fresh)
      for (size_t k = 0; k < results.size(); ++k)
        if (!results[k].same_bytes(known->second[k])) out += p.test.parameters + ": other bits than its numerics class \"" + p.plan.numerics_class + "\"\n";
  }
  return out;
}

std::string refusal(const AnyFamily& family, std::string_view text) {
  const ir::Graph body = ir::parse_or_die(text);
  auto bound = family.bind(body);
  return bound ? std::string() : bound.error().text();
}

Result<Timing> time_plan(const AnyFamily& family, const TestCase& test, int runs) {
  RTX_TRY(const auto p, prepare(family, test, 0, Target::cpu));
  RTX_TRY(const auto module, build(*p.rig, p.plan.text, p.plan.name));
  RTX_TRY(Buffers buffers, make_buffers(p, make_inputs(p.body, p.test)));
  RTX_CHECK(launch_all(*p.rig->device, *module, p.plan.prepare, buffers));
  Timing out;
  out.work = p.problem->work();
  out.name = p.plan.name;
  out.seconds = 1e30;
  for (int k = 0; k < runs; ++k) {
    const auto start = std::chrono::steady_clock::now();
    RTX_CHECK(launch_all(*p.rig->device, *module, p.plan.steps, buffers));
    out.seconds = std::min(out.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return out;
}

}  // namespace rtx::kernels::testing
