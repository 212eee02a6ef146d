#include "host/config/experiment.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/config/experiment_texts.hpp"

namespace mneme::config {
namespace {

using test::error_of;
using test::TemporaryFolder;

TEST(Experiment, DefaultsAreThoseOfTheHeader) {
  Experiment expected;
  expected.data.task = Task::kMotif;
  expected.train.steps = 10;
  expected.eval.steps = 50;
  EXPECT_EQ(parse(kMotif), expected);
}

TEST(Experiment, DefaultsFollowOtherKeys) {
  const Experiment e = parse(
      "[model]\nwidth = 48\nheads = 3\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\nsegment = 20\n"
      "lanes = 5\nprecision = \"f64\"\n[eval]\nsegment = 30\n");
  EXPECT_EQ(e.model.head_width, 16);
  EXPECT_EQ(e.model.ff, 192);
  EXPECT_EQ(e.model.embedding, 48);
  EXPECT_EQ(e.eval.segment, 30);
  EXPECT_EQ(e.eval.lanes, 5);
  EXPECT_EQ(e.eval.precision, Precision::kF64);
  EXPECT_EQ(e.generate.segment, 30);
  EXPECT_EQ(parse(kTextTask).eval.steps, 0);
}

const std::string kEverything = R"(
[model]
backbone = "xl"
layers = 3
heads = 10
head_width = 41
width = 410
ff = 2100
dropout = 0.2
attention_dropout = 0.05
position = "relative"
norm = "pre"
tie_embedding = false
embedding_scale = "none"
clamp_distance = 400
same_length = true
untie_position_bias = true
init = "article"
[model.adaptive]
cutoffs = [20000, 40000, 200000]
div = 4
embedding = 256
tie_projection = [false, true, false, true]
[memory]
plugins = ["../plugins", "/absolute"]
carry = "reset"
[[memory.tier]]
plugin = "first"
layers = [2, 0]
feed = "segment"
sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"
lr = 0.001
weight_decay = 0.5
weight.gate = 0.25
weight."odd name" = 2
rows = 64
eval_rows = 128
kind = "x"
list = [1, 2]
[[memory.tier]]
plugin = "second"
[data]
task = "text"
train = "data/train.txt"
valid = "/data/valid.txt"
test = "../test.txt"
vocabulary = "word"
vocabulary_size = 1000
min_count = 3
add_eos = false
documents = "mark"
document_mark = "<|end|>"
reset = "never"
seed = 5
[train]
segment = 150
lanes = 60
epochs = 2
optimizer = "adam"
lr = 0.00025
lr_min = 0.00001
schedule = "constant"
warmup = 100
clip = 0.5
betas = [0.8, 0.99]
eps = 1e-9
precision = "bf16"
bptt_segments = 4
seed = 9
accumulate = 2
weight_decay = 0.125
early_stop = 5
keep_checkpoints = 4
tensorboard = false
log_every = 7
eval_every = 8
save_every = 9
[[train.accumulate_from]]
step = 100
segments = 4
[[train.accumulate_from]]
step = 200
segments = 8
[[train.group]]
parameters = ["model.*.bias", "memory.*"]
lr = 0.5
[[train.group]]
parameters = ["model.embedding*"]
weight_decay = 0.0
[eval]
segment = 64
lanes = 10
precision = "f32"
steps = 11
[generate]
segment = 16
)";

TEST(Experiment, ReadsEveryKeyOfModelAndData) {
  const Experiment e = parse(kEverything);
  const ModelConfig model{.backbone = Backbone::kXl,
                          .layers = 3,
                          .heads = 10,
                          .head_width = 41,
                          .width = 410,
                          .ff = 2100,
                          .embedding = 256,
                          .dropout = 0.2,
                          .attention_dropout = 0.05,
                          .position = PositionScheme::kRelative,
                          .norm = Norm::kPre,
                          .tie_embedding = false,
                          .embedding_scale = EmbeddingScale::kNone,
                          .clamp_distance = 400,
                          .same_length = true,
                          .untie_position_bias = true,
                          .init = Init::kArticle,
                          .adaptive = AdaptiveConfig{.cutoffs = {20000, 40000, 200000},
                                                     .div = 4,
                                                     .embedding = 256,
                                                     .tie_projection = {false, true, false, true}}};
  EXPECT_EQ(e.model, model);
  const DataConfig data{.task = Task::kText,
                        .train = "/base/data/train.txt",
                        .valid = "/data/valid.txt",
                        .test = "/test.txt",
                        .vocabulary = Vocabulary::kWord,
                        .min_count = 3,
                        .add_eos = false,
                        .documents = Documents::kMark,
                        .document_mark = "<|end|>",
                        .vocabulary_size = 1000,
                        .reset = Reset::kNever,
                        .seed = 5};
  EXPECT_EQ(e.data, data);
}

TEST(Experiment, ReadsEveryKeyOfTheOtherSections) {
  const Experiment e = parse(kEverything);
  const TrainConfig train{.segment = 150,
                          .lanes = 60,
                          .epochs = 2,
                          .lr = 0.00025,
                          .lr_min = 0.00001,
                          .schedule = Schedule::kConstant,
                          .warmup = 100,
                          .clip = 0.5,
                          .beta1 = 0.8,
                          .beta2 = 0.99,
                          .eps = 1e-9,
                          .precision = Precision::kBf16,
                          .bptt_segments = 4,
                          .seed = 9,
                          .accumulate = 2,
                          .accumulate_from = {{100, 4}, {200, 8}},
                          .weight_decay = 0.125,
                          .groups = {{.parameters = {"model.*.bias", "memory.*"}, .lr = 0.5},
                                     {.parameters = {"model.embedding*"}, .weight_decay = 0.0}},
                          .early_stop = 5,
                          .keep_checkpoints = 4,
                          .tensorboard = false,
                          .log_every = 7,
                          .eval_every = 8,
                          .save_every = 9};
  EXPECT_EQ(e.train, train);
  EXPECT_EQ(e.eval,
            (EvalConfig{.segment = 64, .lanes = 10, .precision = Precision::kF32, .steps = 11}));
  EXPECT_EQ(e.generate, GenerateConfig{.segment = 16});
  const Experiment motif = parse(
      "[data]\ntask = \"motif\"\nalphabet = 9\nperiod_min = 3\nperiod_max = 4\n[train]\nsteps = 1");
  EXPECT_EQ(motif.data.motif, (MotifConfig{.alphabet = 9, .period_min = 3, .period_max = 4}));
  const auto tracking = [](const std::string& automaton) {
    return parse("[data]\ntask = \"state_tracking\"\n" + automaton + "[train]\nsteps = 1")
        .data.tracking;
  };
  EXPECT_EQ(tracking(""), (TrackingConfig{Automaton::kCyclic, 2}));
  EXPECT_EQ(tracking("automaton = \"brackets\"\n"), (TrackingConfig{Automaton::kBrackets, 9}));
  const Experiment tokens =
      parse("[data]\ntask = \"tokens\"\ntrain = \"x\"\nvocabulary_size = 7\n[train]\nsteps = 1");
  EXPECT_EQ(tokens.data.vocabulary_size, 7);
}

TEST(Experiment, TextAndBackGivesAnEqualExperiment) {
  for (const std::string& text :
       {kEverything,
        kMotif,
        kTextTask,
        "[model]\nembedding = 24\nwidth = 40\nheads = 4\n" + kMotif,
        std::string("[data]\ntask = \"digit_sorting\"\nlength = 9\n[train]\nepochs = 3\n"),
        std::string("[data]\ntask = \"sorting\"\nalphabet = 30\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"copy\"\ngap = 0\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"selective_copy\"\nanswer = 3\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"needle\"\ndepth_min = 0.1\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"mqar\"\npairs = 4\nquestions = 2\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"mqar\"\noverwrites = 4\nrandom_fillers = true\n"
                    "[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"mqar\"\nhops = 2\nquestions = 4\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"copy\"\nteacher_forcing = false\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"in_context_recall\"\nnoise = 0.25\nnoise_symbols = 4\n"
                    "key_tokens = 2\nfuzzy = true\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"memorization\"\nkeys = 9\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"ngrams\"\norder = 2\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"document_recall\"\nfacts = 2\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"retention\"\ndelays = 3\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"state_tracking\"\nautomaton = \"s5\"\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"state_tracking\"\nstates = 7\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"text\"\nprepared = \"folder\"\n[train]\nepochs = 3\n"),
        std::string("[data]\ntask = \"text\"\ntrain = \"x\"\nsplit = [0.5, 0.25, 0.25]\n"
                    "vocabulary_file = \"v.json\"\nvocabulary = \"word\"\n[train]\nsteps = 3\n"),
        std::string("[data]\ntask = \"tokens\"\ntrain = \"x\"\nvocabulary_size = 7\n"
                    "[train]\nsteps = 1\n[model]\nposition = \"none\"")}) {
    const Experiment first = parse(text);
    const std::string written = to_toml(first);
    // Another folder: a run's copy must not depend on where it lies.
    const Experiment second = parse_experiment_text(written, "copy", "/elsewhere");
    EXPECT_EQ(first, second) << written;
    EXPECT_EQ(to_toml(second), written);
  }
}

TEST(Experiment, OverridesApplyInOrder) {
  const Experiment e = parse(kTextTask, {{"train.lr", "0.5"},
                                         {"train.lr", "0.25"},
                                         {"train.precision", "f64"},
                                         {"model.dropout", "0"}});
  EXPECT_EQ(e.train.lr, 0.25);
  EXPECT_EQ(e.train.precision, Precision::kF64);
  EXPECT_EQ(e.model.dropout, 0.0);
  const Experiment relative = parse(kTextTask, {{"data.valid", "v.txt"}});
  EXPECT_EQ(relative.data.valid, std::filesystem::current_path() / "v.txt");
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse(kTextTask, {{"train.stpes", "5"}}));
            }),
            "2: --set train.stpes: unknown key (did you mean \"train.steps\"?)");
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse(kTextTask, {{"train.steps", "many"}}));
            }),
            "2: --set train.steps: expected an integer in [1, 1000000000], got \"many\" (a "
            "string)");
}

