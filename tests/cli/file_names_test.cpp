// Names of files and folders that are not UTF-8, which Unix allows and JSON and TOML do not.
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kLatin = "caf\xe9";   // "café" in Latin-1
constexpr const char* kShown = "caf\\xe9";  // in messages
constexpr const char* kKept = "caf\uFFFD";  // in JSON

class FileNames : public CliTest {
 protected:
  void SetUp() override { fs::create_directory(folder_ / kLatin); }
  std::string latin(const std::string& name) const { return (folder_ / kLatin / name).string(); }
  Json json_of(const fs::path& file) const {
    Json json = parse_json(read_file(file));
    EXPECT_FALSE(json.is_discarded()) << file;
    return json;
  }
};

TEST_F(FileNames, RunsLiveInFoldersOfAnyName) {
  const std::string exp = folder_.write(str(kLatin, "/exp.toml"), tiny()).string();
  expect_done(run_mneme({"train", exp, "--run", latin("run"), "--quiet", "--threads", "1"}));
  EXPECT_TRUE(json_of(latin("run/run.json")).is_object());
  expect_done(run_mneme({"train", "--resume", latin("run"), "--quiet", "--threads", "1"}));
  const ProgramResult eval =
      run_mneme({"eval", latin("run"), "--json", "-", "--quiet", "--threads", "1"});
  expect_done(eval);
  EXPECT_THAT(eval.out, HasSubstr(kKept));
  EXPECT_TRUE(parse_json(eval.out).is_object());
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", latin("run"), "--json", latin("inspect.json")},
        {"report", latin("run"), "--out", latin("report")},
        {"train", exp, "--init", latin("run"), "--run", latin("second"), "--quiet", "--threads",
         "1"},
        {"compare", exp, "--memory", folder_.write("none.toml", "[memory]\n").string(), "--run",
         latin("comparison"), "--quiet", "--threads", "1"}}) {
    SCOPED_TRACE(arguments.front());
    expect_done(run_mneme(arguments));
  }
  EXPECT_THAT(read_file(latin("inspect.json")), HasSubstr(kKept));
  EXPECT_TRUE(json_of(latin("comparison/comparison.json")).is_object());
}

TEST_F(FileNames, ReadAgainAreRefusedBeforeAnythingIsComputed) {
  const std::string exp =
      folder_
          .write(str(kLatin, "/exp.toml"), tiny_on("task = \"text\"\ntrain = \"text.txt\"\n"
                                                   "vocabulary = \"byte\"\n"))
          .string();
  folder_.write(str(kLatin, "/text.txt"), "some text that is read\n");
  expect_refusal(run_mneme({"train", exp, "--run", file("run")}), 2,
                 {"data.train: a run could not keep this path in its experiment.toml: expected a "
                  "name in UTF-8, got ",
                  str(kShown, "/text.txt; rename the folder")});
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(FileNames, TextsAreReadAndKeptAsTheyCanBeShown) {
  folder_.write(str(kLatin, "/text.txt"), "some text\n");
  const ProgramResult result =
      run_mneme({"data", "prepare", "--vocabulary", "word", "--train", latin("text.txt"), "--out",
                 file("prepared"), "--json", "-", "--quiet"});
  expect_done(result);
  EXPECT_TRUE(parse_json(result.out).is_object());
  const Json kept = json_of(folder_ / "prepared" / "data.json");
  EXPECT_THAT(kept.at("splits").at("train").at("sources").at(0).at("path").get<std::string>(),
              HasSubstr(str(kKept, "/text.txt")));
  expect_done(run_mneme({"data", "describe", file("prepared")}));
}

TEST_F(FileNames, FilesThatAreWrongAreNamed) {
  const std::string path = folder_.write(str(kLatin, "/x.safetensors"), "no weights").string();
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"inspect", path},
        {"import", path, experiment(tiny()), "--run", file("run")},
        {"import", "--from", latin(""), "--run", file("run")},
        {"data", "describe", latin("absent")},
        {"data", "dialogues", latin("x.safetensors"), "--out", file("out.jsonl")},
        {"eval", latin("absent")},
        {"plugins", "describe", latin("absent.so")}}) {
    SCOPED_TRACE(arguments.front() + ' ' + arguments[1]);
    const ProgramResult result = run_mneme(arguments);
    expect_refusal(result, result.exit_code, {kShown});
    EXPECT_GT(result.exit_code, 0);
  }
}

}  // namespace
}  // namespace mneme::test
