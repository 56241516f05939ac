#include "validate/serial.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/parallel.h"

namespace rtx::validate {

namespace {

using ir::HostTensor;
using ir::Op;

float at(const HostTensor& tensor, int64_t i) { return static_cast<float>(tensor.get_double(i)); }

constexpr int kStrip = 16;
typedef float Quad __attribute__((vector_size(16)));
union Strip {
  float at[kStrip];
  Quad quads[kStrip / 4];
};

// One running f32 sum in index order, as a textbook loop would have it.
HostTensor serial_matmul(const ir::Graph& graph, const ir::Node& node, const HostTensor& a, const HostTensor& b) {
  const auto ae = a.extents(), be = b.extents();
  const auto extents = graph.extents(node.outputs[0]);
  HostTensor out(graph.value(node.outputs[0]).dtype, extents);
  const bool ta = node.attributes.integer("trans_a") != 0, tb = node.attributes.integer("trans_b") != 0;
  const size_t ra = ae.size(), rb = be.size(), r = extents.size();
  const int64_t m = extents[r - 2], n = extents[r - 1], k = ta ? ae[ra - 2] : ae[ra - 1];
  const int64_t batches = m * n == 0 ? 0 : out.count() / (m * n);
  const auto batch_offset = [&](int64_t batch, const std::vector<int64_t>& from, size_t rank) {
    int64_t offset = 0, stride = from[rank - 1] * from[rank - 2];
    for (size_t d = r - 2; d-- > 0;) {
      const int64_t c = batch % extents[d];
      batch /= extents[d];
      if (r - d > rank) continue;
      const int64_t extent = from[rank - (r - d)];
      if (extent != 1) offset += c * stride;
      stride *= extent;
    }
    return offset;
  };
  // Every element is one running sum over p in order. Strips of B's columns are packed [strip][p][kStrip], so that the sums of a strip
  // stay in registers: the order of additions is the textbook's all the same.
  const int64_t strips = (n + kStrip - 1) / kStrip;
  std::vector<Strip> table(static_cast<size_t>(strips * k));
  int64_t loaded = -1;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t a0 = batch_offset(batch, ae, ra), b0 = batch_offset(batch, be, rb);
    if (loaded != b0)
      in_parallel(strips, n * k > (1 << 20) ? 0 : 1, [&](int64_t first, int64_t last) {  // in the order in which B stands
        const auto put = [&](int64_t j, int64_t p) { table[static_cast<size_t>(j / kStrip * k + p)].at[j % kStrip] = at(b, b0 + (tb ? j * k + p : p * n + j)); };
        const int64_t begin = first * kStrip, end = std::min(n, last * kStrip);
        if (tb) {
          for (int64_t j = begin; j < end; ++j)
            for (int64_t p = 0; p < k; ++p) put(j, p);
        } else {
          for (int64_t p = 0; p < k; ++p)
            for (int64_t j = begin; j < end; ++j) put(j, p);
        }
      });
    loaded = b0;
    in_parallel(m, m * n * k > (1 << 20) ? 0 : 1, [&](int64_t first, int64_t last) {
      std::vector<float> line(static_cast<size_t>(k));
      for (int64_t i = first; i < last; ++i) {
        for (int64_t p = 0; p < k; ++p) line[static_cast<size_t>(p)] = at(a, a0 + (ta ? p * m + i : i * k + p));
        for (int64_t strip = 0; strip < strips; ++strip) {
          Strip sums{};
          const Strip* terms = table.data() + strip * k;
          for (int64_t p = 0; p < k; ++p) {
            const float factor = line[static_cast<size_t>(p)];
            const Quad by{factor, factor, factor, factor};
            for (int q = 0; q < kStrip / 4; ++q) sums.quads[q] += by * terms[p].quads[q];
          }
          for (int64_t j = strip * kStrip; j < std::min(n, (strip + 1) * kStrip); ++j) out.set_double((batch * m + i) * n + j, sums.at[j % kStrip]);
        }
      }
    });
  }
  return out;
}

// Reductions and row operators: a row is gathered along the reduced axes, processed by one textbook loop in f32.
struct Rows {
  std::vector<int64_t> starts, offsets;  // linear index of each row's first element; offsets within a row
};

Rows rows_along(const std::vector<int64_t>& extents, const std::vector<int64_t>& axes) {
  Rows out;
  const auto strides = ir::row_major_strides(extents);
  const auto walk = [&](bool reduced, std::vector<int64_t>& into) {
    into = {0};
    for (size_t d = 0; d < extents.size(); ++d) {
      if ((std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end()) != reduced) continue;
      std::vector<int64_t> next;
      for (const int64_t base : into)
        for (int64_t c = 0; c < extents[d]; ++c) next.push_back(base + c * strides[d]);
      into = std::move(next);
    }
  };
  walk(false, out.starts);
  walk(true, out.offsets);
  return out;
}

std::optional<HostTensor> serial_rows(const ir::Graph& graph, const ir::Node& node, const std::vector<const HostTensor*>& inputs) {
  const HostTensor& x = *inputs[0];
  const auto extents = x.extents();
  const auto rank = static_cast<int64_t>(extents.size());
  HostTensor out(graph.value(node.outputs[0]).dtype, graph.extents(node.outputs[0]));
  if (out.count() == 0) return out;
  const bool reduce = node.op == Op::reduce_sum || node.op == Op::reduce_mean;
  std::vector<int64_t> axes;
  if (reduce) axes = node.attributes.integers("axes");
  else if (node.op == Op::softmax) axes = {node.attributes.integer("axis")};
  else
    for (int64_t d = node.attributes.integer("axis"); d < rank; ++d) axes.push_back(d);
  const Rows rows = rows_along(extents, axes);
  const auto n = static_cast<float>(rows.offsets.size());
  const auto epsilon = static_cast<float>(node.attributes.real("epsilon"));
  const auto along = [&](const HostTensor* tensor, size_t i) {  // scale and bias broadcast to the trailing axes
    return at(*tensor, static_cast<int64_t>(i) % std::max<int64_t>(tensor->count(), 1));
  };
  for (size_t r = 0; r < rows.starts.size(); ++r) {
    float sum = 0, squares = 0, largest = -INFINITY;
    for (const int64_t o : rows.offsets) {
      const float v = at(x, rows.starts[r] + o);
      sum += v;
      squares += v * v;
      largest = std::max(largest, v);
    }
    if (reduce) {
      out.set_double(static_cast<int64_t>(r), node.op == Op::reduce_mean ? sum / n : sum);
      continue;
    }
    float mean = 0, scale = 1, total = 0;
    if (node.op == Op::layer_norm) {
      mean = sum / n;
      float variance = 0;
      for (const int64_t o : rows.offsets) variance += (at(x, rows.starts[r] + o) - mean) * (at(x, rows.starts[r] + o) - mean);
      scale = 1.0f / std::sqrt(variance / n + epsilon);
    } else if (node.op == Op::rms_norm) {
      scale = 1.0f / std::sqrt(squares / n + epsilon);
    } else {
      for (const int64_t o : rows.offsets) total += std::exp(at(x, rows.starts[r] + o) - largest);
    }
    for (size_t i = 0; i < rows.offsets.size(); ++i) {
      const int64_t position = rows.starts[r] + rows.offsets[i];
      float y = at(x, position);
      if (node.op == Op::softmax) {
        y = std::exp(y - largest) / total;
      } else {
        y = (y - mean) * scale;
        if (inputs.size() > 1 && inputs[1]) y *= along(inputs[1], i);
        if (inputs.size() > 2 && inputs[2]) y += along(inputs[2], i);
      }
      out.set_double(position, y);
    }
  }
  return out;
}

float rounded_to(ir::DType dtype, float x) {
  if (dtype == ir::DType::f16) return ir::f16_to_f32(ir::f64_to_f16(static_cast<double>(x)));
  if (dtype == ir::DType::bf16) return ir::bf16_to_f32(ir::f32_to_bf16(x));
  return x;
}

// Attention as a textbook loop: scores, softcap, mask, softmax and weighted sum of one query at a time, in f32. The weights are a tensor
// of v's type, as an implementation in that type has them. A score's terms are added in one of kOrders orders; 0 is the textbook's.
constexpr int kOrders = 4;
int64_t term(int order, int64_t d, int64_t count) {
  switch (order) {
    case 1: return count - 1 - d;
    case 2: return (d + count / 2) % count;
    case 3: return d < (count + 1) / 2 ? 2 * d : 2 * (d - (count + 1) / 2) + 1;
    default: return d;
  }
}

HostTensor serial_attention(const ir::Graph& graph, const ir::Node& node, const std::vector<const HostTensor*>& inputs, int order) {
  const HostTensor &q = *inputs[0], &k = *inputs[1], &v = *inputs[2];
  const HostTensor* mask = inputs.size() > 3 ? inputs[3] : nullptr;
  const HostTensor* valid = inputs.size() > 4 ? inputs[4] : nullptr;
  const auto &qe = q.extents(), &ke = k.extents(), &ve = v.extents();
  const int64_t heads = qe[1], queries = qe[2], dim = qe[3], keys = ke[2], columns = ve[3];
  const int64_t group = ke[1] == 0 ? 1 : std::max<int64_t>(heads / ke[1], 1);
  HostTensor out(graph.value(node.outputs[0]).dtype, graph.extents(node.outputs[0]));
  const auto scale = static_cast<float>(node.attributes.real("scale", 1.0)), softcap = static_cast<float>(node.attributes.real("softcap"));
  const bool causal = node.attributes.integer("causal") != 0, empty_nan = node.attributes.integer("empty_row_nan") != 0;
  const int64_t shift = node.attributes.integer("causal_offset"), left = node.attributes.integer("window_left", -1), right = node.attributes.integer("window_right", -1);
  const auto mask_index = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t at[4] = {b, h, i, j};
    int64_t index = 0;
    const auto& me = mask->extents();
    for (size_t d = 0; d < me.size(); ++d) index = index * me[d] + (me[d] == 1 ? 0 : at[4 - me.size() + d]);
    return index;
  };
  const auto numbers = [](const HostTensor& tensor) {
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    for (int64_t i = 0; i < tensor.count(); ++i) values[static_cast<size_t>(i)] = at(tensor, i);
    return values;
  };
  const std::vector<float> qs = numbers(q), ks = numbers(k), vs = numbers(v);
  in_parallel(qe[0] * heads * queries, 0, [&](int64_t begin, int64_t end) {
    std::vector<float> weights(static_cast<size_t>(keys)), sums(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / queries / heads, h = row / queries % heads, i = row % queries;
      const int64_t q0 = ((b * heads + h) * queries + i) * dim, kv = b * ke[1] + h / group;
      float largest = -INFINITY, sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t center = i + shift;
        bool keep = !(causal && j > center) && !(left >= 0 && j < center - left) && !(right >= 0 && j > center + right) && !(valid && j >= valid->get_int(b));
        float score = 0;
        const float *left_row = qs.data() + q0, *right_row = ks.data() + (kv * keys + j) * dim;
        if (order == 0)
          for (int64_t d = 0; keep && d < dim; ++d) score += left_row[d] * right_row[d];
        else
          for (int64_t d = 0; keep && d < dim; ++d) score += left_row[term(order, d, dim)] * right_row[term(order, d, dim)];
        score *= scale;
        if (softcap > 0) score = softcap * std::tanh(score / softcap);
        if (mask && mask->dtype() == ir::DType::boolean) keep = keep && mask->get_int(mask_index(b, h, i, j)) != 0;
        else if (mask) score += at(*mask, mask_index(b, h, i, j));
        weights[static_cast<size_t>(j)] = keep ? score : -INFINITY;
        largest = std::max(largest, weights[static_cast<size_t>(j)]);
      }
      for (auto& weight : weights) sum += weight = largest == -INFINITY ? 0.0f : rounded_to(v.dtype(), std::exp(weight - largest));
      // Each column is one running sum over the keys in order; the columns go side by side.
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t j = 0; j < keys; ++j) {
        const float weight = weights[static_cast<size_t>(j)];
        const float* value_row = vs.data() + (kv * keys + j) * columns;
        for (int64_t c = 0; weight != 0 && c < columns; ++c) sums[static_cast<size_t>(c)] += weight * value_row[c];
      }
      for (int64_t c = 0; c < columns; ++c)
        out.set_double(row * columns + c, sum > 0 ? sums[static_cast<size_t>(c)] / sum : empty_nan ? NAN : 0.0f);
    }
  });
  return out;
}

