#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/base/cases.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

// A file with this header and `data` zero bytes after it.
std::string file_bytes(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  std::string bytes(sizeof(size), '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + header + std::string(data, '\0');
}

class Inspect : public CliTest {};

TEST_F(Inspect, ListsTensorsAndMetadata) {
  const std::vector<float> values(6, 1.0F);
  SafetensorsWriter writer;
  writer.add("weights", DType::F32, {2, 3}, values.data());
  writer.set_metadata("made_by", "a test");
  writer.write(folder_ / "x.safetensors");
  const ProgramResult result = run_mneme({"inspect", file("x.safetensors")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("weights    F32  [2, 3]     24\n"));
  EXPECT_THAT(result.out, HasSubstr("metadata made_by: a test\n"));
  EXPECT_THAT(result.out, HasSubstr("1 tensors, 6 elements, 24 B\n"));
  EXPECT_THAT(result.out, HasSubstr("the file carries no checksums: whether it is damaged cannot "
                                    "be told\n"));
  const ProgramResult json = run_mneme({"inspect", file("x.safetensors"), "--json", "-"});
  expect_done(json);
  EXPECT_EQ(Json::parse(json.out).at("tensors").at(0).at("bytes"), 24);
  EXPECT_FALSE(Json::parse(json.out).at("checksums").at("carried").get<bool>());
}

// The names are those of another program: they must do nothing to a terminal.
TEST_F(Inspect, ShowsNamesAsTheyCanBeShown) {
  const std::vector<float> values(1, 1.0F);
  SafetensorsWriter writer;
  writer.add("a\x1b[31mb", DType::F32, {1}, values.data());
  writer.add("c\u202Ed", DType::F32, {1}, values.data());
  writer.set_metadata("k\x1b", "v\x1b");
  writer.write(folder_ / "x.safetensors");
  const ProgramResult result = run_mneme({"inspect", file("x.safetensors")});
  expect_done(result);
  for (const char* shown : {"a\\x1b[31mb ", "c\\xe2\\x80\\xaed ", "metadata k\\x1b: v\\x1b\n"}) {
    EXPECT_THAT(result.out, HasSubstr(shown));
  }
  EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << result.out;
}

TEST_F(Inspect, ListsTensorsOfEveryDtype) {
  const std::vector<std::byte> bytes(64);
  SafetensorsWriter writer;
  for (const std::string& word : all_words<DType>()) {
    const DType dtype = *find_word<DType>(word);
    writer.add(str("tensor.", dtype_name(dtype)), dtype, {2, 4}, bytes.data());
  }
  writer.write(folder_ / "x.safetensors");
  const ProgramResult result = run_mneme({"inspect", file("x.safetensors")});
  expect_done(result);
  for (const std::string& word : all_words<DType>()) {
    const DType dtype = *find_word<DType>(word);
    const std::string name(dtype_name(dtype));
    EXPECT_THAT(result.out, testing::ContainsRegex(str("tensor\\.", name, " +", name,
                                                       " +\\[2, 4\\] +", dtype_bits(dtype), '\n')));
  }
}

TEST_F(Inspect, RefusesAMissingFile) {
  expect_refusal(run_mneme({"inspect", file("absent.safetensors")}), 2, {"absent.safetensors"});
}

TEST_F(Inspect, RefusesFilesThatAreWrong) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"hello, world", "safetensors"},
      {"abc", "safetensors"},
      {file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
       "outside the file"},
      {file_bytes(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8), "size mismatch"},
      {file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                  R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                  12),
       "overlaps"},
      {file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "data_offsets"},
      {file_bytes(R"({"a":{"dtype":"Q4","shape":[2],"data_offsets":[0,8]}})", 8), "unknown dtype"},
  };
  for_each_case(
      rows, [](const auto& row) { return row.second; },
      [&](const auto& row) {
        const auto path = folder_.write("x.safetensors", row.first).string();
        expect_refusal(run_mneme({"inspect", path}), 2, {path, row.second});
      });
}

}  // namespace
}  // namespace mneme::test
