#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using test::error_of;
using test::TemporaryFolder;

template <typename T>
std::vector<T> values_of(const TensorView& view) {
  std::vector<T> values(view.bytes / sizeof(T));
  std::memcpy(values.data(), view.data, view.bytes);
  return values;
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TemporaryFolder folder;
  const std::vector<double> doubles = {0.1, -2.0, 1e300};
  const std::vector<std::int64_t> longs = {-1, 5};
  const std::vector<std::uint8_t> flags = {1, 0, 1};
  const std::vector<std::uint16_t> halves = {0x3c00, 0xffff};
  SafetensorsWriter writer;
  writer.add("flags", DType::BOOL, {3, 1}, flags.data());
  writer.add("doubles", DType::F64, {3}, doubles.data());
  writer.add("longs", DType::I64, {1, 2}, longs.data());
  writer.add("halves", DType::BF16, {2}, halves.data());
  writer.add("none", DType::F32, {0, 7}, nullptr);
  writer.set_metadata("k", "old");
  writer.set_metadata("k", "new \"quoted\"");
  writer.write(folder / "f");
  const SafetensorsFile file = SafetensorsFile::open(folder / "f");
  EXPECT_EQ(values_of<double>(file.at("doubles", DType::F64, {3})), doubles);
  EXPECT_EQ(values_of<std::int64_t>(file.at("longs", DType::I64, {1, 2})), longs);
  EXPECT_EQ(values_of<std::uint8_t>(file.at("flags", DType::BOOL, {3, 1})), flags);
  EXPECT_EQ(values_of<std::uint16_t>(file.at("halves", DType::BF16, {2})), halves);
  EXPECT_EQ(file.at("none", DType::F32, {0, 7}).bytes, 0u);
  EXPECT_EQ(file.metadata_at("k"), "new \"quoted\"");
}

TEST(SafetensorsWriter, EveryTensorIsAligned) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> bytes(64);
  SafetensorsWriter writer;
  writer.add("a", DType::U8, {3}, bytes.data());
  writer.add("b", DType::F64, {1}, bytes.data());
  writer.add("c", DType::F16, {5}, bytes.data());
  writer.add("d", DType::F32, {1}, bytes.data());
  writer.write(folder / "f");
  const SafetensorsFile file = SafetensorsFile::open(folder / "f");
  for (const std::string& name : file.names()) {
    const TensorView& view = file.at(name);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data) % (dtype_bits(view.dtype) / 8), 0u)
        << name;
  }
}

TEST(SafetensorsWriter, EqualContentsGiveEqualBytes) {
  const TemporaryFolder folder;
  const std::vector<float> values = {1, 2, 3};
  SafetensorsWriter one;
  one.add("a", DType::F32, {3}, values.data());
  one.add("b", DType::F32, {1}, values.data());
  one.set_metadata("x", "1");
  one.set_metadata("y", "2");
  SafetensorsWriter two;
  two.set_metadata("y", "2");
  two.set_metadata("x", "1");
  two.add("b", DType::F32, {1}, values.data());
  two.add("a", DType::F32, {3}, values.data());
  one.write(folder / "1");
  two.write(folder / "2");
  EXPECT_EQ(read_file(folder / "1"), read_file(folder / "2"));
}

TEST(SafetensorsWriter, TheBytesArePinned) {
  const TemporaryFolder folder;
  const std::uint8_t value = 7;
  SafetensorsWriter writer;
  writer.add("a", DType::U8, {1}, &value);
  writer.set_metadata("m", "n");
  writer.write(folder / "f");
  const std::string header =
      R"({"__metadata__":{"m":"n"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  std::string expected(8, '\0');
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  expected[0] = static_cast<char>(padded);
  expected += header + std::string(padded - header.size(), ' ') + '\x07';
  EXPECT_EQ(read_file(folder / "f"), expected);
}

TEST(SafetensorsWriter, CopiesWhenAsked) {
  const TemporaryFolder folder;
  std::vector<float> values = {1, 2};
  SafetensorsWriter writer;
  writer.add_copy("copied", DType::F32, {2}, values.data());
  writer.add("borrowed", DType::F32, {2}, values.data());
  values = {8, 9};
  writer.write(folder / "f");
  const SafetensorsFile file = SafetensorsFile::open(folder / "f");
  EXPECT_EQ(values_of<float>(file.at("copied")), (std::vector<float>{1, 2}));
  EXPECT_EQ(values_of<float>(file.at("borrowed")), (std::vector<float>{8, 9}));
}

TEST(SafetensorsWriter, CopiedBytesGoWithTheWriter) {
  const TemporaryFolder folder;
  SafetensorsWriter second;
  {
    const std::vector<std::uint8_t> values = {4, 5};
    SafetensorsWriter first;
    first.add_copy("a", DType::U8, {2}, values.data());
    second = first;
  }
  second.write(folder / "f");
  EXPECT_EQ(values_of<std::uint8_t>(SafetensorsFile::open(folder / "f").at("a")),
            (std::vector<std::uint8_t>{4, 5}));
}

TEST(SafetensorsWriter, RefusesWhatNobodyCouldRead) {
  const std::uint8_t byte = 0;
  SafetensorsWriter writer;
  writer.add("a", DType::U8, {1}, &byte);
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, const void* data) {
    return error_of([&] { writer.add(name, DType::F32, shape, data); });
  };
  EXPECT_EQ(add("a", {1}, &byte), "1: tensor \"a\": added twice");
  EXPECT_EQ(add("__metadata__", {1}, &byte),
            "1: tensor \"__metadata__\": the name is reserved; choose another name");
  EXPECT_EQ(add("b", {-1}, &byte),
            "1: tensor \"b\": bad shape: expected no negative extent, and whole bytes, fewer than "
            "2^63, got F32 [-1]");
  EXPECT_EQ(add("b", {std::int64_t{1} << 61}, &byte),
            "1: tensor \"b\": bad shape: expected no negative extent, and whole bytes, fewer than "
            "2^63, got F32 [2305843009213693952]");
  EXPECT_EQ(add("b", {2}, nullptr), "1: tensor \"b\": no data: expected 8 bytes");
  EXPECT_EQ(error_of([&] { writer.add_copy("b", DType::F32, {2}, nullptr); }),
            "1: tensor \"b\": no data: expected 8 bytes");
  const TemporaryFolder folder;
  writer.write(folder / "f");
  EXPECT_EQ(SafetensorsFile::open(folder / "f").names(), std::vector<std::string>{"a"});
}

TEST(SafetensorsWriter, RefusesNamesThatAreNoText) {
  const TemporaryFolder folder;
  const std::uint8_t byte = 0;
  SafetensorsWriter writer;
  writer.add("\xff", DType::U8, {1}, &byte);
  const auto path = folder / "f";
  EXPECT_EQ(error_of([&] { writer.write(path); }),
            "1: " + path.string() +
                ": cannot write a tensor name or metadata: expected UTF-8, got other bytes");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(SafetensorsWriter, RefusesHeadersThatReadersRefuse) {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  writer.set_metadata("k", std::string(100'000'000, 'x'));
  const std::string message = error_of([&] { writer.write(folder / "f"); });
  EXPECT_NE(message.find("header too long: expected at most 100000000 bytes, got 100000"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace mneme
