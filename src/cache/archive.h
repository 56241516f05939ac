#pragma once
// The file of `rtx cache export`: entries with their checksums, for another machine of the same kind.
#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"

namespace rtx::cache {

Status write_archive(const std::string& path, const std::vector<std::pair<std::string, Entry>>& entries);
// Everything is checked before anything is returned: a damaged archive imports nothing.
Result<std::vector<std::pair<std::string, Entry>>> read_archive(const std::string& path);

}  // namespace rtx::cache
