#pragma once
// Private to reference's tests: a graph from text, inputs from number lists, results as doubles.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ir/text.h"
#include "reference/reference.h"

namespace rtx::reference {

using Numbers = std::vector<double>;
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline ir::HostTensor host(ir::DType dtype, const std::vector<int64_t>& extents, const Numbers& numbers) {
  ir::HostTensor out(dtype, extents);
  EXPECT_EQ(out.count(), static_cast<int64_t>(numbers.size()));
  for (size_t i = 0; i < numbers.size(); ++i) out.set_double(static_cast<int64_t>(i), numbers[i]);
  return out;
}

inline Numbers numbers_of(const RefTensor& tensor) {
  if (tensor.floating()) return tensor.reals;
  Numbers out;
  for (int64_t value : tensor.integers) out.push_back(tensor.dtype == ir::DType::u64 ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value));
  return out;
}

// Inputs by the graph's own types; a list of one number fills its tensor.
inline Result<std::vector<RefTensor>> run_text(const std::string& text, const std::vector<Numbers>& inputs, const Options& options = {}) {
  const ir::Graph graph = ir::parse_or_die(text);
  std::vector<ir::HostTensor> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Value& value = graph.value(graph.inputs[i]);
    const auto extents = ir::extents(value.shape);
    const Numbers filled = inputs[i].size() == 1 ? Numbers(static_cast<size_t>(ir::element_count(extents)), inputs[i][0]) : inputs[i];
    tensors.push_back(host(value.dtype, extents, filled));
  }
  return run(graph, tensors, options);
}

inline Numbers first(const std::string& text, const std::vector<Numbers>& inputs, const Options& options = {}) {
  auto out = run_text(text, inputs, options);
  EXPECT_TRUE(out.ok()) << text << "\n" << (out.ok() ? std::string() : out.error().text());
  return out.ok() ? numbers_of((*out)[0]) : Numbers{};
}

inline void expect_near(const Numbers& found, const Numbers& wanted, double tolerance = 1e-12) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    if (std::isnan(wanted[i])) EXPECT_TRUE(std::isnan(found[i])) << "element " << i << " is " << found[i];
    else if (std::isinf(wanted[i])) EXPECT_EQ(found[i], wanted[i]) << "element " << i;
    else EXPECT_NEAR(found[i], wanted[i], tolerance) << "element " << i;
  }
}

inline Numbers counting(int64_t count, double first_number = 0, double step = 1) {
  Numbers out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first_number + step * static_cast<double>(i));
  return out;
}

}  // namespace rtx::reference
