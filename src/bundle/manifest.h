#pragma once
// Between a Plan and the manifest's bytes. Decoding checks everything that can be checked without the sections' bytes; what comes
// out may be used without further range checks. Not for other layers.
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "bundle/bundle.h"
#include "bundle/layout.h"
#include "bundle/plan.h"

namespace rtx::bundle {

struct SectionInfo {
  layout::Entry entry;
  layout::Hash hash{};
  std::string name;
};

struct ByteRange {
  int64_t offset = 0, bytes = 0;
};

// What the manifest says beside the Plan.
struct Frame {
  int major = 0, minor = 0;
  std::vector<SectionInfo> sections;
  int64_t sections_end = 0;     // where the last section ends; the manifest starts on the next page
  int64_t constants_bytes = 0;  // of the constants section or the side file
  std::string side_file;        // a plain file name beside the bundle; empty: constants are a section
  int64_t sources_bytes = 0;    // unpacked
  std::vector<ByteRange> binaries, sources;  // by kernel
  std::vector<ByteRange> constants;          // by constant

  const SectionInfo* find(uint32_t kind) const;
};

// The manifest of format 1. Binaries, sources, constant bytes and the SBOM of `plan` are not in it, only their ranges.
std::vector<std::byte> encode_manifest(const Plan& plan, const Frame& frame);

// `memory_limit` bounds what decoding may allocate: a few bytes of a hostile manifest can be pointed at a million times.
struct Decoded {
  Plan plan;
  Frame frame;
};
Result<Decoded> decode_manifest(std::span<const std::byte> bytes, int64_t memory_limit);

// The header page of a file whose manifest stands at `manifest_offset`; signed when there is a key.
std::array<std::byte, layout::kPage> make_header(const Frame& frame, int64_t manifest_offset, std::span<const std::byte> manifest, const KeyPair* key);

// An error of kind bundle about the file as such.
inline Error damaged(std::string why) {
  return error_of(ErrorKind::bundle, "the bundle is damaged or not made by rtx", std::move(why), "copy it again from its source, or compile the model again");
}

}  // namespace rtx::bundle
