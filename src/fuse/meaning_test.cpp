// recognise() never changes what a graph computes: random graphs of written-out and plain pieces, run before
// and after in double. Inner values join the pool that later pieces read and the results are drawn from, so
// that rules meet second readers and results everywhere in their chains.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "fuse/recognise.h"
#include "fuse/region.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/reference.h"

namespace rtx::fuse {
namespace {

using ir::DType;
using ir::HostTensor;
using ir::Op;
using ir::ValueId;

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    rows_ = 1 + pick(5);
    columns_ = 2 * (1 + pick(4));
    for (int i = 0; i < 3; ++i) keep(graph.add_input("x" + std::to_string(i), DType::f64, {rows_, columns_}));
    for (int i = 0, pieces = 2 + pick(5); i < pieces; ++i) piece();
    std::set<ValueId> results{pool_.back()};
    for (int i = 0; i < 2; ++i)
      if (pick(3) == 0) results.insert(pool_[static_cast<size_t>(pick(static_cast<int>(pool_.size())))]);
    graph.outputs.assign(results.begin(), results.end());
    graph = ir::without_dead_code(graph);
  }

  std::vector<HostTensor> inputs() {
    std::normal_distribution<double> normal(0, 1);
    std::vector<HostTensor> out;
    for (ValueId id : graph.inputs) {
      HostTensor tensor(graph.value(id).dtype, graph.extents(id));
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, normal(random_));
      out.push_back(std::move(tensor));
    }
    return out;
  }

  ir::Graph graph;

 private:
  int pick(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  ValueId any() { return pool_[static_cast<size_t>(pick(static_cast<int>(pool_.size())))]; }
  ValueId keep(ValueId value) {
    pool_.push_back(value);
    return value;
  }
  // An inner value, sometimes seen by others.
  ValueId inner(ValueId value) {
    if (graph.extents(value) == std::vector<int64_t>{rows_, columns_} && pick(12) == 0)
      pool_.push_back(value);
    return value;
  }
  ValueId constant(double number) {
    return graph.add_constant(graph.fresh_name("c"), HostTensor::scalar(DType::f64, number));
  }
  ValueId node(Op op, std::vector<ValueId> in, ir::Attributes attributes = {}) {
    return inner(graph.add_node(op, std::move(in), std::move(attributes)));
  }
  // Operands of a commutative operator in either order.
  ValueId both(Op op, ValueId a, ValueId b) { return pick(2) ? node(op, {a, b}) : node(op, {b, a}); }
  ValueId mean(ValueId x) {
    return node(Op::reduce_mean, {x}, {{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}}});
  }
  ValueId along_row(Op op, ValueId x) {
    return node(op, {x}, {{{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{1}}}});
  }
  ValueId square(ValueId x) { return pick(2) ? node(Op::mul, {x, x}) : node(Op::pow, {x, constant(2)}); }
  ValueId over_root(ValueId x, ValueId variance) {
    const ValueId root = node(Op::sqrt, {both(Op::add, variance, constant(0.1))});
    if (pick(2)) return node(Op::div, {x, root});
    return both(Op::mul, x, pick(2) ? node(Op::reciprocal, {root}) : node(Op::div, {constant(1), root}));
  }
  ValueId transposed(ValueId x) { return node(Op::transpose, {x}, {{{"perm", std::vector<int64_t>{1, 0}}}}); }
  ValueId row_constant() {
    HostTensor tensor(DType::f64, {columns_});
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_double(i, 0.5 + 0.1 * static_cast<double>(i));
    return graph.add_constant(graph.fresh_name("row"), std::move(tensor));
  }

  void piece() {
    switch (pick(10)) {
      case 0:
        keep(layer_norm(any()));
        break;
      case 1: {
        const ValueId x = any();
        keep(over_root(x, mean(square(x))));
        break;
      }
      case 2:
        keep(gelu(any(), pick(2)));
        break;
      case 3: {
        const ValueId x = any(), s = node(Op::sigmoid, {pick(2) ? x : both(Op::mul, x, constant(1.5))});
        keep(both(Op::mul, pick(5) ? x : any(), s));
        break;
      }
      case 4:
        keep(softmax(any()));
        break;
      case 5:
        keep(attention());
        break;
      case 6:
        keep(both(pick(2) ? Op::add : Op::mul, any(), pick(2) ? any() : row_constant()));
        break;
      case 7:
        keep(transposed(transposed(any())));
        break;
      case 8:
        keep(rotated(any()));
        break;
      default: {
        const ValueId flat = graph.add_node_as(Op::reshape, {any()}, DType::f64, {rows_ * columns_});
        keep(graph.add_node_as(Op::reshape, {node(Op::tanh, {flat})}, DType::f64, {rows_, columns_}));
      }
    }
  }

  ValueId layer_norm(ValueId x) {
    const ValueId m = mean(x), d = node(Op::sub, {x, m});
    const ValueId variance = pick(3) ? mean(square(pick(2) ? d : node(Op::sub, {x, m})))
                                     : node(Op::sub, {mean(square(x)), square(m)});
    ValueId y = over_root(d, variance);
    if (pick(2)) y = both(Op::mul, y, row_constant());
    if (pick(2)) y = both(Op::add, y, row_constant());
    return y;
  }
  ValueId gelu(ValueId x, bool tanh_form) {
    ValueId argument;
    if (tanh_form) {
      const ValueId cube =
          pick(2) ? node(Op::pow, {x, constant(3)}) : both(Op::mul, node(Op::mul, {x, x}), x);
      argument = both(Op::mul, both(Op::add, x, both(Op::mul, cube, constant(0.044715))),
                      constant(std::sqrt(2 / M_PI)));
    } else {
      argument =
          pick(2) ? node(Op::div, {x, constant(std::sqrt(2.0))}) : both(Op::mul, x, constant(std::sqrt(0.5)));
    }
    const ValueId t = both(Op::add, node(tanh_form ? Op::tanh : Op::erf, {argument}), constant(1));
    return pick(2) ? both(Op::mul, both(Op::mul, x, t), constant(0.5))
                   : both(Op::mul, both(Op::mul, x, constant(0.5)), t);
  }
  ValueId softmax(ValueId x) {
    const ValueId e = node(Op::exp, {node(Op::sub, {x, along_row(Op::reduce_max, x)})}),
                  s = along_row(Op::reduce_sum, e);
    return pick(2) ? node(Op::div, {e, s}) : both(Op::mul, e, node(Op::reciprocal, {s}));
  }
  // rows_ queries and keys, columns_ wide; masks by constants, so that a row may be masked entirely
  ValueId attention() {
    ValueId q = any(), s;
    const ValueId k = any(), v = any();
    if (pick(2)) q = both(Op::mul, q, constant(0.5));
    s = pick(2) ? node(Op::matmul, {q, transposed(k)})
                : node(Op::matmul, {q, k}, {{{"trans_b", int64_t{1}}}});
    if (pick(2)) s = node(Op::div, {s, constant(2)});
    if (pick(3) == 0) s = both(Op::mul, node(Op::tanh, {node(Op::div, {s, constant(3)})}), constant(3));
    const double lowest = pick(2) ? -std::numeric_limits<double>::infinity() : -1e30;
    const int form = pick(4), offset = pick(3) - 1;
    HostTensor keeps(DType::boolean, {rows_, rows_}), adds(DType::f64, {rows_, rows_});
    for (int64_t i = 0; i < keeps.count(); ++i) {
      const bool kept = pick(8) ? i % rows_ <= i / rows_ + offset : pick(2);
      keeps.set_int(i, kept);
      adds.set_double(i, kept ? 0 : lowest);
    }
    if (form == 0) s = both(Op::add, s, graph.add_constant(graph.fresh_name("mask"), adds));
    if (form == 1)
      s = node(Op::where, {graph.add_constant(graph.fresh_name("mask"), keeps), s, constant(lowest)});
    const ValueId p = pick(2) ? softmax(s) : node(Op::softmax, {s}, {{{"axis", int64_t{1}}}});
    return node(Op::matmul, {p, v});
  }
  // [rows, columns] as [1, 1, rows, columns] with constant tables
  ValueId rotated(ValueId x) {
    const int64_t half = columns_ / 2;
    const bool interleaved = pick(2);
    const ValueId four = graph.add_node_as(Op::reshape, {x}, DType::f64, {1, 1, rows_, columns_});
    HostTensor table(DType::f64, {rows_, half}), other(DType::f64, {rows_, half});
    for (int64_t i = 0; i < table.count(); ++i)
      table.set_double(i, std::cos(0.3 * static_cast<double>(i))),
          other.set_double(i, std::sin(0.3 * static_cast<double>(i)));
    const ValueId c = graph.add_constant(graph.fresh_name("cos"), table),
                  s = graph.add_constant(graph.fresh_name("sin"), other);
    auto part = [&](int64_t start) {
      return graph.add_node_as(Op::slice, {four}, DType::f64, {1, 1, rows_, half},
                               {{{"starts", std::vector<int64_t>{0, 0, 0, start}},
                                 {"steps", std::vector<int64_t>{1, 1, 1, interleaved ? 2 : 1}}}});
    };
    const ValueId a = part(0), b = part(interleaved ? 1 : half);
    ValueId real = node(Op::sub, {both(Op::mul, a, c), both(Op::mul, b, s)}),
            imaginary = both(Op::add, both(Op::mul, a, s), both(Op::mul, b, c));
    if (!interleaved)
      return graph.add_node_as(Op::reshape, {node(Op::concat, {real, imaginary}, {{{"axis", int64_t{3}}}})},
                               DType::f64, {rows_, columns_});
    real = graph.add_node_as(Op::reshape, {real}, DType::f64, {1, 1, rows_, half, 1});
    imaginary = graph.add_node_as(Op::reshape, {imaginary}, DType::f64, {1, 1, rows_, half, 1});
    const ValueId joined = node(Op::concat, {real, imaginary}, {{{"axis", int64_t{4}}}});
    const ValueId whole = graph.add_node_as(Op::reshape, {joined}, DType::f64, {1, 1, rows_, columns_});
    return graph.add_node_as(Op::reshape, {whole}, DType::f64, {rows_, columns_});
  }

  std::mt19937 random_;
  int64_t rows_, columns_;
  std::vector<ValueId> pool_;
};

