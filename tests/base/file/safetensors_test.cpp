// Reading: every way in which a file can be wrong, byte by byte.
#include "host/base/file/safetensors.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using test::error_of;
using test::TemporaryFolder;

// A file of the given header and data.
std::string bytes_of(const std::string& header, std::size_t data_bytes,
                     std::uint64_t length = ~std::uint64_t{0}) {
  if (length == ~std::uint64_t{0}) length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  bytes += header;
  for (std::size_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

// What opening the bytes says, with the file's path written as F.
std::string opening(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("f.safetensors", bytes);
  std::string message = error_of([&] { static_cast<void>(SafetensorsFile::open(path)); });
  const std::size_t at = message.find(path.string());
  if (at != std::string::npos) message.replace(at, path.string().size(), "F");
  return message;
}

std::string opening(const std::string& header, std::size_t data_bytes) {
  return opening(bytes_of(header, data_bytes));
}

// Of this process, in KiB: pages of files that are in its memory; those of a file system in memory
// count as shared ones.
long resident_of_files() {
  std::ifstream status("/proc/self/status");
  long sum = 0, found = 0;
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("RssFile:") && !line.starts_with("RssShmem:")) continue;
    sum += std::stol(line.substr(line.find(':') + 1));
    ++found;
  }
  EXPECT_EQ(found, 2) << "the system does not say how much of files is resident";
  return sum;
}

TEST(Safetensors, GivesMemoryBackAndReadsItAgain) {
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  const TemporaryFolder folder;
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"U8","shape":[8388608],"data_offsets":[3,8388611]}})";
  const auto path = folder.write("f.safetensors", bytes_of(header, kBytes + 3));
  const SafetensorsFile file = SafetensorsFile::open(path);
  const TensorView &a = file.at("a"), &b = file.at("b");
  const auto sum = [](const TensorView& view) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < view.bytes; ++i) total += static_cast<unsigned char>(view.data[i]);
    return total;
  };
  const std::size_t of_a = sum(a), of_b = sum(b);
  const long before = resident_of_files();
  release(b);
  EXPECT_LT(resident_of_files(), before - 7 * 1024);
  release(a);  // less than a page: stays
  EXPECT_EQ(sum(a), of_a);
  EXPECT_EQ(sum(b), of_b);
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("f", bytes_of(R"({"__metadata__":{"k":"v","j":"w"},)"
                                 R"("b":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                                 R"("a":{"dtype":"U8","shape":[],"data_offsets":[8,9]},)"
                                 R"("z":{"dtype":"I64","shape":[0,5],"data_offsets":[9,9]}}  )",
                                 9));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b", "z"}));
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"j", "w"}, {"k", "v"}}));
  EXPECT_EQ(file.metadata_at("k"), "v");
  EXPECT_TRUE(file.contains("a"));
  EXPECT_FALSE(file.contains("c"));
  const TensorView& a = file.at("a");
  EXPECT_EQ(a.dtype, DType::U8);
  EXPECT_TRUE(a.shape.empty());
  EXPECT_EQ(a.elements(), 1);
  EXPECT_EQ(a.bytes, 1u);
  EXPECT_EQ(static_cast<int>(*a.data), 8);
  EXPECT_EQ(file.at("b").elements(), 2);
  EXPECT_EQ(file.at("z").elements(), 0);
  EXPECT_EQ(&file.at("b", DType::F32, {2, 1}), file.find("b"));
}

TEST(Safetensors, ViewsOutliveTheFirstFileObject) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("f", bytes_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", 3));
  auto first = std::make_unique<SafetensorsFile>(SafetensorsFile::open(path));
  const SafetensorsFile second = *first;
  first.reset();
  EXPECT_EQ(static_cast<int>(second.at("a").data[2]), 2);
}

