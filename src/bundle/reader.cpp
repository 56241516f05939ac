#include "bundle/reader.h"

#include <sodium.h>
#include <zstd.h>

#include <algorithm>

#include "base/files.h"
#include "bundle/constants.h"
#include "bundle/manifest.h"

namespace rtx::bundle {

namespace {

using layout::kPage;

// The fuzzer must get past what only a holder of the right hashes could write.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kHashesChecked = false;
#else
constexpr bool kHashesChecked = true;
#endif

bool all_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

struct Header {
  int64_t file_bytes = 0, manifest_offset = 0, manifest_bytes = 0;
  uint32_t major = 0, minor = 0;
  bool is_signed = false;
  std::array<unsigned char, 32> public_key{};
  std::array<unsigned char, 64> signature{};
  layout::Hash manifest_hash{};
  std::vector<layout::Entry> table;
};

Result<Header> read_header(std::span<const std::byte> file) {
  const auto size = static_cast<int64_t>(file.size());
  if (file.size() < layout::kMagic.size() || std::memcmp(file.data(), layout::kMagic.data(), layout::kMagic.size()) != 0)
    return error_of(ErrorKind::bundle, "this is not a bundle", "it does not begin with the magic bytes of a .rtxgc file", "make one with rtx compile");
  if (size < kPage) return damaged("the file is cut off: it has " + std::to_string(size) + " bytes, and its header alone " + std::to_string(kPage));
  const auto number = [&](int64_t at, int bytes) { return layout::load(file.data() + at, bytes); };
  Header h;
  h.major = static_cast<uint32_t>(number(layout::kAtMajor, 4));
  h.minor = static_cast<uint32_t>(number(layout::kAtMinor, 4));
  if (h.major > static_cast<uint32_t>(kFormatMajor))
    return error_of(ErrorKind::bundle, "this bundle has a newer format than this program reads",
                    "its format is " + std::to_string(h.major) + "." + std::to_string(h.minor) + ", the newest known here is " +
                        std::to_string(kFormatMajor) + "." + std::to_string(kFormatMinor),
                    "use a newer rtx, or compile the model again with this one");
  if (h.major == 0) return damaged("its format version is 0");
  const uint64_t says = number(layout::kAtFileBytes, 8);
  if (says > static_cast<uint64_t>(size))
    return damaged("the file is cut off: it has " + std::to_string(size) + " bytes, and its header says " + std::to_string(says));
  if (says < static_cast<uint64_t>(size))
    return damaged("the file is " + std::to_string(static_cast<uint64_t>(size) - says) + " bytes longer than its header says");
  h.file_bytes = size;

  const uint64_t manifest_offset = number(layout::kAtManifestOffset, 8), manifest_bytes = number(layout::kAtManifestBytes, 8);
  const bool manifest_inside = manifest_offset % kPage == 0 && manifest_offset >= static_cast<uint64_t>(kPage) && manifest_offset < says &&
                               manifest_bytes == says - manifest_offset;
  if (!manifest_inside) return damaged("its header places the manifest outside the file");
  h.manifest_offset = static_cast<int64_t>(manifest_offset);
  h.manifest_bytes = static_cast<int64_t>(manifest_bytes);

  const uint64_t sections = number(layout::kAtSectionCount, 4), signature_kind = number(layout::kAtSigned, 4);
  if (number(layout::kAtTableOffset, 8) != layout::kTable || number(layout::kAtHeaderBytes, 4) != kPage || sections > layout::kMaxSections || signature_kind > 1)
    return damaged("its header holds values that no writer makes");
  h.is_signed = signature_kind == 1;
  std::memcpy(h.public_key.data(), file.data() + layout::kAtPublicKey, h.public_key.size());
  std::memcpy(h.signature.data(), file.data() + layout::kAtSignature, h.signature.size());
  std::memcpy(h.manifest_hash.data(), file.data() + layout::kAtManifestHash, h.manifest_hash.size());
  const int64_t table_end = layout::kTable + static_cast<int64_t>(sections) * layout::kTableEntry;
  const auto gap = [&](int64_t begin, int64_t end) { return all_zero(file.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))); };
  bool clean = gap(layout::kAtSigned + 4, layout::kAtPublicKey) && gap(layout::kAtManifestHash + 32, layout::kTable) && gap(table_end, kPage);
  if (!h.is_signed) clean = clean && gap(layout::kAtPublicKey, layout::kAtManifestHash);
  for (int64_t at = layout::kTable; at < table_end; at += layout::kTableEntry) {
    h.table.push_back({static_cast<uint32_t>(number(at, 4)), static_cast<uint32_t>(number(at + 4, 4)), number(at + 8, 8), number(at + 16, 8)});
    clean = clean && gap(at + 24, at + 32);
  }
  if (!clean) return damaged("unused bytes of its header are not zero");
  return h;
}

