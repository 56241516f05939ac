// Runs a plan on a device the way nobody kind would: outputs and workspace full of NaN bytes, guard bytes around every buffer.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <span>

#include "base/parallel.h"
#include "validate/axes.h"
#include "validate/validate.h"

namespace rtx::validate {

namespace {

constexpr int64_t kGuardBytes = 4096;

// Elements a strided value spans, from its lowest to its highest address.
int64_t span_elements(const ir::Value& value, const std::vector<int64_t>& extents) {
  const int64_t count = ir::element_count(extents);
  if (value.layout.dense() || count == 0) return count;
  int64_t last = value.layout.offset;
  const auto strides = value.layout.strides.empty() ? ir::row_major_strides(extents) : value.layout.strides;
  for (size_t d = 0; d < extents.size(); ++d) last += (extents[d] - 1) * strides[d];
  return last + 1;
}

// Linear index of element i of the dense tensor inside the strided buffer.
int64_t strided_index(const ir::Value& value, const std::vector<int64_t>& extents, int64_t i) {
  const auto strides = value.layout.strides.empty() ? ir::row_major_strides(extents) : value.layout.strides;
  int64_t out = value.layout.offset;
  for (size_t d = extents.size(); d-- > 0;) {
    out += i % extents[d] * strides[d];
    i /= extents[d];
  }
  return out;
}

// Host image of a strided buffer from a tensor, which is dense itself; what no element covers keeps `poison`.
std::vector<std::byte> scatter(const ir::Value& value, const ir::HostTensor* tensor, const std::vector<int64_t>& extents, std::byte poison) {
  const int64_t width = ir::bytes_of(value.dtype);
  std::vector<std::byte> image(static_cast<size_t>(span_elements(value, extents) * width), poison);
  if (!tensor || tensor->count() == 0) return image;
  for (int64_t i = 0; i < tensor->count(); ++i)
    std::memcpy(image.data() + strided_index(value, extents, i) * width, tensor->bytes() + i * width, static_cast<size_t>(width));
  return image;
}

// Device buffers with guards; released together.
class Buffers {
 public:
  explicit Buffers(backend::Device& device) : device_(device) {}
  ~Buffers() {
    for (const auto& buffer : buffers_) device_.release(buffer.base);
  }
  // A buffer of `bytes`, guards and content set to `poison`. Content starts off the allocation's alignment by `shift` bytes.
  Result<void*> add(std::string name, int64_t bytes, std::byte poison) {
    auto got = device_.allocate(bytes + 2 * kGuardBytes);
    if (!got.ok()) return exhausted = true, std::move(got).error();
    void* const base = *got;
    buffers_.push_back({std::move(name), base, bytes, poison});
    RTX_CHECK(device_.fill(base, poison, bytes + 2 * kGuardBytes, nullptr));
    return static_cast<void*>(static_cast<std::byte*>(base) + kGuardBytes);
  }
  bool exhausted = false;  // there was no memory for one of them
  // Name of the first buffer with a changed guard, empty when all stand.
  Result<std::string> damaged() {
    std::vector<std::byte> guard(kGuardBytes);
    for (const auto& buffer : buffers_) {
      for (const int64_t at : {int64_t{0}, kGuardBytes + buffer.bytes}) {
        RTX_CHECK(device_.copy_out(guard.data(), static_cast<std::byte*>(buffer.base) + at, kGuardBytes, nullptr));
        for (int64_t i = 0; i < kGuardBytes; ++i)
          if (guard[static_cast<size_t>(i)] != buffer.poison)
            return "wrote " + std::to_string(at == 0 ? kGuardBytes - i : i + 1) + " bytes " + (at == 0 ? "before" : "past the end of") + " " + buffer.name;
      }
    }
    return std::string();
  }

 private:
  struct Buffer {
    std::string name;
    void* base;
    int64_t bytes;
    std::byte poison;
  };
  backend::Device& device_;
  std::vector<Buffer> buffers_;
};

Fault launch_fault(Error error) { return {Fault::Kind::launch_failed, error.what + (error.why.empty() ? "" : ": " + error.why)}; }

class Checker {
 public:
  Checker(backend::Device& device, backend::Module& module, const backend::KernelPlan& plan, const ir::Graph& body, const Bounds& bounds)
      : device_(device), module_(module), plan_(plan), body_(body), bounds_(bounds) {}

