#pragma once
// The software bill of materials of a bundle: CycloneDX 1.6 JSON of what took part in making it.
#include <string>

#include "bundle/plan.h"

namespace rtx::tools {

std::string make_sbom(const bundle::Plan& plan);

}  // namespace rtx::tools
