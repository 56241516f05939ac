// The layout, as ptxas 13.0 writes it (ELF64, little endian, machine 190). Section .nv.info holds records
//   u8 format, u8 attribute, u16 value or size, and for format 4 as many bytes of payload as the size says
// of which these matter, each with the payload {u32 symbol, u32 value}:
//   0x2f  registers of an entry     0x11  stack frame of a function     0x12  least stack of an entry, callees included
// .nv.info.<entry> has records about one: 0x05 {x, y, z} largest group, 0x4c (format 2, u8) hardware barriers.
// .nv.shared.<entry> is as long as its static shared memory, from sm_90 on with the driver's 1024 bytes in front.
#include "backend/cuda/cubin.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"

namespace rtx::backend::cuda {

namespace {

constexpr uint16_t kMachineCuda = 190;
constexpr size_t kHeader = 64, kSectionHeader = 64, kSymbol = 24;
constexpr uint32_t kTypeSymbols = 2, kTypeInfo = 0x70000000;

struct Section {
  std::string_view name;
  uint32_t type = 0, link = 0;
  uint64_t offset = 0, size = 0;
};

// Reads that end at the end: nothing behind it, no overflow.
class Bytes {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  size_t size() const { return bytes_.size(); }
  template <class T>
  bool read(uint64_t at, T& out) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) return false;
    std::memcpy(&out, bytes_.data() + at, sizeof(T));
    return true;
  }
  std::optional<Bytes> part(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || bytes_.size() - at < size) return std::nullopt;
    return Bytes(bytes_.subspan(at, size));
  }
  // Up to the NUL; nothing when there is none.
  std::optional<std::string_view> text(uint64_t at) const {
    if (at >= bytes_.size()) return std::nullopt;
    const char* begin = reinterpret_cast<const char*>(bytes_.data()) + at;
    const void* end = std::memchr(begin, 0, bytes_.size() - at);
    if (!end) return std::nullopt;
    return std::string_view(begin, static_cast<size_t>(static_cast<const char*>(end) - begin));
  }

 private:
  std::span<const std::byte> bytes_;
};

