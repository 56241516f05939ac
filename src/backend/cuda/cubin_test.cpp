#include "backend/cuda/cubin.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

namespace rtx::backend::cuda {
namespace {

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(i < 8 ? value >> (8 * i) : 0);
}
std::string record(int attribute, std::initializer_list<uint32_t> payload) {
  std::string out = {4, static_cast<char>(attribute)};
  put(out, payload.size() * 4, 2);
  for (const uint32_t word : payload) put(out, word, 4);
  return out;
}

// A binary with one entry "k" and one helper "h", laid out as ptxas does.
std::string binary(uint32_t flags = 0x6005a04, uint64_t shared = 2224) {
  const std::string symbol_names = std::string("\0k\0h\0", 5);
  std::string symbols(24, '\0');
  for (const uint32_t name : {1u, 3u}) {
    std::string symbol;
    put(symbol, name, 4);
    symbol.resize(24);
    symbols += symbol;
  }
  struct Part { std::string name; uint32_t type; std::string bytes; uint32_t link; uint64_t size; };
  const std::string all = record(0x2f, {1, 168}) + record(0x11, {1, 0}) + record(0x11, {2, 16}) + record(0x12, {1, 32});
  std::string one = record(0x05, {384, 1, 1});
  one += std::string("\2\x4c\3\0", 4);
  one += record(0x17, {0, 0, 5});
  std::vector<Part> parts = {{"", 0, "", 0, 0},
                             {".shstrtab", 3, "", 0, 0},
                             {".strtab", 3, symbol_names, 0, 0},
                             {".symtab", 2, symbols, 2, 0},
                             {".nv.info", 0x70000000, all, 3, 0},
                             {".nv.info.k", 0x70000000, one, 3, 0},
                             {".nv.shared.k", 8, "", 0, shared}};
  for (auto& part : parts) parts[1].bytes += part.name + '\0';
  std::string body(64, '\0'), headers;
  size_t name = 0;
  for (const auto& part : parts) {
    put(headers, name, 4), put(headers, part.type, 4), put(headers, 0, 16), put(headers, body.size(), 8);
    put(headers, part.size ? part.size : part.bytes.size(), 8), put(headers, part.link, 4), put(headers, 0, 20);
    name += part.name.size() + 1;
    body += part.bytes;
  }
  std::string head("\x7f" "ELF\2\1\1\x41\x08", 9);
  head.resize(16);
  put(head, 2, 2), put(head, 190, 2), put(head, 1, 4), put(head, 0, 8), put(head, 0, 8), put(head, body.size(), 8), put(head, flags, 4);
  put(head, 64, 2), put(head, 56, 2), put(head, 0, 2), put(head, 64, 2), put(head, parts.size(), 2), put(head, 1, 2);
  return head + body.substr(64) + headers;
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

TEST(Cubin, an_entry_says_its_registers_stack_group_barriers_and_shared_memory) {
  const std::string text = binary();
  const auto cubin = read_cubin(bytes_of(text));
  ASSERT_TRUE(cubin.ok()) << cubin.error().text();
  EXPECT_EQ(cubin->capability, 90);
  ASSERT_EQ(cubin->entries.size(), 1u);
  KernelResources wanted;
  wanted.entry = "k";
  wanted.registers = 168;
  wanted.barriers = 3;
  wanted.max_threads = 384;
  wanted.static_shared = 1200;  // less the driver's 1024
  wanted.stack = 32;
  EXPECT_EQ(cubin->entries[0], wanted);
}

TEST(Cubin, before_sm_90_shared_memory_is_all_the_kernels_own) {
  const std::string text = binary(0x6005004, 1200);
  EXPECT_EQ(read_cubin(bytes_of(text))->capability, 80);
  EXPECT_EQ(read_cubin(bytes_of(text))->entries[0].static_shared, 1200);
}

TEST(Cubin, other_files_are_refused_with_what_they_are) {
  const auto refused = [](std::string text) { return read_cubin(bytes_of(text)).error(); };
  EXPECT_EQ(refused("").kind, ErrorKind::bundle);
  EXPECT_NE(refused("#!/bin/sh").why.find("no 64-bit ELF"), std::string::npos);
  std::string host = binary();
  host[18] = 62;
  EXPECT_NE(refused(host).why.find("machine 62"), std::string::npos);
}

TEST(Cubin, a_cut_file_is_refused_at_every_length) {
  const std::string whole = binary();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);  // its own allocation, so that a sanitizer sees a read behind it
    EXPECT_FALSE(read_cubin(bytes_of(cut)).ok()) << size;
  }
}

TEST(Cubin, damaged_bytes_never_lead_outside_of_the_file) {
  std::mt19937 random(7);
  const std::string whole = binary();
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (int i = 0; i < 1 + round % 4; ++i) text[random() % text.size()] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
    const auto cubin = read_cubin(bytes_of(text));
    if (!cubin.ok()) {
      ++refused;
      continue;
    }
    for (const auto& entry : cubin->entries) EXPECT_TRUE(entry.static_shared >= 0 && entry.stack >= 0 && entry.registers >= 0 && entry.max_threads >= 0);
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace rtx::backend::cuda
