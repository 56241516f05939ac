#pragma once
// Plan: everything the runtime needs to run a compiled model; what a bundle stores and the compiler produces. Plain data.
//
// Buffers are named by slots. Activations live in one arena whose offsets come from the memory plan (lifetimes, best fit).
// Dims: sizes and offsets are expressions over the graph's symbols; today all are bound, so they are plain integers here and
// constant expressions in the file (docs/adr: the bundle format).
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/kernel.h"
#include "ir/dtype.h"

namespace rtx::bundle {

struct Identity {
  std::string target, device, arch, driver;
  int runtime_abi = 0;
  std::string toolchain, synth_sha;
};

enum class SlotKind : uint8_t { input, output, constant, arena, prepared, state };
struct Slot {
  SlotKind kind = SlotKind::arena;
  int64_t index = 0;   // input, output, constant, prepared, state: which one; arena: byte offset
  int64_t offset = 0;  // further byte offset inside it
  bool operator==(const Slot&) const = default;
};

struct TensorInfo {
  std::string name;
  ir::DType dtype = ir::DType::f32;
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;  // empty: dense row-major
  int64_t offset = 0;            // elements
};

struct KernelRecord {
  std::string name, family, key, parameters, numerics_class;
  std::string region;            // text of the region's body: for rebuild
  std::string source;            // may be empty
  std::vector<std::byte> binary;
  double measured_ms = 0;        // 0: not tuned
};

struct Step {
  int kernel = 0;                // index into kernels
  std::string entry;
  backend::Dim3 grid, group;
  int64_t scratch_bytes = 0;
  std::vector<Slot> arguments;
  std::string region;            // readable name of the region, for layers and traces
  std::vector<backend::TensorView> views{};  // of the arguments; `argument` counts them
};

struct Copy {                    // a graph output that is directly an input, a constant or another output
  Slot from, to;
  int64_t bytes = 0;
};

struct Constant {
  TensorInfo info;
  std::shared_ptr<const void> owner;
  const std::byte* bytes = nullptr;
  int64_t byte_size = 0;
};

struct StateInfo {
  TensorInfo info;               // capacity
  int input = -1, output = -1;
  int axis = -1;
};

struct SpecializedValue {        // an input whose value was fixed at compile time; others are refused
  TensorInfo info;
  std::vector<std::byte> bytes;
};

struct Plan {
  std::string model_name;
  Identity identity;
  std::string graph;                        // text of the imported graph (without constant bytes): for rebuild and inspect
  std::vector<TensorInfo> inputs, outputs;
  std::vector<SpecializedValue> specialized;
  std::vector<StateInfo> states;
  std::vector<KernelRecord> kernels;
  std::vector<Constant> constants;
  std::vector<int64_t> prepared_bytes;
  std::vector<Step> prepare;                // run once per loaded program
  std::vector<Step> steps;
  std::vector<Copy> copies;                 // after the steps
  int64_t arena_bytes = 0;                  // peak of the memory plan
  bool deterministic = false;
  std::string sbom;                         // CycloneDX JSON of what produced the bundle
  std::string summary;                      // JSON of the compile summary (baseline_ms, synth_ms, win_pct ... as measured)
};

}  // namespace rtx::bundle
