#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"
#include "tests/plugin/broken/broken_plugin.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

// Plugins that are missing, do not load, or misbehave: exit code 3, the cause, the memory file's
// place.
class BadPlugin : public CliTest {
 protected:
  void SetUp() override {
    fs::create_directories(plugins());
    fs::permissions(plugins(), fs::perms::owner_all);
  }
  fs::path plugins() const { return folder_ / "plugins"; }
  // A plugin with a flaw that shows when it runs, or one that does not load.
  void add(const std::string& name) const {
    const fs::path flawed = fs::path(MNEME_BINARY_DIR) / "tests/cli/flawed" / (name + ".so");
    write(name + ".so", fs::exists(flawed) ? read_file(flawed) : broken_plugin(name));
  }
  void write(const std::string& name, const std::string& bytes) const {
    const fs::path path = folder_.write("plugins/" + name, bytes);
    fs::permissions(path, fs::perms::owner_all);
  }
  // Trains with the plugin and expects its refusal.
  void refused(const std::string& name, std::vector<std::string> texts, int exit_code = 3,
               const std::string& options = "") const {
    const std::string path = experiment(tiny(memory_with(name, plugins(), options)));
    if (exit_code == 3) texts.push_back(name);
    texts.push_back(path + ':');
    expect_refusal(run_mneme({"train", path, "--run", file("run")}), exit_code, texts);
  }
};

TEST_F(BadPlugin, DoesNotLoad) {
  const std::string good = broken_plugin("good");
  std::string riscv = good;
  riscv[18] = static_cast<char>(0xF3);  // e_machine: RISC-V
  riscv[19] = 0;
  write("riscv.so", riscv);
  write("half.so", good.substr(0, good.size() / 2));
  write("text.so", "hello\n");
  for (const char* name : {"good", "no_note", "abi_note", "abi_negotiate", "no_entry",
                           "undefined_symbol", "init_fails"}) {
    add(name);
  }
  for_each_case(
      read_wording_file("tests/cli/plugins/messages/files.txt"),
      [](const Wording& row) { return row.name(); },
      [&](const Wording& row) { refused(row.given, parts_of(with_files(row.message))); });
}

TEST_F(BadPlugin, OptionsOfTheTier) {
  add("good");
  refused("good", {"memory.tier.0.rows", "an integer in [1, 4096]", "0"}, 2, "rows = 0");
  refused("good", {"memory.tier.0.rwos", "(did you mean \"rows\"?)"}, 2, "rwos = 3");
  refused("good", {"sha256"}, 3, "sha256 = \"" + std::string(64, '0') + "\"");
  count_cases(3);
}

TEST_F(BadPlugin, HookReturnsAnError) {
  add("hook_error");
  const std::string path = experiment(tiny(memory_with("hook_error", plugins())));
  expect_refusal(run_mneme({"train", path, "--run", file("run")}), 3,
                 {"org.example.hook_error", "read", "layer 0", "the ridge matrix has no inverse",
                  "hook_error.c:"});
}

TEST_F(BadPlugin, HookReturnsAWrongShape) {
  add("wrong_shape");
  const std::string path = experiment(tiny(memory_with("wrong_shape", plugins())));
  expect_refusal(run_mneme({"train", path, "--run", file("run")}), 3,
                 {"org.example.wrong_shape", "read", "[4, 8, 2, 8]", "[4, 2, 8]"});
}

// The arms that work are trained, shown and written; the exit status says that not all were.
TEST_F(BadPlugin, OneArmOfAComparisonFails) {
  add("hook_error");
  const std::string flawed =
      folder_.write("flawed.toml", memory_with("hook_error", plugins())).string();
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  const ProgramResult result =
      run_mneme({"compare", experiment(tiny()), "--memory", flawed, "--memory", none, "--run",
                 file("comparison"), "--threads", "1", "--quiet"});
  expect_refusal(result, 1, {"mneme: error: flawed (seed 1): ", "the ridge matrix has no inverse"});
  EXPECT_THAT(result.out, ::testing::HasSubstr("valid loss, nats a token"));
  const Json arms = Json::parse(read_file(folder_ / "comparison/comparison.json")).at("arms");
  const Json failed = arms.at(0).at("runs").at(0);
  EXPECT_EQ(failed.at("state"), "failed");
  EXPECT_EQ(failed.at("error").at("exit_code"), 3);
  EXPECT_THAT(failed.at("error").at("message").get<std::string>(),
              ::testing::HasSubstr("the ridge matrix has no inverse"));
  EXPECT_EQ(arms.at(1).at("runs").at(0).at("state"), "done");
}

TEST_F(BadPlugin, OneMemoryOfADecodingFails) {
  add("hook_error");
  const std::string flawed =
      folder_.write("flawed.toml", memory_with("hook_error", plugins())).string();
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  std::string sorting = tiny();
  const std::size_t data = sorting.find("task = ");
  sorting.replace(data, sorting.find("[train]") - data,
                  "task = \"digit_sorting\"\nlength = 4\nalphabet = 4\ntrain_sequences = 40\n"
                  "valid_sequences = 10\ntest_sequences = 10\n");
  expect_done(run_mneme(
      {"train", experiment(sorting), "--run", file("run"), "--set", "train.segment=7", "--quiet"}));
  const ProgramResult result = run_mneme({"decode", file("run"), "--memory", flawed, "--memory",
                                          none, "--json", file("out.json"), "--quiet"});
  expect_refusal(result, 3, {"mneme: error: flawed: ", "the ridge matrix has no inverse"});
  EXPECT_THAT(result.out, ::testing::ContainsRegex("flawed +failed\nnone +10 "));
  const Json memories = Json::parse(read_file(folder_ / "out.json")).at("memories");
  EXPECT_EQ(memories.at(0).at("error").at("exit_code"), 3);
  EXPECT_EQ(memories.at(1).at("result").at("sequences"), 10);
  expect_refusal(run_mneme({"decode", file("run"), "--memory", flawed}), 3,
                 {"the ridge matrix has no inverse"});
}

// Reading a large text takes minutes; this one cannot be read at all.
TEST_F(BadPlugin, IsFoundBeforeTheDataAreRead) {
  folder_.write("train.txt", "abc\n");
  folder_.write("valid.txt", "xyz\n");
  const std::string data =
      "task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\nvocabulary = \"char\"\n";
  const std::string none = folder_.write("none.toml", "[memory]\n").string();
  const std::string absent =
      folder_.write("absent.toml", memory_with("absent", plugins())).string();
  const std::string text = experiment(tiny_on(data));
  expect_refusal(run_mneme({"train", text, "--run", file("run")}), 2, {"valid.txt"});
  expect_refusal(run_mneme({"train", text, "--memory", absent, "--run", file("run")}), 3,
                 {"absent", "not found"});
  expect_refusal(
      run_mneme({"compare", text, "--memory", none, "--memory", absent, "--run", file("compared")}),
      3, {"absent: ", "not found"});
  expect_refusal(
      run_mneme({"train", text, "--set", "data.valid=\"gone.txt\"", "--run", file("run")}), 2,
      {"data.valid", "gone.txt"});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

}  // namespace
}  // namespace mneme::test
