#pragma once
// Source: builds the text of a kernel so that it reads as if written by hand: indentation, named values, one include each.
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codegen/dialect.h"

namespace rtx::codegen {

class Source {
 public:
  // Opens with the comment block: name, generator, parameters, work, target.
  Source(const Dialect& dialect, std::string_view name, std::string_view generator, std::string_view parameters, std::string_view work);
  // Inlines an embedded device header (path relative to src/) once; the dialect's prelude is already there.
  void include(std::string_view embedded_path);
  void line(std::string_view text = {});      // one line at the current indentation
  void open(std::string_view text);           // "text {" and indent
  void close(std::string_view suffix = {});   // "}" + suffix
  // An entry with `threads` threads a group, at least `groups_per_core` of them at once on a core (both mean nothing where a group is
  // one thread). The number of arguments is known when it closes. `views`: of its launch; `cluster`: groups that see each other's
  // scratch, of which a launch has a multiple (both for GPUs with the Hopper set, docs/adr/0011).
  void open_kernel(std::string_view name, int threads = 1, int groups_per_core = 1, int views = 0, int cluster = 1);
  void close_kernel(int64_t arguments);
  bool explicit_vectors() const { return explicit_vectors_; }
  std::string fresh(std::string_view base);   // base, base_1, ...: a name not used before
  std::string take();                         // the whole text

 private:
  std::string text_;
  int depth_ = 0;
  bool explicit_vectors_ = true;
  size_t arguments_at_ = 0;  // where the open kernel's number of arguments belongs
  std::set<std::string, std::less<>> included_, names_;
};

}  // namespace rtx::codegen
