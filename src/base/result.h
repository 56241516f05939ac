#pragma once
// Result<T>: a value, or an Error that says what failed, where, why, and how to fix it.
//
// Three kinds of failure are never mixed: the user's is a Result with context added on the way up; a tuning candidate's
// is data (tune/outcome.h); ours is RTX_ASSERT (base/assert.h).
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace rtx {

// One word a failure; the numbers are the process exit codes of docs/architecture.md.
enum class ErrorKind {
  check_failed = 1,    // a check that was asked for does not hold: mismatch, gate, lock
  user = 2,            // usage, bad model, bad input
  bundle = 3,          // incompatible, damaged, untrusted
  device = 4,          // missing device or toolchain, device memory exhausted
  internal = 70,       // a bug of ours
  output = 74,         // output that cannot be written
  interrupted = 130,   // Ctrl-C
};

struct Error {
  ErrorKind kind = ErrorKind::user;
  std::string what;                // "cannot compile model.onnx for cpu"
  std::vector<std::string> where;  // outermost first: "node block.3/softmax: Softmax f32[1,8]"
  std::string why;                 // "axis 3 is outside [-2, 1]"
  std::string fix;                 // "cast to f16 before the node"; may be empty

  int exit_code() const { return static_cast<int>(kind); }
  // The text a person reads: one "error:" line, then indented where / why, then "fix:".
  std::string text() const;
  // Adds context on the way up.
  Error in(std::string place) && {
    where.insert(where.begin(), std::move(place));
    return std::move(*this);
  }
};

inline Error user_error(std::string what, std::string why = {}, std::string fix = {}) {
  return Error{ErrorKind::user, std::move(what), {}, std::move(why), std::move(fix)};
}
inline Error error_of(ErrorKind kind, std::string what, std::string why = {}, std::string fix = {}) {
  return Error{kind, std::move(what), {}, std::move(why), std::move(fix)};
}

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}        // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}    // NOLINT
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & { return std::get<1>(state_); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : failed_(true), error_(std::move(error)) {}  // NOLINT
  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  Error& error() & { return error_; }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  bool failed_ = false;
  Error error_;
};

using Status = Result<void>;
inline Status success() { return {}; }

}  // namespace rtx

#define RTX_CONCAT_(a, b) a##b
#define RTX_CONCAT(a, b) RTX_CONCAT_(a, b)
// RTX_TRY(auto x, expression): x is the value, or the error leaves the function.
#define RTX_TRY(declaration, expression)                                     \
  auto RTX_CONCAT(rtx_result_, __LINE__) = (expression);                     \
  if (!RTX_CONCAT(rtx_result_, __LINE__).ok())                               \
    return std::move(RTX_CONCAT(rtx_result_, __LINE__)).error();             \
  declaration = *std::move(RTX_CONCAT(rtx_result_, __LINE__))
// RTX_CHECK(expression): for Status.
#define RTX_CHECK(expression)                                                     \
  do {                                                                            \
    if (auto rtx_status = (expression); !rtx_status.ok())                         \
      return std::move(rtx_status).error();                                       \
  } while (false)
