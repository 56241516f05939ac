#pragma once
// The erasure behind kernels::erase<F>(); include family.h, which brings it.
#include "kernels/family.h"

namespace rtx::kernels {

template <KernelFamily F>
class ErasedProblem final : public BoundProblem {
 public:
  explicit ErasedProblem(typename F::Problem problem) : problem_(std::move(problem)) {}
  std::string_view family() const override { return F::name(); }
  std::string key() const override { return F::key(problem_); }
  Work work() const override { return F::work(problem_); }
  Tolerance tolerance() const override { return F::tolerance(problem_); }
  std::vector<Candidate> candidates(const backend::Caps& caps, std::vector<Excluded>* excluded) const override {
    const auto space = F::space(problem_, caps);
    std::vector<Candidate> out;
    for (const auto& point : space.points(excluded))
      out.push_back({space.text(point), space.estimate_of(point), space.text(point) == space.text(space.preferred())});
    return out;
  }
  Result<backend::KernelPlan> emit(std::string_view parameters, const backend::Caps& caps, const codegen::Dialect& dialect) const override {
    const auto space = F::space(problem_, caps);
    typename F::Params point;
    if (!space.parse(parameters, &point))
      return user_error("unknown parameters \"" + std::string(parameters) + "\" for " + std::string(F::name()),
                        "expected names and numbers as in \"" + space.text(space.preferred()) + "\"");
    if (auto rule = space.broken_rule(point); !rule.empty())
      return user_error("parameters \"" + std::string(parameters) + "\" are not legal for " + std::string(F::name()), "rule: " + rule);
    return F::emit(problem_, point, caps, dialect);
  }

 private:
  typename F::Problem problem_;
};

template <KernelFamily F>
class ErasedFamily final : public AnyFamily {
 public:
  std::string_view name() const override { return F::name(); }
  fuse::Pattern pattern() const override { return F::pattern(); }
  Result<std::unique_ptr<BoundProblem>> bind(const ir::Graph& body) const override {
    RTX_TRY(auto problem, F::problem(body));
    return std::unique_ptr<BoundProblem>(std::make_unique<ErasedProblem<F>>(std::move(problem)));
  }
};

template <KernelFamily F>
std::unique_ptr<AnyFamily> erase() {
  return std::make_unique<ErasedFamily<F>>();
}

}  // namespace rtx::kernels
