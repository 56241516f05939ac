#include "fuse/match.h"
namespace rtx::fuse { std::vector<Rule> rotary_rules() { return {}; } }
