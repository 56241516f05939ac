#pragma once
// Kernels that are loop nests over elements: what the pointwise and movement families share. A body becomes one nest a shape of
// output (cut into pieces where a concat or a trilu changes the formula), and all nests run in one launch.
//
// A nest whose loads run across the rows that its stores run along is tiled: a block of the source is transposed into scratch,
// from which the rows then read with stride one.
#include <string>
#include <vector>

#include "backend/caps.h"
#include "backend/kernel.h"
#include "codegen/dialect.h"
#include "codegen/nest.h"
#include "ir/graph.h"
#include "kernels/family.h"

namespace rtx::kernels {

struct NestProgram {
  std::vector<codegen::LoopNest> nests;  // none when every output is empty
  std::string text() const;              // canonical: for keys
  bool moves_only() const;               // no arithmetic at all
  bool tiled() const;                    // some nest reads across its rows
  int64_t count() const;                 // evaluations of all nests
};

struct NestParams {
  int64_t vector_width = 8;         // lanes of one step, in elements
  int64_t unroll = 2;               // steps the compiler unrolls
  int64_t elements_per_group = 16384;
  int64_t tile = 32;                // edge of a transposed block
  int64_t threads = 1;              // GPU: of a group; elements_per_group then follows from the others
};

// Lowers all outputs of a body of pointwise and movement operators.
Result<NestProgram> lower_program(const ir::Graph& body);
Space<NestParams> nest_space(const NestProgram& program, const backend::Caps& caps);
Result<backend::KernelPlan> emit_program(const NestProgram& program, const std::string& name, const std::string& generator, const NestParams& params,
                                         const Work& work, const backend::Caps& caps, const codegen::Dialect& dialect);
// The two for groups of many threads; nest_space and emit_program call them.
Space<NestParams> nest_space_gpu(const NestProgram& program, const backend::Caps& caps);
Result<backend::KernelPlan> emit_program_gpu(const NestProgram& program, const std::string& name, const std::string& generator, const NestParams& params,
                                             const Work& work, const backend::Caps& caps, const codegen::Dialect& dialect);
// Milliseconds of a program that takes `milliseconds` at the device's copy speed: small groups cost their decoding, large ones leave
// threads idle.
double nest_estimate(double milliseconds, const NestParams& params);
Work work_of(const ir::Graph& body, double flops);

// "pointwise_f32_128x384_add_gelu": family, first output's type and shape, operators.
std::string plan_name(std::string_view family, const ir::Graph& body);
// "0.2 Mflop, 16.8 MB": for the comment block.
std::string work_text(const Work& work);
// True when every node passes.
bool all_nodes(const ir::Graph& body, const std::function<bool(const ir::Node&)>& holds);

}  // namespace rtx::kernels
