#include "tests/base/cases.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

// Experiments that are refused before anything runs, with their place and what was expected.
class BadExperiment : public CliTest {
 protected:
  void refused(const std::string& text, const std::vector<std::string>& texts,
               const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"train", experiment(text), "--run", file("run")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(run_mneme(arguments), 2, texts);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  }
  std::string at(const std::string& place) const { return file("experiment.toml") + ':' + place; }
};

TEST_F(BadExperiment, IsRefusedWithThePlace) {
  const std::string rest = tiny().substr(tiny().find("[data]"));
  struct Row {
    std::string text;
    std::vector<std::string> parts;
    std::vector<std::string> more = {};
  };
  const std::vector<Row> rows = {
      {"[model]\nlayers = = 1\n", {at("2:10")}},
      {"[model\nlayers = 1\n", {at("1:")}},
      {tiny() + "[model.adaptiv]\n", {at("24:8"), "model.adaptiv", "(did you mean \"adaptive\"?)"}},
      {"[model]\nlayres = 2\n" + rest, {at("2:1"), "model.layres", "(did you mean \"layers\"?)"}},
      {tiny() + "segment = \"eight\"\n", {at("24:11"), "eval.segment", "an integer", "\"eight\""}},
      {tiny() + "lanes = 0\n", {at("24:9"), "eval.lanes", "an integer in [1, ", "got 0"}},
      // All problems at once.
      {tiny() + "lanes = 0\nsegmnt = 3\n", {"eval.lanes", "eval.segmnt", "2 lines"}},
      {tiny(), {"--set train.lr", "train.lr"}, {"--set", "train.lr=fast"}},
      {tiny(), {"train.lrr", "(did you mean \"train.lr\"?)"}, {"--set", "train.lrr=1"}},
  };
  for_each_case(
      rows, [](const Row& row) { return row.parts.front(); },
      [&](const Row& row) { refused(row.text, row.parts, row.more); });
}

TEST_F(BadExperiment, MemoryFileWithOtherTables) {
  const auto memory = folder_.write("m.toml", "[memory]\n[model]\nlayers = 1\n").string();
  refused(tiny(), {memory, "model"}, {"--memory", memory});
}

TEST_F(BadExperiment, MissingMemoryFile) {
  refused(tiny(), {"absent.toml"}, {"--memory", file("absent.toml")});
}

}  // namespace
}  // namespace mneme::test
