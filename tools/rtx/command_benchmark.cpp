// rtx bench: a bundle, a model, or the kernel suite; everything that is compared runs interleaved in this
// process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "base/files.h"
#include "base/text.h"
#include "rtx/bench_report.h"
#include "rtx/interrupt.h"
#include "rtx/layers.h"
#include "rtx/options.h"
#include "rtx/pipeline_run.h"
#include "rtx/rebuild.h"
#include "rtx/result_file.h"
#include "rtx/suite.h"
#include "rtx/usage.h"

namespace rtx::tools {

namespace {

struct Subject {
  std::string name;
  std::unique_ptr<Session> session;
  std::vector<std::unique_ptr<Session>> more;  // further executions with --streams
};

Result<double> time_streams(Subject& subject) {
  if (subject.more.empty()) return subject.session->time_once();
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  std::atomic<bool> failed{false};
  for (auto& session : subject.more)
    threads.emplace_back([&] {
      if (!session->run().ok()) failed = true;
    });
  Status own = subject.session->run();
  for (auto& thread : threads) thread.join();
  RTX_CHECK(own);
  if (failed) return error_of(ErrorKind::device, "an execution failed");
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::vector<measure::Samples>> time_subjects(std::vector<Subject>& subjects,
                                                    const BenchCommand& command) {
  std::vector<std::function<Result<double>()>> calls;
  for (auto& subject : subjects)
    calls.emplace_back([&subject]() -> Result<double> {
      if (interrupted())
        return error_of(ErrorKind::interrupted, "interrupted", "what was timed so far is not kept");
      return time_streams(subject);
    });
  return measure::interleave(calls, command.iterations, command.warmup);
}

void print_rows(const std::vector<ResultRow>& rows, Console& console) {
  std::map<std::string, const ResultRow*> own;
  for (const auto& row : rows)
    if (row.subject == "rtx") own[row.name] = &row;
  std::vector<std::vector<std::string>> table;
  for (const auto& row : rows) {
    const double median = row.samples.median();
    std::string against = "-";
    const auto found = own.find(row.name);
    if (row.subject != "rtx" && found != own.end() && found->second->samples.median() > 0) {
      const auto& mine = found->second->samples;
      const char* words = measure::faster(mine, row.samples)   ? " (faster)"
                          : measure::faster(row.samples, mine) ? " (slower)"
                                                               : " (within the spread)";
      against = number(median / mine.median()) + words;
    }
    table.push_back(
        {row.name, row.subject, number(median * 1e3, 4),
         number(row.samples.interval_low() * 1e3, 4) + " to " + number(row.samples.interval_high() * 1e3, 4),
         number(row.samples.percentile(95) * 1e3, 4), number(row.samples.percentile(99) * 1e3, 4),
         row.flops > 0 && median > 0 ? number(row.flops / median / 1e9) : "-",
         row.bytes > 0 && median > 0 ? number(row.bytes / median / 1e9) : "-", against});
  }
  console.table(
      {"what", "subject", "median ms", "95 % interval", "p95", "p99", "GFLOP/s", "GB/s", "rtx is faster by"},
      table);
}

Result<std::vector<ResultRow>> bench_file(const BenchCommand& command, const Common& common, Console& console,
                                          Workbench& bench) {
  RTX_TRY(const auto named, load_named_tensors(command.inputs));
  std::vector<Subject> subjects;
  std::vector<ir::HostTensor> inputs;
  double flops = 0, bytes = 0;
  auto load = load_options(&bench, common, console, command.allow_unsigned);
  const auto add = [&](std::string subject, std::shared_ptr<const runtime::Program> program) -> Status {
    Subject made{std::move(subject), nullptr, {}};
    RTX_TRY(made.session, Session::open(program, inputs));
    if (made.name == "rtx") made.session->capture_runs();
    for (int i = 1; i < command.streams; ++i) {
      RTX_TRY(auto session, Session::open(program, inputs));
      RTX_CHECK(session->run());
      made.more.push_back(std::move(session));
    }
    subjects.push_back(std::move(made));
    return success();
  };
  if (is_bundle(command.file)) {
    if (command.baseline)
      return user_error("--baseline needs the model, not a bundle", {}, "rtx bench MODEL.onnx --baseline");
    load.rebuild = rebuild_callback(common, console);
    RTX_TRY(auto program, runtime::Program::load(command.file, load));
    RTX_TRY(inputs, plan_inputs(program->plan(), named, 1));
    RTX_CHECK(add("rtx", std::move(program)));
  } else {
    ModelOptions model_options = command.model_options;
    std::map<std::string, ir::HostTensor> bound;
    RTX_TRY(const auto info, import::inspect(command.file));
    bind_from_data(info, named, &model_options, &bound);
    RTX_TRY(const ir::Graph graph, load_model(command.file, model_options, bound));
    const auto options = pipeline_options(command.tune, common, console);
    RTX_TRY(auto compiled, compile_graph(graph, bench, options));
    for (const auto& region : compiled.report.per_region) flops += region.flops, bytes += region.bytes;
    RTX_TRY(inputs, plan_inputs(compiled.plan, named, 1));
    load.allow_unsigned = true;
    RTX_TRY(auto program, runtime::Program::from_plan(std::move(compiled.plan), load));
    RTX_CHECK(add("rtx", std::move(program)));
    if (command.baseline) {
      RTX_TRY(auto plain, compile_baseline(graph, bench, options));
      RTX_TRY(auto baseline, runtime::Program::from_plan(std::move(plain.plan), load));
      RTX_CHECK(add("unfused baseline", std::move(baseline)));
    }
  }
  console.end_progress();
  if (subjects.size() > 1) RTX_CHECK(check_same_results(*subjects[0].session, *subjects[1].session));
  RTX_TRY(const auto samples, time_subjects(subjects, command));
  auto conditions = bench.device().conditions();
  std::vector<ResultRow> rows;
  for (size_t s = 0; s < subjects.size(); ++s) {
    rows.push_back({command.name.empty() ? command.file : command.name, subjects[s].name, samples[s],
                    flops * command.streams, bytes * command.streams});
    if (conditions.ok()) rows.back().conditions = *conditions;
  }
  if (command.layers) {
    for (auto& subject : subjects) {
      RTX_TRY(auto steps, subject.session->run_timed());
      RTX_TRY(const auto again, subject.session->run_timed());
      for (size_t i = 0; i < steps.size(); ++i) steps[i].ms = std::min(steps[i].ms, again[i].ms);
      console.line(subject.name + ":");
      console.table(
          {"region", "family", "ms", "of the whole", "rate", "of the ceiling", "kernel"},
          layer_table(region_times(subject.session->program().plan(), steps, bench.device().caps())));
      console.line();
    }
  }
  console.line("activations " + human_bytes(subjects[0].session->program().plan().arena_bytes));
  return rows;
}

// Medians of an earlier result file beside today's. With `gate`, exit 1 when one is slower than the file's
// interval allows.
int compare_with(const nlohmann::json& before, const std::vector<ResultRow>& rows, bool gate,
                 Console& console) {
  std::vector<std::vector<std::string>> table;
  bool outside = false;
  for (const auto& row : rows)
    for (const auto& old : before["rows"]) {
      if (old.value("name", "") != row.name || old.value("subject", "") != row.subject) continue;
      const double was = old.value("median_ms", 0.0), high = old.value("high_ms", 0.0),
                   now = row.samples.median() * 1e3;
      // The spread of the file and of this run together.
      const double allowed = high + (row.samples.interval_high() - row.samples.median()) * 1e3 + 0.05 * was;
      const bool slower = now > allowed;
      outside |= slower;
      table.push_back({row.name, row.subject, number(was, 4), number(now, 4), number(was > 0 ? now / was : 0),
                       slower ? "slower" : "within the spread"});
    }
  if (table.empty()) {
    console.line("no row of the file was timed in this run: nothing is compared");
    return gate ? 1 : 0;
  }
  console.table({"what", "subject", "file ms", "now ms", "ratio", "verdict"}, table);
  return gate && outside ? 1 : 0;
}

// Options that say nothing about what is timed.
Status check_usage(const BenchCommand& command, const Common& common) {
  const auto refuse = [&](std::vector<std::string> names,
                          std::initializer_list<const std::vector<std::string>*> more, const char* why) {
    for (const auto* list : more) names.insert(names.end(), list->begin(), list->end());
    return refuse_options(common, names, why);
  };
  RTX_CHECK(check_options(common, command.tune));
  if (command.file == "suite")
    return refuse({"--name", "--layers", "--streams", "--input", "--allow-unsigned", "--dim", "--state", "--value",
                   "--dtype", "--keep-f32"},
                  {}, "the suite makes its own problems and times one execution of each");
  RTX_CHECK(refuse({"--family", "--group", "--peers", "--list", "--sustained"}, {},
                   "only the suite has families, groups and peers"));
  if (is_bundle(command.file))
    return refuse({"--target", "--arch"}, {&model_option_names(), &search_option_names()},
                  "a bundle is compiled already");
  return refuse({"--allow-unsigned"}, {}, "a model carries no signature");
}

// What a result file's suite was asked for, again. Older files name at most a family.
void ask_again(const nlohmann::json& before, const std::vector<std::string>& words, const Common& common,
               BenchCommand& command) {
  if (!before.contains("suite")) {
    if (words.size() > 2 && command.family.empty()) command.family = words[2];
    return;
  }
  const auto& suite = before["suite"];
  const auto text = [&](const char* field, std::string& into) {
    if (into.empty()) into = suite.value(field, "");
  };
  text("group", command.group), text("family", command.family);
  if (common.given.count("--target") == 0) command.target = suite.value("target", command.target);
  if (command.model_options.shapes.empty())
    command.model_options.shapes = suite.value("shapes", std::vector<std::string>{});
  command.peers |= suite.value("peers", false), command.baseline |= suite.value("baseline", false);
  if (common.given.count("--budget") == 0 && common.given.count("--budget-per-op") == 0) {
    command.tune.no_tune |= suite.value("first_pick", false);
    command.tune.budget = suite.value("budget", command.tune.budget),
    command.tune.budget_per_op = suite.value("budget_per_op", command.tune.budget_per_op);
  }
}

nlohmann::json suite_json(const BenchCommand& command) {
  return {{"target", command.target},
          {"group", command.group},
          {"family", command.family},
          {"shapes", command.model_options.shapes},
          {"peers", command.peers},
          {"baseline", command.baseline},
          {"first_pick", command.tune.no_tune},
          {"budget", command.tune.budget},
          {"budget_per_op", command.tune.budget_per_op}};
}

std::vector<std::string> words_of(const BenchCommand& command) {
  std::vector<std::string> words = {"bench", command.file};
  if (command.file != "suite") return words;
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  // Files of before groups came have a family alone as their third word.
  if (command.target != "cpu") add("--target", command.target);
  add("--group", command.group), add("--family", command.family);
  for (const auto& shape : command.model_options.shapes) add("--shape", shape);
  if (command.peers) words.emplace_back("--peers");
  if (command.baseline) words.emplace_back("--baseline");
  if (command.tune.no_tune) words.emplace_back("--first-pick");
  return words;
}

// rtx bench --compare FILE...: nothing is run.
Result<int> join_files(const BenchCommand& command, const Common& common, Console& console) {
  std::vector<std::pair<std::string, nlohmann::json>> documents;
  for (const auto& path : command.compare) {
    RTX_TRY(auto document, read_result_file(path));
    documents.emplace_back(path, std::move(document));
  }
  if (!command.report.empty()) RTX_CHECK(write_file_atomic(command.report, joined_html(documents)));
  const auto rows = join_results(documents);
  print_joined(rows, console);
  if (!common.console.json) return 0;
  nlohmann::json out = {{"format", "rtx-bench-compare 1"},
                        {"files", command.compare},
                        {"rows", nlohmann::json::array()},
                        {"standings", nlohmann::json::array()}};
  for (const auto& row : rows) {
    nlohmann::json entry = {{"group", row.group},
                            {"name", row.name},
                            {"median_ms", row.ms > 0 ? nlohmann::json(row.ms) : nlohmann::json(nullptr)},
                            {"against", nlohmann::json::array()}};
    for (const auto& rival : row.rivals)
      entry["against"].push_back(
          {{"subject", rival.subject},
           {"median_ms", rival.ms},
           {"ratio", rival.ratio > 0 ? nlohmann::json(rival.ratio) : nlohmann::json(nullptr)},
           {"verdict", rival.verdict}});
    out["rows"].push_back(std::move(entry));
  }
  for (const auto& s : standings(rows))
    out["standings"].push_back({{"group", s.group},
                                {"subject", s.subject},
                                {"rows", s.rows},
                                {"geometric_mean", s.mean},
                                {"minimum", s.least},
                                {"at", s.at}});
  RTX_CHECK(console.json(out.dump(1)));
  return 0;
}

}  // namespace

Result<int> bench_command(const BenchCommand& given, const Common& common, Console& console) {
  BenchCommand command = given;
  if (command.file.empty() && !command.compare.empty()) {
    RTX_CHECK(refuse_options(
        common, {"--target", "--arch", "--output", "--group", "--family", "--peers", "--baseline"},
        "--compare without FILE runs nothing"));
    return join_files(command, common, console);
  }
  if (command.compare.size() > 1)
    return user_error("a run is compared with one result file",
                      std::to_string(command.compare.size()) + " are named",
                      "leave FILE out to join result files");
  nlohmann::json before;
  const std::string reference = !command.recheck.empty()  ? command.recheck
                                : command.compare.empty() ? ""
                                                          : command.compare[0];
  if (!reference.empty()) {
    RTX_TRY(before, read_result_file(reference));
  }
  if (!command.recheck.empty() && command.file.empty()) {
    const auto words = before.value("command", std::vector<std::string>{});
    if (words.size() < 2 || words[0] != "bench")
      return user_error("cannot run " + command.recheck + " again", "it does not say what was run",
                        "name the bundle, model or suite");
    command.file = words[1];
    ask_again(before, words, common, command);
  }
  if (command.file.empty())
    return user_error("rtx bench needs a bundle, a model, or `suite`", {}, "see `rtx bench --help`");
  if (command.list && command.file == "suite") {  // of a target that need not be here
    RTX_TRY(const auto rows,
            select_rows(command.target, {command.group, command.family, command.model_options.shapes}));
    list_suite(rows, console);
    if (common.console.json) RTX_CHECK(console.json(suite_list_json(rows)));
    return 0;
  }
  // Where its target is not here, the loader refuses it with both names.
  if (is_bundle(command.file))
    if (const std::string target = target_of_bundle(command.file);
        !target.empty() && require_target(target, common.device).ok())
      command.target = target;
  RTX_CHECK([&]() -> Status {
    auto target = require_target(command.target, common.device, command.arch);
    return target.ok() ? success() : Status(std::move(target).error());
  }());
  RTX_CHECK(check_usage(command, common));
  // Before anything is timed: an hour of measurements must not end in a name that cannot be written.
  for (const auto& path : {command.json_file, command.report}) {
    if (path.empty()) continue;
    RTX_CHECK(
        refuse_to_overwrite(path, {command.file}));  // of a --recheck file, the command line did not show it
    RTX_CHECK(can_write_file(path));
  }
  WorkbenchOptions bench_options;
  bench_options.target = command.target;
  bench_options.arch = command.arch;
  bench_options.device = common.device;
  bench_options.threads = common.threads;
  bench_options.jobs = common.jobs;
  RTX_TRY(auto bench, Workbench::open(bench_options, console));
  const bool suite = command.file == "suite";
  const bool own_rows = suite && command.target == "cpu" && (command.group.empty() || command.group == "cpu");
  if (command.baseline || own_rows) RTX_CHECK(bench->has_vendor_library());
  std::string toolchain;
  if (auto known = bench->compiler().toolchain(bench->device().caps().arch); known.ok()) toolchain = *known;
  const auto document_of = [&](const std::vector<ResultRow>& rows) {
    auto document = result_document(rows, words_of(command), bench->device().caps(), toolchain);
    if (suite) document["suite"] = suite_json(command);
    return document;
  };
  const auto keep = [&](const nlohmann::json& document) -> Status {
    if (!command.json_file.empty()) RTX_CHECK(write_file_atomic(command.json_file, document.dump(1) + "\n"));
    if (!command.report.empty())
      RTX_CHECK(write_file_atomic(
          command.report,
          joined_html({{command.json_file.empty() ? command.file : command.json_file, document}})));
    return success();
  };
  int failed = 0;
  // What was measured is in the files after each row: a run that is ended from outside keeps it.
  auto result = suite ? bench_suite(command, common, console, *bench, &failed,
                                    [&](const auto& rows) { return keep(document_of(rows)); })
                      : bench_file(command, common, console, *bench);
  if (!result.ok()) return std::move(result).error();
  const auto document = document_of(*result);
  RTX_CHECK(keep(document));
  int code = failed > 0 ? 1 : 0;
  if (suite)
    print_joined(join_results({{command.file, document}}), console);
  else
    print_rows(*result, console);
  if (!before.is_null()) {
    console.line();
    code = std::max(code, compare_with(before, *result, !command.recheck.empty(), console));
  }
  if (common.console.json) RTX_CHECK(console.json(document.dump(1)));
  return code;
}

}  // namespace rtx::tools
