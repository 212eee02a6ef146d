// What the look-ahead memory refuses, and what it says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/plugins/lamemo/memory.hpp"

namespace lamemo_test {
namespace {

using mneme::str;
using mneme::config::PositionScheme;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& tiers, const ModelConfig& config = model_config()) {
  return mneme::backbone::error_of([&] { session(tiers, config); });
}
std::string refusal_of(const std::string& options, const ModelConfig& config = model_config()) {
  return refusal(lamemo(options), config);
}

struct BadOption {
  std::string options;
  std::string key;
  std::string text;
};

const char* const kNothingLeft =
    "lookahead = false leaves nothing for interpolation, full_mask, content_bias_ahead and "
    "signed_ablation to change: leave them out";
const BadOption kBadOptions[] = {
    {"", "rows", "rows"},
    {"rows = 0\n", "rows", "expected an integer in [1, 1073741824], got 0"},
    {"rows = 4\neval_rows = 0\n", "eval_rows", "expected an integer in [1, 1073741824], got 0"},
    {"rows = 4\nwindow = \"current\"\n", "window", "\"previous\" | \"official\", got \"current\""},
    {"rows = 4\nepsilon = -1e-6\n", "epsilon", "got -1e-06"},
    {"rows = 4\nepsilon = 2.0\n", "epsilon", "got 2"},
    {"rows = 4\ninterpolation = 1\n", "interpolation", "expected true or false, got 1"},
    {"rows = 4\nlook_ahead = false\n", "look_ahead", "(did you mean \"lookahead\"?)"},
    {"rows = 4\neval_lookahead = false\n", "eval_lookahead", "evaluation"},
    {"rows = 4\neval_full_mask = true\n", "eval_full_mask", "evaluation"},
    {"rows = 4\nlookahead = false\nfull_mask = true\n", "lamemo", kNothingLeft},
    {"rows = 4\nlookahead = false\ncontent_bias_ahead = true\n", "lamemo", kNothingLeft},
    {"rows = 4\nlookahead = false\ninterpolation = false\n", "lamemo", kNothingLeft},
    {"rows = 4\nlayers = [0, 1]\n", "lamemo",
     "memory rows pass every layer, and this tier serves 2 of 3 layers: remove the tier's key "
     "`layers`"},
};

TEST(LaMemoErrors, NameEveryBadOption) {
  for (const BadOption& bad : kBadOptions) {
    EXPECT_THAT(refusal_of(bad.options),
                AllOf(HasSubstr("memory.toml:"), HasSubstr(bad.key), HasSubstr(bad.text)))
        << bad.options;
  }
  EXPECT_EQ(refusal_of("rows = 4\nlayers = [0, 1, 2]\n"), "");
  EXPECT_EQ(refusal_of("rows = 4\nlayers = [0, 1]\nlookahead = false\n"), "");
}

ModelConfig with(PositionScheme position) {
  ModelConfig config = model_config();
  config.position = position;
  return config;
}

TEST(LaMemoErrors, SayWhichPositionsToSet) {
  const auto needs = [](const char* got) {
    return HasSubstr(
        str("the backbone has model.position = \"", got,
            "\", and look-ahead needs distances that both directions share: set [model] position = "
            "\"disentangled\" (\"relative\" only with signed_ablation = true)"));
  };
  const auto needs_relative = [](const char* got) {
    return HasSubstr(str("the backbone has model.position = \"", got,
                         "\", and signed_ablation = true is Transformer-XL's encoding: set [model] "
                         "position = \"relative\""));
  };
  const std::string ablation = "rows = 4\nsigned_ablation = true";
  EXPECT_THAT(refusal_of("rows = 4", with(PositionScheme::kRelative)), needs("relative"));
  EXPECT_THAT(refusal_of(ablation, with(PositionScheme::kDisentangled)),
              needs_relative("disentangled"));
  for (const PositionScheme scheme :
       {PositionScheme::kAlibi, PositionScheme::kLearned, PositionScheme::kNone}) {
    const std::string word(mneme::config::to_word(scheme));
    EXPECT_THAT(refusal_of("rows = 4", with(scheme)), needs(word.c_str()));
    EXPECT_THAT(refusal_of("rows = 4\nlookahead = false", with(scheme)), needs(word.c_str()));
    EXPECT_THAT(refusal_of(ablation, with(scheme)), needs_relative(word.c_str()));
  }
  EXPECT_EQ(refusal_of(ablation, with(PositionScheme::kRelative)), "");
  EXPECT_EQ(refusal_of("rows = 4\nlookahead = false", with(PositionScheme::kRelative)), "");
}

TEST(LaMemoErrors, SayWhatExcludesWhat) {
  const ModelConfig relative = relative_config();
  EXPECT_THAT(refusal_of("rows = 4\nlookahead = false\nsigned_ablation = true", relative),
              HasSubstr(kNothingLeft));
  EXPECT_THAT(refusal_of("rows = 4\nsigned_ablation = true\ncontent_bias_ahead = true", relative),
              HasSubstr("signed_ablation = true shares both biases, content_bias_ahead = true does "
                        "not: give one of them"));
}

TEST(LaMemoErrors, SayWithWhatAttentionDropoutIsNotOffered) {
  const auto text = HasSubstr(
      "attention dropout on the look-ahead is offered for the memory as published alone: set "
      "[model] attention_dropout = 0, or leave out signed_ablation, epsilon and interpolation = "
      "false");
  for (const char* options :
       {"epsilon = 1e-6", "interpolation = false", "signed_ablation = true", "full_mask = true",
        "content_bias_ahead = true", "window = \"official\"", "lookahead = false"}) {
    SCOPED_TRACE(options);
    const std::string option = options;
    ModelConfig config = option.starts_with("signed") ? relative_config() : model_config();
    config.attention_dropout = 0.1;
    const bool is_refused = option.starts_with("epsilon") || option.starts_with("interpolation") ||
                            option.starts_with("signed");
    const std::string said = refusal_of("rows = 4\n" + option, config);
    if (is_refused) {
      EXPECT_THAT(said, text);
    } else {
      EXPECT_EQ(said, "");
    }
  }
}

// Nothing is dropped at evaluation, and the released code's epsilon is asked for there.
TEST(LaMemoErrors, TakeEpsilonAtEvaluationOfAModelWithAttentionDropout) {
  ModelConfig config = model_config();
  config.attention_dropout = 0.1;
  EXPECT_EQ(refusal_of("rows = 4\neval_epsilon = 1e-6", config), "");
}

TEST(LaMemoErrors, RefuseTwoLookAheadMemories) {
  EXPECT_THAT(refusal(lamemo("rows = 4") + lamemo("rows = 6")),
              AllOf(HasSubstr("two tiers put riders into the layer stack"),
                    HasSubstr("use one memory with riders (look-ahead) at a time")));
}

// What a run of segments ends in.
std::string failure(const std::string& tiers) {
  return mneme::backbone::error_of([&] {
    MemorySession run = session(tiers, model_config());
    StackState state = run.fresh(2);
    for (uint64_t s = 0; s < 4; ++s) run.nll(state, mneme::backbone::random_ids(s, 2, 7, 11));
  });
}

TEST(LaMemoErrors, SayThatTheSegmentsOwnRowsAreNeeded) {
  const char* text =
      "this memory keeps the segment's own rows, and it is fed with what an earlier tier let go: "
      "put it before that tier, or set feed = \"segment\"";
  for (const char* options : {"rows = 4", "rows = 4\nlookahead = false"}) {
    EXPECT_THAT(failure(xl_cache(5) + lamemo(options)),
                AllOf(HasSubstr("org.mneme.lamemo"), HasSubstr("hook absorb"), HasSubstr(text)));
    EXPECT_EQ(failure(xl_cache(5) + lamemo(str(options, "\nfeed = \"segment\""))), "");
    EXPECT_EQ(failure(lamemo(options) + xl_cache(5)), "");
  }
}

TEST(LaMemoErrors, NameAStateThatCarriesLessThanItHolds) {
  MemorySession run = session(lamemo("rows = 8"), model_config());
  StackState state = run.fresh(2);
  for (uint64_t s = 0; s < 2; ++s) run.nll(state, mneme::backbone::random_ids(s, 2, 7, 11));
  for (const char* slot : {"1.context", "0.lse"}) {
    StackState broken =
        reloaded(run, state, Phase::kTraining, [&](const std::string& name, at::Tensor& tensor) {
          if (name.ends_with(slot)) tensor = tensor.narrow(1, 0, 5);
        });
    EXPECT_THAT(
        mneme::backbone::error_of(
            [&] { run.nll(broken, mneme::backbone::random_ids(5, 2, 7, 11)); }),
        AllOf(HasSubstr("hook ride"),
              HasSubstr("the state has 8 embedded rows, but attended contexts of 5 rows: it is not "
                        "one that this memory made; start from an empty memory")));
  }
}

TEST(LaMemoErrors, NameBothValuesOfAChangedTrainedOption) {
  MemorySession trained = session(lamemo("rows = 6"), model_config());
  StackState state = trained.fresh(2);
  for (uint64_t s = 0; s < 3; ++s) trained.nll(state, mneme::backbone::random_ids(s, 2, 7, 11));
  const auto saved = state.save();
  const auto restored_with = [&](const std::string& options) {
    return mneme::backbone::error_of([&] {
      MemorySession other = session(lamemo(options), model_config());
      static_cast<void>(other.stack.restore(Phase::kTraining, 2, saved));
    });
  };
  EXPECT_THAT(restored_with("rows = 6\ninterpolation = false"),
              HasSubstr("interpolation = false, trained with true"));
  EXPECT_THAT(restored_with("rows = 6\nlookahead = false"),
              HasSubstr("lookahead = false, trained with true"));
  EXPECT_THAT(restored_with("rows = 6\nfull_mask = true"),
              HasSubstr("full_mask = true, trained with false"));
  EXPECT_THAT(restored_with("rows = 6\ncontent_bias_ahead = true"),
              HasSubstr("content_bias_ahead = true, trained with false"));
  // What is no part of their meaning may change.
  EXPECT_EQ(restored_with("rows = 9\nwindow = \"official\"\nepsilon = 1e-6"), "");
}

}  // namespace
}  // namespace lamemo_test
