#pragma once
// What the command line said, one struct a command; cli.cpp fills them, command_*.cpp read them.
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "rtx/console.h"
#include "rtx/model.h"

namespace rtx::tools {

struct Common {
  ConsoleOptions console;
  int device = 0, threads = 0, jobs = 0;
  std::set<std::string> given;  // the options that stand on the command line: "--target"
};

struct TuneOptions {
  double budget = 60, budget_per_op = 10;
  bool no_tune = false, deterministic = false;
};

struct CompileCommand {
  std::string model, target = "cpu", output, arch, lock, sign, save_temps;
  ModelOptions model_options;
  TuneOptions tune;
  bool unsigned_bundle = false, baseline = false, no_sources = false, emulate = false;
  std::string constants_file;
};
struct RunCommand {
  std::string file, output_dir, target = "cpu";
  std::vector<std::string> inputs;
  std::optional<uint64_t> random;
  bool allow_unsigned = false, deterministic = false, no_tune = false;
  ModelOptions model_options;
};
struct VerifyCommand {
  std::string model, data, target = "cpu", arch;
  std::vector<std::string> inputs;
  std::optional<uint64_t> random;
  bool all_tensors = false, tune = false, emulate = false;
  double noise = 0;
  ModelOptions model_options;
};
struct SuiteCommand {
  std::string target = "cpu", arch;
  bool emulate = false;
};
struct BenchCommand {
  std::string file, target = "cpu", arch, recheck, report, family, group, name;
  std::vector<std::string> compare;
  bool layers = false, baseline = false, peers = false, allow_unsigned = false, list = false;
  double sustained = 0;  // seconds
  int warmup = 5, iterations = 50, streams = 1;
  ModelOptions model_options;
  TuneOptions tune;
  std::vector<std::string> inputs;
  std::string json_file;
};
struct ExplainCommand {
  std::string model, target = "cpu", source, dot;
  ModelOptions model_options;
};
struct TuneCommand {
  std::string family, target = "cpu";
  std::vector<std::string> settings;
  double budget = 30;
  bool deterministic = false;
};
struct InspectCommand {
  std::string file, kernel;
  bool source = false, check_only = false, allow_unsigned = false;
};
struct CacheCommand {
  std::string action, path;
  std::optional<int64_t> max_mb;
};
struct KeyCommand {
  std::string action, name, key;
};
struct TargetsCommand {
  bool features = false;
};
struct WorkerCommand {
  std::string target = "cpu", arch;
};

// Each prints its result and gives an exit code, or the error that ends it.
Result<int> compile_command(const CompileCommand& command, const Common& common, Console& console);
Result<int> run_command(const RunCommand& command, const Common& common, Console& console);
Result<int> verify_command(const VerifyCommand& command, const Common& common, Console& console);
Result<int> suite_command(const SuiteCommand& command, const Common& common, Console& console);
Result<int> bench_command(const BenchCommand& command, const Common& common, Console& console);
Result<int> explain_command(const ExplainCommand& command, const Common& common, Console& console);
Result<int> tune_command(const TuneCommand& command, const Common& common, Console& console);
Result<int> inspect_command(const InspectCommand& command, const Common& common, Console& console);
Result<int> cache_command(const CacheCommand& command, const Common& common, Console& console);
Result<int> key_command(const KeyCommand& command, const Common& common, Console& console);
Result<int> targets_command(const TargetsCommand& command, const Common& common, Console& console);
Result<int> worker_command(const WorkerCommand& command, const Common& common);
std::string version_text();

}  // namespace rtx::tools
