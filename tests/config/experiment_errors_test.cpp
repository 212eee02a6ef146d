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
  test::expect_problems(parse_error, "e.toml", R"(
[modle]; layers = 1; [data]; task = "motif"; [train]; steps = 10
  => 1:2: modle: unknown key (did you mean "model"?)
[data]; task = "motif"; [train]; steps = 10; [eval]; lane = 3
  => 6:1: eval.lane: unknown key (did you mean "lanes"?)
[data]; task = "motif"; [train]; steps = 10; [generate]; segmnt = 3
  => 6:1: generate.segmnt: unknown key (did you mean "segment"?)
model = 3; [data]; task = "motif"; [train]; steps = 10
  => 1:9: model: expected a table, [model], got 3
)");
  EXPECT_EQ(model_error("layres = 3\n"),
            "2: e.toml:2:1: model.layres: unknown key (did you mean \"layers\"?)");
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

TEST(Experiment, HeadWidthMustBeGivenWhereItDoesNotFollow) {
  test::expect_problems(model_error, "e.toml", R"(
width = 50; heads = 4
  => 1:1: model.head_width: missing: expected a number, because width 50 is not a multiple of heads
     4
width = 50; heads = 4; head_width = 8 => no error
)");
}

TEST(Experiment, RelativePositionsNeedAnEvenWidth) {
  test::expect_problems(model_error, "e.toml", R"(
width = 41; heads = 1
  => 2:9: model.width: expected an even number with position = "relative" (half sines, half
     cosines), got 41
width = 41; heads = 1; position = "none" => no error
)");
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
  test::expect_problems(adaptive, "e.toml", R"(
cutoffs = [4, 8] => no error
(empty)
  => 3:1: model.adaptive.cutoffs: missing: expected a list of increasing token ids, such as [20000,
     40000]
cutoffs = []
  => 4:11: model.adaptive.cutoffs: expected at least one cutoff, got an empty list; remove
     [model.adaptive] for a plain softmax (--unset model.adaptive)
cutoffs = [8, 8] => 4:11: model.adaptive.cutoffs: expected increasing numbers, got [8, 8]
cutoffs = [0, 8] => 4:12: model.adaptive.cutoffs.0: expected an integer of at least 1, got 0
cutoffs = [4]; tie_projection = [true]
  => 5:18: model.adaptive.tie_projection: expected one value for each of the 2 clusters, got 1
cutoffs = [4, 8]; div = 9
  => 5:7: model.adaptive.div: the last cluster's width would be 0: expected embedding / div^2 of at
     least 1, got 64 / 9^2
cutoffs = [4]; dvi = 2 => 5:1: model.adaptive.dvi: unknown key (did you mean "div"?)
)");
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
  test::expect_problems(data, "e.toml", R"(
(empty)
  => 3:1: data.task: missing: expected "text" | "tokens" | "motif" | "sorting" | "digit_sorting" |
     "copy" | "selective_copy" | "needle" | "mqar" | "document_recall" | "dialogue"
task = "dialogue"
  => 3:1: data.train: missing: expected the path of a file of dialogues
task = "dialogue"; train = "t"; documents = "line"
  => 6:13: data.documents: not used by the task "dialogue"; remove the key (--unset data.documents)
task = "text"; train = "t"; token_types = true
  => 6:15: data.token_types: not used by the task "text"; remove the key (--unset data.token_types)
task = "text"
  => 3:1: data.train: missing: expected the path of the training data, or data.prepared, a folder
     that `mneme data prepare` wrote
task = "tokens" => 3:1: data.train: missing: expected the path of the training data
task = "motif"; train = "x"; vocabulary = "byte"
  => 5:9: data.train: not used by the task "motif"; remove the key (--unset data.train)
  => 6:14: data.vocabulary: not used by the task "motif"; remove the key (--unset data.vocabulary)
task = "text"; train = "x"; alphabet = 4
  => 6:12: data.alphabet: not used by the task "text"; remove the key (--unset data.alphabet)
task = "text"; train = "x"; vocabulary_size = 4
  => 6:19: data.vocabulary_size: used with vocabulary = "word" or "tokenizer"; remove the key (--unset
     data.vocabulary_size)
task = "motif"; period_min = 9; period_max = 8
  => 6:14: data.period_max: expected period_min <= period_max, got period_min = 9, period_max = 8
task = "motif"; period_min = 90
  => 5:14: data.period_min: expected period_min <= period_max, got period_min = 90, period_max = 56
task = "motif"; reset = "documnet"
  => 5:9: data.reset: expected "document" | "segment" | "never", got "documnet" (did you mean
     "document"?)
task = "motif"; seed = -1 => 5:8: data.seed: expected an integer of at least 0, got -1
)");
}

