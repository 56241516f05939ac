// Any bytes as graph text: a refusal or a graph that verifies or is refused, prints, and reads back as itself.
#include <cstdlib>

#include "ir/text.h"
#include "ir/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto graph = rtx::ir::parse({reinterpret_cast<const char*>(data), size});
  if (!graph.ok()) return 0;
  (void)rtx::ir::verify(*graph).ok();
  const std::string text = rtx::ir::to_text(*graph, {.inline_constants_up_to = INT64_MAX});
  auto again = rtx::ir::parse(text);
  if (!again.ok() || rtx::ir::to_text(*again, {.inline_constants_up_to = INT64_MAX}) != text) std::abort();
  (void)rtx::ir::to_text(rtx::ir::without_dead_code(*graph), {.anonymous = true});
  return 0;
}
