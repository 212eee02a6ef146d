#include "host/config/experiment.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::config {
namespace {

using test::error_of;
using test::TemporaryFolder;

const std::string kMotif = "[data]\ntask = \"motif\"\n[train]\nsteps = 10\n";
const std::string kText = "[data]\ntask = \"text\"\ntrain = \"t.txt\"\n[train]\nsteps = 10\n";

Experiment parse(const std::string& text, const std::vector<Override>& overrides = {}) {
  return parse_experiment_text(text, "e.toml", "/base", overrides);
}

std::string parse_error(const std::string& text) {
  return error_of([&] { static_cast<void>(parse(text)); });
}

// The problems of a [model] that follows a complete rest.
std::string model_error(const std::string& lines) {
  return parse_error("[model]\n" + lines + kMotif);
}

std::string train_error(const std::string& lines) {
  return parse_error("[data]\ntask = \"motif\"\n[train]\n" + lines);
}

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
  EXPECT_EQ(parse(kText).eval.steps, 0);
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
position = "alibi"
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
                          .position = PositionScheme::kAlibi,
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
  const Experiment tokens =
      parse("[data]\ntask = \"tokens\"\ntrain = \"x\"\nvocabulary_size = 7\n[train]\nsteps = 1");
  EXPECT_EQ(tokens.data.vocabulary_size, 7);
}

TEST(Experiment, TextAndBackGivesAnEqualExperiment) {
  for (const std::string& text :
       {kEverything, kMotif, kText, "[model]\nembedding = 24\nwidth = 40\nheads = 4\n" + kMotif,
        std::string("[data]\ntask = \"digit_sorting\"\nlength = 9\n[train]\nepochs = 3\n"),
        std::string("[data]\ntask = \"sorting\"\nalphabet = 30\n[train]\nsteps = 3\n"),
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
  const Experiment e = parse(kText, {{"train.lr", "0.5"},
                                     {"train.lr", "0.25"},
                                     {"train.precision", "f64"},
                                     {"model.dropout", "0"}});
  EXPECT_EQ(e.train.lr, 0.25);
  EXPECT_EQ(e.train.precision, Precision::kF64);
  EXPECT_EQ(e.model.dropout, 0.0);
  const Experiment relative = parse(kText, {{"data.valid", "v.txt"}});
  EXPECT_EQ(relative.data.valid, std::filesystem::current_path() / "v.txt");
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse(kText, {{"train.stpes", "5"}}));
            }),
            "2: --set train.stpes: unknown key (did you mean \"steps\"?)");
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse(kText, {{"train.steps", "many"}}));
            }),
            "2: --set train.steps: expected an integer in [1, 1000000000], got \"many\" (a "
            "string)");
}

TEST(Experiment, UnknownSectionsAndKeysNameTheNearest) {
  EXPECT_EQ(parse_error("[modle]\nlayers = 1\n" + kMotif),
            "2: e.toml:1:2: modle: unknown key (did you mean \"model\"?)");
  EXPECT_EQ(model_error("layres = 3\n"),
            "2: e.toml:2:1: model.layres: unknown key (did you mean \"layers\"?)");
  EXPECT_EQ(parse_error(kMotif + "[eval]\nlane = 3\n"),
            "2: e.toml:6:1: eval.lane: unknown key (did you mean \"lanes\"?)");
  EXPECT_EQ(parse_error(kMotif + "[generate]\nsegmnt = 3\n"),
            "2: e.toml:6:1: generate.segmnt: unknown key (did you mean \"segment\"?)");
  EXPECT_EQ(parse_error("model = 3\n" + kMotif),
            "2: e.toml:1:9: model: expected a table, [model], got 3");
}

TEST(Experiment, EveryProblemIsReportedAtOnce) {
  EXPECT_EQ(parse_error("[model]\nlayers = 0\ndropout = 1.0\nnorm = \"middle\"\n[data]\n"
                        "task = \"motif\"\nalphabet = 1\n[train]\nstep = 5\n"),
            "2: e.toml:2:10: model.layers: expected an integer in [1, 4096], got 0\n"
            "e.toml:3:11: model.dropout: expected a real number in [0, 1), got 1.0\n"
            "e.toml:4:8: model.norm: expected \"post\" | \"pre\", got \"middle\"\n"
            "e.toml:7:12: data.alphabet: expected an integer in [2, 65536], got 1\n"
            "e.toml:8:1: train.steps: missing: expected one of steps and epochs; give the length "
            "of the training, such as steps = 1000\n"
            "e.toml:9:1: train.step: unknown key (did you mean \"steps\"?)");
}