TEST(Safetensors, KnowsEveryDtype) {
  const std::vector<std::pair<std::string, std::size_t>> all = {
      {"F64", 64},        {"F32", 32},        {"F16", 16},    {"BF16", 16},   {"F8_E5M2", 8},
      {"F8_E4M3", 8},     {"F8_E8M0", 8},     {"F6_E3M2", 6}, {"F6_E2M3", 6}, {"F4", 4},
      {"F8_E5M2FNUZ", 8}, {"F8_E4M3FNUZ", 8}, {"C64", 64},    {"I64", 64},    {"I32", 32},
      {"I16", 16},        {"I8", 8},          {"U64", 64},    {"U32", 32},    {"U16", 16},
      {"U8", 8},          {"BOOL", 8}};
  EXPECT_EQ(words_of(DType{}).size(), all.size());
  for (const auto& [name, bits] : all) {
    DType dtype{};
    ASSERT_TRUE(parse_dtype(name, dtype)) << name;
    EXPECT_EQ(dtype_name(dtype), name);
    EXPECT_EQ(dtype_bits(dtype), bits) << name;
    const std::size_t bytes = 3 * bits;  // of 24 elements
    EXPECT_EQ(opening(str(R"({"a":{"dtype":")", name, R"(","shape":[4,6],"data_offsets":[0,)",
                          bytes, "]}}"),
                      bytes),
              "no error")
        << name;
  }
  DType dtype{};
  EXPECT_FALSE(parse_dtype("f32", dtype));
}

TEST(Safetensors, ElementsOfFewerThanEightBitsFillWholeBytes) {
  const auto with = [](const std::string& dtype, const std::string& shape, int bytes) {
    return opening(str(R"({"a":{"dtype":")", dtype, R"(","shape":)", shape,
                       R"(,"data_offsets":[0,)", bytes, "]}}"),
                   static_cast<std::size_t>(bytes));
  };
  EXPECT_EQ(with("F4", "[3,2]", 3), "no error");
  EXPECT_EQ(with("F6_E2M3", "[4]", 3), "no error");
  EXPECT_EQ(with("F4", "[3,0]", 0), "no error");
  const std::string part =
      "1: F: tensor \"a\": a shape that cannot be stored: expected whole bytes, fewer than 2^63, "
      "got ";
  EXPECT_EQ(with("F4", "[3]", 2), part + "F4 [3] (dtype x shape)");
  EXPECT_EQ(with("F6_E3M2", "[2]", 2), part + "F6_E3M2 [2] (dtype x shape)");
  EXPECT_EQ(with("F4", "[]", 1), part + "F4 [] (dtype x shape)");
  EXPECT_EQ(with("F4", "[4]", 4),
            "1: F: tensor \"a\": size mismatch: expected 2 bytes for F4 [4] (dtype x shape), got 4 "
            "bytes in data_offsets");
}

TEST(Safetensors, EmptyFileOfNoTensorsIsRight) { EXPECT_EQ(opening("{}", 0), "no error"); }