TEST(Experiment, KeysOfTextAreChecked) {
  const auto text = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\ntask = \"text\"\n" + lines);
  };
  const std::string train = "train = \"x\"\n";
  test::expect_problems(text, "e.toml", R"(
prepared = "p" => no error
prepared = "p"; train = "x"
  => 6:9: data.train: fixed by the folder that data.prepared names; remove the key (--unset
     data.train)
train = "x"; split = [0.9, 0.05, 0.05] => no error
train = "x"; split = [0.9, 0.2]
  => 6:9: data.split: expected three shares, [train, valid, test], that sum to 1, the first above 0,
     got 2 shares with the sum 1.1
train = "x"; valid = "y"; split = [0.5, 0.25, 0.25]
  => 6:9: data.valid: data.split takes it from data.train; remove the key (--unset data.valid)
train = "x"; documents = "mark"
  => 3:1: data.document_mark: missing: expected the line that begins a document, such as
     "<|endoftext|>"
train = "x"; documents = "mark"; document_mark = "x\n"
  => 7:17: data.document_mark: expected one line, without its end, got "x\n"
train = "x"; document_mark = "x"
  => 6:17: data.document_mark: used with documents = "mark"; remove the key (--unset
     data.document_mark)
train = "x"; add_eos = false
  => 6:11: data.add_eos: used with vocabulary = "word"; remove the key (--unset data.add_eos)
train = "x"; vocabulary = "tokenizer"
  => 3:1: data.vocabulary_file: missing: expected with vocabulary = "tokenizer" the path of a
     tokenizer.json or of its folder
train = "x"; vocabulary = "tokenizer"; vocabulary_file = "v"; min_count = 2
  => 8:13: data.min_count: used with vocabulary = "word"; remove the key (--unset data.min_count)
train = "x"; vocabulary = "word"; vocabulary_file = "v"; min_count = 2
  => 8:13: data.min_count: fixed by data.vocabulary_file; remove the key (--unset data.min_count)
)");
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
  test::expect_problems(parse_error, "e.toml", R"(
[data]; task = "sorting"; length = 1; [train]; steps = 1
  => 3:10: data.length: expected an integer in [2, 16777216], got 1
[data]; task = "motif"; length = 9; [train]; steps = 1
  => 3:10: data.length: not used by the task "motif"; remove the key (--unset data.length)
)");
}

TEST(Experiment, RecallTasksHaveSizesThatFit) {
  const auto recall = [](const std::string& lines) {
    return parse_error("[train]\nsteps = 1\n[data]\n" + lines);
  };
  test::expect_problems(recall, "e.toml", R"(
task = "copy" => no error
task = "selective_copy" => no error
task = "needle" => no error
task = "mqar" => no error
task = "document_recall" => no error
task = "needle"; length = 8; answer = 8
  => 6:10: data.answer: expected at most 7, data.length without the needle's mark, got 8
task = "needle"; depth_min = 0.5; depth_max = 0.25
  => 6:13: data.depth_max: expected a place for the needle at depth_min = 0.5 or deeper, got 0.25
task = "needle"; depth_max = 1.5
  => 5:13: data.depth_max: expected a real number in [0, 1], got 1.5
task = "selective_copy"; length = 4 => 3:1: data.answer: expected at most 4, data.length, got 8
task = "mqar"; length = 63 => 5:10: data.length: expected an even number, got 63
task = "mqar"; pairs = 12; keys = 10
  => 5:9: data.pairs: expected at most 10, data.keys, got 12
task = "mqar"; questions = 9 => 5:13: data.questions: expected at most 8, data.pairs, got 9
task = "mqar"; length = 30
  => 5:10: data.length: expected at least 32, two tokens for each pair and each question, got 30
task = "document_recall"; facts = 9 => 5:9: data.facts: expected at most 8, data.keys, got 9
task = "document_recall"; length = 9
  => 5:10: data.length: not used by the task "document_recall"; remove the key (--unset data.length)
task = "copy"; questions = 2
  => 5:13: data.questions: not used by the task "copy"; remove the key (--unset data.questions)
task = "mqar"; alphabet = 2
  => 5:12: data.alphabet: not used by the task "mqar"; remove the key (--unset data.alphabet)
)");
}

