#include <string>

#include "backend/tensor_view.h"
#include "bundle/bundle.h"
#include "bundle/manifest.h"
#include "bundle/manifest_generated.h"

namespace rtx::bundle {

namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Table = Offset<T>;
template <class T>
using TableList = Offset<flatbuffers::Vector<Offset<T>>>;

struct Encoder {
  FlatBufferBuilder builder;

  Table<flatbuffers::String> text(const std::string& value) { return value.empty() ? Table<flatbuffers::String>() : builder.CreateString(value); }
  // Zero is the absent table: most offsets are zero.
  Table<format::Size> size(int64_t value) { return value == 0 ? Table<format::Size>() : format::CreateSize(builder, value); }
  TableList<format::Size> sizes(const std::vector<int64_t>& values) {
    std::vector<Table<format::Size>> out;
    for (const int64_t value : values) out.push_back(format::CreateSize(builder, value));
    return builder.CreateVector(out);
  }
  template <class Out, class In, class Make>
  TableList<Out> all(const std::vector<In>& items, Make make) {
    std::vector<Table<Out>> out;
    for (const In& item : items) out.push_back(make(item));
    return builder.CreateVector(out);
  }

  Table<format::Tensor> tensor(const TensorInfo& info) {
    const auto name = text(info.name);
    const auto dtype = builder.CreateString(std::string(ir::name(info.dtype)));
    const auto extents = sizes(info.extents);
    const auto strides = info.strides.empty() ? TableList<format::Size>() : sizes(info.strides);
    return format::CreateTensor(builder, name, dtype, extents, strides, size(info.offset));
  }
  Table<format::Slot> slot(const Slot& slot) {
    const auto index = size(slot.index);
    const auto offset = size(slot.offset);
    return format::CreateSlot(builder, static_cast<uint8_t>(slot.kind), index, offset);
  }
  Table<format::View> view(const backend::TensorView& view) {
    const auto element = builder.CreateString(std::string(backend::name(view.element)));
    const auto extents = sizes(view.extents), strides = sizes(view.strides_bytes), box = sizes(view.box);
    return format::CreateView(builder, view.argument, element, extents, strides, box, view.swizzle, size(view.byte_offset));
  }
  Table<format::Step> step(const Step& step) {
    const auto entry = text(step.entry);
    const auto grid = sizes({step.grid.x, step.grid.y, step.grid.z});
    const auto group = sizes({step.group.x, step.group.y, step.group.z});
    const auto scratch = size(step.scratch_bytes);
    const auto arguments = all<format::Slot>(step.arguments, [&](const Slot& s) { return slot(s); });
    const auto views = step.views.empty() ? TableList<format::View>() : all<format::View>(step.views, [&](const backend::TensorView& v) { return view(v); });
    return format::CreateStep(builder, step.kernel, entry, grid, group, scratch, arguments, text(step.region), views);
  }
  Table<format::Kernel> kernel(const KernelRecord& kernel, const ByteRange& binary, const ByteRange& source) {
    const auto name = text(kernel.name), family = text(kernel.family), key = text(kernel.key);
    const auto parameters = text(kernel.parameters), numerics = text(kernel.numerics_class), region = text(kernel.region);
    return format::CreateKernel(builder, name, family, key, parameters, numerics, region, static_cast<uint64_t>(binary.offset),
                                static_cast<uint64_t>(binary.bytes), static_cast<uint64_t>(source.offset),
                                static_cast<uint64_t>(source.bytes), kernel.measured_ms);
  }
  Table<format::Identity> identity(const Identity& identity) {
    const auto target = text(identity.target), device = text(identity.device), arch = text(identity.arch);
    const auto driver = text(identity.driver), toolchain = text(identity.toolchain), sha = text(identity.synth_sha);
    return format::CreateIdentity(builder, target, device, arch, driver, identity.runtime_abi, toolchain, sha);
  }
  Table<format::Section> section(const SectionInfo& section) {
    const auto hash = builder.CreateVector(section.hash.data(), section.hash.size());
    return format::CreateSection(builder, section.entry.kind, section.entry.flags, section.entry.offset, section.entry.bytes, hash,
                                 text(section.name));
  }
};

}  // namespace

