#pragma once
// What a person sees: tables and results on stdout, progress, notices and errors on stderr. Commands print through this and
// nowhere else.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rtx::tools {

struct ConsoleOptions {
  bool json = false, quiet = false, verbose = false;
  std::string log_file;
};

class Console {
 public:
  explicit Console(ConsoleOptions options);
  ~Console();
  const ConsoleOptions& options() const { return options_; }

  // Opens --log-file and notes what was called. Kind output when it cannot be written.
  Status open_log(const std::vector<std::string>& command);
  // Text of the result as it is: help, versions.
  void text(std::string_view text);
  // A line of the result; nothing with --json or -q.
  void line(std::string_view text = {});
  void detail(std::string_view text);              // only with -v
  void notice(std::string_view text);              // "note: ..." on stderr
  // On stderr, always; with --json also as the document, where none was printed before.
  void error(const Error& error);
  // The one JSON document of a command, with --json.
  Status json(const std::string& document);
  // Progress: a bar on a terminal, a plain line now and then otherwise.
  void progress(std::string_view what, int done, int total);
  void end_progress();
  // Columns are padded; numbers (a cell that starts with a digit, '-' or '<') are aligned to the right.
  void table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows);
  // Kind output when something written to stdout or to the log was lost (disk full, closed pipe).
  Status finish();

 private:
  void put(std::string_view text);
  void log(std::string_view kind, std::string_view text);
  ConsoleOptions options_;
  bool terminal_ = false, colour_ = false, bar_shown_ = false, document_printed_ = false;
  double last_progress_ = 0;
  std::FILE* log_ = nullptr;
  int lost_ = 0, log_lost_ = 0;  // errno of the first write that failed
};

std::string number(double value, int digits = 3);  // "12.3", "0.00412"; "-" for NaN

}  // namespace rtx::tools
