// mneme plugins validate as people run it: each check in a process of its own.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "host/base/file/file.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

const fs::path kFlawed = fs::path(MNEME_BINARY_DIR) / "tests/flawed_plugins";

// The checks are processes of the built program, so that this one cannot be a fork of the test.
ProgramResult validate(const std::string& plugin, std::vector<std::string> more) {
  more.insert(more.begin(), {"plugins", "validate", (kFlawed / plugin).string()});
  return run_mneme(more, {.is_new_program = true});
}

// Lines are broken where the terminal ends: all white space as one blank.
std::string flat(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    const bool is_blank = letter == ' ' || letter == '\n';
    if (!is_blank || (!out.empty() && out.back() != ' ')) out += is_blank ? ' ' : letter;
  }
  return out;
}

Json parsed(const ProgramResult& result) { return Json::parse(result.out); }

// "check: result" of everything that neither passed nor was skipped.
std::vector<std::string> problems_of(const Json& json) {
  std::vector<std::string> problems;
  for (const Json& check : json.at("checks")) {
    const std::string result = check.at("result");
    if (result != "pass" && result != "skip" && result != "left out")
      problems.push_back(check.at("name").get<std::string>() + ": " + result);
  }
  return problems;
}

struct Entry {
  std::string file, problem;
};

std::ostream& operator<<(std::ostream& out, const Entry& entry) { return out << entry.file; }

class ValidateEntry : public ::testing::TestWithParam<Entry> {};

TEST_P(ValidateEntry, FailsItsCheckAlone) {
  const bool is_of_entry = GetParam().problem.starts_with("negotiation");
  const ProgramResult result =
      validate(GetParam().file + ".so", {"--only", is_of_entry ? "negotiation" : "file",
                                         "--exclude", "file.portable", "--json", "-"});
  const Json json = parsed(result);
  if (GetParam().problem.empty()) {
    EXPECT_THAT(problems_of(json), IsEmpty());
    EXPECT_EQ(result.exit_code, 0);
    return;
  }
  EXPECT_THAT(problems_of(json), ElementsAre(GetParam().problem));
  EXPECT_EQ(result.exit_code, GetParam().problem.ends_with("fail") ? 3 : 0);
}

const Entry kEntries[] = {
    {"entry", ""},
    {"entry_without_note", "file.note: fail"},
    {"entry_that_needs", "file.load: fail"},
    {"entry_with_symbol", "file.symbols: fail"},
    {"entry_with_unique", "file.unique: fail"},
    {"entry_with_stack", "file.stack: fail"},
    {"entry_with_relocation", "file.relocations: fail"},
    {"entry_with_run_path", "file.run_path: warn"},
    {"entry_repeat", "negotiation.repeat: fail"},
    {"entry_older", "negotiation.older: fail"},
    {"entry_newer", "negotiation.newer: fail"},
    {"entry_garbage", "negotiation.garbage: fail"},
    {"entry_quiet", "negotiation.quiet: fail"},
};
INSTANTIATE_TEST_SUITE_P(All, ValidateEntry, ::testing::ValuesIn(kEntries),
                         [](const auto& test) { return test.param.file; });

class Validate : public CliTest {};

TEST_F(Validate, SaysWhatPassedAndHowManyChecksThereWere) {
  const ProgramResult result = validate("test_flawed.so", {"--only", "segments"});
  expect_done(result);
  EXPECT_THAT(flat(result.out),
              AllOf(HasSubstr("sha256 "), HasSubstr("seed 1, 5 checks"),
                    HasSubstr("segments.one_token pass "),
                    HasSubstr("5 passed, 0 with a warning, 0 skipped, 0 failed ")));
}

