#include "runtime/binding.h"

namespace rtx::runtime {

namespace {

// Strides of extents of one say nothing; neither do those of a tensor without elements.
bool same_layout(const std::vector<int64_t>& extents, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  for (const int64_t extent : extents)
    if (extent == 0) return true;
  int64_t dense = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    const int64_t left = a.empty() ? dense : a[i], right = b.empty() ? dense : b[i];
    if (extents[i] != 1 && left != right) return false;
    dense *= extents[i];
  }
  return true;
}

std::string list(const std::vector<int64_t>& values) {
  std::string out = "[";
  for (size_t i = 0; i < values.size(); ++i) out += (i ? "," : "") + std::to_string(values[i]);
  return out + "]";
}

}  // namespace

int64_t byte_count(const bundle::TensorInfo& info) {
  int64_t elements = 1;
  for (size_t i = 0; i < info.extents.size(); ++i) {
    if (info.extents[i] == 0) return 0;
    elements = info.strides.empty() ? elements * info.extents[i] : elements + (info.extents[i] - 1) * info.strides[i];
  }
  return (info.offset + elements) * ir::bytes_of(info.dtype);
}

std::string describe(ir::DType dtype, const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  return std::string(ir::name(dtype)) + list(extents) + (strides.empty() ? "" : " with strides " + list(strides));
}

Status check_binding(const bundle::TensorInfo& wanted, const TensorView& found, const char* role) {
  const auto fail = [&](const std::string& why, const std::string& fix) {
    Error error = user_error("a tensor does not fit the model", why, fix);
    error.where.push_back(std::string(role) + " '" + wanted.name + "'");
    return error;
  };
  const auto mismatch = [&](const std::string& fix) {
    return fail("found " + describe(found.dtype, found.extents, found.strides) + ", wanted " + describe(wanted.dtype, wanted.extents, wanted.strides), fix);
  };
  if (found.dtype != wanted.dtype) return mismatch("convert it to " + std::string(ir::name(wanted.dtype)));
  if (found.extents != wanted.extents) return mismatch("the extents were fixed when the model was compiled: compile it for these");
  if (!found.strides.empty() && found.strides.size() != found.extents.size())
    return fail(std::to_string(found.strides.size()) + " strides for " + std::to_string(found.extents.size()) + " extents", "give one for each, or none for a dense tensor");
  if (!same_layout(wanted.extents, wanted.strides, found.strides))
    return mismatch("copy it to a buffer of that layout first; nothing is copied behind your back");
  const auto bytes = static_cast<uintptr_t>(ir::bytes_of(wanted.dtype));
  if (reinterpret_cast<uintptr_t>(found.data) % bytes != 0)
    return fail("its address is not a multiple of " + std::to_string(bytes) + ", the size of one element", "place it where its elements are aligned");
  if (!found.data && byte_count(wanted) > 0) return fail("its data pointer is null", "");
  return success();
}

}  // namespace rtx::runtime
