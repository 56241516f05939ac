#pragma once
// What became of a candidate: a value with its reason, never a huge time.
#include <string>
#include <variant>

namespace rtx::tune {

struct Measured { double median_ms = 0, low_ms = 0, high_ms = 0; int samples = 0; };
struct Rejected { std::string rule; };            // by a rule or the roofline, before anything was compiled
struct CompileFailed { std::string log; };
struct CompileRejected { std::string reason; };   // it compiled, and the compiler's log forbids its use: it spills, say
struct WrongResult {                              // numbers, bounds or unwritten elements
  std::string report;
  bool no_memory = false;                         // or the device had no memory to find out
};
struct TimedOut { double seconds = 0; };
struct Crashed { std::string report; };           // the worker died

using Outcome = std::variant<Measured, Rejected, CompileFailed, CompileRejected, WrongResult, TimedOut, Crashed>;
std::string text(const Outcome& outcome);         // "1.204 ms", "rejected: vector width divides the row"

}  // namespace rtx::tune
