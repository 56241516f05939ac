#include "compiler/pipeline.h"

#include <chrono>
#include <memory>

#include "base/assert.h"
#include "bundle/bundle.h"
#include "codegen/embedded.h"
#include "compiler/choose.h"
#include "compiler/schedule.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "kernels/family.h"
#include "measure/measure.h"
#include "tune/trial.h"
#include "validate/validate.h"

namespace rtx::compiler {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One kernel to find: the first region that needs it, and how many do.
struct Wanted {
  std::unique_ptr<kernels::BoundProblem> problem;
  cache::Key key;
  size_t region = 0;
  int uses = 0;
  std::optional<Choice> choice;
  std::optional<backend::KernelPlan> vendor;
};

// Share of the budget: what the region costs by the roofline, but never so little that nothing can be compared.
double weight(const Wanted& wanted, const backend::Caps& caps) {
  const auto work = wanted.problem->work();
  const double seconds = std::max(work.flops / (caps.peak_gflops_f32 * 1e9), work.bytes() / (caps.copy_gbps * 1e9));
  return wanted.uses * seconds + 1e-5;
}

constexpr double kLeastSeconds = 0.01;

// The baseline's library call, compiled once a machine: its text is the problem, no emitter of ours takes part.
Result<Choice> vendor_choice(const backend::KernelPlan& plan, cache::Key key, const Toolbox& tools, const Options& options) {
  Choice choice;
  choice.tuning = "vendor library";
  choice.plan = plan;
  choice.numerics_class = plan.numerics_class;
  if (backend::is_library_call(plan.text)) {
    const auto* bytes = reinterpret_cast<const std::byte*>(plan.text.data());
    choice.binary.bytes.assign(bytes, bytes + plan.text.size());
    return choice;
  }
  key.op = "vendor";
  key.problem = plan.text;
  key.synth_sha.clear();
  if (auto entry = tools.cache ? tools.cache->find(key) : std::nullopt) {
    choice.binary.bytes = std::move(entry->binary);
    return choice;
  }
  RTX_TRY(choice.binary, tools.compiler->compile({plan.name, plan.text, tools.device->caps().arch, options.save_temps}));
  if (tools.cache) {
    cache::Entry entry;
    entry.record.numerics_class = plan.numerics_class;
    entry.record.tuning = choice.tuning;
    entry.source = plan.text;
    entry.log = choice.binary.log;
    entry.binary = choice.binary.bytes;
    tools.cache->store(key, entry);
  }
  return choice;
}

// The kernel that is best with fewer rows, made for all of them. Nothing where the body is small, or a legal kernel for fewer rows is
// none for all.
Result<std::optional<Choice>> chosen_on_fewer_rows(const kernels::BoundProblem& problem, const ir::Graph& body, Chooser& chooser, const Toolbox& tools, const Options& options,
                                                   double budget) {
  const auto fewer = validate::shorter_companion(body, options.fewer_rows_above);
  const auto* family = kernels::family(problem.family());
  if (!fewer || !family) return std::optional<Choice>();
  auto bound = family->bind(*fewer);
  if (!bound.ok()) return std::optional<Choice>();
  RTX_TRY(const cache::Key key, chooser.key(**bound));
  auto found = chooser.remembered(**bound, key);
  if (!found) {
    RTX_TRY(found, chooser.choose(**bound, *fewer, key, budget));
  }
  Choice choice;
  auto plan = problem.emit(found->parameters, tools.device->caps(), tools.dialect);
  if (!plan.ok()) return std::optional<Choice>();
  choice.plan = *std::move(plan);
  RTX_TRY(choice.binary, tools.compiler->compile({choice.plan.name, choice.plan.text, tools.device->caps().arch, options.save_temps}));
  choice.parameters = found->parameters;
  choice.numerics_class = found->numerics_class;
  choice.tuning = found->tuning + ", with fewer rows";
  return std::optional<Choice>(std::move(choice));
}

Error stopped() { return error_of(ErrorKind::interrupted, "interrupted", "kernels tuned so far are kept in the cache", "run the command again to go on"); }

// Times two ways to compute a body, interleaved.
Result<bool> is_faster(const Choice& a, const Choice& b, const ir::Graph& body, backend::Device& device, uint64_t seed) {
  constexpr int kRounds = 25, kWarmUp = 3;
  const auto inputs = validate::make_inputs(body, seed, validate::InputKind::random);
  RTX_TRY(const auto first, tune::Trial::prepare(device, a.plan, a.binary, body, inputs));
  RTX_TRY(const auto second, tune::Trial::prepare(device, b.plan, b.binary, body, inputs));
  RTX_TRY(const auto samples, measure::interleave({[&] { return first->time_once(); }, [&] { return second->time_once(); }}, kRounds, kWarmUp, seed));
  return samples[0].median() < samples[1].median();
}

}  // namespace

