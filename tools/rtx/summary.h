#pragma once
// The figures of a compile: what was chosen, how fast it is beside the unfused baseline, how it loads. Measured or absent.
#include <cmath>
#include <optional>
#include <string>

#include "compiler/pipeline.h"
#include "rtx/console.h"
#include "rtx/pipeline_run.h"

namespace rtx::tools {

struct Layer {
  std::string name, family;
  double ms = 0;
  int count = 1;
};

struct Summary {
  std::string model, bundle, verdict;
  compiler::Report report;
  std::optional<double> baseline_ms, synth_ms, load_ms;
  std::optional<double> baseline_low_ms, baseline_high_ms, synth_low_ms, synth_high_ms;
  bool faster = false;           // the intervals do not overlap
  int baseline_regions = 0;
  int64_t bundle_bytes = 0, arena_bytes = 0;
  std::vector<Layer> synth_layers, baseline_layers;  // time by family
  // (baseline - synth) / baseline, in percent.
  std::optional<double> win_pct() const;
  std::string json() const;
};

// Times the compiled model, and with `baseline` the unfused one interleaved in the same run, on random inputs.
Status measure_model(const ir::Graph& graph, const compiler::Compiled& compiled, bool baseline, const compiler::Options& options, Workbench& bench,
                     const Common& common, Console& console, Summary* summary);
void print_summary(const Summary& summary, const compiler::Compiled& compiled, Console& console);

}  // namespace rtx::tools