testing::AssertionResult agree(const std::vector<reference::RefTensor>& found,
                               const std::vector<reference::RefTensor>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    double largest = 1;
    for (double number : wanted[i].reals)
      if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
    for (size_t j = 0; j < wanted[i].reals.size(); ++j) {
      const double a = found[i].reals[j], b = wanted[i].reals[j];
      if (std::isnan(a) != std::isnan(b) || std::isinf(a) != std::isinf(b) ||
          (std::isfinite(b) && std::abs(a - b) > 1e-12 * largest))
        return testing::AssertionFailure()
               << "result " << i << " element " << j << ": " << a << " instead of " << b;
    }
  }
  return testing::AssertionSuccess();
}

TEST(Meaning, recognition_keeps_what_random_graphs_compute) {
  std::set<std::string> rules;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    RandomGraph random(seed);
    std::vector<Rewrite> log;
    const ir::Graph after = recognise(random.graph, {}, &log);
    for (const Rewrite& rewrite : log) rules.insert(rewrite.rule);
    auto verified = ir::verify(after);
    ASSERT_TRUE(verified.ok()) << verified.error().text();
    const auto inputs = random.inputs();
    auto wanted = reference::run(random.graph, inputs), found = reference::run(after, inputs);
    ASSERT_TRUE(wanted.ok() && found.ok());
    ASSERT_TRUE(agree(*found, *wanted)) << "seed " << seed << "\n"
                                        << ir::to_text(random.graph) << "\nbecame\n"
                                        << ir::to_text(after);
  }
  // The graphs reach the rules that they are made for.
  for (const char* prefix :
       {"layer_norm: (", "layer_norm: scale", "layer_norm: bias", "rms_norm: x", "gelu: x (1 + erf",
        "gelu: x (1 + tanh", "silu", "softmax", "attention", "rotary", "matmul: transposed b", "tidy"}) {
    const auto found = rules.lower_bound(prefix);
    EXPECT_TRUE(found != rules.end() && found->starts_with(prefix))
        << "no graph reached \"" << prefix << "\"";
  }
}

