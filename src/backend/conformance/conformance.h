#pragma once
// Conformance: what every backend promises, as one list of checks over its Compiler, Device and Dialect.
//
// A backend hands in three factories and two lists. `unsupported` is what it will never do, with the reason;
// `not_yet` is what it cannot do today, with what that needs. A check on a list must fail: one that passes is
// a stale entry and fails the suite, and so is a name that no check has.
//
//   #include "backend/conformance/register_testing.h"
//   const bool registered = conformance::register_checks("Cpu", {make_compiler, make_device, make_dialect},
//   {});
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/compiler.h"
#include "backend/device.h"
#include "codegen/dialect.h"

namespace rtx::backend::conformance {

struct Backend {
  std::function<std::unique_ptr<Compiler>()> compiler;
  std::function<std::shared_ptr<Device>()> device;
  std::function<codegen::Dialect(const Caps&)> dialect;
};

struct Unsupported {
  std::string test, why;
};
struct NotYet {
  std::string test, needs;
};
struct Expected {
  std::vector<Unsupported> unsupported;
  std::vector<NotYet> not_yet;
};

// A backend with its tools made, and the suite's kernels compiled and loaded on first use.
class Bench {
 public:
  explicit Bench(const Backend& backend);
  Compiler& compiler() { return *compiler_; }
  Device& device() { return *device_; }
  const codegen::Dialect& dialect() const { return dialect_; }
  // The text of the suite's kernels in this backend's dialect (kernels.cpp).
  std::string text() const;
  Result<Binary> compile(const std::string& text);
  Result<Function> kernel(const std::string& entry);

 private:
  std::unique_ptr<Compiler> compiler_;
  std::shared_ptr<Device> device_;
  codegen::Dialect dialect_;
  std::unique_ptr<Module> module_;
};

// A check gives an empty string when the backend keeps its word, else one sentence with what was found.
struct Check {
  std::string_view name;  // a sentence in snake case
  std::string (*run)(Bench&);
};
const std::vector<Check>& checks();
// Of the primitives of docs/adr/0011, for a device whose caps have "wgmma".
const std::vector<Check>& hopper_checks();

// One check held against the lists: empty when it went as expected.
std::string judge(const Check& check, const Backend& backend, const Expected& expected);
// Names on the lists that no check has, or that stand on them twice.
std::string judge_lists(const Expected& expected);

}  // namespace rtx::backend::conformance
