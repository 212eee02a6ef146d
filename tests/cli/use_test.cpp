#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class Use : public CliTest {};

TEST_F(Use, RefusesWhatItDoesNotUnderstand) {
  experiment(tiny());
  expect_refusals(2, "", read_wordings(R"(
(empty) => error: expected a subcommand, train, eval, & , got none; see mneme --help
plugins => error: plugins: expected a subcommand, list, describe, try, validate, new, lock, got none
completion fish => SHELL: expected "bash" | "zsh", got "fish"; see mneme completion --help
completion bsh => got "bsh" (did you mean "bash"?)
plugins try x.toml --force => unknown argument "--force"
plugins try x.toml --here --trial-seconds 3 => --here & --trial-seconds
generate x --prompt a --trial-seconds 3 => generate --trial-seconds goes with --chat; add that
generate x --prompt a --prompt-file b => generate --prompt & leave --prompt-file out
eval x --watch --no-store => eval --watch & stores nothing; leave --no-store out
eval x --decode --no-store => mneme decode x --no-store & unknown argument "--no-store"
eval x --watch --no-trial => eval --watch always tries a build; leave --no-trial out
eval x --memory a --no-trial => eval --no-trial goes with several --memory
eval x --trial-seconds 3 => eval --trial-seconds goes with --watch or several --memory
eval x --memory a --memory b --no-trial --trial-seconds 3
  => eval --no-trial makes no trial; leave --trial-seconds out
analyze x --out y --threshold 1.5 => --threshold: expected a number in [0, 1], got 1.5
compare {.} --jobs 3 => run folders are compared as they are & --jobs
compare {.} --device cuda => run folders are compared as they are & --device
compare {.} --threads 7 => run folders are compared as they are & --threads
compare {.} --force => run folders are compared as they are & --force
compare {.} --seeds 1 => run folders are compared as they are & --seeds
compare {.} --samples 3 => run folders are compared as they are & leave --samples out
compare --suite x --pairs --equal state => compare --suite & leave --equal and --pairs out
train x.toml --checkpoint last => train --checkpoint goes with --resume
train x.toml --curve-every 2 => train --curve-every goes with --curve-segments
train --resume x --init y --run z => train --resume & leave --init and --run out
generate x --for-report 2 --top-k 3 => generate --for-report & leave --top-k out
generate x --prompt a --split test => generate --split goes with --for-report
generate x --prompt a --prompt-tokens 2 => generate --prompt-tokens goes with --for-report
generate x --prompt-ids 1 --bos => generate --bos begins a text & leave --prompt-ids out
generate x --chat --document y --state z => generate --document & leave --state out
analyze x --for-report 2 --out y => analyze --for-report & leave --out out
analyze x => analyze: --out is required
trian x.toml => unknown argument "trian" (did you mean "train"?)
plugins try e.toml --seconds 3 => unknown argument "--seconds" (did you mean "--trial-seconds"?)
analyze regresion
  => analyze: "regresion" is no RUN that is there, and no subcommand (did you mean "regression"?)
analyze distnace RUN --out x => and no subcommand (did you mean "distance"?)
analyze regresion --memory x --out y => and no subcommand (did you mean "regression"?)
train x.toml --memori m.toml
  => error: train: unknown argument "--memori" & (did you mean "--memory"?)
train x.toml --run --dry-run
  => --run: expected a folder, got --dry-run; a path that begins so is given as ./--dry-run
train x.toml --memory --dry-run => --memory: expected a file, got --dry-run
eval x --checkpoint --quiet => --checkpoint: expected WHICH, got --quiet
train --resume => --resume: expected RUN, got nothing; see mneme train --help
eval => RUN & see mneme eval --help
compare => EXP & see mneme compare --help
train => EXP
train x.toml --device tpu => --device & tpu & "cpu" | "cuda" | cuda:N
train x.toml --device cuda:x => --device & cuda:x & cuda:N
eval run --split train => --split & valid & test
train x.toml --threads -3 => --threads
train {experiment.toml} --set train.lr => --set & train.lr
train {experiment.toml} --resume {run} => --resume & experiment
eval {run} --tokens {x.safetensors} => mneme score {run} --tokens & --dump is required
eval {run} --dump={x} => mneme score {run} --dump={x} & --tokens is required
score x --tokens a --dump b --memory c --memory d => expected at most one --memory, got 2
train {experiment.toml} --json {experiment.toml/x.json} => --json & experiment.toml
compare {experiment.toml} => --memory
)"));
}

// An empty text is what a shell makes of a variable that is not set: it must not count as an option
// that is absent.
TEST_F(Use, RefusesEmptyPaths) {
  experiment(tiny());
  expect_refusals(2, "", read_wordings(R"(
generate x --prompt a --save-state '' => --save-state: expected a path, got an empty text
generate x --prompt a --state '' => --state: expected a path, got an empty text
generate x --prompt-file '' => --prompt-file: expected a path, got an empty text
generate '' --prompt a => RUN: expected a path, got an empty text; see mneme generate --help
eval x --json '' => --json: expected a path, got an empty text
score x --tokens '' --dump '' => expected a path, got an empty text
eval x --memory a.toml --memory '' => --memory: expected a path, got an empty text
eval '' => RUN: expected a path, got an empty text
train {experiment.toml} --run '' => --run: expected a path, got an empty text
train '' => EXP: expected a path, got an empty text
import --from '' --run {run} => --from: expected a path, got an empty text
import --from x --run '' => --run: expected a path, got an empty text
data prepare --train {t} --out '' => --out: expected a path, got an empty text
data prepare --train '' --out {o} => --train: expected a path, got an empty text
data prepare --train {t} --valid {t} '' --out {o} => --valid: expected a path, got an empty text
data describe '' => PATH: expected a path, got an empty text
data dialogues x --out '' => --out: expected a path, got an empty text
analyze distance x --out '' => --out: expected a path, got an empty text
inspect '' => FILE: expected a path, got an empty text
plugins list --plugins '' => --plugins: expected a path, got an empty text
abi ops --json '' => --json: expected a path, got an empty text
compare {experiment.toml} --memory '' => --memory: expected a path, got an empty text
config keys '' => TABLE: expected a table, got an empty text
report x --baseline '' => --baseline: expected an arm, got an empty text
export x --to y --family '' => --family: expected a family, got an empty text
export x y --format '' => --format: expected a format, got an empty text
plugins validate x --here '' => --here: expected a check, got an empty text
plugins new x --id '' => --id: expected an id, got an empty text
)"));
}

TEST_F(Use, RefusesAnExperimentThatIsMissing) {
  const ProgramResult result = run_mneme({"train", file("absent.toml")});
  EXPECT_EQ(result.signal, 0);
  EXPECT_TRUE(result.exit_code == 1 || result.exit_code == 2) << result.exit_code;
  EXPECT_THAT(result.err, HasSubstr("absent.toml"));
}

// Whether a result is short or fills the buffer, a failed write is reported.
TEST_F(Use, FailsWhenResultsCannotBeWritten) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"--version"}, {"abi", "ops"}, {"abi", "ops", "--json", "-"}}) {
    const ProgramOptions full = {.out = folder_.write("out", ""), .file_size = 1};
    expect_refusal(run_mneme(command, full), 1,
                   {"standard output: results were lost", "a disk with free space"});
  }
  // What the program's end alone writes has a reason.
  const ProgramOptions full = {.out = folder_.write("out", ""), .file_size = 1};
  expect_refusal(run_mneme({"abi", "--help"}, full), 1, {"results were lost: File too large"});
}

