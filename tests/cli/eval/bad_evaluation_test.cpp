#include "tests/base/wordings.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

// Data and settings that nothing can be evaluated with: exit code 2, the key and what to do.
class BadEvaluation : public CliTest {
 protected:
  void SetUp() override {
    folder_.write("train.txt", std::string(400, 'a') + std::string(400, 'b'));
    folder_.write("valid.txt", std::string(100, 'a'));
    expect_done(run_mneme({"train", experiment(with_text()), "--run", file("run"), "--quiet"}));
  }
  static std::string with_text() {
    return tiny_on("task = \"text\"\ntrain = \"train.txt\"\nvalid = \"valid.txt\"\n");
  }
  ProgramResult eval(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"eval", file("run"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
};

TEST_F(BadEvaluation, ValidationTextOfLengthZero) {
  expect_done(eval());
  folder_.write("valid.txt", "");
  expect_refusal(eval(), 2, {"data.valid", "valid.txt", "empty"});
  expect_refusal(run_mneme({"train", experiment(with_text()), "--run", file("again"), "--quiet"}),
                 2, {"data.valid", "valid.txt", "empty"});
}

TEST_F(BadEvaluation, ValidationTextTooShortForTheLanes) {
  folder_.write("valid.txt", "abc");
  expect_refusal(eval(), 2, {"data.valid", "too short", "eval.lanes"});
  expect_refusal(eval({"--set", "data.valid=" + file("train.txt"), "--set", "eval.lanes=500"}), 2,
                 {"too short", "eval.lanes"});
}

TEST_F(BadEvaluation, WhatTheRunOrTheArgumentsDoNotAllow) {
  folder_.write("m.toml", "[memory]\n");
  expect_refusals(
      2, "eval {run} --quiet",
      read_wording_file("tests/cli/eval/messages/what_the_run_or_the_arguments_do_not_allow.txt"));
}

}  // namespace
}  // namespace mneme::test
