#include "rtx/rebuild.h"

#include "ir/text.h"
#include "rtx/pipeline_run.h"

namespace rtx::tools {

std::function<Result<bundle::Plan>(const bundle::Opened&, const bundle::Verdict&)> rebuild_callback(const Common& common, Console& console) {
  return [&common, &console](const bundle::Opened& opened, const bundle::Verdict& verdict) -> Result<bundle::Plan> {
    console.notice("recompiling the bundle for this machine: " + verdict.sentence);
    // The stored text names large constants by hash; their bytes are in the constants section.
    std::map<std::string, ir::HostTensor> constants;
    for (size_t i = 0; i < opened.plan.constants.size(); ++i) {
      const auto& constant = opened.plan.constants[i];
      RTX_CHECK(opened.verify_constant(static_cast<int>(i)));
      constants[constant.info.name] = ir::HostTensor(constant.info.dtype, constant.info.extents, constant.owner, constant.bytes);
    }
    auto graph = ir::parse(opened.plan.graph, constants);
    if (!graph.ok()) return error_of(ErrorKind::bundle, "the bundle's stored graph cannot be compiled again", graph.error().what + " " + graph.error().why, "compile the model again");
    WorkbenchOptions options;
    options.target = opened.plan.identity.target;
    options.device = common.device;
    options.threads = common.threads;
    options.jobs = common.jobs;
    RTX_TRY(auto bench, Workbench::open(options, console));
    TuneOptions tune;
    tune.no_tune = true;
    tune.deterministic = opened.plan.deterministic;
    RTX_TRY(auto compiled, compile_graph(*graph, *bench, pipeline_options(tune, common, console)));
    return std::move(compiled.plan);
  };
}

}  // namespace rtx::tools
