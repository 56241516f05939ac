#include "backend/cuda/library_call.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backend/kernel.h"
#include "base/text.h"

namespace rtx::backend::cuda {

Result<CallText> CallText::parse(std::string_view text) {
  CallText out;
  if (!is_library_call(text)) return error_of(ErrorKind::device, "cannot load a library call", "it does not begin with '" + std::string(kLibraryCall.substr(0, kLibraryCall.size() - 1)) + "'");
  for (const auto& line : split(text.substr(kLibraryCall.size()), '\n')) {
    if (line.empty()) continue;
    const auto space = line.find(' ');
    if (space == std::string::npos) return error_of(ErrorKind::device, "cannot load a library call", "the line '" + line + "' has no value");
    out.lines_.emplace(line.substr(0, space), line.substr(space + 1));
  }
  out.call_ = out.text("call");
  return out;
}

std::string CallText::text(const std::string& key) const {
  const auto found = lines_.find(key);
  return found == lines_.end() ? std::string() : found->second;
}

int64_t CallText::integer(const std::string& key, int64_t otherwise) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return otherwise;
  int64_t value = 0;
  if (!parse_int(found->second, value) && fault_.empty()) fault_ = key + " is '" + found->second + "', not a number";
  return value;
}

double CallText::real(const std::string& key, double otherwise) {
  const auto found = lines_.find(key);
  if (found == lines_.end()) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if ((end == found->second.c_str() || *end) && fault_.empty()) fault_ = key + " is '" + found->second + "', not a number";
  return value;
}

std::vector<std::vector<int64_t>> CallText::rows(const std::string& key) {
  std::vector<std::vector<int64_t>> out;
  for (auto [line, end] = lines_.equal_range(key); line != end; ++line) {
    auto& row = out.emplace_back();
    for (const auto& word : split(line->second, ' ')) {
      int64_t value = 0;
      if (!parse_int(word, value) && fault_.empty()) fault_ = key + " holds '" + word + "', not a number";
      row.push_back(value);
    }
  }
  return out;
}

Status CallText::fault() const { return fault_.empty() ? success() : Status(error_of(ErrorKind::device, "cannot load a library call", fault_)); }

Result<std::unique_ptr<LibraryCall>> make_library_call(std::string_view text, Device& device) {
  RTX_TRY(CallText call, CallText::parse(text));
  if (call.call() == "matmul") return make_matmul_call(call, device);
  if (call.call() == "attention") return make_attention_call(call, device);
  if (call.call() == "fourier") return make_fourier_call(call, device);
  return error_of(ErrorKind::device, "cannot load a library call", "there is no call '" + call.call() + "'");
}

Result<int> fastest(Device& device, CuStream stream, int ways, const std::function<Status(int)>& run) {
  constexpr int kRounds = 5;
  constexpr double kHopeless = 1.5;
  struct Way {
    int number;
    double first;
    double best = std::numeric_limits<double>::infinity();
  };
  std::vector<Way> left;
  for (int way = 0; way < ways; ++way) {
    if (!run(way).ok()) continue;  // warm-up: what an algorithm loads, it loads here
    const auto seconds = device.time(stream, [&] { return run(way); });
    if (seconds.ok()) left.push_back({way, *seconds});
  }
  RTX_CHECK(device.synchronize(stream));
  if (left.empty()) return -1;
  const double first = std::min_element(left.begin(), left.end(), [](const Way& a, const Way& b) { return a.first < b.first; })->first;
  left.erase(std::remove_if(left.begin(), left.end(), [&](const Way& way) { return way.first > kHopeless * first; }), left.end());
  if (left.size() == 1) return left.front().number;
  std::vector<std::vector<double>> samples(left.size());
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < left.size(); ++i) {
      RTX_CHECK(device.flush_caches(stream));
      RTX_TRY(const double seconds, device.time(stream, [&] { return run(left[i].number); }));
      samples[i].push_back(seconds);
    }
  }
  for (size_t i = 0; i < left.size(); ++i) {
    std::nth_element(samples[i].begin(), samples[i].begin() + kRounds / 2, samples[i].end());
    left[i].best = samples[i][kRounds / 2];
  }
  return std::min_element(left.begin(), left.end(), [](const Way& a, const Way& b) { return a.best < b.best; })->number;
}

}  // namespace rtx::backend::cuda