TEST_F(Use, RefusesADeviceThatIsNotThere) {
  const ProgramOptions hidden{.environment = {"CUDA_VISIBLE_DEVICES="}};  // on any machine
  expect_refusal(
      run_mneme({"train", experiment(tiny()), "--run", file("run"), "--device", "cuda"}, hidden), 4,
      {"cuda"});
}

TEST_F(Use, EvalTakesOnlyTheModelsSwitches) {
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}));
  expect_done(run_mneme({"eval", file("run"), "--set", "model.clamp_distance=2", "--quiet"}));
  expect_refusal(run_mneme({"eval", file("run"), "--set", "model.layers=2"}), 2,
                 {"eval --set model.layers", "model.same_length or model.clamp_distance"});
}

TEST(AbiOps, PrintsEverySchema) {
  const ProgramResult text = run_mneme({"abi", "ops"});
  expect_done(text);
  EXPECT_THAT(text.out, HasSubstr("matmul/1"));
  const ProgramResult json = run_mneme({"abi", "ops", "--json"});
  expect_done(json);
  const auto ops = Json::parse(json.out);
  ASSERT_TRUE(ops.is_array());
  for (const auto& op : ops) EXPECT_THAT(text.out, HasSubstr(op.at("name").get<std::string>()));
}

TEST(AbiOps, WritesJsonToAFile) {
  const TemporaryFolder folder;
  const auto path = folder / "ops.json";
  expect_done(run_mneme({"abi", "ops", "--json", path.string()}));
  EXPECT_GT(Json::parse(read_file(path)).size(), 10U);
}

}  // namespace
}  // namespace mneme::test
