// The lines, as ptxas 13.0 writes them with -v (older ones put "ptxas info    : " before fewer of them):
//   ptxas info    : Compiling entry function 'k' for 'sm_90a'
//   ptxas info    : Function properties for k
//   ptxas         .     576 bytes stack frame, 976 bytes spill stores, 1064 bytes spill loads
//   ptxas info    : Used 64 registers, used 1 barriers, 576 bytes cumulative stack size, 1200 bytes smem
//   ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
// Properties of a function that an entry calls follow the entry's own.
#include "backend/cuda/compile_log.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace rtx::backend::cuda {

namespace {

// The number before `unit`: 576 in "..., 576 bytes stack frame"; 0 when the line has none.
int64_t before(std::string_view line, std::string_view unit) {
  const size_t at = line.find(unit);
  if (at == std::string_view::npos) return 0;
  const std::string_view head = line.substr(0, at);
  const size_t digits = head.find_last_not_of("0123456789");
  int64_t out = 0;
  (void)parse_int(head.substr(digits == std::string_view::npos ? 0 : digits + 1), out);
  return out;
}

std::string_view between(std::string_view line, std::string_view open, std::string_view close) {
  const size_t at = line.find(open);
  if (at == std::string_view::npos) return {};
  const size_t end = line.find(close, at + open.size());
  return end == std::string_view::npos ? std::string_view() : line.substr(at + open.size(), end - at - open.size());
}

}  // namespace

LogVerdict judge_log(std::string_view log) {
  std::map<std::string, KernelResources, std::less<>> entries;
  KernelResources* entry = nullptr;
  std::vector<std::string> complaints;
  for (const std::string& line : split(log, '\n')) {
    // Lines of the front end quote source text, which may say anything. One of ptxas's own stood without its name before CUDA 12.9.
    if (!starts_with(line, "ptxas") && line.find("bytes stack frame, ") == std::string::npos) continue;
    if (const auto name = between(line, "Compiling entry function '", "'"); !name.empty()) {
      entry = &entries[std::string(name)];
      entry->entry = name;
    } else if (entry && line.find("bytes stack frame") != std::string::npos) {
      entry->stack = std::max(entry->stack, before(line, " bytes stack frame"));
      entry->spill_stores += before(line, " bytes spill stores");
      entry->spill_loads += before(line, " bytes spill loads");
    } else if (entry && line.find("Used ") != std::string::npos && line.find(" registers") != std::string::npos) {
      entry->registers = static_cast<int>(before(line, " registers"));
      entry->barriers = static_cast<int>(before(line, " barriers"));
      entry->static_shared = before(line, " bytes smem");
      entry->stack = std::max(entry->stack, before(line, " bytes cumulative stack size"));
    } else if (line.find("serialized") != std::string::npos || line.find("ignored") != std::string::npos) {
      complaints.push_back(line);
    }
  }

  LogVerdict out;
  for (auto& [name, resources] : entries) {
    if (resources.spill_stores > 0 || resources.spill_loads > 0)
      complaints.push_back(name + " spills: " + std::to_string(resources.spill_stores) + " bytes stored, " + std::to_string(resources.spill_loads) + " loaded, with " +
                           std::to_string(resources.registers) + " registers a thread");
    else if (resources.stack > 0)
      complaints.push_back(name + " uses " + std::to_string(resources.stack) + " bytes of local memory a thread (an array indexed at run time?)");
    out.entries.push_back(std::move(resources));
  }
  out.rejection = join(complaints, "\n");
  return out;
}

std::string text_of(const KernelResources& entry) {
  std::string out = entry.entry + ": " + std::to_string(entry.registers) + " registers, " + std::to_string(entry.barriers) + " barriers, ";
  if (entry.max_threads > 0) out += std::to_string(entry.max_threads) + " threads, ";
  return out + std::to_string(entry.static_shared) + " bytes shared, " + std::to_string(entry.stack) + " bytes stack, " +
         std::to_string(entry.spill_stores + entry.spill_loads) + " bytes spilled";
}

std::string log_to_keep(std::string_view log, const std::vector<KernelResources>& entries) {
  std::string out;
  for (const auto& entry : entries) out += text_of(entry) + "\n";
  for (const std::string& line : split(log, '\n'))
    if (!line.empty() && line.find("Compile time = ") == std::string::npos) out += line + "\n";
  return out;
}

}  // namespace rtx::backend::cuda
