// Any bytes into the bundle reader. Built with hashes and signatures not insisted on (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION), so
// that what lies behind them is reached.
//
// The first byte of an input chooses: bit 0, the rest is a whole file, or only the manifest of one whose header and sections are
// those of the sample plan; bit 1, sources are unpacked; bit 2, only the manifest is opened.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "bundle/manifest.h"
#include "bundle/reader.h"
#include "bundle/sample_testing.h"

namespace {

using namespace rtx::bundle;

// What the sample has before its manifest.
struct Body {
  std::vector<std::byte> pages;
  Frame frame;

  Body() {
    sample::Directory directory;
    const std::string path = directory / "sample.rtxgc";
    if (!write(sample::plan(), path, {}).ok()) std::abort();
    pages = sample::bytes_of(path);
    const auto offset = layout::load(pages.data() + layout::kAtManifestOffset, 8);
    auto decoded = decode_manifest(std::span(pages).subspan(offset), 1 << 24);
    if (!decoded.ok()) std::abort();
    frame = decoded->frame;
    pages.resize(offset);
  }
};

// What a reader promises about a plan that it let through; a broken promise is a crash.
void use(const Opened& opened, int64_t file_bytes) {
  const auto demand = [](bool kept) { if (!kept) std::abort(); };
  const Plan& plan = opened.plan;
  int64_t copied = 0;
  for (const auto& kernel : plan.kernels) copied += static_cast<int64_t>(kernel.binary.size() + kernel.region.size() + kernel.key.size());
  demand(copied <= 2 * file_bytes + (1 << 20));
  unsigned char sum = 0;
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    const Constant& constant = plan.constants[i];
    if (!constant.bytes || constant.byte_size == 0 || !opened.verify_constant(static_cast<int>(i)).ok()) continue;
    sum ^= static_cast<unsigned char>(constant.bytes[0]) ^ static_cast<unsigned char>(constant.bytes[constant.byte_size - 1]);
  }
  for (const auto* list : {&plan.prepare, &plan.steps})
    for (const Step& step : *list) {
      demand(step.kernel >= 0 && static_cast<size_t>(step.kernel) < plan.kernels.size() && step.grid.count() >= 0);
      for (const Slot& slot : step.arguments) {
        demand(slot.index >= 0 && slot.offset >= 0);
        if (slot.kind == SlotKind::arena) demand(slot.index + slot.offset <= plan.arena_bytes);
        if (slot.kind == SlotKind::constant) demand(slot.offset <= plan.constants[static_cast<size_t>(slot.index)].byte_size);
      }
    }
  rtx::backend::Caps here;
  here.target = "null";
  demand(!judge(plan.identity, here).sentence.empty() || sum == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Body body;
  if (size == 0) return 0;
  const uint8_t choice = data[0];
  const std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data + 1), size - 1);
  const bool whole = (choice & 1) != 0;

  const size_t file_bytes = whole ? rest.size() : body.pages.size() + rest.size();
  // A guard-checked copy of exactly the file's size, aligned as a mapping is.
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, file_bytes ? file_bytes : 1) != 0) return 0;
  const std::shared_ptr<void> owner(memory, std::free);
  auto* file = static_cast<std::byte*>(memory);
  if (whole) {
    if (!rest.empty()) std::memcpy(file, rest.data(), rest.size());
  } else {
    std::memcpy(file, body.pages.data(), body.pages.size());
    if (!rest.empty()) std::memcpy(file + body.pages.size(), rest.data(), rest.size());
    const auto header = make_header(body.frame, static_cast<int64_t>(body.pages.size()), rest, nullptr);
    std::memcpy(file, header.data(), header.size());
  }
  ReadOptions options;
  options.allow_unsigned = true;
  options.sources = (choice & 2) != 0;
  const auto opened = open_bytes({file, file_bytes}, owner, "", options, (choice & 4) != 0);
  if (opened.ok())
    use(*opened, static_cast<int64_t>(file_bytes));
  else if (opened.error().kind != rtx::ErrorKind::bundle || opened.error().why.empty())
    std::abort();
  return 0;
}
