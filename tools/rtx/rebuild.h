#pragma once
// The rebuild callback of rtx: recompiles a bundle's stored graph for the machine in front of it.
#include <functional>

#include "bundle/bundle.h"
#include "rtx/options.h"

namespace rtx::tools {

std::function<Result<bundle::Plan>(const bundle::Opened&, const bundle::Verdict&)> rebuild_callback(const Common& common, Console& console);

}  // namespace rtx::tools
