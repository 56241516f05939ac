#include <set>

#include "backend/tensor_view.h"
#include "bundle/manifest.h"
#include "bundle/manifest_generated.h"

namespace rtx::bundle {

namespace {

using layout::kMaxBytes;

template <class T>
using Tables = flatbuffers::Vector<flatbuffers::Offset<T>>;

constexpr size_t kMaxName = 4096;
constexpr size_t kMaxRank = 64;

// Reads tables into structs. The first thing wrong is kept as a sentence and everything after it reads as empty.
class Decoder {
 public:
  explicit Decoder(int64_t memory_limit) : memory_left_(memory_limit) {}

  bool failed() const { return !why_.empty(); }
  const std::string& why() const { return why_; }
  void fail(std::string sentence) {
    if (why_.empty()) why_ = std::move(sentence);
  }
  void require(bool condition, const char* sentence) {
    if (!condition) fail(sentence);
  }

  std::string text(const flatbuffers::String* value, size_t limit = SIZE_MAX) {
    if (!value || failed()) return {};
    if (value->size() > limit) fail("a name in the manifest is longer than " + std::to_string(limit) + " bytes");
    return spend(value->size()) ? value->str() : std::string();
  }
  std::string name(const flatbuffers::String* value) { return text(value, kMaxName); }

  // 0 <= value <= limit.
  int64_t bounded(uint64_t value, const char* what, int64_t limit = kMaxBytes) {
    if (value > static_cast<uint64_t>(limit)) fail(std::string(what) + " is out of range: " + std::to_string(value));
    return failed() ? 0 : static_cast<int64_t>(value);
  }
  int64_t size(const format::Size* value, const char* what, int64_t limit = kMaxBytes) {
    if (!value || failed()) return 0;
    if (value->expression() && value->expression()->size() != 0)
      fail(std::string(what) + " is the expression '" + value->expression()->str().substr(0, 100) +
           "', and this runtime only knows bound sizes; a newer runtime is needed");
    if (value->constant() < 0) fail(std::string(what) + " is negative: " + std::to_string(value->constant()));
    return bounded(static_cast<uint64_t>(value->constant()), what, limit);
  }
  std::vector<int64_t> sizes(const Tables<format::Size>* values, const char* what, size_t limit) {
    std::vector<int64_t> out;
    if (!values || failed()) return out;
    if (values->size() > limit) fail(std::string(what) + ": " + std::to_string(values->size()) + " of them");
    if (!spend(values->size() * sizeof(int64_t))) return out;
    for (const auto* value : *values) out.push_back(size(value, what));
    return out;
  }
  // One struct per table; `make` is not called any more once something is wrong.
  template <class Out, class In, class Make>
  std::vector<Out> all(const Tables<In>* tables, Make make) {
    std::vector<Out> out;
    if (!tables || !spend(tables->size() * sizeof(Out))) return out;
    out.reserve(tables->size());
    for (const auto* table : *tables) {
      if (failed()) break;
      out.push_back(make(*table));
    }
    return out;
  }
  bool spend(uint64_t bytes) {
    if (!failed() && bytes > static_cast<uint64_t>(memory_left_)) fail("its manifest describes more than the file can hold");
    if (failed()) return false;
    memory_left_ -= static_cast<int64_t>(bytes);
    return true;
  }

