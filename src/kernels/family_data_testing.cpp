#include "kernels/family_data_testing.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace rtx::kernels::testing {

using ir::DType;

namespace {

// Values that index an axis get the axis's extent; 0: not an index.
std::vector<int64_t> index_ranges(const ir::Graph& body) {
  std::vector<int64_t> out(body.values.size(), 0);
  for (const auto& node : body.nodes) {
    if (node.op != ir::Op::gather && node.op != ir::Op::gather_nd && node.op != ir::Op::scatter_nd) continue;
    const auto from = body.extents(node.inputs[0]);
    const auto indices = body.extents(node.inputs[1]);
    int64_t range = from.empty() ? 1 : INT64_MAX;
    if (node.op == ir::Op::gather) {
      range = from[static_cast<size_t>(node.attributes.integer("axis"))];
    } else {
      const int64_t batch = node.attributes.integer("batch_dims");
      for (int64_t k = 0; k < indices.back(); ++k) range = std::min(range, from[static_cast<size_t>(batch + k)]);
    }
    out[static_cast<size_t>(node.inputs[1])] = range;
  }
  return out;
}

ir::HostTensor random_tensor(const ir::Graph& body, ir::ValueId id, int64_t range, const TestCase& test, std::mt19937_64& random) {
  const auto& value = body.value(id);
  ir::HostTensor out(value.dtype, body.extents(id));
  static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0, 1e-40, -3e-39, 1e30};
  for (int64_t i = 0; i < out.count(); ++i) {
    if (range > 0) out.set_int(i, static_cast<int64_t>(random() % static_cast<uint64_t>(2 * range)) - range);
    else if (value.dtype == DType::boolean) out.set_int(i, static_cast<int64_t>(random() & 1));
    else if (ir::is_floating(value.dtype)) {
      const double x = std::uniform_real_distribution<double>(test.low, test.high)(random);
      out.set_double(i, test.special && random() % 7 == 0 ? specials[random() % 7] : x);
    } else {
      const int64_t low = ir::info(value.dtype).kind == ir::DTypeKind::unsigned_integer ? 0 : static_cast<int64_t>(std::floor(test.low * 4));
      const int64_t high = static_cast<int64_t>(std::ceil(test.high * 4));
      out.set_int(i, low + static_cast<int64_t>(random() % static_cast<uint64_t>(std::max<int64_t>(high - low + 1, 1))));
    }
  }
  return out;
}

std::vector<int64_t> strides_of(const ir::Value& value) {
  return value.layout.strides.empty() ? ir::row_major_strides(ir::extents(value.shape)) : value.layout.strides;
}

}  // namespace

std::vector<ir::HostTensor> make_inputs(const ir::Graph& body, const TestCase& test) {
  std::mt19937_64 random(test.seed);
  const auto ranges = index_ranges(body);
  std::vector<ir::HostTensor> inputs;
  for (const ir::ValueId id : body.inputs) inputs.push_back(random_tensor(body, id, ranges[static_cast<size_t>(id)], test, random));
  for (size_t k = 0; test.fill && k < inputs.size(); ++k)
    for (int64_t i = 0; i < inputs[k].count(); ++i) inputs[k].set_double(i, test.fill(k, i));
  return inputs;
}

int64_t span_of(const ir::Graph& body, ir::ValueId id) {
  const auto extents = body.extents(id);
  const auto strides = strides_of(body.value(id));
  int64_t last = body.value(id).layout.offset;
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] == 0) return 0;
    last += (extents[d] - 1) * strides[d];
  }
  return last + 1;
}

void move_elements(const ir::Graph& body, ir::ValueId id, std::byte* dense, unsigned char* buffer, bool into_buffer) {
  const auto extents = body.extents(id);
  const auto strides = strides_of(body.value(id));
  const int64_t size = ir::bytes_of(body.value(id).dtype), count = ir::element_count(extents);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = body.value(id).layout.offset;
    for (size_t d = extents.size(); d-- > 0;) {
      at += rest % extents[d] * strides[d];
      rest /= extents[d];
    }
    if (into_buffer) std::memcpy(buffer + at * size, dense + i * size, static_cast<size_t>(size));
    else std::memcpy(dense + i * size, buffer + at * size, static_cast<size_t>(size));
  }
}

}  // namespace rtx::kernels::testing
