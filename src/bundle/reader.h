#pragma once
// Reading a bundle from bytes; open() maps the file and calls this. Not for other layers: tests and the fuzzer use it.
#include <memory>
#include <span>
#include <string>

#include "bundle/bundle.h"

namespace rtx::bundle {

// `owner` keeps `file` alive. Side files are looked for in `directory`; an empty one means that there are none (the fuzzer).
Result<Opened> open_bytes(std::span<const std::byte> file, std::shared_ptr<const void> owner, const std::string& directory,
                          const ReadOptions& options, bool manifest_only);

}  // namespace rtx::bundle
