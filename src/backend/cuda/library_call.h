#pragma once
// A step that a vendor's library computes: what the unfused baseline and the peers of a bench are made of. Its "kernel" is a text of
// lines "key value" that names the library's file, the call, and every size; a device loads it like a kernel's binary and launches it
// like one, so that a plan is one thing whoever computes its steps. library_plan.h writes such texts.
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/driver_types.h"
#include "backend/device.h"
#include "base/result.h"

namespace rtx::backend::cuda {

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // Issues the call on the stream; the arguments are those of the launch. The first call chooses among the library's algorithms by
  // timing them on these arguments, so it waits for the stream and must not be recorded.
  virtual Status run(void* const* arguments, int count, CuStream stream) = 0;
  // What was chosen and among how many, for people; empty before the first call.
  virtual std::string choice() const { return {}; }
};

// The lines of such a text. A key may stand on several lines.
class CallText {
 public:
  static Result<CallText> parse(std::string_view text);
  const std::string& call() const { return call_; }
  std::string text(const std::string& key) const;                    // empty where it is not given
  int64_t integer(const std::string& key, int64_t otherwise = 0);    // a value that is no number is remembered as the fault
  double real(const std::string& key, double otherwise = 0);
  std::vector<std::vector<int64_t>> rows(const std::string& key);    // a line's numbers, for every line of the key
  Status fault() const;                                              // what was asked for and could not be read

 private:
  std::string call_, fault_;
  std::multimap<std::string, std::string> lines_;
};

// Kind device: a text that cannot be read, a library that is missing or too old. `device` allocates and times; it outlives the call.
Result<std::unique_ptr<LibraryCall>> make_library_call(std::string_view text, Device& device);

Result<std::unique_ptr<LibraryCall>> make_matmul_call(CallText& text, Device& device);
Result<std::unique_ptr<LibraryCall>> make_attention_call(CallText& text, Device& device);
Result<std::unique_ptr<LibraryCall>> make_fourier_call(CallText& text, Device& device);

// Times every way to do one thing on a cold cache and gives the position of the fastest, -1 where none works. Those that fail, or take
// more than half as long again as the best when first tried, are left out.
Result<int> fastest(Device& device, CuStream stream, int ways, const std::function<Status(int)>& run);

}  // namespace rtx::backend::cuda