 private:
  int64_t memory_left_;
  std::string why_;
};

// Bytes from a tensor's first to behind its last element; -1 when that overflows.
int64_t span_bytes(const TensorInfo& info) {
  for (const int64_t extent : info.extents)
    if (extent == 0) return 0;
  int64_t elements = 1;
  if (info.strides.empty()) {
    for (const int64_t extent : info.extents)
      if (__builtin_mul_overflow(elements, extent, &elements)) return -1;
  } else {
    for (size_t i = 0; i < info.extents.size(); ++i) {
      int64_t reach = 0;
      if (__builtin_mul_overflow(info.extents[i] - 1, info.strides[i], &reach)) return -1;
      if (__builtin_add_overflow(elements, reach, &elements)) return -1;
    }
  }
  int64_t bytes = 0;
  if (__builtin_add_overflow(elements, info.offset, &elements)) return -1;
  if (__builtin_mul_overflow(elements, ir::bytes_of(info.dtype), &bytes)) return -1;
  return bytes;
}

TensorInfo tensor(Decoder& d, const format::Tensor* table) {
  TensorInfo out;
  if (!table) {
    d.fail("a tensor of the manifest is missing");
    return out;
  }
  out.name = d.name(table->name());
  const std::string dtype = d.name(table->dtype());
  if (const auto known = ir::dtype_from_name(dtype))
    out.dtype = *known;
  else
    d.fail("tensor '" + out.name + "' has the element type '" + dtype + "', which this runtime does not know");
  out.extents = d.sizes(table->extents(), "an extent", kMaxRank);
  out.strides = d.sizes(table->strides(), "a stride", kMaxRank);
  out.offset = d.size(table->offset(), "an element offset");
  if (!out.strides.empty() && out.strides.size() != out.extents.size()) d.fail("tensor '" + out.name + "' has not one stride for each extent");
  if (d.failed()) return out;
  const int64_t bytes = span_bytes(out);
  if (bytes < 0 || bytes > kMaxBytes) d.fail("tensor '" + out.name + "' is larger than any memory");
  return out;
}

Slot slot(Decoder& d, const format::Slot* table) {
  Slot out;
  if (!table) {
    d.fail("a buffer of a step is missing");
    return out;
  }
  if (table->kind() > static_cast<uint8_t>(SlotKind::state)) d.fail("a step uses buffer kind " + std::to_string(table->kind()) + ", which this runtime does not know");
  out.kind = static_cast<SlotKind>(table->kind());
  out.index = d.size(table->index(), "a buffer's place");
  out.offset = d.size(table->offset(), "a buffer's offset");
  return out;
}

backend::Dim3 dim3(Decoder& d, const Tables<format::Size>* values, const char* what) {
  const auto sizes = d.sizes(values, what, 3);
  if (sizes.size() != 3) {
    d.fail(std::string(what) + " has not three extents");
    return {};
  }
  int64_t count = 1;
  if (__builtin_mul_overflow(sizes[0], sizes[1], &count) || __builtin_mul_overflow(count, sizes[2], &count) || count > kMaxBytes)
    d.fail(std::string(what) + " has too many elements");
  return {sizes[0], sizes[1], sizes[2]};
}

backend::TensorView view(Decoder& d, const format::View& table) {
  constexpr size_t kMaxViewRank = 5;
  backend::TensorView out;
  out.argument = table.argument();
  const std::string element = d.name(table.element());
  if (const auto known = backend::view_element_from_name(element)) out.element = *known;
  else d.fail("a step's view has the element type '" + element + "', which this runtime does not know");
  out.extents = d.sizes(table.extents(), "a view's extent", kMaxViewRank);
  out.strides_bytes = d.sizes(table.strides_bytes(), "a view's stride", kMaxViewRank);
  out.box = d.sizes(table.box(), "a view's box", kMaxViewRank);
  out.swizzle = table.swizzle();
  out.byte_offset = d.size(table.offset(), "a view's offset");
  if (d.failed()) return out;
  if (const std::string problem = backend::problem_of(out); !problem.empty()) d.fail("a step's view is none: " + problem);
  return out;
}

Step step(Decoder& d, const format::Step& table) {
  Step out;
  out.kernel = table.kernel();
  out.entry = d.name(table.entry());
  d.require(!out.entry.empty() && out.entry.find('\0') == std::string::npos, "a step names no entry");
  out.grid = dim3(d, table.grid(), "a grid");
  out.group = dim3(d, table.group(), "a group");
  out.scratch_bytes = d.size(table.scratch(), "a step's scratch", int64_t{1} << 32);
  out.arguments = d.all<Slot>(table.arguments(), [&](const format::Slot& s) { return slot(d, &s); });
  out.region = d.name(table.region());
  out.views = d.all<backend::TensorView>(table.views(), [&](const format::View& v) { return view(d, v); });
  return out;
}

Identity identity(Decoder& d, const format::Identity* table) {
  Identity out;
  if (!table) {
    d.fail("its manifest does not say which device it is for");
    return out;
  }
  out.target = d.name(table->target());
  out.device = d.name(table->device());
  out.arch = d.name(table->arch());
  out.driver = d.name(table->driver());
  out.runtime_abi = table->runtime_abi();
  out.toolchain = d.name(table->toolchain());
  out.synth_sha = d.name(table->synth_sha());
  return out;
}

SectionInfo section(Decoder& d, const format::Section& table) {
  SectionInfo out;
  out.entry = {table.kind(), table.flags(), table.offset(), table.bytes()};
  out.name = d.name(table.name());
  if (!table.hash() || table.hash()->size() != out.hash.size())
    d.fail("a section of the manifest has no hash");
  else
    std::memcpy(out.hash.data(), table.hash()->data(), out.hash.size());
  return out;
}

ByteRange range(Decoder& d, uint64_t offset, uint64_t bytes, int64_t limit, const char* what) {
  ByteRange out{d.bounded(offset, what), d.bounded(bytes, what)};
  if (out.offset > limit || out.bytes > limit - out.offset) d.fail(std::string(what) + " reaches outside its section");
  return out;
}

int64_t section_bytes(Decoder& d, const Frame& frame, uint32_t kind) {
  const SectionInfo* found = frame.find(kind);
  return found ? d.bounded(found->entry.bytes, "a section's size") : 0;
}

void kernels(Decoder& d, const format::Manifest& m, Decoded& out) {
  const int64_t binaries = section_bytes(d, out.frame, layout::kBinaries);
  out.plan.kernels = d.all<KernelRecord>(m.kernels(), [&](const format::Kernel& table) {
    KernelRecord kernel;
    kernel.name = d.name(table.name());
    kernel.family = d.name(table.family());
    kernel.key = d.text(table.key());
    kernel.parameters = d.text(table.parameters());
    kernel.numerics_class = d.text(table.numerics_class());
    kernel.region = d.text(table.region());
    kernel.measured_ms = table.measured_ms();
    out.frame.binaries.push_back(range(d, table.binary_offset(), table.binary_bytes(), binaries, "a kernel's binary"));
    out.frame.sources.push_back(range(d, table.source_offset(), table.source_bytes(), out.frame.sources_bytes, "a kernel's source"));
    d.spend(static_cast<uint64_t>(out.frame.binaries.back().bytes) + 2 * sizeof(ByteRange));
    return kernel;
  });
}

void constants(Decoder& d, const format::Manifest& m, Decoded& out) {
  out.plan.constants = d.all<Constant>(m.constants(), [&](const format::Constant& table) {
    Constant constant;
    constant.info = tensor(d, table.tensor());
    constant.byte_size = d.bounded(table.bytes(), "a constant's size");
    out.frame.constants.push_back(range(d, table.offset(), table.bytes(), out.frame.constants_bytes, "a constant"));
    d.spend(sizeof(ByteRange));
    if (d.failed()) return constant;
    if (span_bytes(constant.info) > constant.byte_size) d.fail("constant '" + constant.info.name + "' has fewer bytes than its extents need");
    if (out.frame.constants.back().offset % ir::bytes_of(constant.info.dtype) != 0) d.fail("constant '" + constant.info.name + "' is not aligned");
    return constant;
  });
}

// Every index of every slot, against what there is.
class PlanCheck {
 public:
  PlanCheck(Decoder& d, const Plan& plan) : d_(d), plan_(plan) {}

