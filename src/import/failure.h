#pragma once
// Inside this layer a failure travels as an exception from deep in an operator to the driver, which turns it
// into a Result. Nothing leaves the layer as an exception.
#include <utility>

#include "base/result.h"

namespace rtx::import {

struct Failure {
  Error error;
};

// The user's mistake, or unsupported(why) below; the driver adds file and node.
[[noreturn]] inline void fail(std::string why, std::string fix = {}) {
  throw Failure{user_error({}, std::move(why), std::move(fix))};
}

// A construct that is legal but not covered; collected over the whole model.
struct Unsupported {
  std::string why;
};
[[noreturn]] inline void unsupported(std::string why) { throw Unsupported{std::move(why)}; }

template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw Failure{std::move(result).error()};
  return std::move(result).value();
}

}  // namespace rtx::import
