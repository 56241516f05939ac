// What a damaged, cut, forged or hostile file gets: kind bundle and a sentence, whatever the bytes.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "bundle/layout.h"
#include "bundle/manifest.h"
#include "bundle/manifest_generated.h"
#include "bundle/reader.h"
#include "bundle/sample_testing.h"

namespace rtx::bundle {

namespace {

using sample::Directory;
using Bytes = std::vector<std::byte>;

// A signed sample with constants of two and a half chunks.
Plan damaged_sample_plan() {
  Plan plan = sample::plan();
  plan.constants[0] = sample::constant("weight", {640, 1024}, 1);
  return plan;
}

Bytes written(const Plan& plan, const KeyPair* key, const WriteOptions& base = {}) {
  Directory directory;
  WriteOptions options = base;
  options.key = key;
  const std::string path = directory / "a.rtxgc";
  EXPECT_TRUE(write(plan, path, options).ok());
  return sample::bytes_of(path);
}

// From a page-aligned copy, as a mapping would be.
Result<Opened> open_copy(const Bytes& bytes, const ReadOptions& options) {
  auto* data = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes.size() + 4096) / 4096 * 4096));
  std::copy(bytes.begin(), bytes.end(), data);
  return open_bytes({data, bytes.size()}, std::shared_ptr<const void>(data, [](const void* p) { std::free(const_cast<void*>(p)); }), "", options, false);
}

std::string sentence(const Result<Opened>& opened) { return opened.ok() ? "it opened" : opened.error().text(); }

void expect_refused(const Result<Opened>& opened, const std::string& why, const std::string& part = {}) {
  ASSERT_FALSE(opened.ok()) << why;
  EXPECT_EQ(opened.error().kind, ErrorKind::bundle) << why;
  EXPECT_FALSE(opened.error().what.empty());
  EXPECT_FALSE(opened.error().why.empty());
  EXPECT_NE(sentence(opened).find(part), std::string::npos) << why << "\n" << sentence(opened);
}

struct File {
  KeyPair key = sample::key(1);
  ReadOptions options = sample::trusting(key);
  Bytes bytes;
  explicit File(const Plan& plan = sample::plan()) : bytes(written(plan, &key)) {}

  uint64_t field(int64_t at, int size) const { return layout::load(bytes.data() + at, size); }
  layout::Entry section(uint32_t kind) const {
    for (uint64_t i = 0; i < field(layout::kAtSectionCount, 4); ++i) {
      const int64_t at = layout::kTable + static_cast<int64_t>(i) * layout::kTableEntry;
      if (field(at, 4) == kind) return {kind, 0, field(at + 8, 8), field(at + 16, 8)};
    }
    return {};
  }
};

TEST(Damage, a_file_cut_anywhere_is_refused) {
  const File file;
  ASSERT_TRUE(open_copy(file.bytes, file.options).ok());
  for (size_t length = 0; length < file.bytes.size(); length += length < 300 || length + 300 > file.bytes.size() ? 1 : 509) {
    const Bytes cut(file.bytes.begin(), file.bytes.begin() + static_cast<ptrdiff_t>(length));
    expect_refused(open_copy(cut, file.options), "cut to " + std::to_string(length), length < 8 ? "not a bundle" : "the file is cut off");
  }
}

TEST(Damage, a_byte_more_is_refused_and_counted) {
  File file;
  file.bytes.push_back(std::byte{0});
  expect_refused(open_copy(file.bytes, file.options), "one byte appended", "the file is 1 bytes longer");
  file.bytes.resize(file.bytes.size() + 4095);
  expect_refused(open_copy(file.bytes, file.options), "a page appended", "4096 bytes longer");
}

TEST(Damage, a_flipped_bit_in_any_byte_is_found) {
  File file;
  const int64_t manifest = static_cast<int64_t>(file.field(layout::kAtManifestOffset, 8));
  for (size_t i = 0; i < file.bytes.size(); i += i < 600 ? 1 : static_cast<int64_t>(i) < manifest ? 3 : 11) {
    file.bytes[i] ^= std::byte{1} << (i % 8);
    expect_refused(open_copy(file.bytes, file.options), "a bit of byte " + std::to_string(i));
    file.bytes[i] ^= std::byte{1} << (i % 8);
  }
  EXPECT_TRUE(open_copy(file.bytes, file.options).ok());
}

