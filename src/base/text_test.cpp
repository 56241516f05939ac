#include <gtest/gtest.h>

#include <cmath>

#include "base/hash.h"
#include "base/text.h"

namespace rtx {
namespace {

TEST(Text, split_keeps_empty_parts_and_gives_nothing_for_nothing) {
  EXPECT_EQ(split("a,,b,", ','), (std::vector<std::string>{"a", "", "b", ""}));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(join(split("x=1x2", 'x'), "x"), "x=1x2");
}

TEST(Text, trim_takes_blanks_from_both_ends_only) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST(Text, numbers_are_read_whole_or_not_at_all) {
  int64_t i = 7;
  EXPECT_TRUE(parse_int("-12", i));
  EXPECT_EQ(i, -12);
  EXPECT_FALSE(parse_int("12x", i));
  EXPECT_FALSE(parse_int("", i));
  EXPECT_FALSE(parse_int("9223372036854775808", i));
  EXPECT_EQ(i, -12);
  double d = 0;
  EXPECT_TRUE(parse_double("1e-5", d));
  EXPECT_EQ(d, 1e-5);
  EXPECT_TRUE(parse_double("-inf", d));
  EXPECT_TRUE(std::isinf(d));
  EXPECT_FALSE(parse_double("1.5 ", d));
}

TEST(Text, shortest_numbers_read_back_as_the_same_number) {
  for (double value : {0.1, 1e-5, 1.0 / 3.0, 5e-324, 1.7976931348623157e308}) {
    double back = 0;
    ASSERT_TRUE(parse_double(shortest(value), back));
    EXPECT_EQ(back, value);
  }
  EXPECT_EQ(shortest(0.1f), "0.1");
  EXPECT_EQ(shortest(-0.0), "-0");
}

TEST(Text, people_read_three_digits_and_a_unit) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1.5 * 1024 * 1024), "1.50 MiB");
  EXPECT_EQ(human_seconds(850e-9), "850 ns");
  EXPECT_EQ(human_seconds(0.00125), "1.25 ms");
  EXPECT_EQ(human_count(21e6), "21.0 M");
  EXPECT_EQ(human_count(950), "950");
}

TEST(Text, the_nearest_word_is_offered_only_when_it_is_near) {
  EXPECT_EQ(nearest("sofmax", {"matmul", "softmax"}), "softmax");
  EXPECT_EQ(nearest("convolution", {"matmul", "softmax"}), "");
}

TEST(Hash, fnv_has_its_published_values) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace rtx