TEST(Safetensors, MissingTensorNamesTheNearest) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "f", bytes_of(R"({"layer.0.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(error_of([&] { static_cast<void>(file.at("layer.0.wieght")); }),
            "1: " + path.string() +
                ": no tensor \"layer.0.wieght\" (did you mean \"layer.0.weight\"?); it holds "
                "\"layer.0.weight\"");
  const auto two_path =
      folder.write("t", bytes_of(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                 R"("y":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                 0));
  const SafetensorsFile two = SafetensorsFile::open(two_path);
  EXPECT_EQ(error_of([&] { static_cast<void>(two.at("weight")); }),
            "1: " + two_path.string() + ": no tensor \"weight\"; it holds \"x\", \"y\"");
  std::string many;
  for (char name = 'a'; name <= 'l'; ++name) {
    many += str(many.empty() ? '{' : ',', '"', name,
                R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})");
  }
  const SafetensorsFile twelve = SafetensorsFile::open(folder.write("m", bytes_of(many + '}', 0)));
  EXPECT_EQ(error_of([&] { static_cast<void>(twelve.at("weight")); }),
            "1: " + (folder / "m").string() +
                ": no tensor \"weight\"; it holds \"a\", \"b\", \"c\", \"d\", \"e\", \"f\", "
                "\"g\", \"h\", \"i\", \"j\" and 2 more");
  const auto empty_path = folder.write("e", bytes_of("{}", 0));
  const SafetensorsFile empty = SafetensorsFile::open(empty_path);
  EXPECT_EQ(error_of([&] { static_cast<void>(empty.at("a")); }),
            "1: " + empty_path.string() + ": no tensor \"a\"; the file holds no tensor");
}

TEST(Safetensors, WrongDtypeOrShapeIsRefused) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("f", bytes_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::string where = "1: " + path.string() + ": tensor \"a\": wrong dtype or shape: ";
  EXPECT_EQ(error_of([&] { static_cast<void>(file.at("a", DType::F64, {2})); }),
            where + "expected F64 [2], got F32 [2]");
  EXPECT_EQ(error_of([&] {
              static_cast<void>(file.at("a", DType::F32, {1, 2}));
            }),
            where + "expected F32 [1, 2], got F32 [2]");
}

TEST(Safetensors, MissingMetadataNamesTheNearest) {
  const TemporaryFolder folder;
  const auto path = folder.write("f", bytes_of(R"({"__metadata__":{"family":"x"}})", 0));
  const SafetensorsFile file = SafetensorsFile::open(path);
  EXPECT_EQ(error_of([&] { static_cast<void>(file.metadata_at("famly")); }),
            "1: " + path.string() +
                ": no metadata \"famly\" (did you mean \"family\"?); it has \"family\"");
  const auto bare_path = folder.write("b", bytes_of("{}", 0));
  const SafetensorsFile bare = SafetensorsFile::open(bare_path);
  EXPECT_EQ(error_of([&] { static_cast<void>(bare.metadata_at("x")); }),
            "1: " + bare_path.string() + ": no metadata \"x\"; the file has no metadata");
}

TEST(Safetensors, RefusesForeignFiles) {
  const std::string where =
      "1: F: is not a safetensors file: expected 8 bytes header length, then a JSON object, got ";
  const std::string hint = "; check the path, or convert the file to safetensors";
  EXPECT_EQ(opening(""), where + "a file of 0 bytes" + hint);
  EXPECT_EQ(opening("1234567"), where + "a file of 7 bytes" + hint);
  EXPECT_EQ(opening("12345678"), where + "other bytes" + hint);
  const std::string zip = opening("PK\x03\x04 a zip archive");
  EXPECT_TRUE(
      zip.starts_with("1: F: the file is packed: expected a safetensors file, got data packed "
                      "by zip; unpack it: unzip "))
      << zip;
}

TEST(Safetensors, RefusesMissingFiles) {
  EXPECT_EQ(error_of([] { static_cast<void>(SafetensorsFile::open("no/such/file")); }),
            "1: no/such/file: cannot open: No such file or directory; check the path");
}

TEST(Safetensors, RefusesHeadersOutOfBounds) {
  EXPECT_EQ(opening(bytes_of("{}", 0, 100'000'001)),
            "1: F: header too long: expected at most 100000000 bytes, got 100000001");
  EXPECT_EQ(opening(bytes_of("{}", 0, ~std::uint64_t{0} - 1)),
            "1: F: header too long: expected at most 100000000 bytes, got 18446744073709551614");
  EXPECT_EQ(opening(bytes_of("{}", 0, 3)),
            "1: F: truncated header: expected 3 bytes, got 2; copy the file again");
}

TEST(Safetensors, RefusesBadJson) {
  EXPECT_NE(opening(R"({"a")", 0).find("1: F: the header is not JSON at its byte 5: "),
            std::string::npos);
  EXPECT_NE(opening("{\"\xff\":1}", 0).find("the header is not JSON"), std::string::npos);
  EXPECT_NE(opening("{} x", 0).find("the header is not JSON"), std::string::npos);
}

TEST(Safetensors, RefusesDuplicateKeys) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(opening('{' + entry + ',' + entry + '}', 1),
            "1: F: the header holds the key \"a\" twice");
  EXPECT_EQ(opening(R"({"__metadata__":{"k":"1","k":"2"}})", 0),
            "1: F: the header holds the key \"k\" twice");
  EXPECT_EQ(opening(R"({"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
            "1: F: the header holds the key \"dtype\" twice");
}

TEST(Safetensors, RefusesBadMetadata) {
  EXPECT_EQ(opening(R"({"__metadata__":null})", 0), "no error");  // there are none
  EXPECT_EQ(opening(R"({"__metadata__":[]})", 0),
            "1: F: __metadata__: expected an object of strings, got array");
  EXPECT_EQ(opening(R"({"__metadata__":{"k":1}})", 0),
            "1: F: __metadata__: key \"k\": expected a string, got number");
}

TEST(Safetensors, RefusesBadEntries) {
  EXPECT_EQ(opening(R"({"a":1})", 0),
            "1: F: tensor \"a\": bad header entry: expected an object, got number");
  EXPECT_EQ(opening(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1),
            "1: F: tensor \"a\": its header entry has no \"dtype\"");
  EXPECT_EQ(opening(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1),
            "1: F: tensor \"a\": its header entry has no \"shape\"");
  EXPECT_EQ(opening(R"({"a":{"dtype":"U8","shape":[1]}})", 1),
            "1: F: tensor \"a\": its header entry has no \"data_offsets\"");
}

TEST(Safetensors, RefusesUnknownDtypes) {
  const std::string known =
      "F64 | F32 | F16 | BF16 | F8_E5M2 | F8_E4M3 | F8_E8M0 | F8_E5M2FNUZ | F8_E4M3FNUZ | F6_E3M2 "
      "| "
      "F6_E2M3 | F4 | C64 | I64 | I32 | I16 | I8 | U64 | U32 | U16 | U8 | BOOL";
  EXPECT_EQ(opening(R"({"a":{"dtype":"F128","shape":[1],"data_offsets":[0,1]}})", 1),
            "1: F: tensor \"a\": unknown dtype: expected " + known + ", got \"F128\"");
  EXPECT_EQ(opening(R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,1]}})", 1),
            "1: F: tensor \"a\": unknown dtype: expected " + known + ", got 5");
}

