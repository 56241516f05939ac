#include "runtime/program.h"

#include <chrono>

#include "backend/embedded.h"
#include "runtime/loaded.h"

namespace rtx::runtime {

namespace {

using Clock = std::chrono::steady_clock;

Error does_not_fit(const bundle::Verdict& verdict) {
  Error error = error_of(ErrorKind::bundle, "this bundle cannot run here", verdict.sentence, "compile the model again on this machine");
  for (const auto& field : verdict.fields)
    if (!field.matches) error.where.push_back(field.field + ": found '" + field.found + "', wanted '" + field.wanted + "'");
  return error;
}

Status check_allocator(const Allocator& allocator) {
  if (static_cast<bool>(allocator.allocate) == static_cast<bool>(allocator.release)) return success();
  return user_error("an allocator needs both its functions", allocator.allocate ? "release is missing" : "allocate is missing");
}

void note(const LoadOptions& options, const std::string& line) {
  if (options.notice) options.notice(line);
}

// A Plan that may run on this device: the one given, or what the rebuild callback makes of it.
struct Accepted {
  bundle::Plan plan;
  std::string verdict;
  bool rebuilt = false;
};
Result<Accepted> accept(bundle::Opened& opened, const backend::Caps& here, const LoadOptions& options) {
  const bundle::Verdict verdict = bundle::judge(opened.plan.identity, here);
  std::string word(bundle::name(verdict.kind));
  if (verdict.kind == bundle::VerdictKind::compatible) note(options, verdict.sentence);
  if (verdict.kind == bundle::VerdictKind::exact || verdict.kind == bundle::VerdictKind::compatible) return Accepted{std::move(opened.plan), word};
  if (verdict.kind == bundle::VerdictKind::refuse || !options.rebuild) return does_not_fit(verdict);
  note(options, verdict.sentence);
  // The callback reads constants, and nobody reads them unverified.
  if (opened.verify_constants) RTX_CHECK(opened.verify_constants(2));
  auto rebuilt = options.rebuild(opened, verdict);
  if (!rebuilt.ok()) return std::move(rebuilt).error().in("rebuilding for this machine: " + verdict.sentence);
  const bundle::Verdict again = bundle::judge(rebuilt->identity, here);
  if (again.kind != bundle::VerdictKind::exact && again.kind != bundle::VerdictKind::compatible) return does_not_fit(again);
  return Accepted{*std::move(rebuilt), word, true};
}

}  // namespace

Result<std::shared_ptr<const Program>> Program::load(const std::string& path, const LoadOptions& options) {
  const auto start = Clock::now();
  RTX_CHECK(check_allocator(options.allocator));
  const std::string keys = options.key_directory.empty() ? bundle::default_key_directory() : options.key_directory;
  bundle::ReadOptions read;
  read.trusted = [&](const std::array<unsigned char, 32>& key) { return bundle::is_trusted(keys, key); };
  read.allow_unsigned = options.allow_unsigned;
  read.verify_constants = false;  // before first use, in prepare()
  RTX_TRY(bundle::Opened opened, bundle::open(path, read));
  const auto device = options.device ? options.device : backend::embedded_device(options.threads);
  auto accepted = accept(opened, device->caps(), options);
  if (!accepted.ok()) return std::move(accepted).error().in(path);
  std::function<Status(int)> verify;
  if (!accepted->rebuilt && opened.verify_constants)
    verify = [inner = opened.verify_constants, path](int threads) -> Status {
      auto good = inner(threads);
      return good.ok() ? success() : Status(std::move(good).error().in(path));
    };
  auto program = LoadedProgram::make(std::move(accepted->plan), device, options.allocator, std::move(verify));
  if (!program.ok()) return std::move(program).error().in(path);
  LoadReport& facts = (*program)->facts;
  facts.verdict = accepted->verdict;
  facts.file_bytes = opened.file_bytes;
  facts.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count() - facts.context_ms;
  return std::shared_ptr<const Program>(*std::move(program));
}

Result<std::shared_ptr<const Program>> Program::from_plan(bundle::Plan plan, const LoadOptions& options) {
  const auto start = Clock::now();
  RTX_CHECK(check_allocator(options.allocator));
  const auto device = options.device ? options.device : backend::embedded_device(options.threads);
  bundle::Opened opened;
  opened.plan = std::move(plan);
  RTX_TRY(Accepted accepted, accept(opened, device->caps(), options));
  RTX_TRY(auto program, LoadedProgram::make(std::move(accepted.plan), device, options.allocator, nullptr));
  program->facts.verdict = accepted.verdict;
  program->facts.load_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count() - program->facts.context_ms;
  return std::shared_ptr<const Program>(std::move(program));
}

}  // namespace rtx::runtime
