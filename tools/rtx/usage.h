#pragma once
// Options that cannot take effect are mistakes. What the command line alone shows stands in cli_commands.cpp; what depends on the
// kind of FILE is asked here.
#include <initializer_list>
#include <string>
#include <vector>

#include "rtx/options.h"

namespace rtx::tools {

const std::vector<std::string>& model_option_names();
const std::vector<std::string>& search_option_names();
// Kind user when one of `names` was given; `why` says why it would do nothing: "a bundle is compiled already".
Status refuse_options(const Common& common, const std::vector<std::string>& names, const std::string& why);
// What the values of the model's and the search's options say against each other.
Status check_options(const ModelOptions& options);
Status check_options(const Common& common, const TuneOptions& options);
// Kind user when `path`, about to be written, is one of `others` (empty ones are skipped).
Status refuse_to_overwrite(const std::string& path, std::initializer_list<std::string> others);

}  // namespace rtx::tools
