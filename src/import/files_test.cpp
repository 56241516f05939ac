// .npy, .npz and TensorProto files, both ways, whole and damaged.
#include <cmath>

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
  for (auto dtype : {ir::DType::f64, ir::DType::f32, ir::DType::f16, ir::DType::i8, ir::DType::i16, ir::DType::i32, ir::DType::i64, ir::DType::u8,
                     ir::DType::u16, ir::DType::u32, ir::DType::u64, ir::DType::boolean}) {
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

// zip archives of a = arange(6).reshape(2, 3) as int8, written by numpy.savez and numpy.savez_compressed in spirit: one entry each.
std::string zip_entry(const std::string& name, const std::string& packed, uint32_t plain, int method) {
  const auto little = [](uint32_t value, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const auto size = static_cast<uint32_t>(packed.size());
  const std::string facts = little(20, 2) + little(0, 2) + little(static_cast<uint32_t>(method), 2) + little(0, 8) + little(size, 4) + little(plain, 4) +
                            little(static_cast<uint32_t>(name.size()), 2) + little(0, 2);
  const std::string local = "PK\x03\x04" + facts + name + packed;
  const std::string central = std::string("PK\x01\x02") + little(20, 2) + facts + little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) + little(0, 4) + name;
  return local + central + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) + little(static_cast<uint32_t>(central.size()), 4) +
         little(static_cast<uint32_t>(local.size()), 4) + little(0, 2);
}

std::string small_npy() {
  std::string header = "{'descr': '|i1', 'fortran_order': False, 'shape': (2, 3), }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + std::string("\0\1\2\3\4\5", 6);
}

TEST(Npz, reads_stored_entries_under_their_names) {
  TestModel folder;
  const std::string npy = small_npy();
  folder.write("a.npz", zip_entry("a.npy", npy, static_cast<uint32_t>(npy.size()), 0));
  auto tensors = read_npz(folder.folder() + "/a.npz");
  ASSERT_TRUE(tensors.ok()) << tensors.error().text();
  ASSERT_EQ(tensors->size(), 1U);
  EXPECT_EQ((*tensors)[0].name, "a");
  EXPECT_EQ((*tensors)[0].tensor.get_int(5), 5);
}

// Deflate's stored block; coded blocks are covered by the fixture that zlib wrote.
TEST(Npz, reads_deflated_entries_and_refuses_damaged_ones) {
  TestModel folder;
  const std::string npy = small_npy();
  std::string packed = "\x01";
  packed += static_cast<char>(npy.size());
  packed += '\0';
  packed += static_cast<char>(~npy.size());
  packed += '\xff';
  packed += npy;
  folder.write("a.npz", zip_entry("a.npy", packed, static_cast<uint32_t>(npy.size()), 8));
  auto tensors = read_npz(folder.folder() + "/a.npz");
  ASSERT_TRUE(tensors.ok()) << tensors.error().text();
  EXPECT_EQ((*tensors)[0].tensor.get_int(4), 4);
  packed[1] = '\x7f';
  folder.write("b.npz", zip_entry("a.npy", packed, static_cast<uint32_t>(npy.size()), 8));
  EXPECT_FALSE(read_npz(folder.folder() + "/b.npz").ok());
}

TEST(Npz, refuses_every_truncation_with_a_sentence) {
  TestModel folder;
  const std::string npy = small_npy();
  const std::string bytes = zip_entry("a.npy", npy, static_cast<uint32_t>(npy.size()), 0);
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
