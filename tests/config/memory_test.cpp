// [memory] in experiment files and in files of its own.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "host/config/experiment.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/base/wordings.hpp"

namespace mneme::config {
namespace {

using test::error_of;
using test::TemporaryFolder;

const std::string kPlugins = "[memory]\nplugins = [\"p\"]\n";
const std::string kRest = "[data]\ntask = \"motif\"\n[train]\nsteps = 1\n";

MemoryConfig memory_parse(const std::string& text) {
  const TemporaryFolder folder;
  return parse_memory_file(folder.write("m.toml", text));
}

// The message with the file's path written as M.
std::string override_error(const std::string& text, const std::vector<Override>& overrides) {
  const TemporaryFolder folder;
  const std::string path = folder.write("m.toml", text).string();
  std::string message = error_of([&] { static_cast<void>(parse_memory_file(path, overrides)); });
  for (std::size_t at = message.find(path); at != std::string::npos; at = message.find(path)) {
    message.replace(at, path.size(), "M");
  }
  return message;
}

std::string memory_parse_error(const std::string& text) { return override_error(text, {}); }

std::string tier_error(const std::string& lines) {
  return memory_parse_error(kPlugins + "[[memory.tier]]\nplugin = \"a\"\n" + lines);
}

TEST(Memory, NoTierIsNoMemory) {
  EXPECT_EQ(memory_parse("[memory]\n"), MemoryConfig{});
  const Experiment e = parse_experiment_text(kRest, "e");
  EXPECT_EQ(e.memory, MemoryConfig{});
}

TEST(Memory, ReadsTheHostsKeysAndKeepsTheRestApart) {
  const TemporaryFolder folder;
  const auto path = folder.write("m.toml", R"([memory]
plugins = ["p", "/q"]
carry = "reset"
[[memory.tier]]
plugin = "a"
layers = [2, 0]
feed = "segment"
sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"
lr = 0.5
weight_decay = 0
weight.gate = 0.25
rows = 64
eval_rows = 128
nested = { x = 1 }
[[memory.tier]]
plugin = "b"
)");
  const MemoryConfig memory = parse_memory_file(path);
  EXPECT_EQ(memory.plugins, (std::vector<std::filesystem::path>{folder / "p", "/q"}));
  EXPECT_EQ(memory.carry, Carry::kReset);
  ASSERT_EQ(memory.tiers.size(), 2u);
  const TierConfig& a = memory.tiers[0];
  EXPECT_EQ(a.plugin, "a");
  EXPECT_EQ(a.layers, (std::vector<std::int64_t>{0, 2}));
  EXPECT_EQ(a.feed, Feed::kSegment);
  EXPECT_EQ(a.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(a.lr, 0.5);
  EXPECT_EQ(a.weight_decay, 0.0);
  EXPECT_EQ(a.weights, (std::map<std::string, double>{{"gate", 0.25}}));
  EXPECT_EQ(a.options, parse_toml("rows = 64\nnested = { x = 1 }", "x"));
  EXPECT_EQ(a.eval_options, parse_toml("rows = 128", "x"));
  EXPECT_EQ(a.eval_options.find("rows")->path(), "memory.tier.0.eval_rows");
  EXPECT_EQ(a.position.text(), path.string() + ":4:1");
  const TierConfig& b = memory.tiers[1];
  EXPECT_FALSE(b.layers);
  EXPECT_EQ(b.feed, Feed::kReleased);
  EXPECT_FALSE(b.lr);
  EXPECT_FALSE(b.weight_decay);
  EXPECT_TRUE(b.options.members().empty());
  EXPECT_EQ(b.position.text(), path.string() + ":15:1");
}

TEST(Memory, TextAndBackGivesAnEqualMemory) {
  const MemoryConfig first =
      memory_parse(kPlugins +
                   "[[memory.tier]]\nplugin = \"a\"\nlayers = [1]\nweight.\"x y\" "
                   "= 3\nrows = 64\neval_rows = 5\nt = { k = [1.5] }\n");
  EXPECT_EQ(memory_parse(to_toml(first)), first) << to_toml(first);
  EXPECT_EQ(memory_parse(to_toml(MemoryConfig{})), MemoryConfig{});
}

TEST(Memory, EqualityCoversEveryFieldOfATier) {
  const TierConfig base = memory_parse(kPlugins + "[[memory.tier]]\nplugin = \"a\"\n").tiers[0];
  for (const std::string line :
       {"layers = [1]", "feed = \"segment\"", "lr = 1.0", "weight_decay = 1.0", "weight.x = 1.0",
        "rows = 1", "eval_rows = 1",
        "sha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\""}) {
    const TierConfig other =
        memory_parse(kPlugins + "[[memory.tier]]\nplugin = \"a\"\n" + line + "\n").tiers[0];
    EXPECT_FALSE(base == other) << line;
  }
}

TEST(Memory, AFileOfItsOwnHoldsNothingElse) {
  test::expect_problems(
      memory_parse_error, "M",
      test::read_wording_file("tests/config/messages/memory/file_of_its_own.txt"));
}

TEST(Memory, TiersNeedAPlugin) {
  test::expect_problems(
      memory_parse_error, "M",
      test::read_wording_file("tests/config/messages/memory/plugin_of_a_tier.txt"));
}

// The written text has no such key either, so that another installation reads the run with its own
// plugins.
TEST(Memory, FoldersThatAreNotGivenAreThoseOfTheProgram) {
  const MemoryConfig memory = memory_parse("[[memory.tier]]\nplugin = \"a\"\n");
  EXPECT_TRUE(memory.plugins.empty());
  const std::string text = to_toml(memory);
  EXPECT_EQ(text.find("plugins ="), std::string::npos) << text;
  EXPECT_EQ(memory_parse(text), memory);
  MemoryConfig given = memory;
  given.plugins = {"/p"};
  EXPECT_EQ(memory_parse(to_toml(given)), given);
}

TEST(Memory, KeysOfATierAreChecked) {
  test::expect_problems(tier_error, "M",
                        test::read_wording_file("tests/config/messages/memory/keys_of_a_tier.txt"));
  EXPECT_EQ(tier_error("sha256 = \"" + std::string(64, 'g') + "\"\n"),
            "2: M:5:10: memory.tier.0.sha256: expected 64 hexadecimal digits, got \"" +
                std::string(64, 'g') + "\" (64 characters)");
}

TEST(Memory, UnknownKeysAndCarryNameTheNearest) {
  test::expect_problems(memory_parse_error, "M",
                        test::read_wording_file("tests/config/messages/memory/unknown_keys.txt"));
}

TEST(Memory, OverridesReachMemoryFiles) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("m.toml", kPlugins + "[[memory.tier]]\nplugin = \"a\"\nrows = 1\n");
  const MemoryConfig memory = parse_memory_file(path, {{"memory.tier.0.rows", "9"}});
  EXPECT_EQ(memory.tiers[0].options, parse_toml("rows = 9", "x"));
  EXPECT_EQ(override_error(kPlugins, {{"train.lr", "1"}}),
            "2: --set train.lr: a memory file has no such key: expected memory.<key>, got "
            "train.lr");
  EXPECT_EQ(
      override_error(kPlugins, {{"memory.tier.0.rows", "1"}}),
      "2: --set memory.tier.0.rows: the memory has no tier: expected a [[memory.tier]], got none; "
      "name a memory that has one with --memory FILE");
  const auto refusal = [](const std::string& text, const std::vector<Override>& overrides) {
    return error_of([&] { static_cast<void>(parse_experiment_text(text, "e", ".", overrides)); });
  };
  EXPECT_NE(refusal(kRest, {{"memory.tier.0.rows", "1"}}).find("the memory has no tier"),
            std::string::npos);
  EXPECT_EQ(refusal(kRest, {{"tier.0.rows", "1"}}),
            "2: --set tier.0.rows: unknown key (did you mean \"memory.tier.0.rows\"?)");
}

TEST(Memory, AMemoryFileReplacesTheExperimentsMemory) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "sub");
  const auto memory =
      folder.write("sub/m.toml", kPlugins + "[[memory.tier]]\nplugin = \"b\"\nrows = 1\n");
  const auto experiment =
      folder.write("e.toml",
                   "[model]\nsame_length = true\n[memory]\nplugins = [\"x\"]\n[[memory.tier]]\n"
                   "plugin = \"a\"\n" +
                       kRest);
  EXPECT_EQ(parse_experiment(experiment).memory.tiers[0].plugin, "a");
  const Experiment e = parse_experiment(experiment, {{"memory.tier.0.rows", "5"}}, memory);
  ASSERT_EQ(e.memory.tiers.size(), 1u);
  EXPECT_EQ(e.memory.tiers[0].plugin, "b");
  EXPECT_EQ(e.memory.tiers[0].options, parse_toml("rows = 5", "x"));
  EXPECT_EQ(e.memory.plugins[0], folder / "sub/p");
  const auto none = folder.write("none.toml", "[memory]\n");
  EXPECT_NE(error_of([&] {
              static_cast<void>(parse_experiment(experiment, {}, none));
            }).find("model.same_length: the window would be empty"),
            std::string::npos);
  const auto wrong = folder.write("w.toml", "[memory]\n[train]\n");
  EXPECT_EQ(error_of([&] { static_cast<void>(parse_experiment(experiment, {}, wrong)); }),
            "2: " + wrong.string() + ":2:2: train: a memory file holds [memory] and nothing else");
}

