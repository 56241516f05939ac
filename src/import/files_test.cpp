// .npy, .npz and TensorProto files, both ways, whole and damaged.
#include <cmath>

#include "import/inflate.h"
#include "import/npy.h"
#include "import/onnx_testing.h"

namespace rtx::import {
namespace {

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Npy, gives_back_what_was_written_in_every_type) {
  TestModel folder;
  const std::string path = folder.folder() + "/t.npy";
  for (auto dtype :
       {ir::DType::f64, ir::DType::f32, ir::DType::f16, ir::DType::i8, ir::DType::i16, ir::DType::i32,
        ir::DType::i64, ir::DType::u8, ir::DType::u16, ir::DType::u32, ir::DType::u64, ir::DType::boolean}) {
    for (const auto& extents : {std::vector<int64_t>{}, {5}, {2, 3}, {0, 4}}) {
      ir::HostTensor tensor(dtype, extents);
      for (int64_t i = 0; i < tensor.count(); ++i) tensor.set_int(i, i % 2);
      ASSERT_TRUE(write_npy(path, tensor).ok());
      auto back = read_npy(path);
      ASSERT_TRUE(back.ok()) << back.error().text();
      EXPECT_TRUE(back->same_bytes(tensor));
      EXPECT_EQ(back->extents(), extents);
    }
  }
}

TEST(Npy, reads_column_major_arrays) {
  TestModel folder;
  std::string header = "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3)}\n";
  std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header;
  for (char v : {1, 4, 2, 5, 3, 6}) bytes += std::string{v, '\0'};
  folder.write("t.npy", bytes);
  auto tensor = read_npy(folder.folder() + "/t.npy");
  ASSERT_TRUE(tensor.ok()) << tensor.error().text();
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(tensor->get_int(i), i + 1);
}

TEST(Npy, refuses_every_truncation_with_a_sentence) {
  TestModel folder;
  const std::string path = folder.folder() + "/t.npy";
  ASSERT_TRUE(write_npy(path, ir::HostTensor(ir::DType::f32, {3})).ok());
  const std::string bytes = content(path);
  for (size_t length = 0; length < bytes.size(); ++length) {
    folder.write("cut.npy", bytes.substr(0, length));
    auto tensor = read_npy(folder.folder() + "/cut.npy");
    ASSERT_FALSE(tensor.ok());
    EXPECT_FALSE(tensor.error().why.empty());
  }
}

// zip archives of a = arange(6).reshape(2, 3) as int8, written by numpy.savez and numpy.savez_compressed in
// spirit: one entry each.
uint32_t crc32(const std::string& bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
  }
  return ~crc;
}

std::string zip_entry(const std::string& name, const std::string& packed, const std::string& content, int method) {
  const auto plain = static_cast<uint32_t>(content.size());
  const auto little = [](uint64_t value, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const auto size = static_cast<uint32_t>(packed.size());
  const std::string facts = little(20, 2) + little(0, 2) + little(method, 2) + little(0, 4) +
                            little(crc32(content), 4) + little(size, 4) + little(plain, 4) + little(name.size(), 2) + little(0, 2);
  const std::string local = "PK\x03\x04" + facts + name + packed;
  const std::string central = std::string("PK\x01\x02") + little(20, 2) + facts + little(0, 2) +
                              little(0, 2) + little(0, 2) + little(0, 4) + little(0, 4) + name;
  return local + central + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) +
         little(central.size(), 4) + little(local.size(), 4) + little(0, 2);
}

std::string small_npy() {
  std::string header = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 3), }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         std::string("\0\1\2\3\4\5", 6);
}

TEST(Npz, reads_stored_entries_under_their_names) {
  TestModel folder;
  const std::string npy = small_npy();
  folder.write("a.npz", zip_entry("a.npy", npy, npy, 0));
  auto tensors = read_npz(folder.folder() + "/a.npz");
  ASSERT_TRUE(tensors.ok()) << tensors.error().text();
  ASSERT_EQ(tensors->size(), 1U);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].tensor.get_int(5), 5);
}

TEST(Npz, reads_deflated_entries_and_refuses_damaged_ones) {
  TestModel folder;
  const std::string npy = small_npy();
  std::string packed = "\x01";
  packed += static_cast<char>(npy.size());
  packed += '\0';
  packed += static_cast<char>(~npy.size());
  packed += '\xff';
  packed += npy;
  folder.write("a.npz", zip_entry("a.npy", packed, npy, 8));
  auto tensors = read_npz(folder.folder() + "/a.npz");
  ASSERT_TRUE(tensors.ok()) << tensors.error().text();
  EXPECT_EQ((*tensors)[0].tensor.get_int(4), 4);
  packed[1] = '\x7f';
  folder.write("b.npz", zip_entry("a.npy", packed, npy, 8));
  EXPECT_FALSE(read_npz(folder.folder() + "/b.npz").ok());
}

// What zlib makes of a .npy of the 120 bytes i * i % 23: by codes it describes, and by the fixed ones with
// back references.
const char* kDescribedBlock =
    "05c1bb4a05410c00d0c983904802215f30dd286ce1b55caced141b0b2b59bc2b16e2955dadd4aff0873de7efeee1f6fe11da75fb"
    "1ec7757fdec6dcc7cfd7614c7dbc9cb6"
    "cf6d797f3a6dc7751b73bf59def675ea637f5d3ed631f7f3c3d5e57431f5dfb3066c8941e52aa25e1498c6d0802d31a85c45d48b"
    "02d3181ab0250695ab887a51601a4303"
    "b6c4a07215512f0a4c6368c0961854ae22ea4581690c0dd8f21f";