TEST(Damage, a_flipped_bit_is_found_in_an_unsigned_file_too) {
  Bytes bytes = written(sample::plan(), nullptr);
  ReadOptions options;
  options.allow_unsigned = true;
  ASSERT_TRUE(open_copy(bytes, options).ok());
  for (size_t i = 0; i < bytes.size(); i += i < 400 ? 1 : 23) {
    bytes[i] ^= std::byte{128} >> (i % 8);
    expect_refused(open_copy(bytes, options), "a bit of byte " + std::to_string(i));
    bytes[i] ^= std::byte{128} >> (i % 8);
  }
}

TEST(Damage, each_section_names_itself_when_a_bit_of_it_is_flipped) {
  const File file(damaged_sample_plan());
  struct Case {
    uint32_t kind;
    const char* message;
  };
  for (const auto& [kind, message] : {Case{layout::kConstants, "of its constants"}, Case{layout::kChunkHashes, "'chunk hashes'"}, Case{layout::kBinaries, "'binaries'"},
                                      Case{layout::kSources, "'sources'"}, Case{layout::kSbom, "'sbom'"}}) {
    const layout::Entry entry = file.section(kind);
    ASSERT_GT(entry.bytes, 0u);
    for (const uint64_t at : {entry.offset, entry.offset + entry.bytes / 2, entry.offset + entry.bytes - 1}) {
      Bytes bytes = file.bytes;
      bytes[at] ^= std::byte{4};
      expect_refused(open_copy(bytes, file.options), message, message);
    }
  }
}

TEST(Damage, a_removed_signature_makes_an_unsigned_file) {
  File file;
  std::memset(file.bytes.data() + layout::kAtSigned, 0, 4);
  expect_refused(open_copy(file.bytes, file.options), "only the flag is cleared", "not zero");
  std::memset(file.bytes.data() + layout::kAtPublicKey, 0, 96);
  expect_refused(open_copy(file.bytes, file.options), "all of it is cleared", "is not signed");
}

TEST(Damage, a_wrong_signature_is_refused_even_where_none_is_needed) {
  File file;
  file.options.allow_unsigned = true;
  file.bytes[layout::kAtSignature + 5] ^= std::byte{1};
  expect_refused(open_copy(file.bytes, file.options), "a changed signature", "signature of this bundle is wrong");
  File other;
  const KeyPair stranger = sample::key(2);
  std::memcpy(other.bytes.data() + layout::kAtPublicKey, stranger.public_key.data(), 32);
  other.options.allow_unsigned = true;
  expect_refused(open_copy(other.bytes, other.options), "another key's name on it", "signature of this bundle is wrong");
}

TEST(Damage, a_strangers_signature_is_refused_with_the_key_and_the_way_to_trust_it) {
  const KeyPair stranger = sample::key(2);
  const Bytes bytes = written(sample::plan(), &stranger);
  expect_refused(open_copy(bytes, sample::trusting(sample::key(1))), "signed by a stranger", "rtx key trust NAME " + layout::hex(stranger.public_key));
  expect_refused(open_copy(bytes, {}), "nobody is trusted", "not trusted here");
  ReadOptions lenient;
  lenient.allow_unsigned = true;
  const auto opened = open_copy(bytes, lenient);
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->signature, SignatureState::unknown_signer);
}

TEST(Damage, other_files_are_no_bundles) {
  for (const char* text : {"", "\x7f""ELF", "PK\3\4", "RTXGC", "a text file of more than eight bytes"}) {
    const std::string content(text);
    expect_refused(open_copy(sample::binary(content), {}), content, "not a bundle");
  }
}

// ---- files of other versions, made by editing the frame and signing again

struct Forge {
  KeyPair key = sample::key(1);
  Frame frame;
  Plan plan = sample::plan();
  Bytes body;  // header page and sections

  Forge() {
    const Bytes file = written(plan, &key);
    const auto offset = layout::load(file.data() + layout::kAtManifestOffset, 8);
    auto decoded = decode_manifest(std::span(file).subspan(offset), 1 << 24);
    EXPECT_TRUE(decoded.ok());
    frame = decoded->frame;
    plan = decoded->plan;
    body.assign(file.begin(), file.begin() + static_cast<ptrdiff_t>(offset));
  }
  void add_section(uint32_t kind, uint32_t flags, const char* name) {
    SectionInfo section;
    section.entry = {kind, flags, body.size(), 5};
    section.name = name;
    const Bytes content = sample::binary("extra");
    section.hash = layout::hash_bytes(content);
    body.insert(body.end(), content.begin(), content.end());
    frame.sections.push_back(section);
    frame.sections_end = static_cast<int64_t>(body.size());
    body.resize(static_cast<size_t>(layout::page_align(frame.sections_end)));
  }
  Bytes sealed(std::span<const std::byte> manifest) const {
    Bytes file = body;
    const auto header = make_header(frame, static_cast<int64_t>(body.size()), manifest, &key);
    std::copy(header.begin(), header.end(), file.begin());
    file.insert(file.end(), manifest.begin(), manifest.end());
    return file;
  }
  Result<Opened> open() const { return open_copy(sealed(encode_manifest(plan, frame)), sample::trusting(key)); }
};

