// Runs the suite: each row's kernel of ours and its peers compiled, checked against each other, and timed in
// turns.
#include <algorithm>
#include <optional>

#include "base/text.h"
#include "rtx/interrupt.h"
#include "rtx/pipeline_run.h"
#include "rtx/problems.h"
#include "rtx/rotation.h"
#include "rtx/suite.h"

namespace rtx::tools {

namespace {

constexpr int kGpuRounds = 21;

// What a peer computes with the library, and how the rest of its graph is cut.
struct PeerKind {
  const char *name, *library;
  bool apart;  // products stand alone, the rest is fused by us: what a user of the library would write
};
constexpr PeerKind kPeers[] = {
    {"cublaslt", "cublaslt", false}, {"cublaslt + pointwise", "cublaslt", true}, {"cudnn", "cudnn", false}};

struct Compared {
  std::string name;
  compiler::Compiled compiled;
};

std::string chosen(const compiler::Compiled& compiled) {
  std::vector<std::string> parts;
  for (const auto& region : compiled.report.per_region) {
    const auto& kernel = compiled.plan.kernels[static_cast<size_t>(region.kernel)];
    parts.push_back(region.parameters.empty() ? kernel.name : region.parameters);
  }
  return join(parts, "; ");
}

bool by_library(const compiler::RegionReport& region) { return region.tuning == "vendor library"; }

// Nothing, with a notice, where the library is not here or does not compute this.
Result<std::optional<Compared>> compile_peer(
    const SuiteRow& row, const std::string& peer, const ir::Graph& graph, const compiler::Options& options,
    const std::vector<std::pair<std::string, Workbench::Vendor>>& libraries, Workbench& bench,
    Console& console) {
  const auto kind =
      std::find_if(std::begin(kPeers), std::end(kPeers), [&](const PeerKind& k) { return peer == k.name; });
  if (kind == std::end(kPeers))
    return error_of(ErrorKind::internal, "the suite's row " + row.name() + " names a peer that is none",
                    peer);
  const auto library = std::find_if(libraries.begin(), libraries.end(),
                                    [&](const auto& entry) { return entry.first == kind->library; });
  if (library == libraries.end()) return std::optional<Compared>();  // said once, when they were looked for
  auto with = options;
  with.vendor = library->second;
  with.vendor_always = true;
  with.lock_file.clear();
  if (kind->apart) with.alone = {ir::Op::matmul};
  RTX_TRY(auto compiled, compile_graph(graph, bench, with));
  const auto& regions = compiled.report.per_region;
  const auto theirs = std::count_if(regions.begin(), regions.end(), by_library);
  if (theirs == 0 || (!kind->apart && theirs != static_cast<std::ptrdiff_t>(regions.size()))) {
    console.notice(row.name() + ": " + peer + " does not compute this; its row is left out");
    return std::optional<Compared>();
  }
  return std::optional<Compared>(Compared{peer, std::move(compiled)});
}

Result<std::vector<ResultRow>> bench_row(
    const SuiteRow& row, const BenchCommand& command, const Common& common, Console& console,
    Workbench& bench, const std::vector<std::pair<std::string, Workbench::Vendor>>& libraries) {
  const bool gpu = !bench.device().host_addressable();
  RTX_TRY(const ir::Graph graph, problem_graph(row.family, row.settings));
  const auto options = pipeline_options(command.tune, common, console);
  std::vector<Compared> compared;
  RTX_TRY(auto ours, compile_graph(graph, bench, options));
  double flops = row.flops, bytes = row.bytes;
  if (flops == 0 && bytes == 0)
    for (const auto& region : ours.report.per_region) flops += region.flops, bytes += region.bytes;
  compared.push_back({"rtx", std::move(ours)});
  for (const auto& peer : row.peers) {
    if (peer == "baseline" || libraries.empty()) continue;
    RTX_TRY(auto found, compile_peer(row, peer, graph, options, libraries, bench, console));
    if (found) compared.push_back(*std::move(found));
  }
  const bool own_baseline = std::find(row.peers.begin(), row.peers.end(), "baseline") != row.peers.end();
  if (command.baseline || (own_baseline && row.group == "cpu")) {
    RTX_TRY(auto plain, compile_baseline(graph, bench, options, true));
    const std::string name =
        row.family == "gemm" && plain.report.regions == 1 && !gpu ? "openblas" : "unfused baseline";
    compared.push_back({name, std::move(plain)});
  }
  console.end_progress();

  const auto load = load_options(&bench, common, console, true);
  RTX_TRY(const auto inputs, plan_inputs(compared[0].compiled.plan, {}, 1));
  RTX_TRY(auto sets, TensorSets::make(bench.shared_device(), compared[0].compiled.plan, inputs));
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<ResultRow> out;
  for (auto& item : compared) {
    ResultRow result;
    result.name = row.name(), result.subject = item.name, result.flops = flops, result.bytes = bytes;
    if (row.group != "cpu")
      result.group = row.group, result.op = row.op, result.shape = row.shape, result.dtype = row.dtype;
    result.chosen = chosen(item.compiled);
    RTX_TRY(auto program, runtime::Program::from_plan(std::move(item.compiled.plan), load));
    RTX_TRY(auto contender, Contender::open(item.name, std::move(program), *sets));
    contenders.push_back(std::move(contender));
    out.push_back(std::move(result));
  }
  RotationOptions rotation;
  rotation.rounds = gpu && common.given.count("--iterations") == 0 ? kGpuRounds : command.iterations;
  rotation.warmup = gpu && common.given.count("--warmup") == 0 ? 2 : command.warmup;
  rotation.sustained_seconds = gpu ? command.sustained : 0;
  RTX_TRY(auto rotated, rotate(contenders, *sets, rotation));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].samples = std::move(rotated.of[i].samples);
    out[i].sustained_seconds = rotated.of[i].sustained_seconds;
    out[i].conditions = rotated.of[i].conditions, out[i].sustained = rotated.of[i].sustained;
    out[i].launches = rotated.launches, out[i].sets = rotated.sets, out[i].recorded = rotated.recorded;
  }
  return out;
}