TEST(Experiment, FilesAreReadAndNamed) {
  const TemporaryFolder folder;
  const auto path = folder.write("e.toml", kTextTask);
  EXPECT_EQ(parse_experiment(path).data.train, folder / "t.txt");
  EXPECT_EQ(parse_experiment(path, {{"train.steps", "3"}}).train.steps, 3);
  EXPECT_EQ(error_of([] { static_cast<void>(parse_experiment("no.toml")); }),
            "1: no.toml: cannot open: No such file or directory; check the path");
  const auto broken = folder.write("b.toml", "[model\n");
  EXPECT_TRUE(error_of([&] {
                static_cast<void>(parse_experiment(broken));
              }).starts_with("2: " + broken.string() + ":1:7: "));
}

TEST(Experiment, EveryWordHasItsText) {
  EXPECT_EQ(to_word(Backbone::kGpt2), "gpt2");
  EXPECT_EQ(to_word(PositionScheme::kDisentangled), "disentangled");
  EXPECT_EQ(to_word(Norm::kPre), "pre");
  EXPECT_EQ(to_word(EmbeddingScale::kSqrt), "sqrt");
  EXPECT_EQ(to_word(Init::kArticle), "article");
  EXPECT_EQ(to_word(Carry::kRefuse), "refuse");
  EXPECT_EQ(to_word(Feed::kReleased), "released");
  EXPECT_EQ(to_word(Task::kDigitSorting), "digit_sorting");
  EXPECT_EQ(to_word(Task::kDocumentRecall), "document_recall");
  EXPECT_EQ(to_word(Vocabulary::kChar), "char");
  EXPECT_EQ(to_word(Reset::kSegment), "segment");
  EXPECT_EQ(to_word(Documents::kHeading), "heading");
  EXPECT_EQ(to_word(Optimizer::kAdamW), "adamw");
  EXPECT_EQ(to_word(Schedule::kInverseSqrt), "inverse_sqrt");
  EXPECT_EQ(to_word(Precision::kBf16), "bf16");
}

}  // namespace
}  // namespace mneme::config
