#include "codegen/embedded.h"

#include <gtest/gtest.h>

namespace rtx::codegen {
namespace {

TEST(Embedded, every_listed_path_has_its_text) {
  for (std::string_view path : embedded_paths()) EXPECT_FALSE(embedded_file(path).empty()) << path;
}

TEST(Embedded, an_unknown_path_gives_empty_text) {
  EXPECT_TRUE(embedded_file("kernels/nothing/device.h").empty());
  EXPECT_TRUE(embedded_file("").empty());
}

TEST(Embedded, an_unknown_family_has_no_hash_and_all_families_have_one) {
  EXPECT_TRUE(synth_sha("nothing").empty());
  EXPECT_EQ(synth_sha_all().size(), 16u);
}

}  // namespace
}  // namespace rtx::codegen
