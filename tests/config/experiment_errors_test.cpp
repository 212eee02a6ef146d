// Errors in experiment files, and their messages.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "tests/base/wordings.hpp"
#include "tests/config/experiment_texts.hpp"

namespace mneme::config {
namespace {

using test::error_of;

TEST(Experiment, UnknownSectionsAndKeysNameTheNearest) {
  test::expect_problems(
      parse_error, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/unknown_keys.txt"));
  EXPECT_EQ(model_error("layres = 3\n"),
            "2: e.toml:2:1: model.layres: unknown key (did you mean \"layers\"?)");
}

TEST(Experiment, EveryProblemIsReportedAtOnce) {
  EXPECT_EQ(parse_error("[model]\nlayers = 0\ndropout = 1.0\nnorm = \"middle\"\n[data]\n"
                        "task = \"motif\"\nalphabet = 1\n[train]\nstep = 5\n"),
            "2: e.toml:2:10: model.layers: expected an integer in [1, 4096], got 0\n"
            "e.toml:3:11: model.dropout: expected a real number in [0, 1), got 1.0\n"
            "e.toml:4:8: model.norm: expected \"post\" | \"pre\" | \"sandwich\", got \"middle\"\n"
            "e.toml:7:12: data.alphabet: expected an integer in [2, 65536], got 1\n"
            "e.toml:8:1: train.steps: missing: expected one of steps and epochs; give the length "
            "of the training, such as steps = 1000\n"
            "e.toml:9:1: train.step: unknown key (did you mean \"steps\"?)");
}

TEST(Experiment, HeadWidthMustBeGivenWhereItDoesNotFollow) {
  test::expect_problems(model_error, "e.toml",
                        test::read_wording_file("tests/config/messages/experiment/head_width.txt"));
}

TEST(Experiment, RelativePositionsNeedAnEvenWidth) {
  test::expect_problems(
      model_error, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/relative_positions.txt"));
}

TEST(Experiment, SameLengthNeedsATier) {
  EXPECT_EQ(model_error("same_length = true\n"),
            "2: e.toml:2:15: model.same_length: the window would be empty: there is no memory "
            "tier: expected a [[memory.tier]] that declares a context capacity, got none; add a "
            "tier, or set same_length = false");
}

TEST(Experiment, AdaptiveKeysAreChecked) {
  const auto adaptive = [](const std::string& lines, const std::string& model = "") {
    return parse_error("[model]\nwidth = 64\n" + model + "[model.adaptive]\n" + lines + kMotif);
  };
  test::expect_problems(
      adaptive, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/adaptive_keys.txt"));
  EXPECT_EQ(adaptive("cutoffs = [4]\nembedding = 32\n", "embedding = 16\n"),
            "2: e.toml:6:13: model.adaptive.embedding: expected 16 as in model.embedding, got 32; "
            "give one of the two keys: remove the key (--unset model.embedding)");
  const Experiment e =
      parse("[model]\nembedding = 16\n[model.adaptive]\ncutoffs = [4, 8]\n" + kMotif);
  EXPECT_EQ(e.model.adaptive->embedding, 16);
  EXPECT_EQ(e.model.adaptive->tie_projection, (std::vector<bool>{false, true, true}));
}

TEST(Experiment, DataKeysAreChecked) {
  const auto data = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\n" + lines);
  };
  test::expect_problems(data, "e.toml",
                        test::read_wording_file("tests/config/messages/experiment/data_keys.txt"));
}

TEST(Experiment, KeysOfTextAreChecked) {
  const auto text = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\ntask = \"text\"\n" + lines);
  };
  test::expect_problems(
      text, "e.toml", test::read_wording_file("tests/config/messages/experiment/keys_of_text.txt"));
}

TEST(Experiment, SequencesHaveTheSizesOfTheirPapers) {
  const auto parsed = [](const std::string& task, const std::string& lines = "") {
    return parse("[data]\ntask = \"" + task + "\"\n" + lines + "[train]\nepochs = 1\n");
  };
  EXPECT_EQ(parsed("sorting").data.sequences, (SequenceConfig{.length = 4000,
                                                              .alphabet = 20,
                                                              .train_sequences = 8000,
                                                              .valid_sequences = 800,
                                                              .test_sequences = 800}));
  EXPECT_EQ(parsed("digit_sorting").data.sequences, (SequenceConfig{.length = 20,
                                                                    .alphabet = 10,
                                                                    .train_sequences = 50000,
                                                                    .valid_sequences = 5000,
                                                                    .test_sequences = 5000}));
  EXPECT_EQ(parsed("sorting", "length = 16000\ntrain_sequences = 3\n").data.sequences.length,
            16000);
  test::expect_problems(parse_error, "e.toml",
                        test::read_wording_file("tests/config/messages/experiment/sequences.txt"));
}

TEST(Experiment, RecallTasksHaveSizesThatFit) {
  const auto recall = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\n" + lines);
  };
  test::expect_problems(
      recall, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/recall_tasks.txt"));
}

TEST(Experiment, StateTrackingIsChecked) {
  const auto tracking = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\n" + lines);
  };
  test::expect_problems(
      tracking, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/state_tracking.txt"));
}

TEST(Experiment, GroupsAndPeriodsAreChecked) {
  test::expect_problems(
      train_error, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/groups_and_periods.txt"));
  EXPECT_EQ(parse_error(kTextTask + "early_stop = 2\neval_every = 1\n"),
            "2: e.toml:6:14: train.early_stop: it counts evaluations of the valid split: expected "
            "data.valid, or data.split with a valid share, got neither");
}

TEST(Experiment, TrainKeysAreChecked) {
  test::expect_problems(train_error, "e.toml",
                        test::read_wording_file("tests/config/messages/experiment/train_keys.txt"));
  EXPECT_EQ(
      parse_error("[model]\nwidth = 64\n[model.adaptive]\ncutoffs = [4]\n" + kMotif +
                  "z_loss = 1e-4\n"),
      "2: e.toml:9:10: train.z_loss: an adaptive softmax has several denominators: expected a "
      "model without [model.adaptive], got 0.0001; remove the key (--unset train.z_loss)");
}

TEST(Experiment, AMissingTrainSectionIsNamed) {
  EXPECT_EQ(parse_error("[data]\ntask = \"motif\"\n"),
            "2: e.toml:1:1: train.steps: missing: expected one of steps and epochs; give the "
            "length of the training, such as steps = 1000");
}

TEST(Experiment, EndlessTasksNeedALimitOfEvaluation) {
  EXPECT_EQ(parse_error(kMotif + "[eval]\nsteps = 0\n"),
            "2: e.toml:6:9: eval.steps: expected an integer in [1, 1000000000], got 0");
  EXPECT_EQ(parse(kTextTask + "[eval]\nsteps = 0\n").eval.steps, 0);
}

TEST(Experiment, AKeyOfTheCommandLineIsLeftOutThere) {
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse(kMotif, {{"data.train", "x"}}));
            }),
            "2: --set data.train: not used by the task \"motif\"; leave out --set data.train");
  // What the message about a key tells the user to write is accepted.
  EXPECT_EQ(parse("[data]\ntask = \"motif\"\ntrain = \"x\"\n[train]\nsteps = 10\n",
                  {parse_removal("data.train")}),
            parse(kMotif));
}

TEST(Experiment, KeysOfOtherTablesAreSaidToBelongThere) {
  test::expect_problems(
      parse_error, "e.toml",
      test::read_wording_file("tests/config/messages/experiment/keys_of_other_tables.txt"));
}

}  // namespace
}  // namespace mneme::config