  void run() {
    int64_t total = plan_.arena_bytes;
    for (const int64_t bytes : plan_.prepared_bytes) total = add(total, bytes);
    for (const auto& state : plan_.states) total = add(total, span_bytes(state.info));
    d_.require(total <= kMaxBytes, "its buffers are larger than any memory");
    names();
    for (const auto& state : plan_.states) {
      const bool inside = state.input >= -1 && state.output >= -1 && state.axis >= -1 && state.input < count(plan_.inputs) &&
                          state.output < count(plan_.outputs) && state.axis < count(state.info.extents);
      d_.require(inside, "a state names a tensor that is not there");
      if (d_.failed()) return;
      const int64_t capacity = span_bytes(state.info);
      d_.require(state.input < 0 || span_bytes(plan_.inputs[static_cast<size_t>(state.input)]) <= capacity, "a state is smaller than its input");
      d_.require(state.output < 0 || span_bytes(plan_.outputs[static_cast<size_t>(state.output)]) <= capacity, "a state is smaller than its output");
    }
    for (const auto& value : plan_.specialized)
      d_.require(value.info.strides.empty() && value.info.offset == 0 && static_cast<int64_t>(value.bytes.size()) == span_bytes(value.info),
                 "a specialised value has not the bytes of its extents");
    for (const auto* list : {&plan_.prepare, &plan_.steps})
      for (const Step& step : *list) {
        d_.require(step.kernel >= 0 && step.kernel < count(plan_.kernels), "a step names a kernel that is not there");
        for (const Slot& slot : step.arguments) check(slot, 0, list == &plan_.prepare);
        for (const auto& view : step.views) {
          d_.require(view.argument >= 0 && view.argument < count(step.arguments), "a step's view is of an argument that is not there");
          if (!d_.failed()) check(step.arguments[static_cast<size_t>(view.argument)], add(view.byte_offset, backend::span_bytes(view)), list == &plan_.prepare);
        }
        if (d_.failed()) return;
      }
    for (const Copy& copy : plan_.copies) {
      check(copy.from, copy.bytes, false);
      check(copy.to, copy.bytes, false);
      d_.require(copy.to.kind == SlotKind::output || copy.to.kind == SlotKind::arena || copy.to.kind == SlotKind::state, "a copy writes what may only be read");
    }
  }

