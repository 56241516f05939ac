#include <cstring>
#include <utility>

#include "backend/conformance/rig.h"

namespace rtx::backend::conformance {

namespace {

std::string what_is_no_binary_is_refused(Bench& bench) {
  std::vector<std::byte> noise(4096);
  for (size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<std::byte>(i * 73 + 1);
  // The first bytes of a shared object or of a GPU's ELF, and nothing behind them.
  std::vector<std::byte> hollow(4096);
  std::memcpy(hollow.data(), "\177ELF", 4);
  const std::vector<std::byte> empty, shortest(3, std::byte{0x7f});
  for (const std::vector<std::byte>* bytes :
       {&empty, &shortest, &std::as_const(noise), &std::as_const(hollow)}) {
    const auto module = bench.device().load(*bytes, "garbage_kernel");
    RTX_HOLDS_OR_RETURN(!module.ok(), std::to_string(bytes->size()) + " bytes of garbage were loaded");
    RTX_HOLDS_OR_RETURN(module.error().kind == ErrorKind::device,
                        "a binary that does not load is kind device, not " + module.error().text());
    RTX_HOLDS_OR_RETURN(module.error().text().find("garbage_kernel") != std::string::npos,
                        "the kernel is not named: " + module.error().text());
  }
  return {};
}

std::string a_missing_entry_is_an_error_that_names_it(Bench& bench) {
  RTX_DONE_OR_RETURN(bench.kernel("conformance_count"));
  const auto function = bench.kernel("conformance_nowhere");
  RTX_HOLDS_OR_RETURN(!function.ok(), "an entry was found that nobody wrote");
  RTX_HOLDS_OR_RETURN(function.error().text().find("conformance_nowhere") != std::string::npos,
                      "the entry is not named: " + function.error().text());
  return {};
}

std::string every_entry_of_a_module_is_found(Bench& bench) {
  for (const char* entry :
       {"conformance_count", "conformance_affine", "conformance_arguments", "conformance_scratch"}) {
    const auto function = bench.kernel(entry);
    RTX_DONE_OR_RETURN(function);
    RTX_HOLDS_OR_RETURN(function->handle != nullptr, std::string(entry) + " has no handle");
  }
  return {};
}

std::string a_module_outlives_the_binary_it_was_loaded_from(Bench& bench) {
  std::unique_ptr<Module> module;
  {
    auto binary = bench.compile(bench.text());
    RTX_DONE_OR_RETURN(binary);
    auto loaded = bench.device().load(binary->bytes, "conformance");
    RTX_DONE_OR_RETURN(loaded);
    module = *std::move(loaded);
    for (auto& byte : binary->bytes) byte = std::byte{0};
  }
  RTX_DONE_OR_RETURN(bench.device().function(*module, "conformance_affine"));
  return {};
}

// Two modules with the same entries: unloading one leaves the other whole.
std::string a_module_survives_its_twin(Bench& bench) {
  const auto binary = bench.compile(bench.text());
  RTX_DONE_OR_RETURN(binary);
  auto first = bench.device().load(binary->bytes, "twin");
  auto second = bench.device().load(binary->bytes, "twin");
  RTX_DONE_OR_RETURN(first);
  RTX_DONE_OR_RETURN(second);
  std::unique_ptr<Module> kept = *std::move(second);
  { const std::unique_ptr<Module> dropped = *std::move(first); }
  const auto function = bench.device().function(*kept, "conformance_count");
  RTX_DONE_OR_RETURN(function);
  const Memory memory(bench.device(), 64);
  RTX_HOLDS_OR_RETURN(memory.pointer, memory.error);
  std::vector<int32_t> counts(16);
  RTX_DONE_OR_RETURN(write(bench.device(), memory, counts));
  void* arguments[] = {memory.pointer};
  RTX_DONE_OR_RETURN(bench.device().launch(*function, {16, 1, 1}, {1, 1, 1}, 0, arguments, 1, nullptr));
  RTX_DONE_OR_RETURN(read(bench.device(), &counts, memory));
  RTX_HOLDS_OR_RETURN(counts == std::vector<int32_t>(16, 1),
                      "the module left behind computes something else");
  return {};
}

}  // namespace

std::vector<Check> module_checks() {
  return {
      {"what_is_no_binary_is_refused", what_is_no_binary_is_refused},
      {"a_missing_entry_is_an_error_that_names_it", a_missing_entry_is_an_error_that_names_it},
      {"every_entry_of_a_module_is_found", every_entry_of_a_module_is_found},
      {"a_module_outlives_the_binary_it_was_loaded_from", a_module_outlives_the_binary_it_was_loaded_from},
      {"a_module_survives_its_twin", a_module_survives_its_twin}};
}

}  // namespace rtx::backend::conformance
