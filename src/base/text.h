#pragma once
// Words about strings: cutting, joining, and numbers a person reads.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rtx {

std::vector<std::string> split(std::string_view text, char separator);  // "a,,b" -> a, "", b; "" -> nothing
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool starts_with(std::string_view text, std::string_view prefix);
bool ends_with(std::string_view text, std::string_view suffix);
std::string replace_all(std::string text, std::string_view from, std::string_view to);
std::string to_lower(std::string_view text);

// Whole-string conversions: false, and `out` untouched, for anything else than one number.
bool parse_int(std::string_view text, int64_t& out);
bool parse_double(std::string_view text, double& out);

// The shortest text that reads back as the same number: "0.1", "1e-05", "inf", "nan", "-0".
std::string shortest(double value);
std::string shortest(float value);
std::string fixed(double value, int decimals);  // "3.14"

std::string human_bytes(double bytes);      // "512 B", "1.50 MiB"
std::string human_seconds(double seconds);  // "850 ns", "1.25 ms", "3.0 s"
std::string human_count(double count);      // "950", "21.0 M", "2.70 G"

// "did you mean": the candidate with the fewest edits, empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rtx
