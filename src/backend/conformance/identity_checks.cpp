// Who the backend is, and what its compiler says about itself.
#include "backend/conformance/rig.h"

namespace rtx::backend::conformance {

namespace {

std::string both_sides_and_the_dialect_name_one_target(Bench& bench) {
  const Caps& caps = bench.device().caps();
  RTX_HOLDS_OR_RETURN(!caps.target.empty(), "the device has no target name");
  RTX_HOLDS_OR_RETURN(bench.compiler().target() == caps.target,
                      "the compiler is for " + bench.compiler().target() + ", the device is " + caps.target);
  RTX_HOLDS_OR_RETURN(bench.dialect().target == caps.target,
                      "the dialect is for " + bench.dialect().target + ", the device is " + caps.target);
  return {};
}

// device, arch and driver are in every cache key and manifest: an empty one would make two machines look
// alike.
std::string caps_identify_the_device(Bench& bench) {
  const Caps& caps = bench.device().caps();
  for (const auto* field : {&caps.device, &caps.arch, &caps.driver}) {
    RTX_HOLDS_OR_RETURN(!field->empty(), "device, arch and driver must all be named");
    RTX_HOLDS_OR_RETURN(field->find('\n') == std::string::npos,
                        "identity fields are one line each: " + *field);
  }
  RTX_HOLDS_OR_RETURN(caps.cores >= 1, "a device has at least one core");
  RTX_HOLDS_OR_RETURN(caps.scratch_bytes > 0, "a group has some scratch");
  RTX_HOLDS_OR_RETURN(caps.peak_gflops_f32 > 0 && caps.copy_gbps > 0,
                      "ceilings are positive, or estimates divide by zero");
  return {};
}

std::string the_toolchain_has_a_stable_name_and_starts_no_compile(Bench& bench) {
  const auto first = bench.compiler().toolchain(bench.device().caps().arch),
             again = bench.compiler().toolchain(bench.device().caps().arch);
  RTX_DONE_OR_RETURN(first);
  RTX_DONE_OR_RETURN(again);
  RTX_HOLDS_OR_RETURN(!first->empty() && *first == *again,
                      "the toolchain is called \"" + *first + "\" and then \"" + *again + "\"");
  RTX_HOLDS_OR_RETURN(bench.compiler().compiles_started() == 0,
                      "asking for the toolchain counted as a compile");
  return {};
}

std::string a_compile_is_counted_once(Bench& bench) {
  RTX_DONE_OR_RETURN(bench.compile(bench.text()));
  const int64_t started = bench.compiler().compiles_started();
  RTX_HOLDS_OR_RETURN(started == 1, "one compile counted as " + std::to_string(started));
  return {};
}

std::string one_text_compiles_to_one_binary(Bench& bench) {
  const auto first = bench.compile(bench.text()), again = bench.compile(bench.text());
  RTX_DONE_OR_RETURN(first);
  RTX_DONE_OR_RETURN(again);
  RTX_HOLDS_OR_RETURN(!first->bytes.empty(), "the binary is empty");
  RTX_HOLDS_OR_RETURN(first->bytes == again->bytes, "the same text gave two different binaries");
  return {};
}

std::string a_text_with_an_error_is_refused_with_the_compilers_words(Bench& bench) {
  const auto binary = bench.compile(bench.text() + "\nthis_is_no_type and_no_statement\n");
  RTX_HOLDS_OR_RETURN(!binary.ok(), "a text that is no program compiled");
  RTX_HOLDS_OR_RETURN(binary.error().kind == ErrorKind::internal,
                      "a refused text is a bug of ours, not " + binary.error().text());
  RTX_HOLDS_OR_RETURN(binary.error().text().find("this_is_no_type") != std::string::npos,
                      "the log does not say what was wrong: " + binary.error().text());
  return {};
}

}  // namespace

std::vector<Check> identity_checks() {
  return {{"both_sides_and_the_dialect_name_one_target", both_sides_and_the_dialect_name_one_target},
          {"caps_identify_the_device", caps_identify_the_device},
          {"the_toolchain_has_a_stable_name_and_starts_no_compile",
           the_toolchain_has_a_stable_name_and_starts_no_compile},
          {"a_compile_is_counted_once", a_compile_is_counted_once},
          {"one_text_compiles_to_one_binary", one_text_compiles_to_one_binary},
          {"a_text_with_an_error_is_refused_with_the_compilers_words",
           a_text_with_an_error_is_refused_with_the_compilers_words}};
}

}  // namespace rtx::backend::conformance
