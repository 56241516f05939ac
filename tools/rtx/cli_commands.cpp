#include "rtx/cli_commands.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "rtx/help.h"

namespace rtx::tools {

namespace {

constexpr const char* kModel = "Model";
constexpr const char* kSearch = "Search";
constexpr const char* kBundle = "Bundle";
constexpr const char* kTarget = "Target";
constexpr const char* kFiles = "Inputs and outputs";
constexpr const char* kTiming = "Timing";
constexpr const char* kCommon = "Common to all commands";

// Plain numbers only: a stream would read -1 as a huge seed, and take nan for a number of seconds.
std::string is_seed(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  uint64_t value = 0;
  if (digits && std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc()) return {};
  return "'" + text + "' is not a whole number from 0 to 18446744073709551615";
}
std::string is_amount(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && std::isfinite(value) && value >= 0) return {};
  return "'" + text + "' is not a number from 0 up";
}

// One command being declared. Options are added to the group that was named last.
class Declaration {
 public:
  Declaration(CLI::App& app, Commands& commands, const char* name, const char* description) : commands_(commands), app_(app.add_subcommand(name, description)) {
    app_->footer(command_help(name));
  }

  Declaration& group(const char* name) {
    group_ = name;
    return *this;
  }
  template <class T>
  CLI::Option* option(const char* names, T& value, const char* meaning) {
    return app_->add_option(names, value, meaning)->group(group_);
  }
  // One value each time it is named.
  CLI::Option* list(const char* names, std::vector<std::string>& values, const char* meaning) { return option(names, values, meaning)->allow_extra_args(false); }
  CLI::Option* flag(const char* names, bool& value, const char* meaning) { return app_->add_flag(names, value, meaning)->group(group_); }
  CLI::Option* positional(const char* name, std::string& value, const char* meaning) { return app_->add_option(name, value, meaning); }
  CLI::Option* reads(CLI::Option* option) { return commands_.read.push_back(option), option; }
  CLI::Option* writes(CLI::Option* option) { return commands_.written.push_back(option), option; }

  void target(std::string& value) { group(kTarget).option("--target", value, "cpu, cuda, hip or metal")->capture_default_str(); }
  void arch(std::string& value) { group(kTarget).option("--arch", value, "kernels for an older level of this target (x86-64-v3; emulated: sm_80, say)"); }
  void emulate(bool& value) { group(kTarget).flag("--emulate", value, "run GPU kernels in the emulator"); }
  void model_options(ModelOptions& options) {
    group(kModel);
    list("--shape", options.shapes, "shape of an input: NAME=1x128 (repeat for more)");
    list("--dim", options.dims, "value of a symbolic dimension: batch=2 (repeat for more)");
    list("--state", options.states, "an output that replaces an input from run to run: IN=OUT:MAX");
    reads(list("--value", options.values, "value of an input that decides shapes, fixed at compile time: NAME=FILE"));
    auto* dtype = option("--dtype", options.dtype, "floating type to compute in: keep, f32, f16, bf16")->check(CLI::IsMember({"keep", "f32", "f16", "bf16"}));
    list("--keep-f32", options.keep_f32, "a node that stays in f32 under --dtype f16 or bf16 (repeat for more)")->needs(dtype);
  }
  void search_options(TuneOptions& options) {
    group(kSearch);
    auto* budget = option("--budget", options.budget, "seconds to search for faster kernels, whole model (0: validated first picks)")->check(is_amount, "SECONDS");
    auto* per_op = option("--budget-per-op", options.budget_per_op, "seconds to search for one kernel at most")->check(is_amount, "SECONDS");
    flag("--deterministic", options.deterministic, "same bytes on every run, process and cache state");
    flag("--no-tune,--first-pick", options.no_tune, "take validated first picks")->excludes(budget)->excludes(per_op);
  }

