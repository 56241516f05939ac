// Parses the command line, runs the command, and ends with the exit code that fits. cli_commands.cpp says what may be said.
#include "rtx/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include "base/files.h"
#include "rtx/cli_commands.h"
#include "rtx/interrupt.h"

namespace rtx::tools {

namespace {

// With a standard stream closed, the next file that is opened would take its number, and what is printed would go into that file.
void occupy_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

// Before the command line is understood: whether it asks for JSON is what can be seen of it.
int usage_error(int argc, char** argv, const Error& error) {
  ConsoleOptions options;
  options.json = std::any_of(argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  Console(options).error(error);
  return error.exit_code();
}

int print(const std::string& text) {
  ConsoleOptions plain;
  Console console(plain);
  console.text(text);
  const auto finished = console.finish();
  if (finished.ok()) return 0;
  console.error(finished.error());
  return finished.error().exit_code();
}

const CLI::App* chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? nullptr : subcommands.front();
}

// "--arch ''" is a variable that was empty in somebody's script: what was meant cannot be known.
std::string empty_option(const CLI::App& command) {
  for (const auto* option : command.get_options())
    for (const auto& value : option->results())
      if (value.empty() && option->get_items_expected_max() > 0) return option->get_name();
  return {};
}

// What `option` says about files: the values themselves, or FILE of NAME=FILE.
std::vector<std::string> files_of(const CLI::Option& option) {
  std::vector<std::string> out = option.results();
  for (auto& value : out)
    if (const size_t equal = value.find('='); equal != std::string::npos && !file_exists(value)) value.erase(0, equal + 1);
  return out;
}

// A file that is written must not be another one that the same command reads or writes.
Status check_files(const Commands& commands) {
  const auto check = [](const CLI::Option& written, const CLI::Option& other) -> Status {
    if (&written == &other) return success();
    for (const auto& path : written.results())
      for (const auto& taken : files_of(other))
        if (same_place(path, taken))
          return user_error("cannot write " + path, written.get_name() + " and " + other.get_name() + " are the same file", "choose another name");
    return success();
  };
  for (const auto* written : commands.written) {
    for (const auto* other : commands.read) RTX_CHECK(check(*written, *other));
    for (const auto* other : commands.written) RTX_CHECK(check(*written, *other));
  }
  return success();
}

// Nothing of ours throws but for want of memory; a library may.
Result<int> run(const std::function<Result<int>(Console&)>& action, Console& console) {
  try {
    return action(console);
  } catch (const std::bad_alloc&) {
    return error_of(ErrorKind::device, "out of memory", "what was asked for needs more than this machine gives", "use a smaller model or input");
  } catch (const std::exception& thrown) {
    return error_of(ErrorKind::internal, "an exception came through", thrown.what(), "please report it with the command that caused it");
  }
}

}  // namespace

int run_command_line(int argc, char** argv) {
  occupy_standard_streams();
  watch_interrupts();
  CLI::App app("rtx compiles a model graph for the machine in front of it, with kernels it writes, checks and times itself", "rtx");
  app.set_version_flag("--version", [] { return "rtx " + version_text(); });
  Commands commands;
  declare_commands(app, commands);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion& version) {
    return print(std::string(version.what()) + "\n");
  } catch (const CLI::Success&) {
    const auto* command = chosen(app);
    return print(command ? command->help(app.get_name()) : app.help());
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    if (!what.empty() && what.back() == '\n') what.pop_back();
    // Without a subcommand CLI11 only says that one is required; what stands in its place is what the user wants to hear of.
    if (!chosen(app) && argc > 1) what = std::string("'") + argv[1] + "' is no command of rtx";
    const std::string command = chosen(app) ? "rtx " + chosen(app)->get_name() : "rtx";
    return usage_error(argc, argv, user_error("cannot understand the command line", what, "see `" + command + " --help`"));
  }

  const CLI::App& command = *chosen(app);
  if (const std::string option = empty_option(command); !option.empty())
    return usage_error(argc, argv, user_error("cannot understand the command line", option + " is given, but empty", "give it a value, or leave it out"));
  for (const auto* option : command.get_options())
    if (option->count() > 0) commands.common.given.insert(option->get_name());
  if (const auto status = check_files(commands); !status.ok()) return usage_error(argc, argv, status.error());

  Console console(commands.common.console);
  Result<int> result = 0;
  if (auto opened = console.open_log({argv, argv + argc}); !opened.ok()) {
    result = std::move(opened).error();
  } else {
    result = run(commands.action, console);
  }
  if (!result.ok()) console.error(result.error());
  int code = result.ok() ? *result : result.error().exit_code();
  // A verdict that nobody can read is lost, whatever it was.
  if (auto finished = console.finish(); !finished.ok()) {
    if (result.ok() || result.error().what != finished.error().what) console.error(finished.error());
    if (result.ok()) code = finished.error().exit_code();
  }
  return code;
}

}  // namespace rtx::tools
