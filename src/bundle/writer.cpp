#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "base/files.h"
#include "bundle/bundle.h"
#include "bundle/constants.h"
#include "bundle/manifest.h"

namespace rtx::bundle {

namespace {

using layout::Entry;
using layout::kPage;

// A new file that appears under its name only when commit() succeeds. Errors are sticky and reported by commit().
class NewFile {
 public:
  explicit NewFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmpXXXXXX") {
    if (auto status = can_write_file(path_); !status.ok()) {
      why_ = status.error().why;
      return;
    }
    file_ = mkostemp(temporary_.data(), O_CLOEXEC);
    if (file_ < 0) fail("create");
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (file_ >= 0) {
      ::close(file_);
      ::unlink(temporary_.c_str());
    }
  }

  void append(std::span<const std::byte> bytes) {
    put(bytes, at_);
    at_ += static_cast<int64_t>(bytes.size());
  }
  // Zeros up to the next page: a hole, which reads as zeros.
  int64_t next_page() { return at_ = layout::page_align(at_); }
  int64_t at() const { return at_; }
  void put(std::span<const std::byte> bytes, int64_t at) {
    while (!bytes.empty() && why_.empty()) {
      const ssize_t count = ::pwrite(file_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30), at);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return fail("write");
      bytes = bytes.subspan(static_cast<size_t>(count));
      at += count;
    }
  }
  Status commit() {
    if (why_.empty() && fchmod(file_, 0644) != 0) fail("chmod");
    if (why_.empty() && fsync(file_) != 0 && errno != EINVAL) fail("fsync");
    if (why_.empty() && ::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
    if (!why_.empty()) return error_of(ErrorKind::output, "cannot write " + path_, why_, "free space or choose another place");
    ::close(file_);
    file_ = -1;
    return success();
  }

 private:
  void fail(const char* step) {
    if (why_.empty()) why_ = std::string(step) + ": " + std::strerror(errno);
  }
  std::string path_, temporary_, why_;
  int file_ = -1;
  int64_t at_ = 0;
};

std::span<const std::byte> bytes_of_text(const std::string& text) { return std::as_bytes(std::span<const char>(text.data(), text.size())); }

// Where each constant goes. Identical bytes are stored once; from a page on they start on a page, so that a device may map them.
struct ConstantPlan {
  std::vector<ByteRange> ranges;  // by constant
  std::vector<size_t> stored;     // those that are written, in order
  int64_t bytes = 0;
};

ConstantPlan place_constants(const std::vector<Constant>& constants) {
  ConstantPlan plan;
  std::map<std::pair<int64_t, layout::Hash>, int64_t> seen;
  for (size_t i = 0; i < constants.size(); ++i) {
    const Constant& constant = constants[i];
    const layout::Hash hash = layout::hash_bytes({constant.bytes, static_cast<size_t>(constant.byte_size)});
    const int64_t alignment = constant.byte_size >= kPage ? kPage : 64;
    const int64_t offset = (plan.bytes + alignment - 1) / alignment * alignment;
    const auto [found, fresh] = seen.try_emplace({constant.byte_size, hash}, offset);
    plan.ranges.push_back({found->second, constant.byte_size});
    if (!fresh || constant.byte_size == 0) continue;
    plan.stored.push_back(i);
    plan.bytes = offset + constant.byte_size;
  }
  for (auto& range : plan.ranges)
    if (range.bytes == 0) range.offset = 0;
  return plan;
}

std::vector<layout::Hash> write_constants(const std::vector<Constant>& constants, const ConstantPlan& plan, NewFile& file) {
  static constexpr std::byte zeros[kPage] = {};
  ChunkHasher hasher;
  const auto put = [&](std::span<const std::byte> bytes) {
    file.append(bytes);
    hasher.update(bytes);
  };
  for (const size_t i : plan.stored) {
    put({zeros, static_cast<size_t>(plan.ranges[i].offset - hasher.bytes_seen())});
    put({constants[i].bytes, static_cast<size_t>(constants[i].byte_size)});
  }
  return hasher.finish();
}

struct Sections {
  NewFile& file;
  Frame& frame;

  void add(uint32_t kind, uint32_t flags, const char* name, std::span<const std::byte> bytes) {
    begin(kind, flags, name);
    file.append(bytes);
    end(layout::hash_bytes(bytes));
  }
  void begin(uint32_t kind, uint32_t flags, const char* name) {
    SectionInfo section;
    section.entry = {kind, flags, static_cast<uint64_t>(file.next_page()), 0};
    section.name = name;
    frame.sections.push_back(section);
  }
  void end(const layout::Hash& hash) {
    SectionInfo& section = frame.sections.back();
    section.entry.bytes = static_cast<uint64_t>(file.at()) - section.entry.offset;
    section.hash = hash;
  }
};

Status add_sources(const Plan& plan, Sections& sections) {
  std::string text;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const std::string& source = plan.kernels[i].source;
    sections.frame.sources[i] = {static_cast<int64_t>(text.size()), static_cast<int64_t>(source.size())};
    text += source;
  }
  if (text.empty()) return success();
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size)) return error_of(ErrorKind::internal, "kernel sources cannot be packed", ZSTD_getErrorName(size));
  packed.resize(size);
  sections.frame.sources_bytes = static_cast<int64_t>(text.size());
  sections.add(layout::kSources, 0, "sources", bytes_of_text(packed));
  return success();
}

}  // namespace