  // Ends the declaration: the options that all commands have, and what the command does.
  template <class Action>
  void run(Action action) {
    auto& common = commands_.common;
    group(kCommon);
    flag("--json", common.console.json, "print one JSON document instead of tables, of an error too");
    auto* verbose = flag("-v,--verbose", common.console.verbose, "say more on stderr");
    flag("-q,--quiet", common.console.quiet, "print errors only")->excludes(verbose);
    writes(option("--log-file", common.console.log_file, "append results, notes and errors to FILE, with -q too"));
    option("--device", common.device, "which device of the target (0 is the first)")->check(CLI::Range(0, 1023));
    option("--threads", common.threads, "threads a run may use (0: all this process may run on)")->check(CLI::Range(0, 1024));
    option("--jobs", common.jobs, "compilers to run at once (0: one a core)")->check(CLI::Range(0, 256));
    app_->callback([&commands = commands_, action] { commands.action = action; });
  }
  void hide() { app_->group(""); }

 private:
  Commands& commands_;
  CLI::App* app_;
  const char* group_ = kCommon;
};

void declare_pipeline(CLI::App& app, Commands& all) {
  {
    Declaration d(app, all, "compile", "model -> fused, generated, checked and tuned kernels -> bundle");
    auto& compile = all.compile;
    d.reads(d.positional("MODEL", compile.model, "ONNX file")->required());
    d.group(kBundle);
    auto* output = d.writes(d.option("-o,--output", compile.output, "bundle to write (*.rtxgc); without it the model is compiled into the cache only"));
    auto* sign = d.reads(d.option("--sign", compile.sign, "secret key to sign with (else your own, made on first use)"))->needs(output);
    d.flag("--unsigned", compile.unsigned_bundle, "write the bundle without a signature")->excludes(sign)->needs(output);
    d.flag("--no-sources", compile.no_sources, "leave kernel sources out of the bundle")->needs(output);
    d.option("--constants-file", compile.constants_file, "write constants to a side file beside the bundle")->needs(output);
    d.target(compile.target);
    d.arch(compile.arch);
    d.emulate(compile.emulate);
    d.model_options(compile.model_options);
    d.search_options(compile.tune);
    d.writes(d.option("--lock", compile.lock, "write, or obey, the kernel chosen for each key"));
    d.flag("--baseline", compile.baseline, "time the unfused baseline in the same run");
    d.option("--save-temps", compile.save_temps, "directory for sources and compiler logs of what is compiled");
    d.run([&all](Console& console) { return compile_command(all.compile, all.common, console); });
  }
  {
    Declaration d(app, all, "run", "run a bundle or a model");
    auto& run = all.run;
    d.reads(d.positional("FILE", run.file, "bundle or ONNX file")->required());
    d.group(kFiles);
    d.reads(d.list("--input", run.inputs, "NAME=FILE with .npy, .npz or ONNX .pb, or FILE.npz (repeat for more)"));
    d.option("--random", run.random, "draw the inputs that are not given, from this seed")->check(is_seed, "SEED");
    d.option("--output-dir", run.output_dir, "write every output as .npy");
    d.group(kBundle).flag("--allow-unsigned", run.allow_unsigned, "run a bundle without a trusted signature");
    d.target(run.target);
    d.model_options(run.model_options);
    d.group(kSearch);
    d.flag("--deterministic", run.deterministic, "for a model: same bytes on every run");
    d.flag("--no-tune", run.no_tune, "for a model: validated first picks");
    d.run([&all](Console& console) { return run_command(all.run, all.common, console); });
  }
  {
    Declaration d(app, all, "verify", "compare a compiled model with recorded data or with the reference interpreter");
    auto& verify = all.verify;
    d.reads(d.positional("MODEL", verify.model, "ONNX file")->required());
    d.group(kFiles);
    auto* data = d.option("--data", verify.data, "folder with test_data_set_<k>/input_<i>.pb and output_<i>.pb");
    d.option("--random", verify.random, "random inputs from this seed, against the reference")->check(is_seed, "SEED")->excludes(data);
    d.reads(d.list("--input", verify.inputs, "given inputs (NAME=FILE, repeat for more; others are random), against the reference"))->excludes(data);
    d.option("--noise", verify.noise, "relative noise of recorded data; twice this is always allowed")->check(is_amount, "AMOUNT")->needs(data);
    d.flag("--all-tensors", verify.all_tensors, "name the first tensor that departs from the reference");
    d.target(verify.target);
    d.arch(verify.arch);
    d.emulate(verify.emulate);
    d.model_options(verify.model_options);
    d.group(kSearch).flag("--tune", verify.tune, "verify tuned kernels instead of first picks");
    d.run([&all](Console& console) { return verify_command(all.verify, all.common, console); });
  }
}

void declare_looking(CLI::App& app, Commands& all) {
  {
    Declaration d(app, all, "bench", "time a bundle or model: median, interval, GB/s, GFLOP/s");
    auto& bench = all.bench;
    d.reads(d.positional("FILE", bench.file, "bundle or ONNX file, or `suite` for the kernel suite"));
    d.group(kTiming);
    d.flag("--layers", bench.layers, "time of every region");
    d.flag("--baseline", bench.baseline, "the unfused baseline, interleaved in the same run");
    d.option("--name", bench.name, "what the row of FILE is called in tables and result files (else FILE)");
    d.option("--group", bench.group, "with suite: one group, or all whose names begin so (gemm)");
    d.option("--family", bench.family, "with suite: one family only");
    d.flag("--peers", bench.peers, "with suite: vendor libraries, interleaved in the same run");
    d.flag("--list", bench.list, "with suite: say what would be timed");
    d.option("--sustained", bench.sustained, "with suite: then each alone for this many seconds")->check(is_amount, "SECONDS");
    d.option("--warmup", bench.warmup, "runs before the first sample")->check(CLI::Range(0, 100000));
    d.option("--iterations", bench.iterations, "samples")->check(CLI::Range(1, 1000000));
    d.option("--streams", bench.streams, "executions at once")->check(CLI::Range(1, 64));
    d.group(kFiles);
    d.reads(d.list("--input", bench.inputs, "NAME=FILE (repeat for more); others are random"));
    auto* compare = d.reads(d.option("--compare", bench.compare, "earlier result files to compare with; without FILE, they are joined into one table"));
    d.reads(d.option("--recheck", bench.recheck, "run a result file's command again; exit 1 outside its spread"))->excludes(compare);
    d.writes(d.option("--output", bench.json_file, "write the result file (raw samples, command, device, date)"));
    d.writes(d.option("--report", bench.report, "write an HTML page that needs nothing else"));
    d.group(kBundle).flag("--allow-unsigned", bench.allow_unsigned, "run a bundle without a trusted signature");
    d.target(bench.target);
    d.arch(bench.arch);
    d.model_options(bench.model_options);
    d.search_options(bench.tune);
    d.run([&all](Console& console) { return bench_command(all.bench, all.common, console); });
  }
  {
    Declaration d(app, all, "explain", "graph, regions, the kernel of each, and why the other candidates lost");
    auto& explain = all.explain;
    d.reads(d.positional("MODEL", explain.model, "ONNX file")->required());
    d.group(kFiles);
    d.option("--source", explain.source, "print the emitted source of this region");
    d.writes(d.option("--dot", explain.dot, "write the graph with its regions as Graphviz"));
    d.target(explain.target);
    d.model_options(explain.model_options);
    d.run([&all](Console& console) { return explain_command(all.explain, all.common, console); });
  }
  {
    Declaration d(app, all, "tune", "one kernel without a model");
    auto& tune = all.tune;
    d.positional("FAMILY", tune.family, "gemm, attention, norm, softmax, rotary, reduce, pointwise, movement, loopnest")->required();
    d.group("Positionals").option("SETTINGS", tune.settings, "key=value; without any, the family's keys are listed and their defaults tuned");
    d.group(kSearch);
    d.option("--budget", tune.budget, "seconds to search")->check(is_amount, "SECONDS");
    d.flag("--deterministic", tune.deterministic, "stay in one numerics class");
    d.target(tune.target);
    d.run([&all](Console& console) { return tune_command(all.tune, all.common, console); });
  }
  {
    Declaration d(app, all, "inspect", "what is in a bundle");
    auto& inspect = all.inspect;
    d.reads(d.positional("FILE", inspect.file, "bundle")->required());
    d.group(kBundle);
    auto* kernel = d.option("--kernel", inspect.kernel, "one kernel's parameters, key and region");
    d.flag("--source", inspect.source, "with --kernel: its source")->needs(kernel);
    d.flag("--allow-unsigned", inspect.allow_unsigned, "look into a bundle without a trusted signature");
    d.run([&all](Console& console) { return inspect_command(all.inspect, all.common, console); });
  }
  {
    Declaration d(app, all, "check", "would this bundle run here? Each field found and wanted");
    auto& check = all.check;
    check.check_only = true;
    d.reads(d.positional("FILE", check.file, "bundle")->required());
    d.group(kBundle).flag("--allow-unsigned", check.allow_unsigned, "judge a bundle without a trusted signature");
    d.run([&all](Console& console) { return inspect_command(all.check, all.common, console); });
  }
}

void declare_housekeeping(CLI::App& app, Commands& all) {
  {
    Declaration d(app, all, "cache", "the kernels remembered on this machine");
    auto& cache = all.cache;
    d.positional("ACTION", cache.action, "stats, list, verify, gc, export, import, clear")
        ->required()
        ->check(CLI::IsMember({"stats", "list", "verify", "gc", "export", "import", "clear"}));
    d.reads(d.positional("PATH", cache.path, "file of export and import"));
    d.group("Size").option("--max-mb", cache.max_mb, "with gc: keep at most this much")->check(CLI::Range(0, 1 << 30));
    d.run([&all](Console& console) { return cache_command(all.cache, all.common, console); });
  }
  {
    Declaration d(app, all, "key", "the keys that sign bundles and those that are trusted here");
    auto& key = all.key;
    d.positional("ACTION", key.action, "new, list, trust, untrust")->required()->check(CLI::IsMember({"new", "list", "trust", "untrust"}));
    d.positional("NAME", key.name, "name of the key");
    d.reads(d.positional("KEY", key.key, "with trust: public key in hex, or a file that holds it"));
    d.run([&all](Console& console) { return key_command(all.key, all.common, console); });
  }
  {
    Declaration d(app, all, "targets", "what this machine can compile for and run, and why the rest is missing");
    d.group(kTarget).flag("--features", all.targets.features, "instruction sets, dtypes, sizes");
    d.run([&all](Console& console) { return targets_command(all.targets, all.common, console); });
  }
  {
    Declaration d(app, all, "suite", "verifies the cases that tools/onnx_suite names on standard input, one JSON line each");
    d.target(all.suite.target);
    d.arch(all.suite.arch);
    d.emulate(all.suite.emulate);
    d.hide();
    d.run([&all](Console& console) { return suite_command(all.suite, all.common, console); });
  }
  {
    Declaration d(app, all, "worker", "validates and times candidates for a tuner (started by rtx itself)");
    d.target(all.worker.target);
    d.option("--arch", all.worker.arch, "arch");
    d.hide();
    d.run([&all](Console&) { return worker_command(all.worker, all.common); });
  }
}

}  // namespace

void declare_commands(CLI::App& app, Commands& commands) {
  app.footer(general_help());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  declare_pipeline(app, commands);
  declare_looking(app, commands);
  declare_housekeeping(app, commands);
}

}  // namespace rtx::tools