// Runs the regions one by one, each from what its inputs' regions stored; aliases share their input's
// elements.
Result<std::vector<reference::RefTensor>> run_regions(const ir::Graph& graph, const Partition& partition,
                                                      const std::vector<HostTensor>& inputs) {
  std::map<ValueId, HostTensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  auto value = [&](auto&& self, ValueId id) -> HostTensor {
    if (graph.value(id).constant) return *graph.value(id).constant;
    if (auto found = values.find(id); found != values.end()) return found->second;
    const ir::NodeId producer = graph.value(id).producer;
    EXPECT_TRUE(std::count(partition.aliases.begin(), partition.aliases.end(), producer))
        << graph.value(id).name << " is read before it is made";
    return self(self, graph.node(producer).inputs[0]).reshaped(graph.extents(id));
  };
  for (const Region& region : partition.regions) {
    std::vector<HostTensor> operands;
    for (ValueId input : region.inputs) operands.push_back(value(value, input));
    RTX_TRY(auto results, reference::run(region.body, operands));
    for (size_t i = 0; i < results.size(); ++i) values[region.outputs[i]] = reference::to_host(results[i]);
  }
  std::vector<reference::RefTensor> out;
  for (ValueId output : graph.outputs) out.push_back(reference::from_host(value(value, output)));
  return out;
}