  std::vector<Fault> check(const Case& item, std::byte poison) {
    Buffers buffers(device_);
    std::vector<Fault> faults;
    if (auto ran = run(item, poison, buffers); !ran.ok()) {
      Fault fault = launch_fault(std::move(ran).error());
      if (buffers.exhausted) fault.kind = Fault::Kind::no_memory;
      return {std::move(fault)};
    }
    auto damaged = buffers.damaged();
    if (!damaged.ok()) return {launch_fault(std::move(damaged).error())};
    if (!damaged->empty()) faults.push_back({Fault::Kind::out_of_bounds, *damaged});
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      const auto& image = images_[i];
      now_.resize(std::max(now_.size(), image.size()));
      if (auto copied = device_.copy_out(now_.data(), inputs_[i], static_cast<int64_t>(image.size()), nullptr); !copied.ok())
        return {launch_fault(std::move(copied).error())};
      if (!image.empty() && std::memcmp(now_.data(), image.data(), image.size()) != 0) faults.push_back({Fault::Kind::input_changed, "changed its input " + body_.value(body_.inputs[i]).name});
    }
    for (size_t o = 0; o < body_.outputs.size(); ++o) check_output(o, item, poison, faults);
    return faults;
  }

 private:
  Status run(const Case& item, std::byte poison, Buffers& buffers) {
    scattered_.clear(), images_.clear(), inputs_.clear(), outputs_.clear(), workspace_.clear(), prepared_.clear();
    for (size_t i = 0; i < body_.inputs.size(); ++i) {
      const auto& value = body_.value(body_.inputs[i]);
      // A dense buffer's image is the tensor itself.
      scattered_.push_back(value.layout.dense() ? std::vector<std::byte>{} : scatter(value, &item.inputs[i], item.inputs[i].extents(), poison));
      images_.push_back(value.layout.dense() ? std::span(item.inputs[i].bytes(), static_cast<size_t>(item.inputs[i].byte_size())) : std::span<const std::byte>(scattered_.back()));
      const auto bytes = static_cast<int64_t>(images_.back().size());
      RTX_TRY(void* pointer, buffers.add("input " + value.name, bytes, poison));
      RTX_CHECK(device_.copy_in(pointer, images_.back().data(), bytes, nullptr));
      inputs_.push_back(pointer);
    }
    for (const auto id : body_.outputs) {
      const auto& value = body_.value(id);
      RTX_TRY(void* pointer, buffers.add("output " + value.name, span_elements(value, body_.extents(id)) * ir::bytes_of(value.dtype), poison));
      outputs_.push_back(pointer);
    }
    for (const int64_t bytes : plan_.workspace_bytes) {
      RTX_TRY(void* pointer, buffers.add("workspace", bytes, poison));
      workspace_.push_back(pointer);
    }
    for (const int64_t bytes : plan_.prepared_bytes) {
      RTX_TRY(void* pointer, buffers.add("prepared buffer", bytes, poison));
      prepared_.push_back(pointer);
    }
    for (const auto* launches : {&plan_.prepare, &plan_.steps})
      for (const auto& launch : *launches) RTX_CHECK(issue(launch));
    return device_.synchronize(nullptr);
  }

  Status issue(const backend::Launch& launch) {
    if (launch.grid.count() == 0) return success();
    std::vector<void*> arguments;
    for (const auto& ref : launch.arguments) {
      const auto& from = ref.kind == backend::BufferKind::input    ? inputs_
                         : ref.kind == backend::BufferKind::output ? outputs_
                         : ref.kind == backend::BufferKind::workspace ? workspace_ : prepared_;
      arguments.push_back(from.at(static_cast<size_t>(ref.index)));
    }
    RTX_TRY(const backend::Function function, device_.function(module_, launch.entry));
    return device_.launch(function, launch.grid, launch.group, launch.scratch_bytes, arguments.data(), static_cast<int>(arguments.size()), nullptr, launch.views);
  }