Error damaged(const std::string& why) { return error_of(ErrorKind::bundle, "not a CUDA binary that can be read", why); }

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<Cubin> read() {
    RTX_CHECK(read_header());
    RTX_CHECK(read_symbols());
    for (const Section& section : sections_)
      if (section.type == kTypeInfo && section.name == ".nv.info") RTX_CHECK(read_records(section, ""));
    for (const Section& section : sections_) {
      if (section.type == kTypeInfo && starts_with(section.name, ".nv.info.")) RTX_CHECK(read_records(section, std::string(section.name.substr(9))));
      if (starts_with(section.name, ".nv.shared.")) {
        const auto entry = entries_.find(section.name.substr(11));
        const uint64_t driver = out_.capability >= 90 ? 1024 : 0;
        if (entry != entries_.end()) entry->second.static_shared = static_cast<int64_t>(std::min<uint64_t>(section.size - std::min(section.size, driver), 1u << 30));
      }
    }
    for (auto& [name, entry] : entries_) {
      entry.entry = name;
      out_.entries.push_back(std::move(entry));
    }
    return std::move(out_);
  }

 private:
  Status read_header() {
    unsigned char identity[16] = {};
    uint16_t machine = 0, size = 0, count = 0, names = 0;
    uint32_t flags = 0;
    uint64_t table = 0;
    if (bytes_.size() < kHeader || !bytes_.read(0, identity) || std::memcmp(identity, "\x7f" "ELF\2\1", 6) != 0) return damaged("it is no 64-bit ELF file");
    if (!bytes_.read(18, machine) || machine != kMachineCuda) return damaged("it is an ELF file for machine " + std::to_string(machine) + ", not for CUDA (190)");
    if (!bytes_.read(40, table) || !bytes_.read(48, flags) || !bytes_.read(58, size) || !bytes_.read(60, count) || !bytes_.read(62, names)) return damaged("its header is cut off");
    // Binaries of CUDA 13 (ABI 8) say the arch in the second byte, older ones in the first.
    out_.capability = static_cast<int>((identity[8] >= 8 ? flags >> 8 : flags) & 0xff);
    if (size != kSectionHeader) return damaged("its section headers are " + std::to_string(size) + " bytes long, not 64");
    const auto headers = bytes_.part(table, uint64_t{count} * kSectionHeader);
    if (!headers || names >= count) return damaged("its section table is cut off");
    std::vector<uint32_t> name_at(count);
    sections_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      Section& section = sections_[i];
      const uint64_t at = i * kSectionHeader;
      (void)headers->read(at, name_at[i]), (void)headers->read(at + 4, section.type), (void)headers->read(at + 24, section.offset);
      (void)headers->read(at + 32, section.size), (void)headers->read(at + 40, section.link);
    }
    const auto texts = contents(sections_[names]);
    if (!texts) return damaged("its section names are cut off");
    for (size_t i = 0; i < count; ++i) {
      const auto name = texts->text(name_at[i]);
      if (!name) return damaged("a section name is cut off");
      sections_[i].name = *name;
    }
    return success();
  }

  Status read_symbols() {
    for (const Section& section : sections_) {
      if (section.type != kTypeSymbols) continue;
      const auto table = contents(section);
      const auto texts = section.link < sections_.size() ? contents(sections_[section.link]) : std::nullopt;
      if (!table || !texts) return damaged("its symbol table is cut off");
      for (uint64_t at = 0; at + kSymbol <= section.size; at += kSymbol) {
        uint32_t name = 0;
        (void)table->read(at, name);
        symbols_.push_back(texts->text(name).value_or(std::string_view()));
      }
      return success();
    }
    return damaged("it has no symbol table");
  }

  // `entry` empty: the records about all.
  Status read_records(const Section& section, const std::string& entry) {
    const auto records = contents(section);
    if (!records) return damaged("section " + std::string(section.name) + " is cut off");
    for (uint64_t at = 0; at < records->size();) {
      uint8_t format = 0, attribute = 0;
      uint16_t value = 0;
      if (!records->read(at, format) || !records->read(at + 1, attribute) || !records->read(at + 2, value)) return damaged("a record of " + std::string(section.name) + " is cut off");
      at += 4;
      if (format != 4) {
        if (!entry.empty() && attribute == 0x4c) entries_[entry].barriers = value & 0xff;
        continue;
      }
      const auto payload = records->part(at, value);
      if (!payload) return damaged("a record of " + std::string(section.name) + " is cut off");
      at += value;
      if (entry.empty()) about_all(attribute, *payload);
      else if (uint32_t x = 0, y = 0, z = 0; attribute == 0x05 && payload->read(0, x) && payload->read(4, y) && payload->read(8, z) && x <= 4096 && y <= 4096 && z <= 4096)
        entries_[entry].max_threads = static_cast<int>(std::min<uint64_t>(uint64_t{x} * y * z, 1u << 20));
    }
    return success();
  }

  void about_all(uint8_t attribute, const Bytes& payload) {
    uint32_t symbol = 0, value = 0;
    if (!payload.read(0, symbol) || !payload.read(4, value) || symbol >= symbols_.size() || symbols_[symbol].empty()) return;
    const std::string name(symbols_[symbol]);
    if (attribute == 0x2f) entries_[name].registers = static_cast<int>(std::min<uint32_t>(value, 1024));
    if (attribute == 0x11 || attribute == 0x12) {
      // Frames of functions that an entry calls are part of the entry's least stack.
      if (attribute == 0x11 && entries_.find(name) == entries_.end()) return;
      auto& stack = entries_[name].stack;
      stack = std::max(stack, static_cast<int64_t>(value));
    }
  }

  std::optional<Bytes> contents(const Section& section) const {
    constexpr uint32_t kNoBits = 8;
    if (section.type == kNoBits) return std::nullopt;
    return bytes_.part(section.offset, section.size);
  }

  Bytes bytes_;
  Cubin out_;
  std::vector<Section> sections_;
  std::vector<std::string_view> symbols_;
  std::map<std::string, KernelResources, std::less<>> entries_;
};

}  // namespace

Result<Cubin> read_cubin(std::span<const std::byte> bytes) { return Reader(bytes).read(); }

}  // namespace rtx::backend::cuda