std::array<std::byte, kPage> make_header(const Frame& frame, int64_t manifest_offset, std::span<const std::byte> manifest, const KeyPair* key) {
  std::array<std::byte, kPage> page{};
  const auto put = [&](int64_t at, uint64_t value, int bytes) { layout::store(page.data() + at, value, bytes); };
  std::memcpy(page.data(), layout::kMagic.data(), layout::kMagic.size());
  put(layout::kAtMajor, static_cast<uint64_t>(frame.major), 4);
  put(layout::kAtMinor, static_cast<uint64_t>(frame.minor), 4);
  put(layout::kAtFileBytes, static_cast<uint64_t>(manifest_offset) + manifest.size(), 8);
  put(layout::kAtManifestOffset, static_cast<uint64_t>(manifest_offset), 8);
  put(layout::kAtManifestBytes, manifest.size(), 8);
  put(layout::kAtTableOffset, layout::kTable, 8);
  put(layout::kAtSectionCount, frame.sections.size(), 4);
  put(layout::kAtHeaderBytes, kPage, 4);
  const layout::Hash hash = layout::hash_bytes(manifest);
  std::memcpy(page.data() + layout::kAtManifestHash, hash.data(), hash.size());
  if (key) {
    put(layout::kAtSigned, 1, 4);
    const auto message = layout::signed_message(hash);
    std::array<unsigned char, 64> signature{};
    crypto_sign_ed25519_detached(signature.data(), nullptr, message.data(), message.size(), key->secret_key.data());
    std::memcpy(page.data() + layout::kAtPublicKey, key->public_key.data(), key->public_key.size());
    std::memcpy(page.data() + layout::kAtSignature, signature.data(), signature.size());
  }
  for (size_t i = 0; i < frame.sections.size(); ++i) {
    const Entry& entry = frame.sections[i].entry;
    const int64_t at = layout::kTable + static_cast<int64_t>(i) * layout::kTableEntry;
    put(at, entry.kind, 4);
    put(at + 4, entry.flags, 4);
    put(at + 8, entry.offset, 8);
    put(at + 16, entry.bytes, 8);
  }
  return page;
}

Status write(const Plan& plan, const std::string& path, const WriteOptions& options) {
  if (sodium_init() < 0) return error_of(ErrorKind::internal, "the cryptographic library does not start", "the system has no source of randomness");
  const std::string& side = options.constants_file;
  if (side.find('/') != std::string::npos || (!side.empty() && side[0] == '.'))
    return user_error("the file for constants must be a plain name", "'" + side + "' is not", "it is placed beside the bundle");
  const size_t slash = path.rfind('/');
  const std::string side_path = slash == std::string::npos ? side : path.substr(0, slash + 1) + side;
  if (!side.empty() && side_path == path) return user_error("the file for constants is the bundle itself", side, "choose another name");
  NewFile file(path);
  Frame frame;
  frame.major = kFormatMajor;
  frame.minor = kFormatMinor;
  frame.binaries.resize(plan.kernels.size());
  frame.sources.resize(plan.kernels.size());
  Sections sections{file, frame};
  std::array<std::byte, kPage> blank{};
  file.append(blank);

  const ConstantPlan constants = place_constants(plan.constants);
  frame.constants = constants.ranges;
  frame.constants_bytes = constants.bytes;
  if (constants.bytes > 0) {
    std::vector<layout::Hash> hashes;
    const auto as_bytes = [&] { return std::span(reinterpret_cast<const std::byte*>(hashes.data()), hashes.size() * sizeof(layout::Hash)); };
    if (side.empty()) {
      sections.begin(layout::kConstants, layout::kRequired, "constants");
      hashes = write_constants(plan.constants, constants, file);
      sections.end(layout::hash_bytes(as_bytes()));
    } else {
      NewFile side_file(side_path);
      hashes = write_constants(plan.constants, constants, side_file);
      RTX_CHECK(side_file.commit());
      frame.side_file = side;
    }
    sections.add(layout::kChunkHashes, layout::kRequired, "chunk hashes", as_bytes());
  }

  std::vector<std::byte> binaries;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const auto& binary = plan.kernels[i].binary;
    binaries.resize((binaries.size() + 63) / 64 * 64);
    frame.binaries[i] = {static_cast<int64_t>(binaries.size()), static_cast<int64_t>(binary.size())};
    binaries.insert(binaries.end(), binary.begin(), binary.end());
  }
  if (!binaries.empty()) sections.add(layout::kBinaries, layout::kRequired, "binaries", binaries);
  if (options.sources) RTX_CHECK(add_sources(plan, sections));
  if (!plan.sbom.empty()) sections.add(layout::kSbom, 0, "sbom", bytes_of_text(plan.sbom));

  frame.sections_end = file.at();
  const int64_t manifest_offset = file.next_page();
  const std::vector<std::byte> manifest = encode_manifest(plan, frame);
  file.append(manifest);
  file.put(make_header(frame, manifest_offset, manifest, options.key), 0);
  return file.commit();
}

}  // namespace rtx::bundle
