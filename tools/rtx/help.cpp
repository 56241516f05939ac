#include "rtx/help.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "rtx/environment.h"

namespace rtx::tools {

namespace {

struct Example {
  const char* line;
  const char* meaning;
};
struct Page {
  const char* command;
  const char* about;
  std::vector<Example> examples;
  const char* exit_codes;
};

const std::vector<Page>& pages() {
  static const std::vector<Page> list = {
      {"compile",
       "Imports the model, fuses its nodes into regions, writes candidate kernels for each, checks them against the reference,\n"
       "times them within the budget, and writes the fastest into a signed bundle that runs without any compiler. Kernels are\n"
       "remembered: a second compile of the same shapes starts no compiler.",
       {{"rtx compile model.onnx -o model.rtxgc", "tune for this machine, write a bundle signed with your own key"},
        {"rtx compile model.onnx --dim batch=1 --dim sequence=128 --budget 120 --baseline -o model.rtxgc", "bind open dimensions, search longer, say what was won"},
        {"rtx compile model.onnx --lock kernels.lock --deterministic -o model.rtxgc", "the kernels of the lock and no others, the same bytes every time"}},
       "1 the lock has no entry for a kernel; 2 usage or a bad model; 4 no compiler; 74 the bundle cannot be written; 130 Ctrl-C (what was tuned is kept)"},
      {"run",
       "Runs FILE once to warm up and once timed, and prints every output's shape, range and hash. A bundle needs no compiler;\n"
       "a model is compiled first, as `rtx compile` would.",
       {{"rtx run model.rtxgc --random 1", "random inputs that respect index ranges"},
        {"rtx run model.rtxgc --input ids=ids.npy --input mask=mask.npy --output-dir out", "given inputs, outputs as .npy"},
        {"rtx run model.onnx --dim batch=1 --random 1 --no-tune", "a model, with first picks instead of a search"}},
       "2 an input is missing or does not fit; 3 the bundle is damaged, not trusted or for another machine; 4 no compiler, or out of memory"},
      {"verify",
       "Compiles the model and compares its outputs with recorded data (--data) or with the reference interpreter in double\n"
       "(--random, --input). The tolerances are fixed; per output it prints the error, what is allowed, and the first wrong index.",
       {{"rtx verify model.onnx --random 1 --dim batch=1", "random inputs against the reference"},
        {"rtx verify model.onnx --data model", "test_data_set_0, test_data_set_1 ... in the folder model"},
        {"rtx verify model.onnx --random 1 --dtype bf16 --all-tensors", "computed in bf16; names the first tensor that departs"}},
       "0 all outputs agree; 1 one does not; 2 bad model or data"},
      {"bench",
       "Times a bundle, a model, or the kernel suite. Whatever is compared runs interleaved in the same process, and \"faster\" is\n"
       "said only where the 95 % intervals do not overlap.",
       {{"rtx bench model.onnx --dim batch=1 --baseline --layers", "against the unfused baseline, and each region's share"},
        {"rtx bench suite --family gemm --output gemm.json", "matrix products against OpenBLAS, raw samples into a file"},
        {"rtx bench suite --target cuda --group gemm --peers --output ours.json", "against cuBLASLt in the same process; --list shows all groups"},
        {"rtx bench --compare ours.json torch.json --report both.html", "result files joined into one table and page"},
        {"rtx bench --recheck gemm.json", "run that again and compare"}},
       "1 --recheck found something slower than the file's spread; 3 the bundle cannot be used here; 4 no compiler or no OpenBLAS; 74 a file cannot be written"},
      {"explain",
       "Shows what compile would do, without compiling: rewrites, regions, the kernel family of each, its candidates, the rules\n"
       "that excluded others, and what earlier tuning found.",
       {{"rtx explain model.onnx --dim batch=1", "regions and candidates"},
        {"rtx explain model.onnx --source REGION", "the emitted source of one region"},
        {"rtx explain model.onnx --dot model.dot", "the graph for Graphviz"}},
       "2 bad model, or no such region"},
      {"tune",
       "Searches the kernel of one operator without a model, and prints what became of every candidate: measured, rejected by a\n"
       "rule, not compiled, wrong. The choice is remembered for every model that needs the same kernel.",
       {{"rtx tune gemm", "lists the settings of the family, and tunes their defaults"},
        {"rtx tune gemm m=128 n=384 k=384 epilogue=bias,gelu --budget 60", "one product with its epilogue"},
        {"rtx tune softmax rows=4096 columns=1024 --json", "every candidate as JSON"}},
       "2 unknown family or setting; 4 no compiler; 130 Ctrl-C (what was tuned is kept)"},
      {"inspect",
       "Prints what is in a bundle without running it: who signed it, for which machine, inputs and outputs, kernels, sections.",
       {{"rtx inspect model.rtxgc", "everything at a glance"},
        {"rtx inspect model.rtxgc --kernel NAME --source", "one kernel: parameters, key, source"},
        {"rtx inspect model.rtxgc --json", "the same for programs, with the bill of materials"}},
       "2 no such file or kernel; 3 the bundle is damaged or not trusted"},
      {"check",
       "Compares what the bundle was made for with this machine, field by field, without loading it. Exact and compatible run;\n"
       "rebuild and refuse do not.",
       {{"rtx check model.rtxgc", "the verdict and the fields"}, {"rtx check model.rtxgc --json", "the same for programs"}},
       "0 exact or compatible; 3 rebuild, refuse, damaged or not trusted"},
      {"cache",
       "stats    how many kernels, how many bytes\n"
       "list     every kernel with its parameters and time (-v: its key)\n"
       "verify   reads every entry; damaged ones are set aside and made again when needed\n"
       "gc       removes the least recently used until the size bound holds\n"
       "export   writes all kernels into one file, import takes them from it\n"
       "clear    removes all",
       {{"rtx cache stats", "where it is and how large"}, {"rtx cache export kernels.cache", "to take along"}, {"rtx cache gc --max-mb 500", "keep at most 500 MiB"}},
       "1 verify found a damaged entry; 2 there is no cache, or it is not used; 74 it cannot be written"},
      {"key",
       "Bundles are signed. Keys live in $XDG_CONFIG_HOME/rtx-synth, readable by you alone; `rtx compile` makes one on first use.\n"
       "A bundle signed by a key that is not trusted here is refused.",
       {{"rtx key new release", "a key pair of your own, trusted here"},
        {"rtx key trust colleague 5f0c...", "accept bundles signed with this public key (hex, or a file that holds it)"},
        {"rtx key list", "own and trusted keys"}},
       "2 no such key, or a name that is taken; 74 the key cannot be written"},
      {"targets",
       "What this machine can compile for and run, and why each other target is missing.",
       {{"rtx targets", "one line a target"}, {"rtx targets --features --json", "with what the device can do"}},
       "0 always; commands that need a missing target end with 4"},
  };
  return list;
}

std::string text_of(const std::vector<Example>& examples) {
  std::string out = "Examples:\n";
  for (const auto& example : examples) out += std::string("  ") + example.line + "\n      " + example.meaning + "\n";
  return out;
}

}  // namespace

std::string general_help() {
  std::string out = text_of({{"rtx compile model.onnx --dim batch=1 --dim sequence=128 -o model.rtxgc --baseline", "a bundle for this machine, and what it wins"},
                             {"rtx run model.rtxgc --random 1", "run it"},
                             {"rtx verify model.onnx --random 1 --dim batch=1 --dim sequence=128", "are its numbers right?"}});
  out += "\n`rtx COMMAND --help` says more about each.\n\n"
         "Exit codes: 0 done; 1 a check failed; 2 usage, bad model or input; 3 bundle incompatible, damaged or untrusted;\n"
         "4 no device or compiler, or out of memory; 74 output cannot be written; 130 interrupted; 70 a bug of ours\n\n"
         "Environment:\n";
  for (const auto& variable : environment_table()) {
    std::string name = variable.name;
    name.resize(std::max<size_t>(name.size(), 18), ' ');
    out += "  " + name + variable.meaning + "\n";
  }
  return out;
}

std::string command_help(const std::string& command) {
  const auto found = std::find_if(pages().begin(), pages().end(), [&](const Page& page) { return command == page.command; });
  if (found == pages().end()) return {};
  return std::string(found->about) + "\n\n" + text_of(found->examples) + "\nExit codes: " + found->exit_codes + "\n`rtx --help` lists all exit codes and the environment.";
}

}  // namespace rtx::tools