bool is_row_operator(Op op) {
  return op == Op::reduce_sum || op == Op::reduce_mean || op == Op::softmax || op == Op::layer_norm || op == Op::rms_norm;
}

// How wrong, relative to its values, a row may be that counts as typical. Where weights are rounded to 16 bit and the values they meet
// cancel, nothing of a row may be left, and that is typical.
constexpr double kMostOfRow = 1e-2, kMostOfNarrowWeights = 1;

// A row in which the serial loop was lucky is as hard as the others like it: it gets at least their typical error, relative to its
// values. Like it are all rows, and those that share one of its outer coordinates: a head, where hardness goes by heads.
void spread(const reference::RefTensor& wanted, int64_t columns, bool narrow_weights, std::vector<double>& rows) {
  const double most = narrow_weights ? kMostOfNarrowWeights : kMostOfRow;
  std::vector<double> sizes(rows.size());
  for (size_t r = 0; r < rows.size(); ++r) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) {
      const double w = wanted.reals[r * static_cast<size_t>(columns) + static_cast<size_t>(i)];
      if (std::isfinite(w)) sum += w * w;
    }
    sizes[r] = std::sqrt(sum / static_cast<double>(columns));
  }
  std::vector<double> typical(rows.size());
  // Rows with one coordinate are those with one value of r / stride % extent; one group of all rows has stride = rows.
  const auto by = [&](size_t stride, size_t extent) {
    std::vector<double> squares(extent), counts(extent);
    for (size_t r = 0; r < rows.size(); ++r) {
      if (sizes[r] == 0) continue;
      const double relative = std::min(rows[r] / sizes[r], most);
      squares[r / stride % extent] += relative * relative, counts[r / stride % extent] += 1;
    }
    for (size_t r = 0; r < rows.size(); ++r)
      if (const size_t group = r / stride % extent; counts[group] > 0) typical[r] = std::max(typical[r], std::sqrt(squares[group] / counts[group]));
  };
  by(std::max<size_t>(rows.size(), 1), 1);
  size_t stride = 1;
  for (size_t d = wanted.extents.size() < 2 ? 0 : wanted.extents.size() - 1; d-- > 0;) {
    const auto extent = static_cast<size_t>(std::max<int64_t>(wanted.extents[d], 1));
    if (extent > 1 && extent < rows.size()) by(stride, extent);
    stride *= extent;
  }
  for (size_t r = 0; r < rows.size(); ++r) typical[r] *= sizes[r];
  // Rounded weights leave an error that goes by the values they meet, not by what is left of their sum: typical is that of the head.
  const size_t run = narrow_weights && wanted.extents.size() > 1 ? static_cast<size_t>(std::max<int64_t>(wanted.extents[wanted.extents.size() - 2], 1)) : 0;
  for (size_t first = 0; run > 0 && first + run <= rows.size(); first += run) {
    double squares = 0;
    for (size_t r = first; r < first + run; ++r) squares += rows[r] * rows[r];
    for (size_t r = first; r < first + run; ++r) typical[r] = std::max(typical[r], std::sqrt(squares / static_cast<double>(run)));
  }
  for (size_t r = 0; r < rows.size(); ++r) rows[r] = std::max(rows[r], typical[r]);
}