TEST(Experiment, GroupsAndPeriodsAreChecked) {
  test::expect_problems(train_error, "e.toml", R"(
steps = 1; [[train.group]]; lr = 0.1
  => 5:1: train.group.0.parameters: missing: expected names of parameters, such as
     ["model.*.norm.*"]
steps = 1; [[train.group]]; parameters = ["a"]
  => 5:1: train.group.0.lr: the group changes nothing: expected lr, weight_decay or both
steps = 1; [[train.group]]; parameters = [3]; lr = 0.1
  => 6:15: train.group.0.parameters.0: expected a string that is not empty, got 3
steps = 1; [[train.group]]; parameters = []; lr = 0.1
  => 6:14: train.group.0.parameters: expected at least one name, got none
steps = 1; [[train.accumulate_from]]; step = 5; segments = 2; [[train.accumulate_from]]; step = 5;
  segments = 3
  => 9:8: train.accumulate_from.1.step: expected more than 5, in increasing order, got 5
steps = 1; schedule = "inverse_sqrt"
  => 3:1: train.warmup: schedule = "inverse_sqrt" falls from the warm-up's end: expected at least 1,
     got 0
steps = 1; early_stop = 2
  => 5:14: train.early_stop: it counts evaluations of the valid split: expected train.eval_every of
     at least 1, got 0
)");
  EXPECT_EQ(parse_error(kTextTask + "early_stop = 2\neval_every = 1\n"),
            "2: e.toml:6:14: train.early_stop: it counts evaluations of the valid split: expected "
            "data.valid, or data.split with a valid share, got neither");
}

TEST(Experiment, TrainKeysAreChecked) {
  test::expect_problems(train_error, "e.toml", R"(
steps = 1; epochs = 1
  => 5:10: train.epochs: expected one of steps and epochs, got both; remove the key (--unset
     train.epochs)
  => 5:10: train.epochs: the task "motif" has no end; give steps; remove the key (--unset
     train.epochs)
epochs = 1
  => 4:10: train.epochs: the task "motif" has no end; give steps; remove the key (--unset
     train.epochs)
steps = 1; lr = 0 => 5:6: train.lr: expected a real number above 0, got 0
steps = 1; lr = 0.1; lr_min = 0.2 => 6:10: train.lr_min: expected at most lr, 0.1, got 0.2
steps = 5; warmup = 6 => 5:10: train.warmup: expected at most steps, 5, got 6
steps = 5; betas = [0.9] => 5:9: train.betas: expected two numbers, [beta1, beta2], got 1
steps = 5; betas = [0.9, 1.0] => 5:15: train.betas.1: expected a real number in [0, 1), got 1.0
steps = 5; clip = -1.0 => 5:8: train.clip: expected a real number of at least 0, got -1.0
steps = 5; optimizer = "sgd" => 5:13: train.optimizer: expected "adam" | "adamw", got "sgd"
steps = 5; precision = "fp32"
  => 5:13: train.precision: expected "f64" | "f32" | "bf16" | "auto", got "fp32" (did you mean "f32"?)
steps = 5; lanes = 0 => 5:9: train.lanes: expected an integer in [1, 1048576], got 0
)");
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
  test::expect_problems(parse_error, "e.toml", R"(
lr = 0.1; [data]; task = "motif"; [train]; steps = 10
  => 1:6: lr: unknown key here: expected it in [[memory.tier]] or [train]
[model]; optimizer = "adam"; [data]; task = "motif"; [train]; steps = 10
  => 2:13: model.optimizer: unknown key here: expected it in [train]
[data]; task = "motif"; [train]; steps = 10; layers = 2
  => 5:10: train.layers: unknown key here: expected it in [model] or [[memory.tier]]
# A key that is misplaced is none that belongs here.
plugin = "a"; rows = 8; [data]; task = "motif"; [train]; steps = 10
  => 1:10: plugin: unknown key here: expected it in [[memory.tier]]
  => 2:1: rows: unknown key; known keys: data, eval, generate, memory, model, train
)");
}

}  // namespace
}  // namespace mneme::config
