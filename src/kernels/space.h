#pragma once
// Space: a family's parameters as named axes with named rules. Rules have names so that `explain` can say which one excluded
// what; the preferred point is used untuned and is where search starts.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rtx::kernels {

struct Excluded {
  std::string parameters;
  std::string rule;
};

template <class Params>
class Space {
 public:
  using Member = int64_t Params::*;
  using Predicate = std::function<bool(const Params&)>;

  Space& axis(std::string name, Member member, std::vector<int64_t> values) {
    return axis_by(std::move(name), member, [values = std::move(values)](const Params&) { return values; });
  }
  // An axis whose values depend on those of the axes before it.
  Space& axis_by(std::string name, Member member, std::function<std::vector<int64_t>(const Params&)> values) {
    axes_.push_back({std::move(name), member, std::move(values)});
    return *this;
  }
  Space& require(std::string name, Predicate holds) {
    rules_.push_back({std::move(name), std::move(holds)});
    return *this;
  }
  Space& prefer(Params point) {
    preferred_ = point;
    return *this;
  }
  // Estimated milliseconds (roofline); orders candidates. Optional.
  Space& estimate(std::function<double(const Params&)> milliseconds) {
    estimate_ = std::move(milliseconds);
    return *this;
  }

  const Params& preferred() const { return preferred_; }
  double estimate_of(const Params& point) const { return estimate_ ? estimate_(point) : 0.0; }

  // Name of the first rule that `point` breaks; empty when it is legal.
  std::string broken_rule(const Params& point) const {
    for (const auto& rule : rules_)
      if (!rule.holds(point)) return rule.name;
    return {};
  }

  // All legal points in the order of the axes.
  std::vector<Params> legal_points(std::vector<Excluded>* excluded = nullptr) const {
    std::vector<Params> legal;
    Params point = preferred_;
    walk(0, point, legal, excluded);
    return legal;
  }
  // All legal points, preferred first, then by estimate; what rules excluded goes to `excluded` when given.
  std::vector<Params> points(std::vector<Excluded>* excluded = nullptr) const {
    struct Ranked {
      bool preferred;
      double estimate;
      Params point;
    };
    const std::string first = text(preferred_);
    std::vector<Ranked> ranked;
    for (const Params& point : legal_points(excluded)) ranked.push_back({text(point) == first, estimate_of(point), point});
    std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
      return a.preferred != b.preferred ? a.preferred : a.estimate < b.estimate;
    });
    std::vector<Params> legal;
    for (const Ranked& r : ranked) legal.push_back(r.point);
    return legal;
  }

  // "mr=6 nr=16 kc=256", and back; false when a name or number is unknown.
  std::string text(const Params& point) const {
    std::string out;
    for (const auto& axis : axes_) {
      if (!out.empty()) out += ' ';
      out += axis.name + '=' + std::to_string(point.*(axis.member));
    }
    return out;
  }
  bool parse(std::string_view text, Params* point) const {
    *point = preferred_;
    while (!text.empty()) {
      const auto space = text.find(' ');
      const std::string_view item = text.substr(0, space);
      text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
      if (item.empty()) continue;
      const auto equal = item.find('=');
      if (equal == std::string_view::npos) return false;
      bool known = false;
      for (const auto& axis : axes_) {
        if (axis.name != item.substr(0, equal)) continue;
        int64_t number = 0;
        const bool negative = item.substr(equal + 1, 1) == "-";
        const std::string digits(item.substr(equal + 1 + (negative ? 1 : 0)));
        if (digits.empty() || digits.size() > 15 || digits.find_first_not_of("0123456789") != std::string::npos) return false;
        number = negative ? -std::stoll(digits) : std::stoll(digits);
        (*point).*(axis.member) = number;
        known = true;
      }
      if (!known) return false;
    }
    return true;
  }

 private:
  struct Axis {
    std::string name;
    Member member;
    std::function<std::vector<int64_t>(const Params&)> values;
  };
  struct Rule {
    std::string name;
    Predicate holds;
  };
  void walk(size_t level, Params& point, std::vector<Params>& legal, std::vector<Excluded>* excluded) const {
    if (level == axes_.size()) {
      const std::string rule = broken_rule(point);
      if (rule.empty()) legal.push_back(point);
      else if (excluded) excluded->push_back({text(point), rule});
      return;
    }
    for (const int64_t value : axes_[level].values(point)) {
      point.*(axes_[level].member) = value;
      walk(level + 1, point, legal, excluded);
    }
    // Leave the preferred value in place for the levels above.
    point.*(axes_[level].member) = preferred_.*(axes_[level].member);
  }

  std::vector<Axis> axes_;
  std::vector<Rule> rules_;
  std::function<double(const Params&)> estimate_;
  Params preferred_{};
};

}  // namespace rtx::kernels
