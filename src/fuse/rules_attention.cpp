#include "fuse/match.h"
namespace rtx::fuse { std::vector<Rule> attention_rules() { return {}; } }
