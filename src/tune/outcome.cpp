#include "tune/outcome.h"

#include <cstdio>

namespace rtx::tune {

std::string text(const Outcome& outcome) {
  struct Visitor {
    std::string operator()(const Measured& m) const {
      if (m.samples == 0) return "validated, not timed";
      char line[64];
      std::snprintf(line, sizeof line, "%.4g ms", m.median_ms);
      return line;
    }
    std::string operator()(const Rejected& r) const { return "rejected: " + r.rule; }
    std::string operator()(const CompileFailed& c) const { return "compile failed: " + c.log; }
    std::string operator()(const CompileRejected& r) const { return "rejected by the compiler's log: " + r.reason; }
    std::string operator()(const WrongResult& w) const { return "wrong result: " + w.report; }
    std::string operator()(const TimedOut& t) const {
      char line[64];
      std::snprintf(line, sizeof line, "timed out after %.1f s", t.seconds);
      return line;
    }
    std::string operator()(const Crashed& c) const { return "crashed: " + c.report; }
  };
  return std::visit(Visitor{}, outcome);
}

}  // namespace rtx::tune