TEST(Experiment, WordsOfLaterBuildsAreRefusedByName) {
  EXPECT_EQ(model_error("backbone = \"gpt2\"\n"),
            "2: e.toml:2:12: model.backbone: \"gpt2\" is not available in this build: expected "
            "\"xl\"");
  EXPECT_EQ(model_error("position = \"disentangled\"\n"),
            "2: e.toml:2:12: model.position: \"disentangled\" is not available in this build: "
            "expected \"relative\" | \"alibi\" | \"learned\" | \"none\"");
  EXPECT_EQ(parse_error("[train]\nsteps = 1\n[data]\ntask = \"text\"\ntrain = \"x\"\n"
                        "vocabulary = \"gpt2\"\n"),
            "2: e.toml:6:14: data.vocabulary: \"gpt2\" is not available in this build: expected "
            "\"byte\" | \"char\" | \"word\"");
}

TEST(Experiment, HeadWidthMustBeGivenWhereItDoesNotFollow) {
  EXPECT_EQ(model_error("width = 50\nheads = 4\n"),
            "2: e.toml:1:1: model.head_width: missing: expected a number, because width 50 is not "
            "a multiple of heads 4");
  EXPECT_EQ(model_error("width = 50\nheads = 4\nhead_width = 8\n"), "no error");
}

TEST(Experiment, RelativePositionsNeedAnEvenWidth) {
  const std::string odd = "width = 41\nheads = 1\n";
  EXPECT_EQ(model_error(odd),
            "2: e.toml:2:9: model.width: expected an even number with position = \"relative\" "
            "(half sines, half cosines), got 41");
  EXPECT_EQ(model_error(odd + "position = \"none\"\n"), "no error");
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
  EXPECT_EQ(adaptive("cutoffs = [4, 8]\n"), "no error");
  EXPECT_EQ(adaptive(""),
            "2: e.toml:3:1: model.adaptive.cutoffs: missing: expected a list of increasing token "
            "ids, such as [20000, 40000]");
  EXPECT_EQ(adaptive("cutoffs = []\n"),
            "2: e.toml:4:11: model.adaptive.cutoffs: expected at least one cutoff, got an empty "
            "list; leave [model.adaptive] out for a plain softmax");
  EXPECT_EQ(adaptive("cutoffs = [8, 8]\n"),
            "2: e.toml:4:11: model.adaptive.cutoffs: expected increasing numbers, got [8, 8]");
  EXPECT_EQ(adaptive("cutoffs = [0, 8]\n"),
            "2: e.toml:4:12: model.adaptive.cutoffs.0: expected an integer of at least 1, got 0");
  EXPECT_EQ(adaptive("cutoffs = [4]\ntie_projection = [true]\n"),
            "2: e.toml:5:18: model.adaptive.tie_projection: expected one value for each of the 2 "
            "clusters, got 1");
  EXPECT_EQ(adaptive("cutoffs = [4, 8]\ndiv = 9\n"),
            "2: e.toml:5:7: model.adaptive.div: the last cluster's width would be 0: expected "
            "embedding / div^2 of at least 1, got 64 / 9^2");
  EXPECT_EQ(adaptive("cutoffs = [4]\nembedding = 32\n", "embedding = 16\n"),
            "2: e.toml:6:13: model.adaptive.embedding: expected 16 as in model.embedding, got 32; "
            "give one of the two keys");
  EXPECT_EQ(adaptive("cutoffs = [4]\ndvi = 2\n"),
            "2: e.toml:5:1: model.adaptive.dvi: unknown key (did you mean \"div\"?)");
  const Experiment e =
      parse("[model]\nembedding = 16\n[model.adaptive]\ncutoffs = [4, 8]\n" + kMotif);
  EXPECT_EQ(e.model.adaptive->embedding, 16);
  EXPECT_EQ(e.model.adaptive->tie_projection, (std::vector<bool>{false, true, true}));
}

