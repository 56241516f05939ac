#pragma once
// Declares every command and option; cli.cpp parses with what this declares.
#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "rtx/options.h"

namespace rtx::tools {

struct Commands {
  Common common;
  CompileCommand compile;
  RunCommand run;
  VerifyCommand verify;
  SuiteCommand suite;
  BenchCommand bench;
  ExplainCommand explain;
  TuneCommand tune;
  InspectCommand inspect, check;
  CacheCommand cache;
  KeyCommand key;
  TargetsCommand targets;
  WorkerCommand worker;
  std::function<Result<int>(Console&)> action;  // of the command that was named
  // Options that name files: none that is written may be another that is read or written.
  std::vector<const CLI::Option*> read, written;
};

// `commands` must outlive `app`.
void declare_commands(CLI::App& app, Commands& commands);

}  // namespace rtx::tools