TEST(Versions, a_newer_minor_version_with_an_unknown_optional_section_opens) {
  Forge forge;
  forge.frame.minor = 7;
  forge.add_section(99, 0, "a later idea");
  const auto opened = forge.open();
  ASSERT_TRUE(opened.ok()) << sentence(opened);
  EXPECT_EQ(opened->format_minor, 7);
}

TEST(Versions, an_unknown_required_section_is_refused_by_name) {
  Forge forge;
  forge.add_section(99, layout::kRequired, "a later need");
  expect_refused(forge.open(), "required", "'a later need'");
}

TEST(Versions, a_newer_major_version_is_refused_with_both_versions) {
  Forge forge;
  forge.frame.major = 2;
  expect_refused(forge.open(), "newer", "its format is 2.1, the newest known here is 1.1");
}

TEST(Versions, header_and_manifest_must_agree) {
  Forge forge;
  const auto manifest = encode_manifest(forge.plan, forge.frame);
  forge.frame.minor = 3;
  expect_refused(open_copy(forge.sealed(manifest), sample::trusting(forge.key)), "minor", "different format versions");
  forge.frame.minor = kFormatMinor;
  forge.frame.sections.back().entry.bytes -= 1;
  expect_refused(open_copy(forge.sealed(manifest), sample::trusting(forge.key)), "table", "list different sections");
}

TEST(Versions, an_expression_over_symbols_asks_for_a_newer_runtime) {
  flatbuffers::FlatBufferBuilder b;
  const auto size = format::CreateSize(b, 4, b.CreateString("(batch * 4)"));
  const auto identity = format::CreateIdentity(b);
  format::ManifestBuilder m(b);
  m.add_format_major(1);
  m.add_chunk_bytes(layout::kChunk);
  m.add_identity(identity);
  m.add_arena(size);
  b.Finish(m.Finish(), format::ManifestIdentifier());
  const auto decoded = decode_manifest({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()}, 1 << 20);
  ASSERT_FALSE(decoded.ok());
  EXPECT_NE(decoded.error().text().find("'(batch * 4)'"), std::string::npos) << decoded.error().text();
}

// ---- hostile manifests with a good signature

struct Hostile {
  const char* what;
  void (*edit)(Plan& plan);
  const char* message;
};

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

