// What is refused in an experiment file, and how it is said.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "tests/config/experiment_texts.hpp"

namespace mneme::config {
namespace {

using test::error_of;

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
            "list; remove [model.adaptive] for a plain softmax (--unset model.adaptive)");
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
            "give one of the two keys: remove the key (--unset model.embedding)");
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
            "2: e.toml:5:9: data.train: not used by the task \"motif\"; remove the key (--unset "
            "data.train)\n"
            "e.toml:6:14: data.vocabulary: not used by the task \"motif\"; remove the key (--unset "
            "data.vocabulary)");
  EXPECT_EQ(data("task = \"text\"\ntrain = \"x\"\nalphabet = 4\n"),
            "2: e.toml:6:12: data.alphabet: not used by the task \"text\"; remove the key (--unset "
            "data.alphabet)");
  EXPECT_EQ(data("task = \"text\"\ntrain = \"x\"\nvocabulary_size = 4\n"),
            "2: e.toml:6:19: data.vocabulary_size: used with vocabulary = \"word\"; remove the key "
            "(--unset data.vocabulary_size)");
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
            "key (--unset data.train)");
  EXPECT_EQ(text(train + "split = [0.9, 0.05, 0.05]\n"), "no error");
  EXPECT_EQ(text(train + "split = [0.9, 0.2]\n"),
            "2: e.toml:6:9: data.split: expected three shares, [train, valid, test], that sum to "
            "1, the first above 0, got 2 shares with the sum 1.1");
  EXPECT_EQ(text(train + "valid = \"y\"\nsplit = [0.5, 0.25, 0.25]\n"),
            "2: e.toml:6:9: data.valid: data.split takes it from data.train; remove the key "
            "(--unset data.valid)");
  EXPECT_EQ(text(train + "documents = \"mark\"\n"),
            "2: e.toml:3:1: data.document_mark: missing: expected the line that begins a document, "
            "such as \"<|endoftext|>\"");
  EXPECT_EQ(text(train + "documents = \"mark\"\ndocument_mark = \"x\\n\"\n"),
            "2: e.toml:7:17: data.document_mark: expected one line, without its end, got "
            "\"x\\n\"");
  EXPECT_EQ(text(train + "document_mark = \"x\"\n"),
            "2: e.toml:6:17: data.document_mark: used with documents = \"mark\"; remove the key "
            "(--unset data.document_mark)");
  EXPECT_EQ(text(train + "add_eos = false\n"),
            "2: e.toml:6:11: data.add_eos: used with vocabulary = \"word\"; remove the key "
            "(--unset data.add_eos)");
  EXPECT_EQ(text(train + "vocabulary = \"word\"\nvocabulary_file = \"v\"\nmin_count = 2\n"),
            "2: e.toml:8:13: data.min_count: fixed by data.vocabulary_file; remove the key "
            "(--unset data.min_count)");
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
            "2: e.toml:3:10: data.length: not used by the task \"motif\"; remove the key (--unset "
            "data.length)");
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
            "2: e.toml:5:10: train.epochs: expected one of steps and epochs, got both; remove the "
            "key (--unset train.epochs)\n"
            "e.toml:5:10: train.epochs: the task \"motif\" has no end; give steps; remove the key "
            "(--unset train.epochs)");
  EXPECT_EQ(train_error("epochs = 1\n"),
            "2: e.toml:4:10: train.epochs: the task \"motif\" has no end; give steps; remove the "
            "key (--unset train.epochs)");
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

TEST(Experiment, AKeyOfTheCommandLineIsLeftOutThere) {
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse(kMotif, {{"data.train", "x"}}));
            }),
            "2: --set data.train: not used by the task \"motif\"; leave out --set data.train");
  // What the message of a file's key says to type is taken.
  EXPECT_EQ(parse("[data]\ntask = \"motif\"\ntrain = \"x\"\n[train]\nsteps = 10\n",
                  {parse_removal("data.train")}),
            parse(kMotif));
}

}  // namespace
}  // namespace mneme::config