std::vector<std::byte> encode_manifest(const Plan& plan, const Frame& frame) {
  Encoder e;
  std::vector<Table<format::Kernel>> kernels;
  for (size_t i = 0; i < plan.kernels.size(); ++i) kernels.push_back(e.kernel(plan.kernels[i], frame.binaries[i], frame.sources[i]));
  std::vector<Table<format::Constant>> constants;
  for (size_t i = 0; i < plan.constants.size(); ++i) {
    const auto tensor = e.tensor(plan.constants[i].info);
    constants.push_back(format::CreateConstant(e.builder, tensor, static_cast<uint64_t>(frame.constants[i].offset),
                                               static_cast<uint64_t>(frame.constants[i].bytes)));
  }
  const auto tensor = [&](const TensorInfo& info) { return e.tensor(info); };
  const auto step = [&](const Step& s) { return e.step(s); };

  const auto sections = e.all<format::Section>(frame.sections, [&](const SectionInfo& s) { return e.section(s); });
  const auto side_file = e.text(frame.side_file);
  const auto model_name = e.text(plan.model_name);
  const auto identity = e.identity(plan.identity);
  const auto graph = e.text(plan.graph);
  const auto summary = e.text(plan.summary);
  const auto inputs = e.all<format::Tensor>(plan.inputs, tensor);
  const auto outputs = e.all<format::Tensor>(plan.outputs, tensor);
  const auto specialized = e.all<format::Specialized>(plan.specialized, [&](const SpecializedValue& value) {
    const auto info = e.tensor(value.info);
    const auto bytes = e.builder.CreateVector(reinterpret_cast<const uint8_t*>(value.bytes.data()), value.bytes.size());
    return format::CreateSpecialized(e.builder, info, bytes);
  });
  const auto states = e.all<format::State>(plan.states, [&](const StateInfo& state) {
    return format::CreateState(e.builder, e.tensor(state.info), state.input, state.output, state.axis);
  });
  const auto kernel_table = e.builder.CreateVector(kernels);
  const auto constant_table = e.builder.CreateVector(constants);
  const auto prepared = e.sizes(plan.prepared_bytes);
  const auto prepare = e.all<format::Step>(plan.prepare, step);
  const auto steps = e.all<format::Step>(plan.steps, step);
  const auto copies = e.all<format::Copy>(plan.copies, [&](const Copy& copy) {
    const auto from = e.slot(copy.from), to = e.slot(copy.to);
    return format::CreateCopy(e.builder, from, to, e.size(copy.bytes));
  });
  const auto arena = e.size(plan.arena_bytes);

  format::ManifestBuilder m(e.builder);
  m.add_format_major(static_cast<uint32_t>(frame.major));
  m.add_format_minor(static_cast<uint32_t>(frame.minor));
  m.add_sections(sections);
  m.add_sections_end(static_cast<uint64_t>(frame.sections_end));
  m.add_chunk_bytes(static_cast<uint64_t>(layout::kChunk));
  m.add_constants_bytes(static_cast<uint64_t>(frame.constants_bytes));
  m.add_side_file(side_file);
  m.add_sources_bytes(static_cast<uint64_t>(frame.sources_bytes));
  m.add_model_name(model_name);
  m.add_identity(identity);
  m.add_graph(graph);
  m.add_summary(summary);
  m.add_deterministic(plan.deterministic);
  m.add_inputs(inputs);
  m.add_outputs(outputs);
  m.add_specialized(specialized);
  m.add_states(states);
  m.add_kernels(kernel_table);
  m.add_constants(constant_table);
  m.add_prepared(prepared);
  m.add_prepare(prepare);
  m.add_steps(steps);
  m.add_copies(copies);
  m.add_arena(arena);
  e.builder.Finish(m.Finish(), format::ManifestIdentifier());
  const auto* data = reinterpret_cast<const std::byte*>(e.builder.GetBufferPointer());
  return {data, data + e.builder.GetSize()};
}

}  // namespace rtx::bundle