Result<Compiled> compile(const ir::Graph& graph, const Toolbox& toolbox, const Options& options) {
  const auto start = Clock::now();
  const int64_t compiles_before = toolbox.compiler->compiles_started();
  const auto& caps = toolbox.device->caps();
  Compiled out;
  Report& report = out.report;
  const auto is_stopped = [&] { return options.stop && options.stop->load(std::memory_order_relaxed); };
  const auto progress = [&](std::string_view what, int done, int total) {
    if (options.progress) options.progress(what, done, total);
  };

  // Recognition, then the cover with regions.
  fuse::RecogniseOptions recognise_options;
  recognise_options.attention = options.fuse;
  out.graph = fuse::recognise(graph, recognise_options, &report.rewrites);
  if (auto valid = ir::verify(out.graph); !valid.ok()) return std::move(valid).error().in("after recognition");
  RTX_TRY(out.partition, fuse::partition(out.graph, kernels::patterns(), {.fuse = options.fuse, .alone = options.alone}));
  report.refusals = out.partition.refusals;
  auto& regions = out.partition.regions;
  report.regions = static_cast<int>(regions.size());

  std::unique_ptr<tune::Evaluator> own_evaluator;
  Toolbox tools = toolbox;
  if (!tools.evaluator) {
    own_evaluator = tune::make_in_process_evaluator(*tools.compiler, *tools.device, tools.dialect, options.seed, options.jobs);
    tools.evaluator = own_evaluator.get();
  }
  RTX_TRY(Lock lock, Lock::open(options.lock_file));
  Chooser chooser(tools, options, lock);

  // Bind every region to its family; regions with one key share a kernel.
  std::vector<Wanted> wanted;
  std::map<std::string, size_t> by_key;
  std::vector<size_t> wanted_of(regions.size());
  for (size_t r = 0; r < regions.size(); ++r) {
    const auto* family = kernels::family(regions[r].pattern);
    RTX_ASSERT(family, "a region's pattern names a family");
    auto bound = family->bind(regions[r].body);
    if (!bound.ok()) return std::move(bound).error().in("region " + regions[r].name);
    Wanted item;
    item.problem = *std::move(bound);
    RTX_TRY(item.key, chooser.key(*item.problem));
    item.region = r;
    if (options.vendor) item.vendor = options.vendor(regions[r].body);
    const auto [position, fresh] = by_key.try_emplace(item.key.text(), wanted.size());
    wanted_of[r] = position->second;
    if (fresh) wanted.push_back(std::move(item));
    ++wanted[position->second].uses;
  }

  // Remembered kernels first, so that progress and budget cover what is really to be done.
  double total_weight = 0;
  int missing = 0;
  for (auto& item : wanted) {
    if (item.vendor && options.vendor_always) {
      RTX_TRY(item.choice, vendor_choice(*item.vendor, item.key, tools, options));
      continue;
    }
    item.choice = chooser.remembered(*item.problem, item.key);
    if (item.choice) {
      ++report.hits;
      continue;
    }
    ++report.misses;
    ++missing;
    total_weight += weight(item, caps);
  }

  int done = 0;
  for (auto& item : wanted) {
    if (item.choice) continue;
    if (is_stopped()) return stopped();
    progress(regions[item.region].name, done, missing);
    const double left = std::max(0.0, options.budget_seconds - seconds_since(start));
    const double own = weight(item, caps);
    // Never nothing: a first pick that was timed is a tuned kernel the next time, so a second compile finds it whatever the budget.
    const double budget = std::max(kLeastSeconds, std::min(options.budget_per_op_seconds, left * own / std::max(total_weight, 1e-12)));
    if (options.fewer_rows_above > 0) {
      RTX_TRY(item.choice, chosen_on_fewer_rows(*item.problem, regions[item.region].body, chooser, tools, options, budget));
    }
    if (item.choice) {
      total_weight -= own;
      ++done;
      continue;
    }
    auto choice = chooser.choose(*item.problem, regions[item.region].body, item.key, budget);
    if (!choice.ok()) {
      if (is_stopped()) return stopped();
      return std::move(choice).error().in("region " + regions[item.region].name + " (" + std::string(item.problem->family()) + ")");
    }
    item.choice = *std::move(choice);
    if (item.choice->cache_hit) --report.misses, ++report.hits;  // another process made it while this one waited
    total_weight -= own;
    ++done;
  }
  progress("kernels", missing, missing);
  for (auto& item : wanted) {
    if (!item.vendor || options.vendor_always) continue;
    RTX_TRY(Choice library, vendor_choice(*item.vendor, item.key, tools, options));
    RTX_TRY(const bool wins, is_faster(library, *item.choice, regions[item.region].body, *tools.device, options.seed));
    if (wins) item.choice = std::move(library);
    else item.vendor.reset();
  }
  if (is_stopped()) return stopped();

  // The plan.
  auto& plan = out.plan;
  plan.model_name = graph.name;
  plan.identity = {caps.target, caps.device, caps.arch, caps.driver, bundle::kRuntimeAbi, {}, std::string(codegen::synth_sha_all())};
  RTX_TRY(plan.identity.toolchain, tools.compiler->toolchain(caps.arch));
  plan.deterministic = options.deterministic;
  plan.graph = ir::to_text(out.graph);
  for (auto& item : wanted) {
    bundle::KernelRecord record;
    const auto& choice = *item.choice;
    record.name = choice.plan.name;
    record.family = std::string(item.problem->family());
    record.key = item.key.text();
    record.parameters = choice.parameters;
    record.numerics_class = choice.numerics_class;
    record.region = ir::to_text(regions[item.region].body, {.inline_constants_up_to = 16, .hash_constants = false});
    if (options.keep_sources) record.source = choice.plan.text;
    record.binary = choice.binary.bytes;
    record.measured_ms = choice.measured_ms;
    plan.kernels.push_back(std::move(record));
    if (!item.vendor) lock.record(choice.digest.empty() ? item.key.digest() : choice.digest, std::string(item.problem->family()), choice.parameters);
  }
  std::vector<Scheduled> scheduled;
  for (size_t r = 0; r < regions.size(); ++r) {
    const auto& item = wanted[wanted_of[r]];
    scheduled.push_back({static_cast<int>(wanted_of[r]), &item.choice->plan});
    const auto work = item.problem->work();
    RegionReport region;
    region.name = regions[r].name;
    region.family = std::string(item.problem->family());
    region.key = item.key.text();
    region.parameters = item.choice->parameters;
    region.digest = item.key.digest();
    region.kernel = static_cast<int>(wanted_of[r]);
    region.cache_hit = item.choice->cache_hit;
    region.shared = item.region != r;
    region.tuning = item.choice->tuning;
    region.measured_ms = item.choice->measured_ms;
    region.flops = work.flops;
    region.bytes = work.bytes();
    if (!region.shared) region.tried = item.choice->tried;
    report.per_region.push_back(std::move(region));
  }
  schedule(out.graph, out.partition, scheduled, &plan);
  plan.identity.runtime_abi = bundle::runtime_abi_of(plan);
  RTX_CHECK(lock.save());

  report.kernels = static_cast<int>(wanted.size());
  report.compiles = toolbox.compiler->compiles_started() - compiles_before;
  report.seconds = seconds_since(start);
  return out;
}

}  // namespace rtx::compiler
