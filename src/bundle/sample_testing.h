#pragma once
// A small Plan with something in every field, keys, and a directory of its own: for the tests of bundle and runtime.
#include <sodium.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/files.h"
#include "bundle/bundle.h"

namespace rtx::bundle::sample {

class Directory {
 public:
  Directory() : path_(*make_temp_directory("/tmp", "rtx_bundle_")) {}
  ~Directory() { remove_tree(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Always the same key for the same seed.
inline KeyPair key(unsigned char seed) {
  KeyPair out;
  std::array<unsigned char, 32> bytes{};
  bytes.fill(seed);
  if (sodium_init() >= 0) crypto_sign_ed25519_seed_keypair(out.public_key.data(), out.secret_key.data(), bytes.data());
  return out;
}

inline ReadOptions trusting(const KeyPair& key) {
  ReadOptions options;
  options.trusted = [wanted = key.public_key](const auto& found) { return found == wanted; };
  return options;
}

inline Constant constant(std::string name, std::vector<int64_t> extents, unsigned char first) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(count) * 4);
  for (size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = static_cast<std::byte>(first + i * 7 + i / 251);
  Constant out;
  out.info = {std::move(name), ir::DType::f32, std::move(extents), {}, 0};
  out.bytes = bytes->data();
  out.byte_size = static_cast<int64_t>(bytes->size());
  out.owner = bytes;
  return out;
}

inline std::vector<std::byte> binary(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline Plan plan() {
  Plan p;
  p.model_name = "sample.onnx";
  p.identity = {"null", "null device, 1 core", "null-1", "none", kRuntimeAbi, "null toolchain 1", "0123456789abcdef"};
  p.graph = "graph sample\nx: f32[4,8]\n";
  p.inputs = {{"x", ir::DType::f32, {4, 8}, {}, 0}, {"past", ir::DType::f32, {1, 16}, {}, 0}};
  p.outputs = {{"y", ir::DType::f32, {4, 8}, {}, 0}, {"present", ir::DType::f32, {1, 16}, {}, 0}, {"y2", ir::DType::f32, {4, 8}, {}, 0}};
  p.specialized = {{{"shape", ir::DType::i64, {2}, {}, 0}, std::vector<std::byte>(16, std::byte{3})}};
  p.states = {{{"cache", ir::DType::f32, {1, 16}, {}, 0}, 1, 1, 1}};
  p.kernels.resize(2);
  p.kernels[0] = {"pack_f32", "gemm", "key of pack\nline 2", "tile=4", "fma", "region text", "void pack() {}\n", binary("first binary"), 0.25};
  p.kernels[1] = {"add_f32", "pointwise", "key of add", "width=8", "fma", "region text 2", "void add() {}\n", binary("second binary, longer"), 0.5};
  p.constants = {constant("weight", {32, 48}, 1), constant("bias", {8}, 9), constant("bias_again", {8}, 9), constant("nothing", {0, 8}, 0)};
  p.prepared_bytes = {6144};
  p.prepare = {{0, "pack", {3, 1, 1}, {1, 1, 1}, 0, {{SlotKind::constant, 0, 0}, {SlotKind::prepared, 0, 0}}, "pack weight"}};
  p.steps = {{1, "add", {2, 3, 4}, {1, 1, 1}, 256, {{SlotKind::input, 0, 0}, {SlotKind::prepared, 0, 64}, {SlotKind::arena, 128, 0}}, "block.0/add"},
             {1, "add", {1, 1, 1}, {1, 1, 1}, 0, {{SlotKind::arena, 64, 64}, {SlotKind::constant, 1, 0}, {SlotKind::state, 0, 0}, {SlotKind::output, 0, 0}}, "block.1/add"}};
  p.copies = {{{SlotKind::output, 0, 0}, {SlotKind::output, 2, 0}, 128}};
  p.arena_bytes = 256;
  p.deterministic = true;
  p.sbom = R"({"bomFormat":"CycloneDX","specVersion":"1.6"})";
  p.summary = R"({"win_pct":12.5})";
  return p;
}

// Of the sample's step 0: argument 0 has 4 x 8 numbers, argument 1 more.
inline backend::TensorView view(int argument) {
  backend::TensorView out;
  out.argument = argument;
  out.extents = {8, 4}, out.strides_bytes = {32}, out.box = {8, 2};
  out.swizzle = argument == 0 ? 32 : 0;
  out.element = argument == 0 ? backend::ViewElement::tf32 : backend::ViewElement::f32;
  out.byte_offset = argument * 16;
  return out;
}

inline std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return binary(text.str());
}

inline void write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace rtx::bundle::sample