TEST(Experiment, DataKeysAreChecked) {
  const auto data = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\n" + lines);
  };
  EXPECT_EQ(data(""),
            "2: e.toml:3:1: data.task: missing: expected \"text\" | \"tokens\" | \"motif\" | "
            "\"sorting\" | \"digit_sorting\"");
  EXPECT_EQ(data("task = \"text\"\n"),
            "2: e.toml:3:1: data.train: missing: expected the path of the training data, or "
            "data.prepared, a folder that `mneme data prepare` wrote");
  EXPECT_EQ(data("task = \"tokens\"\n"),
            "2: e.toml:3:1: data.train: missing: expected the path of the training data");
  EXPECT_EQ(data("task = \"motif\"\ntrain = \"x\"\nvocabulary = \"byte\"\n"),
            "2: e.toml:5:9: data.train: not used by the task \"motif\"; remove the key\n"
            "e.toml:6:14: data.vocabulary: not used by the task \"motif\"; remove the key");
  EXPECT_EQ(data("task = \"text\"\ntrain = \"x\"\nalphabet = 4\n"),
            "2: e.toml:6:12: data.alphabet: not used by the task \"text\"; remove the key");
  EXPECT_EQ(
      data("task = \"text\"\ntrain = \"x\"\nvocabulary_size = 4\n"),
      "2: e.toml:6:19: data.vocabulary_size: used with vocabulary = \"word\"; remove the key");
  EXPECT_EQ(data("task = \"motif\"\nperiod_min = 9\nperiod_max = 8\n"),
            "2: e.toml:6:14: data.period_max: expected period_min <= period_max, got period_min = "
            "9, period_max = 8");
  EXPECT_EQ(data("task = \"motif\"\nperiod_min = 90\n"),
            "2: e.toml:5:14: data.period_min: expected period_min <= period_max, got period_min = "
            "90, period_max = 56");
  EXPECT_EQ(data("task = \"motif\"\nreset = \"documnet\"\n"),
            "2: e.toml:5:9: data.reset: expected \"document\" | \"segment\" | \"never\", got "
            "\"documnet\" (did you mean \"document\"?)");
  EXPECT_EQ(data("task = \"motif\"\nseed = -1\n"),
            "2: e.toml:5:8: data.seed: expected an integer of at least 0, got -1");
}

TEST(Experiment, KeysOfTextAreChecked) {
  const auto text = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\ntask = \"text\"\n" + lines);
  };
  const std::string train = "train = \"x\"\n";
  EXPECT_EQ(text("prepared = \"p\"\n"), "no error");
  EXPECT_EQ(text("prepared = \"p\"\n" + train),
            "2: e.toml:6:9: data.train: fixed by the folder that data.prepared names; remove the "
            "key");
  EXPECT_EQ(text(train + "split = [0.9, 0.05, 0.05]\n"), "no error");
  EXPECT_EQ(text(train + "split = [0.9, 0.2]\n"),
            "2: e.toml:6:9: data.split: expected three shares, [train, valid, test], that sum to "
            "1, the first above 0, got 2 shares with the sum 1.1");
  EXPECT_EQ(text(train + "valid = \"y\"\nsplit = [0.5, 0.25, 0.25]\n"),
            "2: e.toml:6:9: data.valid: data.split takes it from data.train; remove the key");
  EXPECT_EQ(text(train + "documents = \"mark\"\n"),
            "2: e.toml:3:1: data.document_mark: missing: expected the line that begins a document, "
            "such as \"<|endoftext|>\"");
  EXPECT_EQ(text(train + "documents = \"mark\"\ndocument_mark = \"x\\n\"\n"),
            "2: e.toml:7:17: data.document_mark: expected one line, without its end, got "
            "\"x\\n\"");
  EXPECT_EQ(text(train + "document_mark = \"x\"\n"),
            "2: e.toml:6:17: data.document_mark: used with documents = \"mark\"; remove the key");
  EXPECT_EQ(text(train + "add_eos = false\n"),
            "2: e.toml:6:11: data.add_eos: used with vocabulary = \"word\"; remove the key");
  EXPECT_EQ(text(train + "vocabulary = \"word\"\nvocabulary_file = \"v\"\nmin_count = 2\n"),
            "2: e.toml:8:13: data.min_count: fixed by data.vocabulary_file; remove the key");
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
  EXPECT_EQ(parse_error("[data]\ntask = \"sorting\"\nlength = 1\n[train]\nsteps = 1\n"),
            "2: e.toml:3:10: data.length: expected an integer in [2, 16777216], got 1");
  EXPECT_EQ(parse_error("[data]\ntask = \"motif\"\nlength = 9\n[train]\nsteps = 1\n"),
            "2: e.toml:3:10: data.length: not used by the task \"motif\"; remove the key");
}