TEST(Meaning, regions_in_their_order_compute_the_graph) {
  size_t shared = 0;
  for (unsigned seed = 0; seed < 800; ++seed) {
    RandomGraph random(seed);
    const ir::Graph graph = seed % 2 ? recognise(random.graph) : random.graph;
    std::vector<Pattern> patterns;
    for (ir::OpClass anchor : {ir::OpClass::contraction, ir::OpClass::attention, ir::OpClass::normalization,
                               ir::OpClass::reduction, ir::OpClass::pointwise, ir::OpClass::movement}) {
      Pattern pattern;
      pattern.name = "pattern";
      pattern.anchor = [anchor](const ir::Graph& g, ir::NodeId node) {
        return ir::info(g.node(node).op).op_class == anchor;
      };
      pattern.grows_up = (seed / 2 + static_cast<unsigned>(anchor)) % 3 != 0;
      pattern.grows_down = (seed / 4 + static_cast<unsigned>(anchor)) % 5 != 0;
      pattern.max_outputs = 1 + static_cast<int>(seed + static_cast<unsigned>(anchor)) % 4;
      // Some growth is refused, whatever for.
      pattern.accepts = [seed](const ir::Graph& body) -> Status {
        return body.nodes.size() > 1 && (body.nodes.size() * 7 + body.inputs.size() + seed) % 4 == 0
                   ? Status(user_error("no"))
                   : success();
      };
      patterns.push_back(std::move(pattern));
    }
    auto found = partition(graph, patterns);
    ASSERT_TRUE(found.ok()) << found.error().text();
    for (const Region& region : found->regions) shared += region.nodes.size() > 1;
    const auto inputs = random.inputs();
    auto wanted = reference::run(graph, inputs), regions = run_regions(graph, *found, inputs);
    ASSERT_TRUE(wanted.ok() && regions.ok());
    ASSERT_TRUE(agree(*regions, *wanted)) << "seed " << seed << "\n" << ir::to_text(graph);
  }
  EXPECT_GT(shared, 1000u);
}

}  // namespace
}  // namespace rtx::fuse