TEST_F(Validate, NamesTheFailureAndTheCommandThatShowsItAgain) {
  const ProgramResult result =
      validate("test_flawed.so", {"--only", "causality", "--set", "fault=looks_ahead"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(flat(result.out),
              AllOf(HasSubstr("causality.tokens fail: in training, segment 0: "
                              "other tokens from 1 on change the loss of token 0 by"),
                    HasSubstr("--here causality.tokens --seed 1 --set "
                              "fault=looks_ahead "),
                    HasSubstr("0 passed, 0 with a warning, 0 skipped, 1 failed ")));
  const ProgramResult here =
      validate("test_flawed.so", {"--here", "causality.tokens", "--set", "fault=looks_ahead"});
  EXPECT_EQ(here.exit_code, 3);
  EXPECT_THAT(flat(here.out),
              AllOf(StartsWith("causality.tokens fail: in training, segment 0: other tokens"),
                    HasSubstr("a token sees a later one "), Not(HasSubstr("again: "))));
}

TEST_F(Validate, LeavesOutWhatAFailureMakesMeaningless) {
  const ProgramResult result =
      validate("test_flawed.so", {"--exclude", "file", "--set", "fault=create_fails"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(flat(result.out),
              AllOf(HasSubstr("options.run fail: "), HasSubstr("not so"),
                    Not(HasSubstr("state.save")), HasSubstr("1 failed; "), HasSubstr(" left out")));
}

TEST_F(Validate, ReportsACrashWithTheFunctionThatRan) {
  const ProgramResult result = validate(
      "test_flawed.so", {"--only", "kernels", "--set", "fault=kernel_reads_beyond", "--json", "-"});
  EXPECT_EQ(result.exit_code, 3);
  const Json json = parsed(result);
  EXPECT_THAT(problems_of(json), ElementsAre("kernels.bounds: crash"));
  EXPECT_THAT(json.at("checks").at(0).at("text").get<std::string>(),
              AllOf(HasSubstr("SIGSEGV"), HasSubstr("kernel gated, forward")));
}

TEST_F(Validate, EndsWhatDoesNotReturn) {
  const ProgramResult result = validate(
      "test_flawed.so", {"--only", "options.run", "--set", "fault=hangs", "--seconds", "1"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(flat(result.out),
              AllOf(HasSubstr("options.run timeout: "),
                    HasSubstr("hook absorb, layer 0: has not returned after 1 s")));
}

TEST_F(Validate, FindsWhatIsNeededThoughTheNoteCallsItOptional) {
  const ProgramResult result = validate(
      "test_flawed.so", {"--only", "errors.groups", "--set", "fault=needs_probes", "--json", "-"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(problems_of(parsed(result)), ElementsAre("errors.groups: fail"));
}

TEST_F(Validate, WarnsOfWhatDoesNotExplainItself) {
  const ProgramResult result = validate("test_flawed_silent.so", {"--only", "options.help"});
  expect_done(result);
  EXPECT_THAT(flat(result.out), HasSubstr("options.help warn: no summary; option size has no "
                                          "help; option size has no bounds "));
}

TEST_F(Validate, WarnsOfAFileThatOldSystemsCannotLoad) {
  const ProgramResult old = validate("entry.so", {"--only", "file.portable"});
  expect_done(old);
  EXPECT_THAT(flat(old.out), HasSubstr("file.portable pass "));
  const ProgramResult result = validate("entry_for_new_systems.so", {"--only", "file.portable"});
  expect_done(result);
  EXPECT_THAT(flat(result.out), HasSubstr("file.portable warn: it needs GLIBC_2.34 of libc.so.6"));
}

TEST_F(Validate, AsksForOptionsWithoutADefault) {
  const ProgramResult result = validate("test_flawed_silent.so", {"--only", "options.run"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(flat(result.out),
              HasSubstr("options without a default are not given: add --set size=..."));
  expect_done(validate("test_flawed_silent.so", {"--only", "options.run", "--set", "size=3"}));
  expect_done(validate("test_flawed_silent.so", {"--only", "options.run", "--set", "size = 3"}));
  const ProgramResult typo =
      validate("test_flawed_silent.so", {"--only", "options.run", "--set", "sizes=3"});
  expect_refusal(
      typo, 2, {"--set sizes=3: there is no such option (did you mean \"size\"?): expected size"});
  EXPECT_EQ(typo.out, "");  // before any check
}

// By the schema, before any check; what a memory itself refuses is a failure of options.run.
TEST_F(Validate, RefusesValuesThatTheSchemaExcludes) {
  const auto refuse = [](const std::string& option, const std::vector<std::string>& texts) {
    const ProgramResult result =
        validate("test_flawed.so", {"--only", "options.run", "--set", option});
    expect_refusal(result, 2, texts);
    EXPECT_EQ(result.out, "");
  };
  refuse("rows=99", {"--set rows", "an integer in [1, 64]", "got 99"});
  refuse("rows=many", {"--set rows", "an integer in [1, 64]", "got \"many\""});
  refuse("decay=1.5", {"--set decay", "a real number in [0, 1]", "got 1.5"});
  refuse("queue=3", {"--set queue", "true or false", "got 3"});
  refuse("mean=tripled", {"--set mean", "\"plain\" | \"doubled\"", "got \"tripled\""});
  refuse("eval_decay=2", {"--set eval_decay", "a real number in [0, 1]", "got 2"});
  refuse("eval_rows=3", {"--set eval_rows", "rows may not differ at evaluation"});
  refuse("eval_decoy=0", {"--set eval_decoy", "unknown key", "eval_decay"});
}

TEST_F(Validate, WritesJson) {
  expect_done(validate("test_flawed.so",
                       {"--only", "segments", "--json", file("checks.json"), "--set", "rows=8"}));
  const Json json = Json::parse(read_file(folder_ / "checks.json"));
  EXPECT_EQ(json.at("format"), "mneme-validation");
  EXPECT_EQ(json.at("options"), Json::array({"rows=8"}));
  EXPECT_EQ(json.at("failed"), 0);
  EXPECT_EQ(json.at("checks").size(), 5U);
  EXPECT_EQ(json.at("checks").at(0).at("name"), "segments.one_token");
}

TEST_F(Validate, ListsTheChecks) {
  const ProgramResult result = run_mneme({"plugins", "validate", "--list"});
  expect_done(result);
  EXPECT_THAT(flat(result.out), HasSubstr("causality.tokens Does no token see a later one? "));
}

TEST_F(Validate, RefusesWhatItCannotUse) {
  const std::string plugin = (kFlawed / "test_flawed.so").string();
  const auto refuse = [&](std::vector<std::string> more, const std::vector<std::string>& texts,
                          int exit_code = 2) {
    more.insert(more.begin(), {"plugins", "validate"});
    expect_refusal(run_mneme(more), exit_code, texts);
  };
  refuse({}, {"no plugin is named"});
  refuse({"./missing.so"}, {"./missing.so: there is no such file", "mneme plugins list"});
  refuse({"no_such_memory", "--plugins", kFlawed.string()}, {"no_such_memory"}, 3);
  refuse({plugin, "--set", "rows"}, {"--set rows: no value is given", "OPTION=VALUE"});
  refuse({plugin, "--only", "causalty"},
         {"--only causalty: there is no such check (did you mean \"causality\"?)"});
  refuse({plugin, "--exclude", "x.y"}, {"--exclude x.y: there is no such check"});
  refuse({plugin, "--here", "causality"}, {"--here causality: it names a group"});
  refuse({plugin, "--only", "options.run", "--json", plugin + "/x.json"}, {plugin + "/x.json"});
}

TEST_F(Validate, PrintsNothingBeforeAnErrorOfTheFile) {
  const ProgramResult result = run_mneme({"plugins", "validate", "/dev/null"});
  expect_refusal(result, 1, {"/dev/null: cannot map: expected a regular file"});
  EXPECT_EQ(result.out, "");
}

const std::string kSilent = (kFlawed / "test_flawed_silent.so").string();

TEST(SamePlugins, APluginEqualsItself) {
  const ProgramResult result =
      run_mneme({"plugins", "same", kSilent, kSilent, "--set", "size=2"}, {.is_new_program = true});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("the same, within 1.0e-10 in f64\n"));
}

TEST(SamePlugins, RefusesWhatItCannotUse) {
  const auto refuse = [&](std::vector<std::string> more, const std::vector<std::string>& texts) {
    more.insert(more.begin(), {"plugins", "same", kSilent});
    expect_refusal(run_mneme(more), 2, texts);
  };
  refuse({}, {"B"});
  refuse({"./missing.so"}, {"./missing.so: there is no such file"});
  refuse({kSilent, "--set", "size"}, {"--set size: no value is given"});
  refuse({kSilent, "--tolerance", "-1"}, {"--tolerance -1: is no tolerance", "at least 0"});
}

}  // namespace
}  // namespace mneme::test
