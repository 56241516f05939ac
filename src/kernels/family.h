#pragma once
// A kernel family: one folder that answers every question about its kernel. The contract is the concept KernelFamily, asserted
// in the family's own file; AnyFamily erases it for the stages that handle all families alike.
//
// A family adds no reference and no tolerance of its own: a region's reference is the interpreter on its body, and the
// numbers of a tolerance class are validate's.
#include <concepts>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/caps.h"
#include "backend/kernel.h"
#include "base/result.h"
#include "codegen/dialect.h"
#include "fuse/pattern.h"
#include "ir/graph.h"
#include "kernels/space.h"

namespace rtx::kernels {

// What a region costs at least, for rooflines and GB/s, TFLOP/s figures.
struct Work {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  double bytes() const { return bytes_read + bytes_written; }
};

// How an output may differ from the reference; validate turns the class into numbers (docs/architecture.md).
enum class ToleranceClass : uint8_t { exact, elementwise, reduction, attention };
struct Tolerance {
  ToleranceClass tolerance_class = ToleranceClass::elementwise;
  int64_t terms = 1;  // longest sum behind one output element
};

template <class F>
concept KernelFamily = requires(const ir::Graph& body, const typename F::Problem& problem, const typename F::Params& params,
                                const backend::Caps& caps, const codegen::Dialect& dialect) {
  { F::name() } -> std::convertible_to<std::string_view>;
  { F::pattern() } -> std::same_as<fuse::Pattern>;
  // The region as this family's problem, or the reason it cannot be (a sentence for `explain`).
  { F::problem(body) } -> std::same_as<Result<typename F::Problem>>;
  // Canonical text of everything that changes the emitted code, parameters aside. Two regions with one key share a kernel.
  { F::key(problem) } -> std::same_as<std::string>;
  { F::space(problem, caps) } -> std::same_as<Space<typename F::Params>>;
  { F::emit(problem, params, caps, dialect) } -> std::same_as<Result<backend::KernelPlan>>;
  { F::work(problem) } -> std::same_as<Work>;
  { F::tolerance(problem) } -> std::same_as<Tolerance>;
};

// What a family's pattern accepts where it asks for nothing more: a body that is one of its problems; else the reason.
template <class F>
Status accepts(const ir::Graph& body) {
  auto problem = F::problem(body);
  if (!problem.ok()) return std::move(problem).error();
  return success();
}

struct Candidate {
  std::string parameters;  // text form of the point
  double estimate_ms = 0;
  bool preferred = false;
};

// A region bound to a family.
class BoundProblem {
 public:
  virtual ~BoundProblem() = default;
  virtual std::string_view family() const = 0;
  virtual std::string key() const = 0;
  virtual Work work() const = 0;
  virtual Tolerance tolerance() const = 0;
  virtual std::vector<Candidate> candidates(const backend::Caps& caps, std::vector<Excluded>* excluded = nullptr) const = 0;
  // Fails (kind user) when the text is not a legal point of the space.
  virtual Result<backend::KernelPlan> emit(std::string_view parameters, const backend::Caps& caps,
                                           const codegen::Dialect& dialect) const = 0;
};

class AnyFamily {
 public:
  virtual ~AnyFamily() = default;
  virtual std::string_view name() const = 0;
  virtual fuse::Pattern pattern() const = 0;
  virtual Result<std::unique_ptr<BoundProblem>> bind(const ir::Graph& body) const = 0;
};

template <KernelFamily F>
std::unique_ptr<AnyFamily> erase();

// The list, one line a family, in order of priority (kernels/families.cpp).
const std::vector<std::unique_ptr<AnyFamily>>& families();
const AnyFamily* family(std::string_view name);
// Patterns of all families, in order.
std::vector<fuse::Pattern> patterns();

}  // namespace rtx::kernels

#include "kernels/family_erase.h"