TEST(Memory, LayersMustExist) {
  const std::string text = "[model]\nlayers = 2\n" + kPlugins +
                           "[[memory.tier]]\nplugin = \"a\"\nlayers = [0, 2]\n" + kRest;
  EXPECT_EQ(error_of([&] { static_cast<void>(parse_experiment_text(text, "e")); }),
            "2: e:5:1: memory.tier.0.layers: expected layers from 0 to 1, got 2");
}

TEST(Memory, AnotherMemoryIsCheckedAgainstTheModel) {
  const std::string text = "[model]\nlayers = 2\nsame_length = true\n" + kPlugins +
                           "[[memory.tier]]\nplugin = \"a\"\n" + kRest;
  const Experiment e = parse_experiment_text(text, "e");
  const MemoryConfig other =
      memory_parse(kPlugins + "[[memory.tier]]\nplugin = \"b\"\nlayers = [1]\n");
  const Experiment swapped = with_memory(e, other);
  EXPECT_EQ(swapped.memory, other);
  EXPECT_EQ(swapped.model, e.model);
  EXPECT_TRUE(error_of([&] {
                static_cast<void>(with_memory(e, {}));
              }).starts_with("2: model.same_length: the window would be empty"));
  MemoryConfig deep = other;
  deep.tiers[0].layers = {7};
  EXPECT_NE(error_of([&] {
              static_cast<void>(with_memory(e, deep));
            }).find("memory.tier.0.layers: expected layers from 0 to 1, got 7"),
            std::string::npos);
}