const char* kFixedBlock =
    "9bec17ea1b10c9c860c350ad9e925a9c5ca46ea5a05e536aa8aea3a09e965f54529498179f5f94920a12774bcc294e058a176724"
    "16a402f91a8646063a9a3a0ab55c0c8c"
    "2c9c024cbccc423c1c6c6c1c3c42ccbc4c029c2c8c34170600";

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 2)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

std::string inflated(const std::string& packed) {
  std::vector<std::byte> out;
  EXPECT_TRUE(inflate(reinterpret_cast<const std::byte*>(packed.data()), static_cast<int64_t>(packed.size()), 190, out));
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

TEST(Npz, reads_blocks_with_described_and_with_fixed_codes) {
  TestModel folder;
  for (const char* block : {kDescribedBlock, kFixedBlock}) {
    folder.write("a.npz", zip_entry("squares.npy", from_hex(block), inflated(from_hex(block)), 8));
    auto tensors = read_npz(folder.folder() + "/a.npz");
    ASSERT_TRUE(tensors.ok()) << tensors.error().text();
    ASSERT_EQ((*tensors)[0].tensor.count(), 120);
    for (int64_t i = 0; i < 120; ++i) EXPECT_EQ((*tensors)[0].tensor.get_int(i), i * i % 23);
  }
}

TEST(Npz, survives_every_flipped_byte_of_a_deflated_entry) {
  TestModel folder;
  for (const char* block : {kDescribedBlock, kFixedBlock}) {
    const std::string packed = from_hex(block);
    for (size_t at = 0; at < packed.size(); ++at) {
      std::string flipped = packed;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x21);
      folder.write("b.npz", zip_entry("a.npy", flipped, inflated(packed), 8));
      auto tensors = read_npz(folder.folder() + "/b.npz");
      if (!tensors.ok()) {
        EXPECT_FALSE(tensors.error().why.empty());
        continue;
      }
      // Bits that say nothing: what was packed came out all the same.
      for (int64_t i = 0; i < 120; ++i) EXPECT_EQ((*tensors)[0].tensor.get_int(i), i * i % 23) << "byte " << at;
    }
  }
}

TEST(Npz, refuses_a_stored_entry_with_a_flipped_bit) {
  TestModel folder;
  const std::string npy = small_npy();
  std::string bytes = zip_entry("a.npy", npy, npy, 0);
  const size_t last = bytes.find(npy) + npy.size() - 1;
  bytes[last] = static_cast<char>(bytes[last] ^ 4);
  folder.write("a.npz", bytes);
  auto tensors = read_npz(folder.folder() + "/a.npz");
  ASSERT_FALSE(tensors.ok());
  EXPECT_NE(tensors.error().text().find("entry 'a' is damaged"), std::string::npos) << tensors.error().text();
}

TEST(Npz, refuses_every_truncation_with_a_sentence) {
  TestModel folder;
  const std::string npy = small_npy();
  const std::string bytes = zip_entry("a.npy", npy, npy, 0);
  for (size_t length = 0; length < bytes.size(); ++length) {
    folder.write("cut.npz", bytes.substr(0, length));
    EXPECT_FALSE(read_npz(folder.folder() + "/cut.npz").ok());
  }
}

TEST(TensorProtoFile, gives_back_what_was_written_with_its_name) {
  TestModel folder;
  const std::string path = folder.folder() + "/t.pb";
  ir::HostTensor tensor(ir::DType::bf16, {2, 2});
  for (int64_t i = 0; i < 4; ++i) tensor.set_double(i, 0.5 * static_cast<double>(i));
  ASSERT_TRUE(write_tensor_proto(path, "scores", tensor).ok());
  auto back = read_tensor_proto(path);
  ASSERT_TRUE(back.ok()) << back.error().text();
  EXPECT_EQ(back->name, "scores");
  EXPECT_TRUE(back->tensor.same_bytes(tensor));
}

TEST(TensorProtoFile, reads_16_bit_floats_from_their_bits_in_int32_data) {
  TestModel folder;
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::FLOAT16);
  proto.add_dims(2);
  proto.add_int32_data(0x3c00);
  proto.add_int32_data(0xc000);
  folder.write("t.pb", proto.SerializeAsString());
  auto tensor = read_tensor_proto(folder.folder() + "/t.pb");
  ASSERT_TRUE(tensor.ok()) << tensor.error().text();
  EXPECT_EQ(tensor->tensor.get_double(0), 1);
  EXPECT_EQ(tensor->tensor.get_double(1), -2);
}

TEST(TensorProtoFile, makes_a_bool_of_any_byte_exactly_one) {
  TestModel folder;
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::BOOL);
  proto.add_dims(2);
  proto.set_raw_data(std::string("\xff\0", 2));
  folder.write("t.pb", proto.SerializeAsString());
  auto tensor = read_tensor_proto(folder.folder() + "/t.pb");
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->tensor.get_int(0), 1);
  EXPECT_EQ(tensor->tensor.get_int(1), 0);
}

TEST(TensorProtoFile, refuses_types_that_are_not_covered_by_name) {
  TestModel folder;
  onnx::TensorProto proto;
  proto.set_data_type(17);
  folder.write("t.pb", proto.SerializeAsString());
  auto tensor = read_tensor_proto(folder.folder() + "/t.pb");
  ASSERT_FALSE(tensor.ok());
  EXPECT_EQ(tensor.error().what.rfind("unsupported tensor", 0), 0U);
  EXPECT_NE(tensor.error().why.find("f8e4m3fn"), std::string::npos);
}

}  // namespace
}  // namespace rtx::import