 private:
  template <class T>
  static int64_t count(const std::vector<T>& items) { return static_cast<int64_t>(items.size()); }
  static int64_t add(int64_t a, int64_t b) {
    int64_t sum = 0;
    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
  }

  void names() {
    std::set<std::string_view> seen;
    for (const auto& input : plan_.inputs) unique(seen, input);
    for (const auto& value : plan_.specialized) unique(seen, value.info);
    seen.clear();
    for (const auto& output : plan_.outputs) unique(seen, output);
  }
  void unique(std::set<std::string_view>& seen, const TensorInfo& info) {
    if (!seen.insert(info.name).second) d_.fail("two tensors are called '" + info.name + "'");
  }

  // `bytes` more than the slot's own offset must lie inside its buffer.
  void check(const Slot& slot, int64_t bytes, bool preparing) {
    int64_t size = 0;
    const auto of = [&](int64_t have) {
      d_.require(slot.index < have, "a step names a buffer that is not there");
      return !d_.failed();
    };
    const auto i = static_cast<size_t>(slot.index);
    switch (slot.kind) {
      case SlotKind::input: if (of(count(plan_.inputs))) size = span_bytes(plan_.inputs[i]); break;
      case SlotKind::output: if (of(count(plan_.outputs))) size = span_bytes(plan_.outputs[i]); break;
      case SlotKind::constant: if (of(count(plan_.constants))) size = plan_.constants[i].byte_size; break;
      case SlotKind::prepared: if (of(count(plan_.prepared_bytes))) size = plan_.prepared_bytes[i]; break;
      case SlotKind::state: if (of(count(plan_.states))) size = span_bytes(plan_.states[i].info); break;
      case SlotKind::arena: size = plan_.arena_bytes; break;
    }
    int64_t end = slot.kind == SlotKind::arena ? add(slot.index, slot.offset) : slot.offset;
    end = add(end, bytes);
    d_.require(end <= size, "a step's buffer reaches outside its memory");
    d_.require(!preparing || (slot.kind != SlotKind::input && slot.kind != SlotKind::output && slot.kind != SlotKind::state),
               "a preparing step uses what only a run has");
  }

