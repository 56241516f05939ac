// rtx compile: the whole pipeline, a signed bundle, a summary.
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "bundle/bundle.h"
#include "rtx/environment.h"
#include "rtx/interrupt.h"
#include "rtx/options.h"
#include "rtx/pipeline_run.h"
#include "rtx/sbom.h"
#include "rtx/summary.h"
#include "rtx/usage.h"

namespace rtx::tools {

namespace {

// The key that signs: a named file, or the user's own, made on first use.
Result<std::optional<bundle::KeyPair>> signing_key(const CompileCommand& command, Console& console) {
  if (command.unsigned_bundle) return std::optional<bundle::KeyPair>();
  if (!command.sign.empty()) {
    RTX_TRY(auto key, bundle::load_key(command.sign));
    return std::optional(key);
  }
  const std::string directory = key_directory();
  if (directory.empty())
    return user_error("there is no place for a signing key", "XDG_CONFIG_HOME and HOME are unset", "give --sign KEY, or --unsigned");
  const std::string path = directory + "/default.key";
  if (file_exists(path)) {
    RTX_TRY(auto key, bundle::load_key(path));
    return std::optional(key);
  }
  auto key = bundle::new_key(directory, "default");
  if (!key.ok()) {
    Error error = std::move(key).error();
    error.fix = "give --sign KEY, or --unsigned";
    return error;
  }
  console.notice("made a signing key in " + directory + "; bundles it signs are trusted on this machine only");
  return std::optional(*key);
}

// Before anything is tuned: may the files be written? That -o and --lock are none that is read was seen from the command line.
Status check_outputs(const CompileCommand& command, const Common& common) {
  if (!command.lock.empty() && !file_exists(command.lock)) RTX_CHECK(can_write_file(command.lock));
  if (command.output.empty()) return success();
  RTX_CHECK(can_write_file(command.output));
  if (command.constants_file.empty()) return success();
  const size_t slash = command.output.find_last_of('/');
  const std::string side = (slash == std::string::npos ? "" : command.output.substr(0, slash + 1)) + command.constants_file;
  RTX_CHECK(refuse_to_overwrite(side, {command.output, command.model, command.lock, command.sign, common.console.log_file}));
  return can_write_file(side);
}

}  // namespace

Result<int> compile_command(const CompileCommand& command, const Common& common, Console& console) {
  if (command.emulate) {
    CompileCommand here = command;
    RTX_TRY(here.target, emulated_target(command.target));
    here.emulate = false;
    here.tune.no_tune = true;  // by times that mean nothing
    return compile_command(here, common, console);
  }
  RTX_CHECK([&]() -> Status {
    auto target = require_target(command.target, common.device, command.arch);
    return target.ok() ? success() : Status(std::move(target).error());
  }());
  RTX_CHECK(check_options(common, command.tune));
  RTX_TRY(const ir::Graph graph, load_model(command.model, command.model_options));
  RTX_CHECK(check_outputs(command, common));
  WorkbenchOptions bench_options;
  bench_options.target = command.target;
  bench_options.arch = command.arch;
  bench_options.device = common.device;
  bench_options.threads = common.threads;
  bench_options.jobs = common.jobs;
  RTX_TRY(auto bench, Workbench::open(bench_options, console));
  if (command.baseline) RTX_CHECK(bench->has_vendor_library());  // not after a minute of tuning
  std::optional<bundle::KeyPair> key;
  if (!command.output.empty()) {
    RTX_TRY(key, signing_key(command, console));
  }

  auto options = pipeline_options(command.tune, common, console);
  options.lock_file = command.lock;
  options.save_temps = command.save_temps;
  options.keep_sources = !command.no_sources;
  if (!command.save_temps.empty()) RTX_CHECK(make_directories(command.save_temps));
  RTX_TRY(compiler::Compiled compiled, compile_graph(graph, *bench, options));
  console.end_progress();
  if (compiled.plan.model_name.empty()) compiled.plan.model_name = command.model.substr(command.model.find_last_of('/') + 1);

  Summary summary;
  summary.model = command.model;
  summary.report = compiled.report;
  RTX_CHECK(measure_model(graph, compiled, command.baseline, options, *bench, common, console, &summary));

  if (!command.output.empty()) {
    compiled.plan.sbom = make_sbom(compiled.plan);
    compiled.plan.summary = summary.json();
    bundle::WriteOptions write;
    write.key = key ? &*key : nullptr;
    write.sources = !command.no_sources;
    write.constants_file = command.constants_file;
    {
      const Uninterrupted until_written;
      RTX_CHECK(bundle::write(compiled.plan, command.output, write));
    }
    summary.bundle = command.output;
    auto load = load_options(bench.get(), common, console, command.unsigned_bundle);
    if (!command.sign.empty()) load.allow_unsigned = true;  // signed a moment ago with the key that was named
    RTX_TRY(const auto program, runtime::Program::load(command.output, load));
    const auto report = program->report();
    summary.load_ms = report.load_ms;
    summary.bundle_bytes = report.file_bytes;
    summary.verdict = report.verdict;
  }
  if (common.console.json) {
    RTX_CHECK(console.json(summary.json()));
  } else {
    print_summary(summary, compiled, console);
  }
  return 0;
}

}  // namespace rtx::tools
