// The command line: what may be said, and the help that teaches it. The only file that includes CLI11.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "rtx/cli.h"
#include "rtx/environment.h"
#include "rtx/interrupt.h"

namespace rtx::tools {

namespace {

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

void add_common(CLI::App* app, Common& common) {
  app->add_flag("--json", common.console.json, "print one JSON document instead of tables");
  app->add_flag("-v,--verbose", common.console.verbose, "say more on stderr");
  app->add_flag("-q,--quiet", common.console.quiet, "print errors only");
  app->add_option("--log-file", common.console.log_file, "append everything said to FILE");
  app->add_option("--device", common.device, "which device of the target (0 is the first)")->check(CLI::Range(0, 1023));
  app->add_option("--threads", common.threads, "threads a run may use (0: all this process may run on)")->check(CLI::Range(0, 1024));
  app->add_option("--jobs", common.jobs, "compilers to run at once (0: one a core)")->check(CLI::Range(0, 256));
}

void add_model_options(CLI::App* app, ModelOptions& options) {
  app->add_option("--shape", options.shapes, "shape of an input: NAME=1x128 (repeat for more)")->allow_extra_args(false);
  app->add_option("--dim", options.dims, "value of a symbolic dimension: batch=2 (repeat for more)")->allow_extra_args(false);
  app->add_option("--state", options.states, "an output that replaces an input from run to run: IN=OUT:MAX")->allow_extra_args(false);
  app->add_option("--value", options.values, "value of an input that decides shapes, fixed at compile time: NAME=FILE")->allow_extra_args(false);
  app->add_option("--dtype", options.dtype, "floating type to compute in: keep, f32, f16, bf16")->check(CLI::IsMember({"keep", "f32", "f16", "bf16"}));
  app->add_option("--keep-f32", options.keep_f32, "a node that stays in f32 (repeat for more)")->allow_extra_args(false);
}

void add_tune_options(CLI::App* app, TuneOptions& options) {
  app->add_option("--budget", options.budget, "seconds to search for faster kernels, whole model (0: validated first picks)")->check(is_amount, "SECONDS");
  app->add_option("--budget-per-op", options.budget_per_op, "seconds to search for one kernel at most")->check(is_amount, "SECONDS");
  app->add_flag("--deterministic", options.deterministic, "same bytes on every run, process and cache state");
  app->add_flag("--no-tune", options.no_tune, "take validated first picks");
}

std::string footer() {
  std::string out =
      "Examples:\n"
      "  rtx compile model.onnx --dim batch=1 --dim sequence=128 -o model.rtxgc --baseline\n"
      "  rtx run model.rtxgc --random 1\n"
      "  rtx verify model.onnx --random 1 --dim batch=1 --dim sequence=128\n"
      "  rtx explain model.onnx --dim batch=1 --dim sequence=128\n\n"
      "Exit codes: 0 done; 1 a check failed; 2 usage, bad model or input; 3 bundle incompatible, damaged or untrusted;\n"
      "4 no device or compiler, or out of memory; 74 output cannot be written; 130 interrupted; 70 a bug of ours\n\n"
      "Environment:\n";
  for (const auto& variable : environment_table()) {
    std::string name = variable.name;
    name.resize(std::max<size_t>(name.size(), 18), ' ');
    out += "  " + name + variable.meaning + "\n";
  }
  return out;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app("rtx compiles a model graph for the machine in front of it, with kernels it writes, checks and times itself");
  app.set_version_flag("--version", [] { return "rtx " + version_text(); });
  app.footer(footer());
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  Common common;
  CompileCommand compile;
  RunCommand run;
  VerifyCommand verify;
  SuiteCommand suite;
  BenchCommand bench;
  ExplainCommand explain;
  TuneCommand tune;
  InspectCommand inspect, check;
  CacheCommand cache;
  KeyCommand key;
  TargetsCommand targets;
  WorkerCommand worker;
  std::function<Result<int>(Console&)> action;
  const auto choose = [&](CLI::App* sub, auto function) {
    add_common(sub, common);
    sub->callback([&action, function] { action = function; });
  };

  auto* c = app.add_subcommand("compile", "model -> fused, generated, checked and tuned kernels -> bundle");
  c->add_option("MODEL", compile.model, "ONNX file")->required();
  c->add_option("--target", compile.target, "cpu, cuda, hip or metal")->capture_default_str();
  c->add_option("-o,--output", compile.output, "bundle to write (*.rtxgc); without it the model is compiled into the cache only");
  add_model_options(c, compile.model_options);
  add_tune_options(c, compile.tune);
  c->add_option("--lock", compile.lock, "write, or obey, the kernel chosen for each key");
  c->add_option("--arch", compile.arch, "compile for an older level of this target (x86-64-v3)");
  c->add_option("--sign", compile.sign, "secret key to sign with (else your own, made on first use)");
  c->add_flag("--unsigned", compile.unsigned_bundle, "write the bundle without a signature")->excludes("--sign");
  c->add_flag("--baseline", compile.baseline, "time the unfused baseline in the same run");
  c->add_flag("--no-sources", compile.no_sources, "leave kernel sources out of the bundle");
  c->add_flag("--emulate", compile.emulate, "run GPU kernels in the emulator");
  c->add_option("--constants-file", compile.constants_file, "write constants to a side file");
  c->add_option("--save-temps", compile.save_temps, "directory for sources and compiler logs");
  choose(c, [&](Console& console) { return compile_command(compile, common, console); });

  auto* r = app.add_subcommand("run", "run a bundle or a model");
  r->add_option("FILE", run.file, "bundle or ONNX file")->required();
  r->add_option("--target", run.target, "for a model: cpu, cuda, hip or metal")->capture_default_str();
  r->add_option("--input", run.inputs, "NAME=FILE with .npy, .npz or ONNX .pb, or FILE.npz (repeat for more)")->allow_extra_args(false);
  r->add_option("--random", run.random, "draw the inputs that are not given, from this seed")->check(is_seed, "SEED");
  r->add_option("--output-dir", run.output_dir, "write every output as .npy");
  r->add_flag("--allow-unsigned", run.allow_unsigned, "run a bundle without a trusted signature");
  r->add_flag("--deterministic", run.deterministic, "for a model: same bytes on every run");
  r->add_flag("--no-tune", run.no_tune, "for a model: validated first picks");
  add_model_options(r, run.model_options);
  choose(r, [&](Console& console) { return run_command(run, common, console); });

  auto* v = app.add_subcommand("verify", "compare a compiled model with recorded data or with the reference interpreter");
  v->add_option("MODEL", verify.model, "ONNX file")->required();
  v->add_option("--data", verify.data, "folder with test_data_set_<k>/input_<i>.pb and output_<i>.pb");
  v->add_option("--random", verify.random, "random inputs from this seed, against the reference")->check(is_seed, "SEED");
  v->add_option("--input", verify.inputs, "given inputs (NAME=FILE, repeat for more; others are random), against the reference")->allow_extra_args(false)->excludes("--data");
  v->add_option("--target", verify.target, "cpu, cuda, hip or metal")->capture_default_str();
  v->add_option("--noise", verify.noise, "relative noise of recorded data; twice this is always allowed")->check(is_amount, "AMOUNT");
  v->add_flag("--all-tensors", verify.all_tensors, "name the first tensor that departs from the reference");
  v->add_flag("--tune", verify.tune, "verify tuned kernels instead of first picks");
  v->add_flag("--emulate", verify.emulate, "run GPU kernels in the emulator");
  add_model_options(v, verify.model_options);
  choose(v, [&](Console& console) { return verify_command(verify, common, console); });

  auto* b = app.add_subcommand("bench", "time a bundle or model: median, interval, GB/s, GFLOP/s");
  b->add_option("FILE", bench.file, "bundle or ONNX file, or `suite` for the kernel suite");
  b->add_option("--target", bench.target, "cpu, cuda, hip or metal")->capture_default_str();
  b->add_option("--arch", bench.arch, "kernels for an older level of this target (x86-64-v3)");
  b->add_option("--family", bench.family, "with suite: one family only");
  b->add_flag("--layers", bench.layers, "time of every region");
  b->add_flag("--baseline", bench.baseline, "the unfused baseline, interleaved in the same run");
  b->add_flag("--peers", bench.peers, "with suite: vendor libraries, interleaved in the same run");
  b->add_option("--warmup", bench.warmup, "runs before the first sample")->check(CLI::Range(0, 100000));
  b->add_option("--iterations", bench.iterations, "samples")->check(CLI::Range(1, 1000000));
  b->add_option("--streams", bench.streams, "executions at once")->check(CLI::Range(1, 64));
  b->add_option("--compare", bench.compare, "an earlier result file to compare with");
  b->add_option("--recheck", bench.recheck, "run a result file's command again; exit 1 outside its spread");
  b->add_option("--report", bench.report, "write an HTML page");
  b->add_option("--output", bench.json_file, "write the result file (raw samples, command, device, date)");
  b->add_option("--input", bench.inputs, "NAME=FILE (repeat for more); others are random")->allow_extra_args(false);
  b->add_flag("--allow-unsigned", bench.allow_unsigned, "run a bundle without a trusted signature");
  add_model_options(b, bench.model_options);
  add_tune_options(b, bench.tune);
  choose(b, [&](Console& console) { return bench_command(bench, common, console); });

  auto* e = app.add_subcommand("explain", "graph, regions, the kernel of each, and why the other candidates lost");
  e->add_option("MODEL", explain.model, "ONNX file")->required();
  e->add_option("--target", explain.target, "cpu, cuda, hip or metal")->capture_default_str();
  e->add_option("--source", explain.source, "print the emitted source of this region");
  e->add_option("--dot", explain.dot, "write the graph with its regions as Graphviz");
  add_model_options(e, explain.model_options);
  choose(e, [&](Console& console) { return explain_command(explain, common, console); });

  auto* t = app.add_subcommand("tune", "one kernel without a model: rtx tune gemm m=128 n=384 k=384 dtype=f32");
  t->add_option("FAMILY", tune.family, "gemm, attention, norm, softmax, reduce, pointwise, movement, loopnest")->required();
  t->add_option("SETTINGS", tune.settings, "key=value; without any, the family's keys are listed");
  t->add_option("--target", tune.target, "cpu, cuda, hip or metal")->capture_default_str();
  t->add_option("--budget", tune.budget, "seconds to search")->check(is_amount, "SECONDS");
  t->add_flag("--deterministic", tune.deterministic, "stay in one numerics class");
  choose(t, [&](Console& console) { return tune_command(tune, common, console); });

  auto* i = app.add_subcommand("inspect", "what is in a bundle");
  i->add_option("FILE", inspect.file, "bundle")->required();
  i->add_option("--kernel", inspect.kernel, "one kernel's parameters, key and region");
  i->add_flag("--source", inspect.source, "with --kernel: its source");
  i->add_flag("--allow-unsigned", inspect.allow_unsigned, "look into a bundle without a trusted signature");
  choose(i, [&](Console& console) { return inspect_command(inspect, common, console); });

  auto* k = app.add_subcommand("check", "would this bundle run here? Each field found and wanted; exit 3 for rebuild and refuse");
  k->add_option("FILE", check.file, "bundle")->required();
  k->add_flag("--allow-unsigned", check.allow_unsigned, "judge a bundle without a trusted signature");
  check.check_only = true;
  choose(k, [&](Console& console) { return inspect_command(check, common, console); });

  auto* h = app.add_subcommand("cache", "the kernels remembered on this machine");
  h->add_option("ACTION", cache.action, "stats, list, verify, gc, export, import, clear")
      ->required()
      ->check(CLI::IsMember({"stats", "list", "verify", "gc", "export", "import", "clear"}));
  h->add_option("PATH", cache.path, "file of export and import");
  h->add_option("--max-mb", cache.max_mb, "with gc: keep at most this much")->check(CLI::Range(0, 1 << 30));
  choose(h, [&](Console& console) { return cache_command(cache, common, console); });

  auto* y = app.add_subcommand("key", "the keys that sign bundles and those that are trusted here");
  y->add_option("ACTION", key.action, "new, list, trust, untrust")->required()->check(CLI::IsMember({"new", "list", "trust", "untrust"}));
  y->add_option("NAME", key.name, "name of the key");
  y->add_option("KEY", key.key, "with trust: public key in hex, or a file that holds it");
  choose(y, [&](Console& console) { return key_command(key, common, console); });

  auto* g = app.add_subcommand("targets", "what this machine can compile for and run, and why the rest is missing");
  g->add_flag("--features", targets.features, "instruction sets, dtypes, sizes");
  choose(g, [&](Console& console) { return targets_command(targets, common, console); });

  auto* u = app.add_subcommand("suite", "verifies the cases that tools/onnx_suite names on standard input, one JSON line each");
  u->add_option("--target", suite.target, "target");
  u->add_flag("--emulate", suite.emulate, "run GPU kernels in the emulator");
  u->group("");
  choose(u, [&](Console& console) { return suite_command(suite, common, console); });

  auto* w = app.add_subcommand("worker", "validates and times candidates for a tuner (started by rtx itself)");
  w->add_option("--target", worker.target, "target");
  w->add_option("--arch", worker.arch, "arch");
  w->group("");
  choose(w, [&](Console&) { return worker_command(worker, common); });

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    if (!what.empty() && what.back() == '\n') what.pop_back();
    // Without a subcommand CLI11 only says that one is required; what stands in its place is what the user wants to hear of.
    if (app.get_subcommands().empty() && argc > 1) what = std::string("'") + argv[1] + "' is no command of rtx";
    std::string command = "rtx";
    for (const auto* sub : app.get_subcommands()) command += " " + sub->get_name();
    const Error mine = user_error("cannot understand the command line", what, "see `" + command + " --help`");
    std::fprintf(stderr, "%s\n", mine.text().c_str());
    return mine.exit_code();
  }

  Console console(common.console);
  watch_interrupts();
  auto result = common.device == 0 ? action(console)
                                   : Result<int>(error_of(ErrorKind::device, "there is no device " + std::to_string(common.device),
                                                          "this build runs on the cpu, which is device 0", "leave --device out"));
  int code = 0;
  if (result.ok()) {
    code = *result;
  } else {
    console.error(result.error());
    code = result.error().exit_code();
  }
  if (auto finished = console.finish(); !finished.ok() && code == 0) {
    console.error(finished.error());
    code = finished.error().exit_code();
  }
  return code;
}

}  // namespace rtx::tools