TEST(Safetensors, RefusesBadShapes) {
  const std::string where =
      "1: F: tensor \"a\": bad shape: expected a list of integers from 0 to 2^63 - 1, got ";
  const auto with_shape = [](const std::string& shape) {
    return opening(R"({"a":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":[0,1]}})", 1);
  };
  EXPECT_EQ(with_shape("[-1]"), where + "-1");
  EXPECT_EQ(with_shape("[1.5]"), where + "1.5");
  EXPECT_EQ(with_shape("[\"1\"]"), where + "\"1\"");
  EXPECT_EQ(with_shape("[9223372036854775808]"), where + "9223372036854775808");
  EXPECT_EQ(with_shape("5"), where + "number");
  const std::string large =
      "1: F: tensor \"a\": a shape that cannot be stored: expected whole bytes, fewer than 2^63, "
      "got "
      "U8 ";
  EXPECT_EQ(with_shape("[4294967296, 4294967296]"),
            large + "[4294967296, 4294967296] (dtype x shape)");
  EXPECT_EQ(with_shape("[3, 9223372036854775807]"),
            large + "[3, 9223372036854775807] (dtype x shape)");
}

TEST(Safetensors, RefusesDeepHeadersAndNumbersBeyondDoubles) {
  const std::string deep(200'000, '['), end(200'000, ']');
  EXPECT_EQ(
      opening(R"({"a":{"dtype":)" + deep + end + "}}", 0),
      "1: F: objects and lists of the header lie too deep in each other: expected at most 100 "
      "levels, got 200002");
  EXPECT_EQ(opening(R"({"a":{"dtype":"U8","shape":[1e999]}})", 0),
            "1: F: a number of the header is too large: expected numbers of 64 bits, got "
            "[json.exception.out_of_range.406] number overflow parsing '1e999'");
}

TEST(Safetensors, AnEmptyShapeDoesNotOverflow) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "f", bytes_of(R"({"a":{"dtype":"F64","shape":[9223372036854775807,9223372036854775807,0],)"
                    R"("data_offsets":[0,0]}})",
                    0));
  EXPECT_EQ(SafetensorsFile::open(path).at("a").elements(), 0);
}