SerialError error_in_order(const ir::Graph& graph, const std::vector<HostTensor>& inputs, const std::vector<reference::RefTensor>& wanted, int order) {
  std::vector<std::optional<HostTensor>> values(graph.values.size());
  for (size_t i = 0; i < graph.inputs.size(); ++i) values[static_cast<size_t>(graph.inputs[i])] = inputs[i];
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].constant) values[v] = graph.values[v].constant;
  bool wide = false, narrow_weights = false;
  for (const auto& node : graph.nodes) {
    std::vector<const HostTensor*> arguments;
    for (const auto input : node.inputs) arguments.push_back(input == ir::kNoValue ? nullptr : &*values[static_cast<size_t>(input)]);
    const auto dtype = graph.value(node.outputs[0]).dtype;
    const bool narrow = ir::is_floating(dtype);
    wide |= dtype == ir::DType::f64;
    if (narrow && node.op == Op::matmul) {
      values[static_cast<size_t>(node.outputs[0])] = serial_matmul(graph, node, *arguments[0], *arguments[1]);
    } else if (narrow && node.op == Op::attention) {
      narrow_weights |= ir::bytes_of(arguments[2]->dtype()) == 2;
      values[static_cast<size_t>(node.outputs[0])] = serial_attention(graph, node, arguments, order);
    } else if (narrow && is_row_operator(node.op) && node.outputs.size() == 1) {
      values[static_cast<size_t>(node.outputs[0])] = serial_rows(graph, node, arguments);
    } else {
      auto results = reference::evaluate(graph, node, arguments);
      if (!results.ok()) return {};
      for (size_t i = 0; i < node.outputs.size(); ++i) values[static_cast<size_t>(node.outputs[i])] = std::move((*results)[i]);
    }
  }
  SerialError out;
  out.rows.resize(graph.outputs.size());
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (!wanted[i].floating()) continue;
    const auto& found = *values[static_cast<size_t>(graph.outputs[i])];
    const int64_t columns = wanted[i].extents.empty() ? 1 : std::max<int64_t>(wanted[i].extents.back(), 1);
    auto& rows = out.rows[i];
    rows.resize(static_cast<size_t>((wanted[i].count() + columns - 1) / columns));
    double error = 0, norm = 0;
    for (int64_t e = 0; e < wanted[i].count(); ++e) {
      const double w = wanted[i].reals[static_cast<size_t>(e)], f = found.get_double(e);
      if (!std::isfinite(w) || !std::isfinite(f)) continue;
      error += (f - w) * (f - w);
      norm += w * w;
      double& row = rows[static_cast<size_t>(e / columns)];
      row = std::max(row, std::abs(f - w));
    }
    if (norm > 0) out.norm = std::max(out.norm, std::sqrt(error / norm));
    spread(wanted[i], columns, narrow_weights, rows);
  }
  if (wide) {
    // For f64 the loops above ran in f32 all the same, since the reference has no digits to spare to judge them in f64: what is
    // lost scales with the unit of the format, 2^-53 against 2^-24.
    out.norm = std::ldexp(out.norm, -29);
    for (auto& rows : out.rows)
      for (double& row : rows) row = std::ldexp(row, -29);
  }
  return out;
}

// A few rows whose softmax hangs on a few roundings: one order of additions is lucky or not. Of many rows some always are not.
bool has_few_softmax_rows(const ir::Graph& graph) {
  constexpr int64_t kFew = 256;
  int64_t rows = 0;
  for (const auto& node : graph.nodes)
    if (node.op == Op::attention) {
      const auto q = graph.extents(node.inputs[0]);
      rows += q[0] * q[1] * q[2];
    }
  return rows > 0 && rows < kFew;
}

}  // namespace

SerialError serial_error(const ir::Graph& graph, const std::vector<HostTensor>& inputs, const std::vector<reference::RefTensor>& wanted) {
  SerialError out = error_in_order(graph, inputs, wanted, 0);
  for (int order = 1; order < kOrders && has_few_softmax_rows(graph); ++order) {
    const SerialError other = error_in_order(graph, inputs, wanted, order);
    out.norm = std::max(out.norm, other.norm);
    for (size_t i = 0; i < out.rows.size(); ++i)
      for (size_t r = 0; r < out.rows[i].size(); ++r) out.rows[i][r] = std::max(out.rows[i][r], other.rows[i][r]);
  }
  return out;
}

}  // namespace rtx::validate