const Hostile kHostile[] = {
    {"a negative extent", [](Plan& p) { p.inputs[0].extents[0] = -4; }, "negative"},
    {"extents whose product overflows", [](Plan& p) { p.inputs[0].extents = {int64_t{1} << 40, int64_t{1} << 40}; }, "larger than any memory"},
    {"an extent beyond all memory", [](Plan& p) { p.inputs[0].extents[0] = kHuge; }, "out of range"},
    {"strides that overflow", [](Plan& p) { p.inputs[0].strides = {int64_t{1} << 46, int64_t{1} << 46}; }, "larger than any memory"},
    {"a negative stride", [](Plan& p) { p.inputs[0].strides = {-8, 1}; }, "negative"},
    {"a stride too few", [](Plan& p) { p.inputs[0].strides = {8}; }, "one stride for each extent"},
    {"a negative offset", [](Plan& p) { p.inputs[0].offset = -1; }, "negative"},
    {"sixty-five dimensions", [](Plan& p) { p.inputs[0].extents.assign(65, 1); }, "65 of them"},
    {"two inputs of one name", [](Plan& p) { p.inputs[1].name = "x"; }, "two tensors are called 'x'"},
    {"a name without end", [](Plan& p) { p.inputs[0].name.assign(10000, 'x'); }, "longer than"},
    {"an arena beyond all memory", [](Plan& p) { p.arena_bytes = kHuge; }, "out of range"},
    {"a negative arena", [](Plan& p) { p.arena_bytes = -1; }, "negative"},
    {"prepared buffers beyond all memory", [](Plan& p) { p.prepared_bytes.assign(4, int64_t{1} << 46); }, "larger than any memory"},
    {"a slot behind the arena", [](Plan& p) { p.steps[0].arguments[2] = {SlotKind::arena, 250, 7}; }, "reaches outside"},
    {"a slot before the arena", [](Plan& p) { p.steps[0].arguments[2] = {SlotKind::arena, -8, 0}; }, "negative"},
    {"a slot whose place overflows", [](Plan& p) { p.steps[0].arguments[2] = {SlotKind::arena, int64_t{1} << 46, int64_t{1} << 46}; }, "reaches outside"},
    {"an input that is not there", [](Plan& p) { p.steps[0].arguments[0].index = 2; }, "buffer that is not there"},
    {"an output that is not there", [](Plan& p) { p.steps[1].arguments[3].index = 77; }, "buffer that is not there"},
    {"a constant that is not there", [](Plan& p) { p.steps[1].arguments[1].index = 4; }, "buffer that is not there"},
    {"an offset outside a constant", [](Plan& p) { p.steps[1].arguments[1].offset = 33; }, "reaches outside"},
    {"a prepared buffer that is not there", [](Plan& p) { p.prepare[0].arguments[1].index = 1; }, "buffer that is not there"},
    {"an unknown kind of buffer", [](Plan& p) { p.steps[0].arguments[0].kind = static_cast<SlotKind>(6); }, "buffer kind 6"},
    {"preparing from an input", [](Plan& p) { p.prepare[0].arguments[0] = {SlotKind::input, 0, 0}; }, "what only a run has"},
    {"a kernel that is not there", [](Plan& p) { p.steps[0].kernel = 2; }, "kernel that is not there"},
    {"a negative kernel", [](Plan& p) { p.steps[0].kernel = -1; }, "kernel that is not there"},
    {"a step without an entry", [](Plan& p) { p.steps[0].entry.clear(); }, "names no entry"},
    {"a grid that overflows", [](Plan& p) { p.steps[0].grid = {int64_t{1} << 40, int64_t{1} << 40, 1}; }, "too many elements"},
    {"a negative grid", [](Plan& p) { p.steps[0].grid.x = -1; }, "negative"},
    {"scratch beyond all memory", [](Plan& p) { p.steps[0].scratch_bytes = int64_t{1} << 40; }, "out of range"},
    {"a view of an argument that is not there", [](Plan& p) { p.steps[0].views = {sample::view(3)}; }, "of an argument that is not there"},
    {"a view of an argument before the first", [](Plan& p) { p.steps[0].views = {sample::view(0)}, p.steps[0].views[0].argument = -1; }, "of an argument that is not there"},
    {"a view larger than its argument", [](Plan& p) { p.steps[0].views = {sample::view(0)}, p.steps[0].views[0].extents[1] = 5; }, "reaches outside"},
    {"a view behind its argument", [](Plan& p) { p.steps[0].views = {sample::view(0)}, p.steps[0].views[0].byte_offset = 16; }, "reaches outside"},
    {"a view that no device takes", [](Plan& p) { p.steps[0].views = {sample::view(0)}, p.steps[0].views[0].strides_bytes = {40}; }, "no multiple of 16"},
    {"a view without extents", [](Plan& p) { p.steps[0].views = {sample::view(0)}, p.steps[0].views[0].extents.clear(); }, "0 dimensions"},
    {"a copy out of its buffer", [](Plan& p) { p.copies[0].bytes = 129; }, "reaches outside"},
    {"a copy into a constant", [](Plan& p) { p.copies[0].to = {SlotKind::constant, 0, 0}; }, "may only be read"},
    {"a copy into an input", [](Plan& p) { p.copies[0].to = {SlotKind::input, 0, 0}; }, "may only be read"},
    {"a state of an input that is not there", [](Plan& p) { p.states[0].input = 9; }, "tensor that is not there"},
    {"a state smaller than its input", [](Plan& p) { p.states[0].info.extents = {1, 2}; }, "smaller than its input"},
    {"a specialised value with too few bytes", [](Plan& p) { p.specialized[0].bytes.resize(15); }, "specialised value"},
};

TEST(Hostile, a_signed_manifest_that_lies_is_refused_with_what_is_wrong) {
  for (const auto& c : kHostile) {
    Forge forge;
    c.edit(forge.plan);
    expect_refused(forge.open(), c.what, c.message);
  }
}

