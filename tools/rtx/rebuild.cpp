#include "rtx/rebuild.h"

#include "ir/text.h"
#include "rtx/pipeline_run.h"

namespace rtx::tools {

namespace {

// Whatever is missing here, the user holds a bundle that asks for a rebuild nobody can do.
Error cannot_rebuild(Error error) {
  if (error.kind == ErrorKind::device || error.kind == ErrorKind::user) error.kind = ErrorKind::bundle;
  return error;
}

}  // namespace

std::function<Result<bundle::Plan>(const bundle::Opened&, const bundle::Verdict&)> rebuild_callback(const Common& common, Console& console) {
  return [&common, &console](const bundle::Opened& opened, const bundle::Verdict&) -> Result<bundle::Plan> {
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
    auto bench = Workbench::open(options, console);
    if (!bench.ok()) return cannot_rebuild(std::move(bench).error());
    TuneOptions tune;
    tune.no_tune = true;
    tune.deterministic = opened.plan.deterministic;
    auto compiled = compile_graph(*graph, **bench, pipeline_options(tune, common, console));
    if (!compiled.ok()) return cannot_rebuild(std::move(compiled).error());
    return std::move(compiled->plan);
  };
}

}  // namespace rtx::tools
