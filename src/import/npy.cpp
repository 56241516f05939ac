#include "import/npy.h"

#include <array>
#include <charconv>
#include <cstring>

#include "base/files.h"
#include "import/failure.h"
#include "import/inflate.h"
#include "import/model_file.h"

namespace rtx::import {
namespace {

using ir::DType;
using ir::HostTensor;

struct NpyType {
  const char* text;
  DType dtype;
};
const NpyType kNpyTypes[] = {
    {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i1", DType::i8},
    {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64}, {"u1", DType::u8},
    {"u2", DType::u16}, {"u4", DType::u32}, {"u8", DType::u64}, {"b1", DType::boolean},
};

std::string descr_of(DType dtype) {
  if (dtype == DType::bf16) return "<u2";
  for (const NpyType& row : kNpyTypes)
    if (row.dtype == dtype) return (ir::bytes_of(dtype) == 1 ? "|" : "<") + std::string(row.text);
  return {};
}

// The text behind 'key': in the header's dictionary.
std::string_view after_key(std::string_view header, const std::string& key) {
  for (const std::string quote : {"'", "\""}) {
    const std::string quoted = quote + key + quote;
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    size_t behind = at + quoted.size();
    while (behind < header.size() && (header[behind] == ' ' || header[behind] == ':')) ++behind;
    return header.substr(behind);
  }
  fail("its header has no " + key);
}

DType parse_descr(std::string_view text) {
  if (text.size() < 2 || (text[0] != '\'' && text[0] != '"')) fail("its element type is not a plain one");
  const size_t end = text.find(text[0], 1);
  if (end == std::string_view::npos) fail("its header is cut off");
  std::string_view descr = text.substr(1, end - 1);
  const bool big_endian = !descr.empty() && descr[0] == '>';
  if (!descr.empty() && std::strchr("<>|=", descr[0])) descr.remove_prefix(1);
  for (const NpyType& row : kNpyTypes) {
    if (descr != row.text) continue;
    if (big_endian && ir::bytes_of(row.dtype) > 1) fail("it is big-endian");
    return row.dtype;
  }
  fail("its element type '" + std::string(descr) + "' is not supported");
}

std::vector<int64_t> parse_shape(std::string_view text) {
  if (text.empty() || text[0] != '(') fail("its shape is not a tuple");
  text.remove_prefix(1);
  std::vector<int64_t> extents;
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ',')) text.remove_prefix(1);
    if (text.empty()) fail("its header is cut off");
    if (text[0] == ')') return extents;
    int64_t extent = -1;
    const auto [end, mistake] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (mistake != std::errc() || extent < 0) fail("its shape holds something that is no size");
    extents.push_back(extent);
    if (extents.size() > 64) fail("its shape has more than 64 dimensions");
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() && text[0] == 'L') text.remove_prefix(1);
  }
}

// Column-major data in row-major order.
HostTensor from_column_major(const HostTensor& stored) {
  HostTensor out(stored.dtype(), stored.extents());
  const auto size = static_cast<size_t>(ir::bytes_of(stored.dtype()));
  std::vector<int64_t> index(stored.extents().size(), 0);
  const auto strides = ir::row_major_strides(stored.extents());
  std::byte* to = out.mutable_bytes();
  for (int64_t i = 0; i < stored.count(); ++i) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
    std::memcpy(to + static_cast<size_t>(at) * size, stored.bytes() + static_cast<size_t>(i) * size, size);
    for (size_t d = 0; d < index.size(); ++d) {
      if (++index[d] < stored.extents()[d]) break;
      index[d] = 0;
    }
  }
  return out;
}

HostTensor parse_npy(const std::byte* bytes, int64_t size) {
  const auto* text = reinterpret_cast<const char*>(bytes);
  if (size < 10 || std::memcmp(text, "\x93NUMPY", 6) != 0) fail("it is not a .npy file");
  const auto byte_at = [&](int i) { return static_cast<uint8_t>(text[i]); };
  const int version = byte_at(6);
  if (version < 1 || version > 3) fail("its format version is " + std::to_string(version));
  const int64_t prefix = version == 1 ? 10 : 12;
  if (size < prefix) fail("it is cut off");
  int64_t length = byte_at(8) | byte_at(9) << 8;
  if (version > 1)
    length |= static_cast<int64_t>(byte_at(10)) << 16 | static_cast<int64_t>(byte_at(11)) << 24;
  if (length > size - prefix) fail("its header is cut off");
  const std::string_view header(text + prefix, static_cast<size_t>(length));
  const DType dtype = parse_descr(after_key(header, "descr"));
  const std::vector<int64_t> extents = parse_shape(after_key(header, "shape"));
  const bool column_major = after_key(header, "fortran_order").substr(0, 4) == "True";
  int64_t wanted = ir::bytes_of(dtype);
  for (int64_t extent : extents)
    if (__builtin_mul_overflow(wanted, extent, &wanted))
      fail("its shape " + ir::text(extents) + " is impossible");
  const int64_t found = size - prefix - length;
  if (found != wanted)
    fail("its shape " + ir::text(extents) + " needs " + std::to_string(wanted) + " bytes, the file gives " +
         std::to_string(found));
  HostTensor tensor(dtype, extents);
  if (wanted > 0) std::memcpy(tensor.mutable_bytes(), bytes + prefix + length, static_cast<size_t>(wanted));
  return column_major ? from_column_major(tensor) : tensor;
}

