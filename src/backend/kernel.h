#pragma once
// What stages pass between them about one kernel: its text, its launches, its binary. Pure data, no vendor.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rtx::backend {

// Where an argument's pointer comes from. All arguments are pointers; run-time scalars live in a parameter block buffer.
enum class BufferKind : uint8_t {
  input,      // the region's input `index`
  output,     // the region's output `index`
  workspace,  // the plan's workspace `index`: uninitialised at the first step, shared by the steps of one run
  prepared,   // the plan's prepared buffer `index`: filled once by the prepare steps, read only afterwards
};

struct BufferRef {
  BufferKind kind = BufferKind::input;
  int index = 0;
  bool operator==(const BufferRef&) const = default;
};

struct Dim3 {
  int64_t x = 1, y = 1, z = 1;
  int64_t count() const { return x * y * z; }
  bool operator==(const Dim3&) const = default;
};

// How a GPU's copy unit sees the memory of one argument: a tensor of `rank` dimensions, innermost first, of which boxes move to and
// from a group's scratch. What lies outside reads as zero and is not written. tensor_view.h says what a device takes.
enum class ViewElement : uint8_t { u8, u16, u32, f16, bf16, f32, tf32 };  // tf32: f32 in memory, rounded as it is loaded
struct TensorView {
  int argument = 0;                    // of the launch
  ViewElement element = ViewElement::f32;
  std::vector<int64_t> extents;        // elements, innermost first
  std::vector<int64_t> strides_bytes;  // of dimensions 1 and up; the innermost is dense
  std::vector<int64_t> box;            // elements that one load or store moves
  int swizzle = 0;                     // bytes of the pattern that a box has in scratch: 0, 32, 64, 128
  int64_t byte_offset = 0;             // of the tensor, behind the argument's pointer
  bool operator==(const TensorView&) const = default;
};

struct Launch {
  std::string entry;          // function of the plan's text
  Dim3 grid;                  // groups; a launch with no groups is never issued
  Dim3 group;                 // threads of a group; {1,1,1} on a CPU
  int64_t scratch_bytes = 0;  // CPU: scratch per thread (64-byte aligned); GPU: dynamic shared memory
  std::vector<BufferRef> arguments;
  std::vector<TensorView> views{};  // VIEW(i) of the text; in the order of its numbers
};

// Everything needed to compute one region with one choice of parameters.
struct KernelPlan {
  std::string name;  // readable identifier: "gemm_f32_128x384x384_bias_gelu"
  std::string text;  // self-contained source: prelude, device headers and entries
  std::vector<int64_t> workspace_bytes;
  std::vector<int64_t> prepared_bytes;
  std::vector<Launch> prepare;  // read inputs marked weight, write prepared buffers; issued once per loaded program
  std::vector<Launch> steps;    // issued in order, each after the one before is complete
  std::string numerics_class;   // candidates of one class give the same bits: instruction, order along K, splits, reduction tree
  // The first step does nothing but copy input 0 into output 0, and the others read nothing of input 0: where one buffer is both (a state
  // updated in place), the first step is left out.
  bool begins_with_copy = false;
};

// A plan's text may, instead of a kernel's source, be a call of a vendor's library that the device knows how to make: what a baseline
// and a bench's peers are of. No compiler takes part: the text is the binary.
inline constexpr std::string_view kLibraryCall = "library call 1\n";
inline bool is_library_call(std::string_view text) { return text.substr(0, kLibraryCall.size()) == kLibraryCall; }

// What one entry of a binary takes of a core, where the compiler says so (GPUs).
struct KernelResources {
  std::string entry;
  int registers = 0;            // a thread's
  int barriers = 0;             // hardware barriers of a group
  int max_threads = 0;          // a group's, as compiled for; 0: unlimited
  int64_t static_shared = 0;    // bytes a group, beside what a launch asks for
  int64_t stack = 0;            // bytes of local memory a thread; more than 0 means that registers did not do
  int64_t spill_stores = 0, spill_loads = 0;  // bytes; known from the compiler's log only
  bool operator==(const KernelResources&) const = default;
};

struct Binary {
  std::vector<std::byte> bytes;            // shared object, cubin, code object
  std::string log{};                       // the compiler's own words, also on success
  std::vector<KernelResources> resources{};  // one an entry, in the order of their names; empty where the compiler is silent
};

}  // namespace rtx::backend
