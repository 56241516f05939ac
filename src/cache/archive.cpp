// Layout: "rtx-cache 1\n", BLAKE2b-256 (hex) of the rest and "\n", then a CBOR array of objects. CBOR keeps binaries as bytes.
#include "cache/archive.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"
#include "cache/entry.h"

namespace rtx::cache {

namespace {

constexpr std::string_view kMagic = "rtx-cache 1\n";

// Lets nothing through that is nested deeper than an archive is, for a parser that recurses, or that says it has more items than bytes.
class Shape final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Shape(size_t bytes) : bytes_(bytes) {}
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(size_t items) override { return open(items); }
  bool start_array(size_t items) override { return open(items); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  bool open(size_t items) { return ++depth_ <= 4 && (items == SIZE_MAX || items <= bytes_); }
  bool close() { return --depth_, true; }
  size_t bytes_;
  int depth_ = 0;
};

}  // namespace

Status write_archive(const std::string& path, const std::vector<std::pair<std::string, Entry>>& entries) {
  using nlohmann::json;
  json array = json::array();
  for (const auto& [digest, entry] : entries) {
    std::vector<uint8_t> binary(entry.binary.size());
    if (!binary.empty()) std::memcpy(binary.data(), entry.binary.data(), binary.size());
    array.push_back({{"record", record_to_json(entry.record)}, {"source", entry.source}, {"log", entry.log}, {"binary", json::binary(std::move(binary))}});
  }
  const std::vector<uint8_t> body = json::to_cbor(array);
  const std::string_view bytes(reinterpret_cast<const char*>(body.data()), body.size());
  return write_file_atomic(path, std::string(kMagic) + blake2b_hex(bytes) + "\n" + std::string(bytes));
}

Result<std::vector<std::pair<std::string, Entry>>> read_archive(const std::string& path) {
  using nlohmann::json;
  RTX_TRY(const std::string text, read_file(path));
  const auto damaged = [&](std::string why) { return user_error("cannot import " + path, std::move(why), "export the cache again"); };
  const size_t header = kMagic.size() + 64 + 1;
  if (text.size() < header || text.compare(0, kMagic.size(), kMagic) != 0) return damaged("it is not a file that `rtx cache export` wrote");
  const std::string_view body = std::string_view(text).substr(header);
  if (text.compare(kMagic.size(), 64, blake2b_hex(body)) != 0) return damaged("its content does not match its checksum");
  Shape shape(body.size());
  const json array = json::sax_parse(body.begin(), body.end(), &shape, json::input_format_t::cbor) ? json::from_cbor(body.begin(), body.end(), true, false) : json();
  if (!array.is_array()) return damaged("its content is not a list of entries");
  std::vector<std::pair<std::string, Entry>> out;
  for (const auto& item : array) {
    const bool complete = item.is_object() && item.contains("record") && item["record"].is_string() && item.contains("source") && item["source"].is_string() &&
                          item.contains("log") && item["log"].is_string() && item.contains("binary") && item["binary"].is_binary();
    auto record = complete ? record_from_json(item["record"].get<std::string>()) : std::nullopt;
    if (!record || !Key::parse(record->key_text)) return damaged("one of its entries is not an entry");
    Entry entry;
    entry.record = *std::move(record);
    entry.source = item["source"].get<std::string>();
    entry.log = item["log"].get<std::string>();
    const auto& binary = item["binary"].get_binary();
    entry.binary.resize(binary.size());
    if (!binary.empty()) std::memcpy(entry.binary.data(), binary.data(), binary.size());
    std::string digest = blake2b_hex(entry.record.key_text, 16);
    out.emplace_back(std::move(digest), std::move(entry));
  }
  return out;
}

}  // namespace rtx::cache
