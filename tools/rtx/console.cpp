#include "rtx/console.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>

#include "rtx/environment.h"

namespace rtx::tools {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Columns a UTF-8 text takes: continuation bytes take none.
size_t width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Names come out of files that others made: what a terminal would obey is shown as '?'.
std::string harmless(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto c = static_cast<unsigned char>(out[i]);
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) out[i] = '?';
    if (c == 0xc2 && i + 1 < out.size() && (static_cast<unsigned char>(out[i + 1]) & 0xe0) == 0x80) out[i] = out[i + 1] = '?';  // U+0080 to U+009f
  }
  return out;
}

nlohmann::json document_of(const Error& error) {
  const nlohmann::json parts = {{"what", error.what}, {"where", error.where}, {"why", error.why}, {"fix", error.fix}};
  return {{"error", parts}, {"exit_code", error.exit_code()}};
}

}  // namespace

std::string number(double value, int digits) {
  if (std::isnan(value)) return "-";
  char text[48];
  if (value != 0 && std::abs(value) >= 1000) std::snprintf(text, sizeof text, "%.0f", value);
  else std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

Console::Console(ConsoleOptions options) : options_(std::move(options)) {
  terminal_ = isatty(STDERR_FILENO) != 0;
  colour_ = terminal_ && !environment("NO_COLOR");
}

Console::~Console() {
  end_progress();
  if (log_) std::fclose(log_);
}

Status Console::open_log(const std::vector<std::string>& command) {
  if (options_.log_file.empty()) return success();
  log_ = std::fopen(options_.log_file.c_str(), "ae");
  if (!log_) return error_of(ErrorKind::output, "cannot write the log file " + options_.log_file, std::strerror(errno), "choose another place");
  std::string words;
  for (const auto& word : command) words += (words.empty() ? "" : " ") + word;
  log("call", words);
  return success();
}

// Every line with its own time and kind, so that a log of several processes can be sorted and searched.
void Console::log(std::string_view kind, std::string_view text) {
  if (!log_) return;
  char stamp[32];
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    std::fprintf(log_, "%s %.*s %.*s\n", stamp, static_cast<int>(kind.size()), kind.data(), static_cast<int>(line.size()), line.data());
    begin = end + 1;
  }
  if (std::fflush(log_) != 0 && log_lost_ == 0) log_lost_ = errno;
}

void Console::put(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && lost_ == 0) lost_ = errno;
}

void Console::text(std::string_view text) {
  end_progress();
  log("out", text);
  put(text);
}

void Console::line(std::string_view given) {
  if (options_.json) return;
  const std::string text = harmless(given);
  log("out", text);
  if (options_.quiet) return;
  end_progress();
  put(text);
  put("\n");
}

void Console::detail(std::string_view given) {
  const std::string text = harmless(given);
  log("detail", text);
  if (!options_.verbose) return;
  end_progress();
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void Console::notice(std::string_view given) {
  const std::string text = harmless(given);
  log("note", text);
  if (options_.quiet) return;
  end_progress();
  std::fprintf(stderr, "%snote:%s %.*s\n", colour_ ? "\033[33m" : "", colour_ ? "\033[0m" : "", static_cast<int>(text.size()), text.data());
}

void Console::error(const Error& error) {
  end_progress();
  std::string text = harmless(error.text());
  log("error", text);
  if (colour_ && text.rfind("error:", 0) == 0) text = "\033[31merror:\033[0m" + text.substr(6);
  std::fprintf(stderr, "%s\n", text.c_str());
  if (!document_printed_) (void)json(document_of(error).dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

Status Console::json(const std::string& document) {
  if (!options_.json) return success();
  end_progress();
  document_printed_ = true;
  log("out", document);
  put(document);
  put("\n");
  return finish();
}

void Console::progress(std::string_view given, int done, int total) {
  const std::string what = harmless(given);
  if (options_.quiet || total <= 0) return;
  const double time = now();
  if (terminal_) {
    constexpr int kCells = 24;
    const int filled = kCells * std::min(done, total) / total;
    std::string bar(static_cast<size_t>(filled), '#');
    bar.resize(kCells, '.');
    std::fprintf(stderr, "\r\033[K[%s] %d/%d %.*s", bar.c_str(), done, total, static_cast<int>(std::min<size_t>(what.size(), 60)), what.data());
    std::fflush(stderr);
    bar_shown_ = true;
    if (done >= total) end_progress();
  } else if (time - last_progress_ > 5.0) {
    last_progress_ = time;
    std::fprintf(stderr, "  %d/%d %.*s\n", done, total, static_cast<int>(what.size()), what.data());
  }
}

void Console::end_progress() {
  if (!bar_shown_) return;
  std::fprintf(stderr, "\r\033[K");
  std::fflush(stderr);
  bar_shown_ = false;
}

void Console::table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& cell : header) widths.push_back(width(cell));
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size() && c < widths.size(); ++c) widths[c] = std::max(widths[c], width(row[c]));
  const auto print = [&](const std::vector<std::string>& row, bool numbers_right) {
    std::string text;
    for (size_t c = 0; c < row.size() && c < widths.size(); ++c) {
      const std::string pad(widths[c] - std::min(widths[c], width(row[c])), ' ');
      const bool right = numbers_right && !row[c].empty() && c > 0 && (std::isdigit(static_cast<unsigned char>(row[c][0])) || row[c][0] == '-' || row[c][0] == '<');
      if (c != 0) text += "  ";
      text += right ? pad + row[c] : row[c] + pad;
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    line(text);
  };
  print(header, false);
  std::string rule;
  for (size_t c = 0; c < widths.size(); ++c) rule += std::string(c ? 2 : 0, ' ') + std::string(widths[c], '-');
  line(rule);
  for (const auto& row : rows) print(row, true);
}

Status Console::finish() {
  if (std::fflush(stdout) != 0 && lost_ == 0) lost_ = errno;
  if (lost_ != 0 || std::ferror(stdout) != 0) return error_of(ErrorKind::output, "cannot write to standard output", std::strerror(lost_));
  if (log_lost_ != 0) return error_of(ErrorKind::output, "cannot write the log file " + options_.log_file, std::strerror(log_lost_));
  return success();
}

}  // namespace rtx::tools
