#pragma once
// RTX_ASSERT: for bugs of ours, never for input. Prints the sentence with a request for a report and aborts.
namespace rtx {
[[noreturn]] void assertion_failed(const char* condition, const char* sentence, const char* file, int line);
}
#define RTX_ASSERT(condition, sentence) \
  ((condition) ? void(0) : ::rtx::assertion_failed(#condition, sentence, __FILE_NAME__, __LINE__))
#ifndef __FILE_NAME__
#define __FILE_NAME__ __FILE__
#endif
