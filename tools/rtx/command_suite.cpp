// rtx suite: the inside of tools/onnx_suite. A case is a line "MODEL<tab>DATA<tab>NOISE" on standard input (DATA empty: random inputs
// against the reference); the answer is one JSON line. One process for many cases, so that the device, the toolchain's identity and
// loaded kernels are shared; kernels run in this process, so the script that feeds it starts another one after a crash.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "import/onnx.h"
#include "rtx/options.h"
#include "rtx/verification.h"

namespace rtx::tools {

namespace {

struct SuiteCase {
  std::string model, data;
  double noise = 0;
};

SuiteCase parse_case(const std::string& line) {
  SuiteCase out;
  const size_t first = line.find('\t'), second = first == std::string::npos ? first : line.find('\t', first + 1);
  out.model = line.substr(0, first);
  if (first != std::string::npos) out.data = line.substr(first + 1, second == std::string::npos ? second : second - first - 1);
  if (second != std::string::npos) out.noise = std::strtod(line.c_str() + second + 1, nullptr);
  return out;
}

// A graph that comes without data may leave dimensions open: any extent will do that the graph takes.
ModelOptions bind_open_dimensions(const import::ModelInfo& info, int64_t extent_of_open) {
  ModelOptions options;
  for (const auto& input : info.inputs) {
    std::string shape;
    bool open = false;
    for (const auto& extent : input.shape) {
      const bool fixed = !extent.empty() && extent.find_first_not_of("0123456789") == std::string::npos;
      open |= !fixed;
      shape += (shape.empty() ? "" : "x") + (fixed ? extent : std::to_string(extent_of_open));
    }
    if (open) options.shapes.push_back(input.name + "=" + shape);
  }
  return options;
}

// The options under which a graph without data imports. Some never do: they were kept for what they look like.
Result<ModelOptions> options_without_data(const std::string& model) {
  RTX_TRY(const auto info, import::inspect(model));
  std::optional<Error> first;
  for (const int64_t extent : {4, 1, 2, 3, 8, 16, 64}) {
    ModelOptions options = bind_open_dimensions(info, extent);
    auto graph = load_model(model, options);
    if (graph.ok() || import::is_unsupported(graph.error())) return options;
    if (!first) first = std::move(graph).error();
    if (options.shapes.empty()) break;
  }
  return std::move(*first);
}

// Element types outside ir::DType are met in data files too, where no model is at fault.
bool is_unsupported(const Error& error) { return import::is_unsupported(error) || error.what.rfind("unsupported tensor", 0) == 0; }

}  // namespace

Result<int> suite_command(const SuiteCommand& command, const Common& common, Console& console) {
  if (command.emulate) {
    SuiteCommand here = command;
    RTX_TRY(here.target, emulated_target(command.target));
    here.emulate = false;
    return suite_command(here, common, console);
  }
  RTX_TRY(const Target target, require_target(command.target, common.device, command.arch));
  Verifier verifier(common, console, false);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    const SuiteCase one = parse_case(line);
    VerifyCommand verify;
    verify.model = one.model;
    verify.data = one.data;
    verify.noise = one.noise;
    verify.target = target.name;
    verify.arch = command.arch;
    const auto start = std::chrono::steady_clock::now();
    const auto found = [&]() -> Result<Verification> {
      if (one.data.empty()) {
        auto options = options_without_data(one.model);
        if (!options.ok() && options.error().kind == ErrorKind::user)
          return user_error("unsupported model " + one.model, "it comes without data, and no extent tried for its open dimensions fits: " + options.error().text());
        RTX_TRY(verify.model_options, std::move(options));
      }
      return verifier.verify(verify);
    }();
    nlohmann::json answer = {{"model", one.model}};
    answer["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (found.ok()) {
      answer["status"] = found->agrees() ? "passed" : "failed";
      answer["why"] = found->first_disagreement();
      answer["regions"] = found->regions;
      answer["kernels"] = found->kernels;
      answer["hits"] = found->hits;
      answer["compiles"] = found->compiles;
      answer["rejected"] = found->rejected;
    } else {
      answer["status"] = is_unsupported(found.error()) ? "unsupported" : "failed";
      answer["why"] = found.error().text();
    }
    RTX_CHECK(console.json(answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }
  return 0;
}

}  // namespace rtx::tools
