#include <cstdint>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

// Data files that cannot be used: exit code 2, the key and the file.
class BadData : public CliTest {
 protected:
  // The tiny experiment on other data.
  static std::string with_data(const std::string& data) {
    std::string text = tiny();
    const auto begin = text.find("[data]");
    return text.replace(begin, text.find("[train]") - begin, "[data]\n" + data + "\n");
  }
  void refused(const std::string& data, const std::vector<std::string>& texts) const {
    expect_refusal(run_mneme({"train", experiment(with_data(data)), "--run", file("run")}), 2,
                   texts);
  }
  // Ids [n] as a safetensors file.
  void write_ids(const std::string& name, const std::vector<std::int64_t>& ids) const {
    SafetensorsWriter writer;
    writer.add("input", DType::I64, {static_cast<std::int64_t>(ids.size())}, ids.data());
    writer.write(folder_ / name);
  }
};

TEST_F(BadData, MissingText) {
  refused("task = \"text\"\ntrain = \"absent.txt\"", {"data.train", "absent.txt"});
}

TEST_F(BadData, EmptyText) {
  folder_.write("empty.txt", "");
  refused("task = \"text\"\ntrain = \"empty.txt\"", {"data.train", "empty.txt", "empty"});
}

TEST_F(BadData, TextThatIsTooShort) {
  folder_.write("short.txt", "too short");
  refused("task = \"text\"\ntrain = \"short.txt\"", {"short.txt", "too short", "train."});
}

TEST_F(BadData, TextWithoutAWord) {
  folder_.write("blank.txt", "   \n\n  \n");
  refused("task = \"text\"\nvocabulary = \"word\"\ntrain = \"blank.txt\"", {"blank.txt"});
}

TEST_F(BadData, IdsOutOfRange) {
  std::vector<std::int64_t> ids(400, 3);
  ids[123] = 77;
  write_ids("ids.safetensors", ids);
  refused("task = \"tokens\"\nvocabulary_size = 10\ntrain = \"ids.safetensors\"",
          {"ids.safetensors", "out of range", "77", "123"});
  ids[123] = -1;
  write_ids("ids.safetensors", ids);
  refused("task = \"tokens\"\nvocabulary_size = 10\ntrain = \"ids.safetensors\"",
          {"ids.safetensors", "out of range", "-1"});
}

TEST_F(BadData, ForeignIdFile) {
  folder_.write("ids.safetensors", "this is no safetensors file");
  refused("task = \"tokens\"\ntrain = \"ids.safetensors\"", {"ids.safetensors", "safetensors"});
}

TEST_F(BadData, IdsOfAnotherDtype) {
  const std::vector<float> values(400, 1.0F);
  SafetensorsWriter writer;
  writer.add("input", DType::F32, {400}, values.data());
  writer.write(folder_ / "ids.safetensors");
  refused("task = \"tokens\"\ntrain = \"ids.safetensors\"", {"ids.safetensors", "I64", "F32"});
}

}  // namespace
}  // namespace mneme::test