TEST(Experiment, GroupsAndPeriodsAreChecked) {
  EXPECT_EQ(train_error("steps = 1\n[[train.group]]\nlr = 0.1\n"),
            "2: e.toml:5:1: train.group.0.parameters: missing: expected names of parameters, such "
            "as [\"model.*.norm_*\"]");
  EXPECT_EQ(train_error("steps = 1\n[[train.group]]\nparameters = [\"a\"]\n"),
            "2: e.toml:5:1: train.group.0.lr: the group changes nothing: expected lr, weight_decay "
            "or both");
  EXPECT_EQ(train_error("steps = 1\n[[train.group]]\nparameters = [3]\nlr = 0.1\n"),
            "2: e.toml:6:15: train.group.0.parameters.0: expected a string that is not empty, got "
            "3");
  EXPECT_EQ(train_error("steps = 1\n[[train.group]]\nparameters = []\nlr = 0.1\n"),
            "2: e.toml:6:14: train.group.0.parameters: expected at least one name, got none");
  EXPECT_EQ(train_error("steps = 1\n[[train.accumulate_from]]\nstep = 5\nsegments = 2\n"
                        "[[train.accumulate_from]]\nstep = 5\nsegments = 3\n"),
            "2: e.toml:9:8: train.accumulate_from.1.step: expected more than 5, in increasing "
            "order, got 5");
  EXPECT_EQ(train_error("steps = 1\nschedule = \"inverse_sqrt\"\n"),
            "2: e.toml:3:1: train.warmup: schedule = \"inverse_sqrt\" falls from the warm-up's "
            "end: expected at least 1, got 0");
  EXPECT_EQ(train_error("steps = 1\nearly_stop = 2\n"),
            "2: e.toml:5:14: train.early_stop: it counts evaluations of the valid split: expected "
            "train.eval_every of at least 1, got 0");
  EXPECT_EQ(parse_error(kText + "early_stop = 2\neval_every = 1\n"),
            "2: e.toml:6:14: train.early_stop: it counts evaluations of the valid split: expected "
            "data.valid, or data.split with a valid share, got neither");
}

TEST(Experiment, TrainKeysAreChecked) {
  EXPECT_EQ(train_error("steps = 1\nepochs = 1\n"),
            "2: e.toml:5:10: train.epochs: expected one of steps and epochs, got both\n"
            "e.toml:5:10: train.epochs: the task \"motif\" has no end; give steps");
  EXPECT_EQ(train_error("epochs = 1\n"),
            "2: e.toml:4:10: train.epochs: the task \"motif\" has no end; give steps");
  EXPECT_EQ(train_error("steps = 1\nlr = 0\n"),
            "2: e.toml:5:6: train.lr: expected a real number above 0, got 0");
  EXPECT_EQ(train_error("steps = 1\nlr = 0.1\nlr_min = 0.2\n"),
            "2: e.toml:6:10: train.lr_min: expected at most lr, 0.1, got 0.2");
  EXPECT_EQ(train_error("steps = 5\nwarmup = 6\n"),
            "2: e.toml:5:10: train.warmup: expected at most steps, 5, got 6");
  EXPECT_EQ(train_error("steps = 5\nbetas = [0.9]\n"),
            "2: e.toml:5:9: train.betas: expected two numbers, [beta1, beta2], got 1");
  EXPECT_EQ(train_error("steps = 5\nbetas = [0.9, 1.0]\n"),
            "2: e.toml:5:15: train.betas.1: expected a real number in [0, 1), got 1.0");
  EXPECT_EQ(train_error("steps = 5\nclip = -1.0\n"),
            "2: e.toml:5:8: train.clip: expected a real number of at least 0, got -1.0");
  EXPECT_EQ(train_error("steps = 5\noptimizer = \"sgd\"\n"),
            "2: e.toml:5:13: train.optimizer: expected \"adam\" | \"adamw\", got \"sgd\"");
  EXPECT_EQ(train_error("steps = 5\nprecision = \"fp32\"\n"),
            "2: e.toml:5:13: train.precision: expected \"f64\" | \"f32\" | \"bf16\", got \"fp32\" "
            "(did you mean \"f32\"?)");
  EXPECT_EQ(train_error("steps = 5\nlanes = 0\n"),
            "2: e.toml:5:9: train.lanes: expected an integer in [1, 1048576], got 0");
}

TEST(Experiment, AMissingTrainSectionIsNamed) {
  EXPECT_EQ(parse_error("[data]\ntask = \"motif\"\n"),
            "2: e.toml:1:1: train.steps: missing: expected one of steps and epochs; give the "
            "length of the training, such as steps = 1000");
}

TEST(Experiment, EndlessTasksNeedALimitOfEvaluation) {
  EXPECT_EQ(parse_error(kMotif + "[eval]\nsteps = 0\n"),
            "2: e.toml:6:9: eval.steps: expected an integer in [1, 1000000000], got 0");
  EXPECT_EQ(parse(kText + "[eval]\nsteps = 0\n").eval.steps, 0);
}

TEST(Experiment, FilesAreReadAndNamed) {
  const TemporaryFolder folder;
  const auto path = folder.write("e.toml", kText);
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
  EXPECT_EQ(to_word(Vocabulary::kChar), "char");
  EXPECT_EQ(to_word(Reset::kSegment), "segment");
  EXPECT_EQ(to_word(Documents::kHeading), "heading");
  EXPECT_EQ(to_word(Optimizer::kAdamW), "adamw");
  EXPECT_EQ(to_word(Schedule::kInverseSqrt), "inverse_sqrt");
  EXPECT_EQ(to_word(Precision::kBf16), "bf16");
}

}  // namespace
}  // namespace mneme::config