TEST(Memory, ATiersKeysWithoutATierAreSaidToBelongToOne) {
  EXPECT_EQ(memory_parse_error("[memory]\nplugin = \"xl_cache\"\nrows = 16\n"),
            "2: M:2:10: memory.plugin: unknown key here: expected it in [[memory.tier]]; write a "
            "line [[memory.tier]] above it\n"
            "M:3:8: memory.rows: unknown key here: expected it in [[memory.tier]]");
  EXPECT_NE(memory_parse_error("[[memory.tier]]\nplugin = \"a\"\n[memory.other]\n")
                .find("memory.other: unknown key; known keys: carry, plugins, tier"),
            std::string::npos);
  EXPECT_NE(memory_parse_error("[[tier]]\nplugin = \"a\"\n").find("call it [[memory.tier]]"),
            std::string::npos);
  EXPECT_NE(memory_parse_error("plugin = \"a\"\n")
                .find("write the lines [memory] and [[memory.tier]] above it"),
            std::string::npos);
}

TEST(Memory, AMemoryFileInThePlaceOfAnExperimentIsRecognised) {
  const TemporaryFolder folder;
  const auto memory = folder.write("m.toml", kPlugins + "[[memory.tier]]\nplugin = \"a\"\n");
  EXPECT_EQ(
      error_of([&] { static_cast<void>(parse_experiment(memory)); }),
      "2: " + memory.string() +
          ": this is a memory file: expected an experiment file, which has [data] and [train] "
          "too, got [memory] alone; give it with an experiment: EXP --memory " +
          memory.string());
  EXPECT_EQ(
      parse_experiment(memory, {{"data.task", "motif"}, {"train.steps", "1"}}).memory.tiers.size(),
      1U);
}

TEST(Memory, ASuiteIsNeitherAMemoryNorAnExperiment) {
  const TemporaryFolder folder;
  const auto suite =
      folder.write("s.toml", "[[memory]]\nfile = \"m\"\n[[task]]\nexperiment = \"e\"\n");
  const auto experiment = folder.write("e.toml", kRest);
  for (const std::string& error :
       {error_of([&] { static_cast<void>(parse_experiment(suite)); }),
        error_of([&] { static_cast<void>(parse_experiment(experiment, {}, suite)); })}) {
    EXPECT_NE(error.find("this is a suite, a list of experiments and memories"), std::string::npos)
        << error;
    EXPECT_NE(error.find("mneme compare --suite "), std::string::npos) << error;
  }
}

TEST(MemoryInPython, IsNamedByItsPath) {
  const TemporaryFolder folder;
  const auto plugin_of = [&](const std::string& name) {
    const auto file = folder.write("m.toml", "[[memory.tier]]\nplugin = \"" + name + "\"\n");
    return parse_memory_file(file).tiers.at(0).plugin;
  };
  const std::filesystem::path base = std::filesystem::absolute(folder.path());
  EXPECT_EQ(plugin_of("my.py"), (base / "my.py").string());
  EXPECT_EQ(plugin_of("../other/my.py"), (base / "../other/my.py").lexically_normal().string());
  EXPECT_EQ(plugin_of("/a/my.py"), "/a/my.py");
  EXPECT_EQ(plugin_of("my"), "my");
}

TEST(MemoryInPython, IsAMemoryFileOfOneTier) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.write("my.py", "nothing that TOML could read = (");
  const MemoryConfig memory = parse_memory_file(file);
  ASSERT_EQ(memory.tiers.size(), 1U);
  EXPECT_EQ(memory.tiers[0].plugin, std::filesystem::absolute(file).string());
  EXPECT_EQ(memory.tiers[0].position.text(), file.string());
  EXPECT_EQ(parse_memory_file(folder.write("m.toml", to_toml(memory))), memory);
  const std::string missing = (folder.path() / "none.py").string();
  EXPECT_NE(error_of([&] { static_cast<void>(parse_memory_file(missing)); }).find(missing),
            std::string::npos);
}

}  // namespace
}  // namespace mneme::config