  void check_output(size_t o, const Case& item, std::byte poison, std::vector<Fault>& faults) {
    const auto& value = body_.value(body_.outputs[o]);
    const auto extents = body_.extents(body_.outputs[o]);
    const int64_t width = ir::bytes_of(value.dtype);
    const bool dense = value.layout.dense();
    ir::HostTensor found(value.dtype, extents);
    std::vector<std::byte> image(dense ? 0 : static_cast<size_t>(span_elements(value, extents) * width));
    const int64_t bytes = dense ? found.byte_size() : static_cast<int64_t>(image.size());
    if (auto copied = device_.copy_out(dense ? found.mutable_bytes() : image.data(), outputs_[o], bytes, nullptr); !copied.ok()) {
      faults.push_back(launch_fault(std::move(copied).error()));
      return;
    }
    std::vector<bool> covered(image.size() / static_cast<size_t>(width));
    for (int64_t i = 0; !dense && i < found.count(); ++i) {
      const int64_t at = strided_index(value, extents, i);
      std::memcpy(found.mutable_bytes() + i * width, image.data() + at * width, static_cast<size_t>(width));
      covered[static_cast<size_t>(at)] = true;
    }
    for (size_t e = 0; e < covered.size(); ++e) {
      if (covered[e]) continue;
      for (int64_t b = 0; b < width; ++b)
        if (image[e * static_cast<size_t>(width) + static_cast<size_t>(b)] != poison) {
          faults.push_back({Fault::Kind::out_of_bounds, "wrote padding element " + std::to_string(e) + " of output " + value.name});
          return;
        }
    }
    Bounds bounds = bounds_;
    if (item.kind != InputKind::random && ir::is_floating(value.dtype)) {
      // Hard inputs: the larger of the class's tolerance and four times what a plain serial implementation loses on this input. A row
      // may cancel where the rest does not, and the norm says nothing of it: an element gets the larger of its bound and four times
      // what that implementation loses in its row.
      bounds.norm_allowance = 4 * item.serial_error;
      if (o < item.serial_rows.size()) bounds.row_allowance = item.serial_rows[o];
      for (auto& allowance : bounds.row_allowance) allowance *= 4;
    }
    const auto kind = std::string(item.kind == InputKind::random ? "random inputs: " : "hard inputs: ");
    const auto is_poison = [&](const std::byte* element) { return std::all_of(element, element + width, [&](std::byte b) { return b == poison; }); };
    if (!item.rows.empty()) {
      const Comparison sampled = compare(value.name, take_rows(found, item.rows, item.row_dimensions[o]), item.wanted[o], bounds);
      if (!sampled.agrees) faults.push_back({Fault::Kind::wrong_numbers, kind + "of a sample of rows, " + sampled.detail.text()});
      else check_unsampled(found, item.wanted[o], kind + value.name, is_poison, faults);
      return;
    }
    const Comparison comparison = compare(value.name, found, item.wanted[o], bounds);
    if (comparison.agrees) return;
    // An output byte pattern that is still the poison tells an element that was never written.
    const bool unwritten = comparison.detail.first_wrong >= 0 && found.count() > 0 && is_poison(found.bytes() + comparison.detail.first_wrong * width);
    faults.push_back({unwritten ? Fault::Kind::unwritten : Fault::Kind::wrong_numbers, (unwritten ? "left elements unwritten; " : "") + kind + comparison.detail.text()});
  }

  // What no reference was computed for is at least written, and finite where the sample is.
  template <class IsPoison>
  static void check_unsampled(const ir::HostTensor& found, const reference::RefTensor& wanted, const std::string& what, const IsPoison& is_poison,
                              std::vector<Fault>& faults) {
    // As stored: what double holds may be beyond f16.
    const ir::HostTensor stored = reference::to_host(wanted);
    bool finite = true;
    for (int64_t i = 0; i < stored.count() && finite; ++i) finite = std::isfinite(stored.get_double(i));
    const int64_t width = ir::bytes_of(found.dtype());
    std::atomic<int64_t> first{found.count()};
    in_parallel(found.count(), found.count() > (1 << 20) ? 0 : 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (!is_poison(found.bytes() + i * width) && (!finite || std::isfinite(found.get_double(i)))) continue;
        for (int64_t known = first; i < known && !first.compare_exchange_weak(known, i);) {
        }
        return;
      }
    });
    if (first == found.count()) return;
    const bool unwritten = is_poison(found.bytes() + first * width);
    faults.push_back({unwritten ? Fault::Kind::unwritten : Fault::Kind::wrong_numbers,
                      what + (unwritten ? ": left unwritten, first at element " : ": not finite outside the sampled rows, first at element ") + std::to_string(first)});
  }

  backend::Device& device_;
  backend::Module& module_;
  const backend::KernelPlan& plan_;
  const ir::Graph& body_;
  const Bounds& bounds_;
  std::vector<std::span<const std::byte>> images_;   // of input buffers
  std::vector<std::vector<std::byte>> scattered_;    // those that are not dense
  std::vector<std::byte> now_;
  std::vector<void*> inputs_, outputs_, workspace_, prepared_;
};

}  // namespace

std::vector<Fault> check_plan(backend::Device& device, backend::Module& module, const backend::KernelPlan& plan, const ir::Graph& body,
                              const std::vector<Case>& cases, const Bounds& bounds) {
  Checker checker(device, module, plan, body, bounds);
  for (size_t i = 0; i < cases.size(); ++i) {
    // NaN bytes first, then another pattern, so that an integer output that happens to equal one of them is still told apart.
    auto faults = checker.check(cases[i], i % 2 == 0 ? std::byte{0xff} : std::byte{0x7f});
    if (!faults.empty()) return faults;
  }
  return {};
}

}  // namespace rtx::validate