// One row as it is done, so that a run that is cut short has shown something.
void say_row(const std::vector<ResultRow>& rows, size_t number, size_t of, Console& console) {
  std::string line = std::to_string(number) + "/" + std::to_string(of) + "  " + rows[0].name;
  for (const auto& row : rows) line += "  " + row.subject + " " + human_seconds(row.samples.median());
  for (size_t i = 1; i < rows.size(); ++i)
    line += "  x" + tools::number(rows[i].samples.median() / std::max(rows[0].samples.median(), 1e-12));
  console.detail(line);
}

}  // namespace

Result<std::vector<ResultRow>> bench_suite(const BenchCommand& command, const Common& common,
                                           Console& console, Workbench& bench, int* failed,
                                           const std::function<Status(const std::vector<ResultRow>&)>& kept) {
  RTX_TRY(const auto rows,
          select_rows(command.target, {command.group, command.family, command.model_options.shapes}));
  std::vector<std::pair<std::string, Workbench::Vendor>> libraries;
  if (command.peers && command.target != "cpu") libraries = bench.peers(console);
  std::vector<ResultRow> out;
  std::optional<Error> first;
  for (size_t i = 0; i < rows.size(); ++i) {
    console.progress(rows[i].name(), static_cast<int>(i), static_cast<int>(rows.size()));
    auto result = bench_row(rows[i], command, common, console, bench, libraries);
    if (!result.ok()) {
      // One problem that cannot be had must not cost the hour's other rows; Ctrl-C ends all.
      if (result.error().kind == ErrorKind::interrupted || interrupted() || rows.size() == 1)
        return std::move(result).error();
      console.end_progress();
      console.notice(rows[i].name() + " could not be measured: " + result.error().text());
      if (!first) first = result.error();
      ++*failed;
      continue;
    }
    say_row(*result, i + 1, rows.size(), console);
    out.insert(out.end(), std::make_move_iterator(result->begin()), std::make_move_iterator(result->end()));
    RTX_CHECK(kept(out));
  }
  console.end_progress();
  if (out.empty()) return *first;
  return out;
}

}  // namespace rtx::tools