Result<SignatureState> check_signature(const Header& h, const ReadOptions& options) {
  if (!h.is_signed) {
    if (options.allow_unsigned) return SignatureState::missing;
    return error_of(ErrorKind::bundle, "this bundle is not signed", "nothing says who made it, and its kernels are machine code",
                    "get a signed one, or pass --allow-unsigned if you trust where it came from");
  }
  const auto message = layout::signed_message(h.manifest_hash);
  if (kHashesChecked && crypto_sign_ed25519_verify_detached(h.signature.data(), message.data(), message.size(), h.public_key.data()) != 0)
    return error_of(ErrorKind::bundle, "the signature of this bundle is wrong", "it was changed after it was signed, or the signature belongs to another file",
                    "get it again from its source");
  if (options.trusted && options.trusted(h.public_key)) return SignatureState::trusted;
  if (options.allow_unsigned) return SignatureState::unknown_signer;
  const std::string key = layout::hex(h.public_key);
  return error_of(ErrorKind::bundle, "this bundle is signed by a key that is not trusted here", "the signer is " + key,
                  "`rtx key trust NAME " + key + "` if you know whose key that is, or pass --allow-unsigned");
}

// The header against the manifest, the order and the gaps of sections.
Status check_sections(std::span<const std::byte> file, const Header& h, const Frame& frame) {
  if (static_cast<uint32_t>(frame.major) != h.major || static_cast<uint32_t>(frame.minor) != h.minor)
    return damaged("its header and its manifest name different format versions");
  if (frame.sections.size() != h.table.size()) return damaged("its header and its manifest list different sections");
  int64_t end = kPage;
  for (size_t i = 0; i < h.table.size(); ++i) {
    const layout::Entry& entry = h.table[i];
    const layout::Entry& said = frame.sections[i].entry;
    if (entry.kind != said.kind || entry.flags != said.flags || entry.offset != said.offset || entry.bytes != said.bytes)
      return damaged("its header and its manifest list different sections");
    const bool known = entry.kind >= layout::kConstants && entry.kind <= layout::kSbom;
    if (!known && (entry.flags & layout::kRequired) != 0)
      return error_of(ErrorKind::bundle, "this bundle needs something that this program does not know",
                      "its section '" + frame.sections[i].name + "' (kind " + std::to_string(entry.kind) + ") is marked required", "use a newer rtx");
    for (size_t j = 0; j < i; ++j)
      if (known && h.table[j].kind == entry.kind) return damaged("it has two sections of one kind");
    const int64_t begin = layout::page_align(end);
    if (entry.offset != static_cast<uint64_t>(begin) || begin > h.manifest_offset || entry.bytes > static_cast<uint64_t>(h.manifest_offset - begin))
      return damaged("section '" + frame.sections[i].name + "' is not where it must be");
    if (!all_zero(file.subspan(static_cast<size_t>(end), static_cast<size_t>(begin - end)))) return damaged("unused bytes between its sections are not zero");
    end = begin + static_cast<int64_t>(entry.bytes);
  }
  if (frame.sections_end != end || layout::page_align(end) != h.manifest_offset) return damaged("its manifest is not where it must be");
  if (!all_zero(file.subspan(static_cast<size_t>(end), static_cast<size_t>(h.manifest_offset - end)))) return damaged("unused bytes before its manifest are not zero");
  return success();
}