TEST(Hostile, ranges_outside_their_section_are_refused) {
  struct Case {
    const char* what;
    void (*edit)(Frame& frame);
    const char* message;
  };
  const Case cases[] = {
      {"binary", [](Frame& f) { f.binaries[1].bytes += 1; }, "a kernel's binary reaches outside"},
      {"binary offset", [](Frame& f) { f.binaries[0].offset = -1; }, "a kernel's binary is out of range"},
      {"constant", [](Frame& f) { f.constants[0].offset = f.constants_bytes; }, "a constant reaches outside"},
      {"odd constant", [](Frame& f) { f.constants[1].offset += 1; f.constants[1].bytes -= 1; }, "fewer bytes than its extents need"},
      {"source", [](Frame& f) { f.sources[0].bytes = 1 << 20; }, "a kernel's source reaches outside"},
      {"constants grow", [](Frame& f) { f.constants_bytes += 1 << 20; }, "one hash for each chunk"},
      {"constants grow a little", [](Frame& f) { f.constants_bytes += 1; }, "another size"},
      {"side file elsewhere", [](Frame& f) { f.side_file = "../../etc/passwd"; }, "another size"},
      {"two of a kind", [](Frame& f) { f.sections[3].entry.kind = layout::kChunkHashes; f.sources = {{}, {}}; }, "two sections of one kind"},
      {"end", [](Frame& f) { f.sections_end += 1; }, "its manifest is not where it must be"},
  };
  for (const auto& c : cases) {
    Forge forge;
    c.edit(forge.frame);
    expect_refused(forge.open(), c.what, c.message);
  }
}

TEST(Hostile, a_side_file_must_be_a_plain_name) {
  Directory directory;
  const KeyPair key = sample::key(1);
  WriteOptions options;
  options.constants_file = "weights.bin";
  Bytes bytes = written(sample::plan(), &key, options);
  const auto offset = layout::load(bytes.data() + layout::kAtManifestOffset, 8);
  auto decoded = decode_manifest(std::span(bytes).subspan(offset), 1 << 24);
  ASSERT_TRUE(decoded.ok());
  for (const char* name : {"../weights.bin", "/etc/passwd", ".", "a/b"}) {
    decoded->frame.side_file = name;
    const auto manifest = encode_manifest(decoded->plan, decoded->frame);
    Bytes forged(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(offset));
    const auto header = make_header(decoded->frame, static_cast<int64_t>(offset), manifest, &key);
    std::copy(header.begin(), header.end(), forged.begin());
    forged.insert(forged.end(), manifest.begin(), manifest.end());
    sample::write_bytes(directory / "a.rtxgc", forged);
    expect_refused(open(directory / "a.rtxgc", sample::trusting(key)), name, "not a plain name");
  }
}

// A megabyte of text that a thousand kernels point at is a gigabyte of strings.
TEST(Hostile, shared_text_cannot_ask_for_more_memory_than_the_file_has) {
  flatbuffers::FlatBufferBuilder b;
  const auto text = b.CreateString(std::string(1 << 20, 'x'));
  format::KernelBuilder k(b);
  k.add_region(text);
  const auto kernel = k.Finish();
  const auto kernels = b.CreateVector(std::vector<flatbuffers::Offset<format::Kernel>>(1000, kernel));
  const auto identity = format::CreateIdentity(b);
  format::ManifestBuilder m(b);
  m.add_format_major(1);
  m.add_chunk_bytes(layout::kChunk);
  m.add_sections_end(4096);
  m.add_identity(identity);
  m.add_kernels(kernels);
  b.Finish(m.Finish(), format::ManifestIdentifier());
  Forge forge;
  forge.frame.sections.clear();
  forge.body.resize(4096);
  const Bytes file = forge.sealed({reinterpret_cast<const std::byte*>(b.GetBufferPointer()), b.GetSize()});
  expect_refused(open_copy(file, sample::trusting(forge.key)), "amplified", "describes more than the file can hold");
}

TEST(Hostile, packed_sources_that_unpack_to_another_size_are_refused) {
  Forge forge;
  forge.frame.sources_bytes += 1;
  ReadOptions options = sample::trusting(forge.key);
  options.sources = true;
  expect_refused(open_copy(forge.sealed(encode_manifest(forge.plan, forge.frame)), options), "sources", "another size");
  EXPECT_TRUE(forge.open().ok()) << "they are not unpacked to run";
}

}  // namespace

}  // namespace rtx::bundle
