#pragma once
// One cache entry as files of a directory a person can open: key.txt, record.json, kernel.cpp, kernel.bin, log.txt and
// checksum.txt, which holds a BLAKE2b of each of the others and is written last.
#include <optional>
#include <string>

#include "cache/cache.h"

namespace rtx::cache {

std::string record_to_json(const Record& record);
std::optional<Record> record_from_json(const std::string& text);

// Writes all files into `directory`, which exists and is empty.
Status write_entry(const std::string& directory, const Entry& entry);

struct ReadOutcome {
  std::optional<Entry> entry;
  std::string damage;  // why there is no entry: "kernel.bin does not match its checksum"
};
// Reads and checks everything. `key_text` (optional): what key.txt must say.
ReadOutcome read_entry(const std::string& directory, const std::string* key_text);

int64_t entry_bytes(const std::string& directory);

}  // namespace rtx::cache
