#include <cstdint>
#include <vector>

#include "host/base/file/safetensors.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

// Data files that cannot be used: exit code 2, the key and the file.
class BadData : public CliTest {
 protected:
  // Rows "lines of [data] => part & part".
  void refused(const std::string& table) const {
    for_each_case(
        read_wordings(table), [](const Wording& row) { return row.given; },
        [&](const Wording& row) {
          const std::string text = tiny_on(lines_of(row.given));
          expect_refusal(run_mneme({"train", experiment(text), "--run", file("run")}), 2,
                         parts_of(row.message));
        });
  }
  // Ids [n] as a safetensors file.
  void write_ids(const std::string& name, const std::vector<std::int64_t>& ids) const {
    SafetensorsWriter writer;
    writer.add("input", DType::I64, {static_cast<std::int64_t>(ids.size())}, ids.data());
    writer.write(folder_ / name);
  }
};

TEST_F(BadData, Texts) {
  folder_.write("empty.txt", "");
  folder_.write("short.txt", "too short");
  folder_.write("blank.txt", "   \n\n  \n");
  refused(R"(
task = "text"; train = "absent.txt" => data.train & absent.txt
task = "text"; train = "empty.txt" => data.train & empty.txt & empty
task = "text"; train = "short.txt" => short.txt & too short & train.
task = "text"; vocabulary = "word"; train = "blank.txt" => blank.txt
)");
}

TEST_F(BadData, Ids) {
  std::vector<std::int64_t> ids(400, 3);
  ids[123] = 77;
  write_ids("large.safetensors", ids);
  ids[123] = -1;
  write_ids("negative.safetensors", ids);
  folder_.write("foreign.safetensors", "this is no safetensors file");
  const std::vector<float> values(400, 1.0F);
  SafetensorsWriter writer;
  writer.add("input", DType::F32, {400}, values.data());
  writer.write(folder_ / "real.safetensors");
  refused(R"(
task = "tokens"; vocabulary_size = 10; train = "large.safetensors"
  => large.safetensors & out of range & 77 & 123
task = "tokens"; vocabulary_size = 10; train = "negative.safetensors"
  => negative.safetensors & out of range & -1
task = "tokens"; train = "foreign.safetensors" => foreign.safetensors & safetensors
task = "tokens"; train = "real.safetensors" => real.safetensors & I64 & F32
)");
}

}  // namespace
}  // namespace mneme::test