std::span<const std::byte> section_of(std::span<const std::byte> file, const Frame& frame, uint32_t kind) {
  const SectionInfo* found = frame.find(kind);
  if (!found) return {};
  return file.subspan(static_cast<size_t>(found->entry.offset), static_cast<size_t>(found->entry.bytes));
}

Status check_hashes(std::span<const std::byte> file, const Frame& frame) {
  for (const auto& section : frame.sections) {
    if (section.entry.kind == layout::kConstants) continue;  // by chunk, before use
    const auto bytes = file.subspan(static_cast<size_t>(section.entry.offset), static_cast<size_t>(section.entry.bytes));
    if (kHashesChecked && layout::hash_bytes(bytes) != section.hash)
      return damaged("its section '" + section.name + "' has other bytes than were hashed when it was written");
  }
  const SectionInfo* constants = frame.find(layout::kConstants);
  const SectionInfo* hashes = frame.find(layout::kChunkHashes);
  const int64_t chunks = (frame.constants_bytes + layout::kChunk - 1) / layout::kChunk;
  if ((hashes ? hashes->entry.bytes : 0) != static_cast<uint64_t>(chunks) * sizeof(layout::Hash)) return damaged("it has not one hash for each chunk of its constants");
  if (constants && hashes && constants->hash != hashes->hash) return damaged("the hash of its constants is not that of their chunks");
  const bool inside = constants != nullptr;
  if (inside && (!frame.side_file.empty() || constants->entry.bytes != static_cast<uint64_t>(frame.constants_bytes)))
    return damaged("its constants have another size than its manifest says");
  if (!inside && frame.constants_bytes > 0 && frame.side_file.empty()) return damaged("its constants are missing");
  return success();
}

struct ConstantBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

Result<ConstantBytes> find_constants(std::span<const std::byte> file, const std::shared_ptr<const void>& owner, const Frame& frame,
                                     const std::string& directory) {
  if (frame.side_file.empty()) return ConstantBytes{section_of(file, frame, layout::kConstants), owner};
  // A name from a file must not lead out of the file's own directory.
  if (frame.side_file.find('/') != std::string::npos || frame.side_file.find('\0') != std::string::npos || frame.side_file[0] == '.')
    return damaged("the file that it names for its constants is not a plain name");
  const std::string path = directory + "/" + frame.side_file;
  if (directory.empty()) return damaged("its constants are in another file, " + frame.side_file);
  auto mapped = MappedFile::open(path);
  if (!mapped.ok())
    return error_of(ErrorKind::bundle, "the constants of this bundle are missing", path + ": " + mapped.error().why, "keep " + frame.side_file + " beside the bundle");
  auto side = std::make_shared<MappedFile>(*std::move(mapped));
  const auto bytes = side->bytes();
  if (bytes.size() != static_cast<size_t>(frame.constants_bytes))
    return damaged(path + " has " + std::to_string(bytes.size()) + " bytes, and the manifest says " + std::to_string(frame.constants_bytes));
  return ConstantBytes{bytes, std::move(side)};
}

Status unpack_sources(std::span<const std::byte> packed, const Frame& frame, Plan& plan) {
  if (packed.empty()) return success();
  const auto* data = packed.data();
  if (ZSTD_getFrameContentSize(data, packed.size()) != static_cast<unsigned long long>(frame.sources_bytes))
    return damaged("its kernel sources have another size than its manifest says");
  std::string text(static_cast<size_t>(frame.sources_bytes), '\0');
  const size_t got = ZSTD_decompress(text.data(), text.size(), data, packed.size());
  if (ZSTD_isError(got) || got != text.size()) return damaged("its kernel sources cannot be unpacked");
  int64_t budget = 2 * frame.sources_bytes + (1 << 20);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const ByteRange& at = frame.sources[i];
    if ((budget -= at.bytes) < 0) return damaged("its kernels share their sources");
    plan.kernels[i].source = text.substr(static_cast<size_t>(at.offset), static_cast<size_t>(at.bytes));
  }
  return success();
}

}  // namespace

