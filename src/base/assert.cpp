#include "base/assert.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace rtx {

void assertion_failed(const char* condition, const char* sentence, const char* file, int line) {
  std::fprintf(stderr, "internal error: %s\n  %s:%d: %s does not hold\n  this is a bug of rtx-synth; please report it\n",
               sentence, file, line, condition);
  _exit(70);
}

}  // namespace rtx
