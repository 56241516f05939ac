#include "base/result.h"

namespace rtx {

std::string Error::text() const {
  std::string out = "error: " + what;
  std::string indent = "\n  ";
  for (const auto& place : where) {
    out += indent + place;
  }
  if (!why.empty()) out += indent + why;
  if (!fix.empty()) out += indent + "fix: " + fix;
  return out;
}

}  // namespace rtx
