// rtx cache, rtx key: what is kept on this machine.
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "bundle/bundle.h"
#include "rtx/environment.h"
#include "rtx/interrupt.h"
#include "rtx/options.h"
#include "rtx/workbench.h"

namespace rtx::tools {

using nlohmann::json;

namespace {

// Arguments that an action does not read.
Status check_usage(const CacheCommand& command) {
  const bool file = command.action == "export" || command.action == "import";
  if (file && command.path.empty()) return user_error("rtx cache " + command.action + " needs a file", {}, "rtx cache " + command.action + " FILE");
  if (!file && !command.path.empty()) return user_error("'" + command.path + "' would do nothing", "rtx cache " + command.action + " takes no file", "leave it out");
  if (command.action != "gc" && command.max_mb) return user_error("--max-mb would do nothing", "only rtx cache gc removes by size", "leave --max-mb out");
  return success();
}
Status check_usage(const KeyCommand& command) {
  if (command.action == "list" ? !command.name.empty() : !command.key.empty() && command.action != "trust")
    return user_error("'" + (command.action == "list" ? command.name : command.key) + "' would do nothing", "rtx key " + command.action + " takes no such argument", "leave it out");
  if (command.action != "list" && command.name.empty()) return user_error("rtx key " + command.action + " needs a name", {}, "rtx key " + command.action + (command.action == "trust" ? " NAME HEX_OR_FILE" : " NAME"));
  if (command.action == "trust" && command.key.empty()) return user_error("rtx key trust needs a public key", {}, "rtx key trust NAME HEX_OR_FILE");
  return success();
}

// The cache that was asked about, or why there is nothing to say about it. Other commands work without one; these cannot.
Result<std::unique_ptr<cache::Cache>> cache_to_look_at(const CacheCommand& command, int64_t max_bytes, Console& console) {
  cache::Options options;
  options.directory = cache_directory();
  if (options.directory.empty())
    return user_error("there is no place for the kernel cache", "RTX_CACHE_DIR, XDG_CACHE_HOME and HOME are unset", "set one of them");
  options.max_bytes = max_bytes;
  std::vector<std::string> warnings;
  options.warn = [&warnings](std::string_view line) { warnings.emplace_back(line); };
  auto cache = cache::Cache::open(options);
  if (const std::string why = cache->unusable(); !why.empty())
    return error_of(command.action == "verify" ? ErrorKind::check_failed : ErrorKind::user, "the kernel cache in " + options.directory + " is not used", why,
                    "see `ls -ld " + options.directory + "`, or name another place with RTX_CACHE_DIR");
  for (const auto& line : warnings) console.notice(line);
  return cache;
}

}  // namespace

Result<int> cache_command(const CacheCommand& command, const Common& common, Console& console) {
  RTX_CHECK(check_usage(command));
  const int64_t max_bytes = command.max_mb ? *command.max_mb << 20 : cache_bound(console);
  RTX_TRY(const auto cache, cache_to_look_at(command, max_bytes, console));
  const std::string& action = command.action;
  json out = {{"directory", cache->directory()}};
  std::string words;
  int code = 0;
  if (action == "stats") {
    const auto stats = cache->stats();
    out.update({{"entries", stats.entries}, {"bytes", stats.bytes}});
    words = cache->directory() + ": " + std::to_string(stats.entries) + " kernels, " + human_bytes(stats.bytes);
  } else if (action == "list") {
    out["entries"] = json::array();
    std::vector<std::vector<std::string>> rows;
    for (const auto& [digest, record] : cache->list()) {
      const auto key = cache::Key::parse(record.key_text);
      out["entries"].push_back({{"digest", digest}, {"key", record.key_text}, {"parameters", record.parameters}, {"measured_ms", record.measured_ms}, {"tuning", record.tuning}});
      rows.push_back({digest, key ? key->op : "?", record.measured_ms > 0 ? number(record.measured_ms) : "-", record.parameters, record.tuning});
      if (common.console.verbose) console.detail(digest + "\n" + record.key_text);
    }
    console.table({"entry", "family", "ms", "parameters", "chosen"}, rows);
  } else if (action == "verify") {
    RTX_TRY(const auto sentences, cache->verify());
    out["damaged"] = sentences;
    for (const auto& sentence : sentences) console.line(sentence);
    words = sentences.empty() ? "all entries are sound" : std::to_string(sentences.size()) + " entries are not used; they will be made again when needed";
    code = sentences.empty() ? 0 : 1;
  } else if (action == "gc") {
    const int64_t freed = cache->collect(max_bytes);
    out["freed_bytes"] = freed;
    words = "freed " + human_bytes(freed);
  } else if (action == "export") {
    const Uninterrupted until_written;
    RTX_TRY(const int64_t count, cache->export_to(command.path));
    out["entries"] = count;
    words = "wrote " + std::to_string(count) + " kernels to " + command.path;
  } else if (action == "import") {
    RTX_TRY(const int64_t count, cache->import_from(command.path));
    out["entries"] = count;
    words = "took " + std::to_string(count) + " kernels from " + command.path;
  } else {
    RTX_CHECK(cache->clear());
    words = "the cache is empty";
  }
  if (common.console.json) RTX_CHECK(console.json(out.dump(2, ' ', false, json::error_handler_t::replace)));
  if (!words.empty()) console.line(words);
  return code;
}

Result<int> key_command(const KeyCommand& command, const Common& common, Console& console) {
  RTX_CHECK(check_usage(command));
  const std::string directory = key_directory();
  if (directory.empty()) return user_error("there is no place for keys", "XDG_CONFIG_HOME and HOME are unset", "set one of them");
  json out = json::object();
  std::string words;
  if (command.action == "new") {
    RTX_TRY(const auto key, bundle::new_key(directory, command.name));
    (void)key;
    words = "made " + directory + "/" + command.name + ".key; bundles it signs are trusted on this machine";
    out["name"] = command.name;
  } else if (command.action == "trust") {
    RTX_CHECK(bundle::trust(directory, command.key, command.name));
    words = "bundles signed by " + command.name + " are trusted here";
  } else if (command.action == "untrust") {
    RTX_CHECK(bundle::untrust(directory, command.name));
    words = "bundles signed by " + command.name + " are refused here";
  } else {
    RTX_TRY(const auto keys, bundle::list_keys(directory));
    out["keys"] = json::array();
    std::vector<std::vector<std::string>> rows;
    for (const auto& key : keys) {
      out["keys"].push_back({{"name", key.name}, {"public", key.public_hex}, {"own", key.own}, {"trusted", key.trusted}});
      rows.push_back({key.name, key.public_hex, key.own ? "own" : "", key.trusted ? "trusted" : "not trusted"});
    }
    console.table({"name", "public key", "", "here"}, rows);
  }
  if (common.console.json) RTX_CHECK(console.json(out.dump(2)));
  if (!words.empty()) console.line(words);
  return 0;
}

}  // namespace rtx::tools
