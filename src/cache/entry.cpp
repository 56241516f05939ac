#include "cache/entry.h"

#include <sys/stat.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/files.h"
#include "base/hash.h"

namespace rtx::cache {

namespace {

using nlohmann::json;

constexpr const char* kFiles[] = {"key.txt", "record.json", "kernel.cpp", "kernel.bin", "log.txt"};

// A record or binary larger than this is no work of ours.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

}  // namespace

std::string record_to_json(const Record& record) {
  json out;
  out["key"] = record.key_text;
  out["parameters"] = record.parameters;
  out["numerics_class"] = record.numerics_class;
  out["measured_ms"] = record.measured_ms;
  out["tuning"] = record.tuning;
  out["timings_ms"] = record.timings;
  out["rejected"] = record.rejected;
  out["verdict"] = record.verdict;
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<Record> record_from_json(const std::string& text) {
  const json in = json::parse(text, nullptr, false);
  if (!in.is_object()) return std::nullopt;
  Record record;
  const auto take_text = [&](const char* name, std::string* out) {
    const auto found = in.find(name);
    if (found == in.end() || !found->is_string()) return false;
    *out = found->get<std::string>();
    return true;
  };
  if (!take_text("key", &record.key_text) || !take_text("parameters", &record.parameters) ||
      !take_text("numerics_class", &record.numerics_class) || !take_text("tuning", &record.tuning) || !take_text("verdict", &record.verdict))
    return std::nullopt;
  const auto measured = in.find("measured_ms");
  if (measured == in.end() || !measured->is_number()) return std::nullopt;
  record.measured_ms = measured->get<double>();
  if (const auto timings = in.find("timings_ms"); timings != in.end() && timings->is_object())
    for (const auto& [name, value] : timings->items())
      if (value.is_number()) record.timings[name] = value.get<double>();
  if (const auto rejected = in.find("rejected"); rejected != in.end() && rejected->is_object())
    for (const auto& [name, value] : rejected->items())
      if (value.is_string()) record.rejected[name] = value.get<std::string>();
  return record;
}

Status write_entry(const std::string& directory, const Entry& entry) {
  const std::string_view binary(reinterpret_cast<const char*>(entry.binary.data()), entry.binary.size());
  const std::string record = record_to_json(entry.record);
  const std::string_view contents[] = {entry.record.key_text, record, entry.source, binary, entry.log};
  std::string checksum;
  for (size_t i = 0; i < std::size(kFiles); ++i) {
    RTX_CHECK(write_file_atomic(directory + "/" + kFiles[i], contents[i], 0600));
    checksum += blake2b_hex(contents[i]) + "  " + kFiles[i] + "\n";
  }
  return write_file_atomic(directory + "/checksum.txt", checksum, 0600);
}

ReadOutcome read_entry(const std::string& directory, const std::string* key_text) {
  ReadOutcome out;
  const auto damaged = [&](std::string why) {
    out.entry.reset();
    out.damage = std::move(why);
    return out;
  };
  auto checksum = read_plain_file(directory + "/checksum.txt", kMaxFileBytes);
  if (!checksum.ok()) return damaged("checksum.txt: " + checksum.error().why);
  std::string contents[std::size(kFiles)];
  std::string wanted;
  for (size_t i = 0; i < std::size(kFiles); ++i) {
    const std::string path = directory + "/" + kFiles[i];
    auto text = read_plain_file(path, kMaxFileBytes);
    if (!text.ok()) return damaged(std::string(kFiles[i]) + ": " + text.error().why);
    contents[i] = *std::move(text);
    const std::string line = blake2b_hex(contents[i]) + "  " + kFiles[i] + "\n";
    if (checksum->find(line) == std::string::npos) return damaged(std::string(kFiles[i]) + " does not match its checksum");
    wanted += line;
  }
  if (*checksum != wanted) return damaged("checksum.txt holds something else");
  if (key_text && contents[0] != *key_text) return damaged("key.txt names another kernel");
  auto record = record_from_json(contents[1]);
  if (!record || record->key_text != contents[0]) return damaged("record.json is not a record of this key");
  Entry entry;
  entry.record = *std::move(record);
  entry.source = std::move(contents[2]);
  entry.binary.resize(contents[3].size());
  if (!contents[3].empty()) std::memcpy(entry.binary.data(), contents[3].data(), contents[3].size());
  entry.log = std::move(contents[4]);
  out.entry = std::move(entry);
  return out;
}

int64_t entry_bytes(const std::string& directory) {
  int64_t total = 0;
  for (const auto& name : list_directory(directory)) {
    struct stat info {};
    if (lstat((directory + "/" + name).c_str(), &info) == 0) total += info.st_size;
  }
  return total;
}

}  // namespace rtx::cache