  Decoder& d_;
  const Plan& plan_;
};

}  // namespace

const SectionInfo* Frame::find(uint32_t kind) const {
  for (const auto& section : sections)
    if (section.entry.kind == kind) return &section;
  return nullptr;
}

Result<Decoded> decode_manifest(std::span<const std::byte> bytes, int64_t memory_limit) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  const auto tables = static_cast<flatbuffers::uoffset_t>(std::min<size_t>(bytes.size() / 4 + 64, 1u << 24));
  flatbuffers::Verifier verifier(data, bytes.size(), 16, tables);
  if (bytes.size() < 16 || bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE || !format::VerifyManifestBuffer(verifier))
    return damaged("its manifest is not a well-formed table");
  const format::Manifest& m = *format::GetManifest(data);

  Decoder d(memory_limit);
  Decoded out;
  Frame& frame = out.frame;
  frame.major = static_cast<int>(d.bounded(m.format_major(), "the format version", 1 << 20));
  frame.minor = static_cast<int>(d.bounded(m.format_minor(), "the format version", 1 << 20));
  frame.sections = d.all<SectionInfo>(m.sections(), [&](const format::Section& s) { return section(d, s); });
  frame.sections_end = d.bounded(m.sections_end(), "the end of the sections");
  frame.constants_bytes = d.bounded(m.constants_bytes(), "the size of the constants");
  frame.side_file = d.name(m.side_file());
  frame.sources_bytes = d.bounded(m.sources_bytes(), "the size of the sources", int64_t{1} << 30);
  d.require(m.chunk_bytes() == static_cast<uint64_t>(layout::kChunk), "its constants are hashed in chunks of another size than 1 MiB");
  if (d.failed()) return damaged(d.why());

  Plan& plan = out.plan;
  plan.model_name = d.name(m.model_name());
  plan.identity = identity(d, m.identity());
  plan.graph = d.text(m.graph());
  plan.summary = d.text(m.summary());
  plan.deterministic = m.deterministic();
  const auto tensors = [&](const format::Tensor& t) { return tensor(d, &t); };
  plan.inputs = d.all<TensorInfo>(m.inputs(), tensors);
  plan.outputs = d.all<TensorInfo>(m.outputs(), tensors);
  plan.specialized = d.all<SpecializedValue>(m.specialized(), [&](const format::Specialized& table) {
    SpecializedValue value;
    value.info = tensor(d, table.tensor());
    if (table.bytes() && d.spend(table.bytes()->size())) {
      const auto* first = reinterpret_cast<const std::byte*>(table.bytes()->data());
      value.bytes.assign(first, first + table.bytes()->size());
    }
    return value;
  });
  plan.states = d.all<StateInfo>(m.states(), [&](const format::State& table) {
    StateInfo state;
    state.info = tensor(d, table.tensor());
    state.input = table.input();
    state.output = table.output();
    state.axis = table.axis();
    return state;
  });
  kernels(d, m, out);
  constants(d, m, out);
  plan.prepared_bytes = d.sizes(m.prepared(), "a prepared buffer", SIZE_MAX);
  const auto steps = [&](const format::Step& s) { return step(d, s); };
  plan.prepare = d.all<Step>(m.prepare(), steps);
  plan.steps = d.all<Step>(m.steps(), steps);
  plan.copies = d.all<Copy>(m.copies(), [&](const format::Copy& table) {
    Copy copy;
    copy.from = slot(d, table.from());
    copy.to = slot(d, table.to());
    copy.bytes = d.size(table.bytes(), "a copy");
    return copy;
  });
  plan.arena_bytes = d.size(m.arena(), "the arena");
  if (!d.failed()) PlanCheck(d, plan).run();
  if (d.failed()) return damaged(d.why());
  return out;
}

}  // namespace rtx::bundle