uint32_t little(const std::byte* bytes, int count) {
  uint32_t out = 0;
  for (int i = 0; i < count; ++i) out |= static_cast<uint32_t>(bytes[i]) << (8 * i);
  return out;
}

// The checksum of zip files.
uint32_t crc32(const std::byte* bytes, int64_t size) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> out{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0xedb88320U : 0U);
      out[i] = value;
    }
    return out;
  }();
  uint32_t crc = ~0U;
  for (int64_t i = 0; i < size; ++i) crc = table[(crc ^ static_cast<uint32_t>(bytes[i])) & 255U] ^ (crc >> 8);
  return ~crc;
}

// The central directory at the end names every entry; sizes in the entries themselves may be absent.
std::vector<NamedTensor> parse_npz(const std::byte* bytes, int64_t size) {
  int64_t end = size - 22;
  while (end >= 0 && end > size - 22 - 65536 && little(bytes + end, 4) != 0x06054b50) --end;
  if (end < 0 || little(bytes + end, 4) != 0x06054b50) fail("it is not a .npz file, or it is cut off");
  const uint32_t entries = little(bytes + end + 10, 2);
  int64_t at = little(bytes + end + 16, 4);
  std::vector<NamedTensor> out;
  for (uint32_t i = 0; i < entries; ++i) {
    if (at > size - 46 || little(bytes + at, 4) != 0x02014b50) fail("its directory is damaged");
    const uint32_t method = little(bytes + at + 10, 2);
    const uint32_t checksum = little(bytes + at + 16, 4);
    const uint32_t packed = little(bytes + at + 20, 4);
    const uint32_t plain = little(bytes + at + 24, 4);
    const int64_t name_length = little(bytes + at + 28, 2);
    const int64_t skip = name_length + little(bytes + at + 30, 2) + little(bytes + at + 32, 2);
    const int64_t local = little(bytes + at + 42, 4);
    if (packed == 0xffffffff || plain == 0xffffffff || local == 0xffffffff)
      fail("an entry is larger than 4 GiB");
    if (skip > size - at - 46 || local > size - 30 || little(bytes + local, 4) != 0x04034b50)
      fail("its directory is damaged");
    std::string name(reinterpret_cast<const char*>(bytes + at + 46), static_cast<size_t>(name_length));
    const int64_t data = local + 30 + little(bytes + local + 26, 2) + little(bytes + local + 28, 2);
    if (data > size || packed > size - data) fail("entry '" + name + "' is cut off");
    if (name.size() > 4 && name.compare(name.size() - 4, 4, ".npy") == 0) name.resize(name.size() - 4);
    if (method == 0) {
      if (crc32(bytes + data, packed) != checksum) fail("entry '" + name + "' is damaged");
      out.push_back({name, parse_npy(bytes + data, packed)});
    } else if (method == 8) {
      std::vector<std::byte> content;
      if (!inflate(bytes + data, packed, plain, content) || crc32(content.data(), static_cast<int64_t>(content.size())) != checksum) fail("entry '" + name + "' is damaged");
      out.push_back({name, parse_npy(content.data(), static_cast<int64_t>(content.size()))});
    } else {
      fail("entry '" + name + "' is packed by method " + std::to_string(method));
    }
    at += 46 + skip;
  }
  return out;
}

}  // namespace

Result<HostTensor> read_npy(const std::string& path) {
  RTX_TRY(auto file, map_file(path));
  try {
    return parse_npy(file->bytes, file->size);
  } catch (Failure& failure) {
    return user_error("cannot read " + path, failure.error.why);
  }
}

Result<std::vector<NamedTensor>> read_npz(const std::string& path) {
  RTX_TRY(auto file, map_file(path));
  try {
    return parse_npz(file->bytes, file->size);
  } catch (Failure& failure) {
    return user_error("cannot read " + path, failure.error.why);
  }
}

Status write_npy(const std::string& path, const HostTensor& tensor) {
  std::string header = "{'descr': '" + descr_of(tensor.dtype()) + "', 'fortran_order': False, 'shape': (";
  for (int64_t extent : tensor.extents()) header += std::to_string(extent) + ",";
  header += "), }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 255);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  if (tensor.byte_size() > 0) file.append(reinterpret_cast<const char*>(tensor.bytes()), static_cast<size_t>(tensor.byte_size()));
  return write_file_atomic(path, file);
}

}  // namespace rtx::import
