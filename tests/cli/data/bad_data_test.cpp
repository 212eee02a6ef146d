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
  void refused(const std::string& file_of_rows) const {
    for_each_case(
        read_wording_file(file_of_rows), [](const Wording& row) { return row.name(); },
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
  refused("tests/cli/data/messages/texts.txt");
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
  refused("tests/cli/data/messages/ids.txt");
}

}  // namespace
}  // namespace mneme::test