TEST(Safetensors, RefusesBadOffsets) {
  const auto with_offsets = [](const std::string& offsets, std::size_t data) {
    return opening(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets + "}}", data);
  };
  EXPECT_EQ(with_offsets("[4,0]", 4),
            "1: F: tensor \"a\": bad data_offsets: expected [begin, end] with begin <= end, got "
            "[4, 0]");
  EXPECT_EQ(with_offsets("[0,2,4]", 4),
            "1: F: tensor \"a\": bad data_offsets: expected [begin, end] with begin <= end, got "
            "[0, 2, 4]");
  EXPECT_EQ(with_offsets("[-1,3]", 4),
            "1: F: tensor \"a\": bad data_offsets: expected a list of integers from 0 to 2^63 - 1, "
            "got -1");
  EXPECT_EQ(with_offsets("[0,4]", 3),
            "1: F: tensor \"a\": its data lies outside the file: expected data_offsets up to 3, "
            "got [0, 4]; the file may be truncated; copy it again");
  EXPECT_EQ(with_offsets("[9223372036854775800,9223372036854775804]", 4),
            "1: F: tensor \"a\": its data lies outside the file: expected data_offsets up to 4, "
            "got [9223372036854775800, 9223372036854775804]; the file may be truncated; copy it "
            "again");
}

TEST(Safetensors, RefusesSizesThatDisagree) {
  EXPECT_EQ(opening(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
            "1: F: tensor \"a\": size mismatch: expected 8 bytes for F32 [2] (dtype x shape), got "
            "4 bytes in data_offsets");
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  const auto two = [](const std::string& first, const std::string& second, std::size_t data) {
    return opening(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + first +
                       R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + second + "}}",
                   data);
  };
  EXPECT_EQ(two("[0,2]", "[2,4]", 4), "no error");
  EXPECT_EQ(two("[2,4]", "[0,2]", 4), "no error");
  EXPECT_EQ(two("[0,2]", "[1,3]", 3),
            "1: F: tensor \"b\": its data overlaps tensor \"a\": expected to begin at 2, got 1");
  EXPECT_EQ(two("[0,2]", "[0,2]", 2),
            "1: F: tensor \"b\": its data overlaps tensor \"a\": expected to begin at 2, got 0");
  EXPECT_EQ(two("[0,2]", "[3,5]", 5),
            "1: F: tensor \"b\": hole in the data after tensor \"a\": expected to begin at 2, got "
            "3");
  EXPECT_EQ(two("[1,3]", "[3,5]", 5),
            "1: F: tensor \"a\": hole in the data after the header: expected to begin at 0, got 1");
  EXPECT_EQ(two("[0,2]", "[2,4]", 5),
            "1: F: data after the last tensor, tensor \"b\": expected 4 bytes of data, got 5");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = bytes_of(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", 5);
  ASSERT_EQ(opening(whole), "no error");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(opening(whole.substr(0, length)), "no error") << length;
  }
}

TEST(Safetensors, EveryFlippedHeaderByteIsSafe) {
  const std::string whole = bytes_of(R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", 5);
  for (std::size_t at = 0; at < whole.size() - 5; ++at) {
    for (const int flip : {1, 16, 128}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ flip);
      const std::string message = opening(bytes);  // an Error or none; anything else would end us
      EXPECT_TRUE(message == "no error" || message.starts_with("1: F: ")) << message;
    }
  }
}

}  // namespace
}  // namespace mneme