Result<Opened> open_bytes(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& directory,
                          const ReadOptions& options, bool manifest_only) {
  RTX_TRY(Header header, read_header(file));
  const auto manifest = file.subspan(static_cast<size_t>(header.manifest_offset));
  if (kHashesChecked && layout::hash_bytes(manifest) != header.manifest_hash) return damaged("its manifest has other bytes than were hashed when it was written");
  RTX_TRY(const SignatureState signature, check_signature(header, options));
  RTX_TRY(Decoded decoded, decode_manifest(manifest, 2 * header.file_bytes + (1 << 20)));
  const Frame& frame = decoded.frame;
  RTX_CHECK(check_sections(file, header, frame));
  RTX_CHECK(check_hashes(file, frame));

  Opened opened;
  opened.signature = signature;
  if (header.is_signed) opened.signer = layout::hex(header.public_key);
  opened.file_bytes = header.file_bytes;
  opened.format_major = frame.major;
  opened.format_minor = frame.minor;
  opened.plan = std::move(decoded.plan);
  Plan& plan = opened.plan;
  for (const auto& section : frame.sections)
    opened.sections.emplace_back(section.name, std::to_string(section.entry.offset) + " " + std::to_string(section.entry.bytes) + " " + layout::hex(section.hash));

  const auto sbom = section_of(file, frame, layout::kSbom);
  plan.sbom.assign(reinterpret_cast<const char*>(sbom.data()), sbom.size());
  const auto binaries = section_of(file, frame, layout::kBinaries);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const auto bytes = binaries.subspan(static_cast<size_t>(frame.binaries[i].offset), static_cast<size_t>(frame.binaries[i].bytes));
    plan.kernels[i].binary.assign(bytes.begin(), bytes.end());
  }
  if (options.sources) RTX_CHECK(unpack_sources(section_of(file, frame, layout::kSources), frame, plan));
  opened.verify_constant = [](int) { return success(); };
  if (frame.constants_bytes == 0) return opened;
  if (manifest_only) {
    if (options.side_file) RTX_CHECK([&]() -> Status {
      auto found = find_constants(file, owner, frame, directory);
      return found.ok() ? success() : Status(std::move(found).error());
    }());
    return opened;
  }

  RTX_TRY(ConstantBytes constants, find_constants(file, owner, frame, directory));
  struct Verified {
    std::shared_ptr<const void> file, side;
    std::vector<ByteRange> ranges;
    ChunkVerifier chunks;
  };
  auto verified = std::make_shared<Verified>(
      Verified{owner, constants.owner, frame.constants, ChunkVerifier(constants.bytes, section_of(file, frame, layout::kChunkHashes))});
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    plan.constants[i].owner = constants.owner;
    plan.constants[i].bytes = constants.bytes.data() + frame.constants[i].offset;
  }
  opened.verify_constant = [verified](int constant) {
    const ByteRange& at = verified->ranges[static_cast<size_t>(constant)];
    return verified->chunks.verify(at.offset, at.bytes);
  };
  opened.verify_constants = [verified](int threads) { return verified->chunks.verify_all(threads); };
  if (options.verify_constants) RTX_CHECK(opened.verify_constants(2));
  return opened;
}

namespace {

Result<Opened> open_path(const std::string& path, const ReadOptions& options, bool manifest_only) {
  if (sodium_init() < 0) return error_of(ErrorKind::internal, "the cryptographic library does not start", "the system has no source of randomness");
  auto mapped = MappedFile::open(path);
  if (!mapped.ok()) return std::move(mapped).error();
  auto file = std::make_shared<MappedFile>(*std::move(mapped));
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  auto opened = open_bytes(file->bytes(), file, directory, options, manifest_only);
  if (!opened.ok()) return std::move(opened).error().in(path);
  return opened;
}

}  // namespace

Result<Opened> open(const std::string& path, const ReadOptions& options) { return open_path(path, options, false); }
Result<Opened> open_manifest(const std::string& path, const ReadOptions& options) { return open_path(path, options, true); }

}  // namespace rtx::bundle
