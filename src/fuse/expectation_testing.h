#pragma once
// For tests: before, act, after in the graph's own text. Value names do not matter, everything else does.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fuse/recognise.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace rtx::fuse {

inline ::testing::AssertionResult becomes_after_recognition(std::string_view before, std::string_view after,
                                                            const RecogniseOptions& options = {}) {
  const ir::Graph found = recognise(ir::parse_or_die(before), options), wanted = ir::parse_or_die(after);
  if (auto status = ir::verify(found); !status.ok())
    return ::testing::AssertionFailure() << status.error().text();
  if (ir::same_structure(found, wanted, false)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "found\n"
                                       << ir::to_text(found) << "\nwanted\n"
                                       << ir::to_text(wanted);
}

// Does any node of the operator come out?
inline bool finds(std::string_view before, ir::Op op) {
  for (const ir::Node& node : recognise(ir::parse_or_die(before)).nodes)
    if (node.op == op) return true;
  return false;
}

#define EXPECT_BECOMES(before, after) EXPECT_TRUE(::rtx::fuse::becomes_after_recognition(before, after))

}  // namespace rtx::fuse
