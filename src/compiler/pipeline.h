#pragma once
// The data sentence of docs/architecture.md as one function: graph -> recognised graph -> regions -> kernels -> plan.
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/compiler.h"
#include "backend/device.h"
#include "bundle/plan.h"
#include "cache/cache.h"
#include "codegen/dialect.h"
#include "fuse/region.h"
#include "fuse/recognise.h"
#include "ir/graph.h"
#include "tune/tune.h"

namespace rtx::compiler {

struct Toolbox {  // one target's two sides and its spelling; made by tools
  backend::Compiler* compiler = nullptr;
  backend::Device* device = nullptr;
  codegen::Dialect dialect;
  cache::Cache* cache = nullptr;             // may be null: nothing is remembered
  tune::Evaluator* evaluator = nullptr;      // may be null: in-process evaluation
};

struct Options {
  bool fuse = true;                  // false: the unfused baseline's structure
  std::vector<ir::Op> alone;         // operators that no neighbour joins: what the library computes, beside our own fused rest
  bool tune = true;                  // false: validated first picks
  double budget_seconds = 60.0;      // for the whole model
  double budget_per_op_seconds = 10.0;
  bool deterministic = false;
  bool keep_sources = true;
  std::string lock_file;             // writes or obeys the kernel chosen for each key
  std::string save_temps;
  int jobs = 0;
  uint64_t seed = 1;                 // of the inputs candidates are validated on
  // The unfused baseline's library calls: a plan for bodies the vendor's library computes (matmul), nothing for others.
  // Each is timed beside our own kernel for the same node and the faster of the two is taken, so that the baseline is never weak.
  std::function<std::optional<backend::KernelPlan>(const ir::Graph& body)> vendor;
  bool vendor_always = false;        // take the library's wherever there is one: to measure against it
  // Above this many operations a kernel is chosen and checked on the same body with fewer rows, and its whole run by whoever compares the
  // model's results: for the unfused baseline, whose scores of an attention written out no host checks in reasonable time. 0: never.
  double fewer_rows_above = 0;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(std::string_view what, int done, int total)> progress;
  std::function<void(std::string_view line)> notice;
};

struct RegionReport {
  std::string name, family, key, parameters, digest;
  int kernel = 0;                    // index into plan.kernels
  bool cache_hit = false;
  bool shared = false;               // another region of this model already brought the kernel
  std::string tuning;                // "grid 12/60 in 3.1 s", "first pick", "cache", "lock", "vendor library"
  double measured_ms = 0;
  double flops = 0, bytes = 0;
  std::vector<tune::Tried> tried;
};
struct Report {
  int regions = 0, kernels = 0, hits = 0, misses = 0;
  int64_t compiles = 0;              // compiler processes started
  double seconds = 0;
  std::vector<RegionReport> per_region;
  std::vector<fuse::Rewrite> rewrites;
  std::vector<fuse::Refusal> refusals;
  double cache_hit_pct() const { return hits + misses == 0 ? 100.0 : 100.0 * hits / (hits + misses); }
};

struct Compiled {
  bundle::Plan plan;
  Report report;
  ir::Graph graph;                   // after recognition
  fuse::Partition partition;
};

Result<Compiled> compile(const ir::Graph& graph, const Toolbox& toolbox, const Options& options);

// The memory plan: lifetimes of intermediate values -> arena offsets (best fit, 64-byte aligned). Exposed for tests.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;           // steps, inclusive
};
struct Placement {
  std::vector<int64_t> offsets;
  int64_t peak = 0;
  int64_t lower_bound = 0;           // largest sum of bytes alive at one step
};
Placement place(const std::vector<Lifetime>& lifetimes);

}  // namespace rtx::compiler
