#pragma once
// Validation: inputs to try, comparison with the reference, and the report of a mismatch. The only place that knows tolerances
// (docs/architecture.md gives the table and where each number comes from).
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/device.h"
#include "backend/kernel.h"
#include "ir/graph.h"
#include "reference/reference.h"

namespace rtx::validate {

// What an output may differ by. `terms` is the longest sum behind one element.
enum class Rule : uint8_t {
  exact,         // integers, booleans, pure data movement
  norm_element,  // norm and per-element bound by dtype
  attention      // the same; a bf16 result may show that weights were rounded to bf16 before they met the values
};
struct Bounds {
  Rule rule = Rule::norm_element;
  int64_t terms = 1;
  double scale = 1.0;         // multiplies the norm tolerance (attention, recorded data)
  double element_ulps = 4.0;
  bool unrounded = false;     // bf16 against the reference as it is, not rounded to bf16
  double norm_allowance = 0;  // the tolerance where it is larger than the dtype's own (hard inputs)
  std::vector<double> row_allowance = {};  // what an element of a row may differ by where that is more than the bound (hard inputs)
};

// Norm tolerance of a dtype for sums of `terms` terms.
double norm_tolerance(ir::DType dtype, int64_t terms);

struct Mismatch {
  std::string output;
  double norm_error = 0, norm_allowed = 0;
  double max_difference = 0;
  int64_t first_wrong = -1;       // linear index
  std::vector<int64_t> first_wrong_coordinates;
  double found = 0, wanted = 0;   // at first_wrong
  int64_t first_nan = -1;
  int64_t wrong_count = 0, count = 0;
  bool reference_all_zero = false;
  std::string text() const;       // the report a person reads
};
struct Comparison {
  bool agrees = false;
  Mismatch detail;                // filled either way (error figures), first_wrong only on a mismatch
};
// ||out - ref|| / ||ref|| and the element rule of the design, NaN and Inf exactly where the reference has them.
Comparison compare(const std::string& name, const ir::HostTensor& found, const reference::RefTensor& wanted, const Bounds& bounds);
// Recorded data of others: f32 2e-5, f16 2e-3, bf16 1.6e-2 of max |ref| per element, never below 2 x noise.
Comparison compare_recorded(const std::string& name, const ir::HostTensor& found, const ir::HostTensor& wanted, double noise);

// hard: large mean, cancelling sums, wide magnitudes, -0, tiny numbers; of an attention's operands only the values are.
// hard_scores: queries and keys are, the values are random.
enum class InputKind : uint8_t { random, hard, hard_scores };
// Inputs for a graph from a seed; index inputs (gather, gather_nd, scatter_nd and what feeds them) stay in range.
std::vector<ir::HostTensor> make_inputs(const ir::Graph& graph, uint64_t seed, InputKind kind);

// One input set with its reference outputs, computed once and shared by all candidates.
struct Case {
  std::vector<ir::HostTensor> inputs;
  std::vector<reference::RefTensor> wanted;
  InputKind kind = InputKind::random;
  double serial_error = 0;        // hard cases: error of a plain serial f32 implementation, norm
  std::vector<std::vector<double>> serial_rows;  // and its largest error in each row of each floating output
  // A sample: `wanted` holds these rows only, along these dimensions of each output; empty: everything.
  std::vector<int64_t> rows;
  std::vector<std::vector<size_t>> row_dimensions;
};
// `sampled`: at least 64 rows of each output (first, last, at the edges of tiles, random) in place of all, where rows can be had apart.
Result<std::vector<Case>> make_cases(const ir::Graph& body, uint64_t seed, bool sampled = false);

// Above this much work the reference computes a sample of rows, and everything on a smaller problem beside it.
constexpr double kFullReferenceFlops = 20e9;
// For a body with more work than `full_flops`: the same body with smaller extents that leave the same remainders to tiles. None for
// smaller ones, and where no extent may change: they are computed in full.
std::optional<ir::Graph> small_companion(const ir::Graph& body, double full_flops = kFullReferenceFlops);

// The same body with fewer rows, of at most `most_work` operations: shorter along axes that keep their elements apart and are nobody's
// last dimension, with the remainders to tiles that they had. What a kernel does with one row is what it does on the body. None for a
// smaller body, and where the rows are not enough to take from.
std::optional<ir::Graph> shorter_companion(const ir::Graph& body, double most_work);

// Runs a plan on a device with outputs and workspace poisoned by NaN bytes and guard bytes around every buffer.
struct RunResult {
  std::vector<ir::HostTensor> outputs;
};
struct Fault {
  enum class Kind : uint8_t { wrong_numbers, out_of_bounds, unwritten, launch_failed, input_changed, no_memory } kind = Kind::wrong_numbers;
  std::string text;  // of no_memory: the device had none for the check, which says nothing of the plan
};
// No fault: the plan computed every case within bounds.
std::vector<Fault> check_plan(backend::Device& device, backend::Module& module, const backend::KernelPlan& plan, const ir::Graph& body,
                              const std::vector<Case>& cases, const Bounds& bounds);

}  // namespace rtx::validate
