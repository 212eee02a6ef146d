// The files of configs/ are examples that must stay true.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/config/suite.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::config {
namespace {

namespace fs = std::filesystem;
using test::error_of;

const fs::path kConfigs = fs::path(MNEME_SOURCE_DIR) / "configs";

// configs/suite holds experiments, and lists of them.
bool is_suite(const fs::path& path) {
  return path.parent_path().filename() == "suite" &&
         read_file(path).find("\n[[task]]\n") != std::string::npos;
}

// While one lives, the working folder is another.
class WorkingFolder {
 public:
  explicit WorkingFolder(const fs::path& folder) : before_(fs::current_path()) {
    fs::current_path(folder);
  }
  ~WorkingFolder() { fs::current_path(before_); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;

 private:
  fs::path before_;
};

TEST(Configs, NearNamesOfMissingFilesAreTold) {
  const WorkingFolder source(MNEME_SOURCE_DIR);
  const std::string missing = ": cannot open: No such file or directory (did you mean ";
  EXPECT_EQ(error_of([] { static_cast<void>(parse_memory_file("xl_cahce.toml")); }),
            "1: xl_cahce.toml" + missing + "\"configs/memory/xl_cache.toml\"?)");
  EXPECT_EQ(error_of([] { static_cast<void>(parse_memory_file("none/sinks.toml")); }),
            "1: none/sinks.toml" + missing + "\"configs/memory/sinks.toml\"?)");
  EXPECT_EQ(error_of([] { static_cast<void>(parse_experiment("quikstart.toml")); }),
            "1: quikstart.toml" + missing + "\"configs/quickstart.toml\"?)");
  EXPECT_EQ(error_of([] {
              static_cast<void>(parse_experiment("configs/quickstart.toml", {}, "xl_cahce.toml"));
            }),
            "1: xl_cahce.toml" + missing + "\"configs/memory/xl_cache.toml\"?)");
  EXPECT_EQ(error_of([] { static_cast<void>(read_suite("configs/suite/smal.toml")); }),
            "1: configs/suite/smal.toml" + missing + "\"configs/suite/small.toml\"?)");
}

TEST(Configs, EveryFileParses) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    if (is_suite(entry.path())) {
      EXPECT_NO_THROW(static_cast<void>(read_suite(entry.path()))) << entry.path();
    } else if (entry.path().parent_path().filename() == "memory") {
      EXPECT_NO_THROW(static_cast<void>(parse_memory_file(entry.path()))) << entry.path();
    } else {
      EXPECT_NO_THROW(static_cast<void>(parse_experiment(entry.path()))) << entry.path();
    }
  }
  EXPECT_GE(files, 3);
}

TEST(Configs, TheQuickstartRunsWithAndWithoutMemory) {
  const fs::path quickstart = kConfigs / "quickstart.toml";
  const Experiment none = parse_experiment(quickstart, {}, kConfigs / "memory/none.toml");
  EXPECT_TRUE(none.memory.tiers.empty());
  EXPECT_GT(none.data.motif.period_max, none.train.segment) << "nothing lies outside a segment";
  const Experiment cached = parse_experiment(quickstart, {}, kConfigs / "memory/xl_cache.toml");
  ASSERT_EQ(cached.memory.tiers.size(), 1u);
}

// README names it for copying: a limit left in it would cut every user's evaluation.
TEST(Configs, AnOwnTextIsEvaluatedToItsEnd) {
  const Experiment own = parse_experiment(kConfigs / "own_text.toml");
  EXPECT_EQ(own.data.task, Task::kText);
  EXPECT_EQ(own.eval.steps, 0);
  EXPECT_FALSE(own.data.valid.empty());
  // As it says of folders.
  std::vector<Override> overrides = {parse_override("data.prepared=prepared")};
  for (const char* const key : {"train", "valid", "vocabulary", "documents"})
    overrides.push_back(parse_removal(str("data.", key)));
  EXPECT_FALSE(parse_experiment(kConfigs / "own_text.toml", overrides).data.prepared.empty());
}

Experiment experiment_of(const SuiteTask& task, const SuiteMemory& memory) {
  std::vector<Override> overrides = task.overrides;
  overrides.insert(overrides.end(), memory.overrides.begin(), memory.overrides.end());
  return parse_experiment(task.experiment, overrides, memory.file);
}

// Every task of the suite can be trained with every memory of it, and asks for what lies outside
// the segment.
TEST(Configs, TheSmallSuiteFits) {
  const std::set<Task> kRecall = {Task::kCopy, Task::kSelectiveCopy, Task::kNeedle, Task::kMqar,
                                  Task::kDocumentRecall};
  const Suite suite = read_suite(kConfigs / "suite/small.toml");
  EXPECT_EQ(suite.tasks.size(), 5u);
  for (const SuiteTask& task : suite.tasks) {
    ASSERT_EQ(task.memories.size(), 5u);
    EXPECT_EQ(task.measure, Measure::kOutsideAccuracy);
    for (const SuiteMemory& memory : task.memories) {
      const Experiment e = experiment_of(task, memory);
      EXPECT_EQ(kRecall.count(e.data.task), 1u) << task.name;
      EXPECT_EQ(e.memory.tiers.empty(), memory.name == "none") << task.name;
      EXPECT_EQ(e.train.seed, 1u) << "the suite counts seeds from 1";
    }
  }
}

// Every arm of every suite is an experiment whose data can be made.
TEST(Configs, EverySuiteFits) {
  int suites = 0;
  for (const auto& entry : fs::directory_iterator(kConfigs / "suite")) {
    if (entry.path().extension() != ".toml" || !is_suite(entry.path())) continue;
    ++suites;
    const Suite suite = read_suite(entry.path());
    for (const SuiteTask& task : suite.tasks) {
      for (const SuiteMemory& memory : task.memories) {
        EXPECT_NO_THROW(static_cast<void>(experiment_of(task, memory)))
            << entry.path() << ' ' << task.name << ' ' << memory.name;
      }
    }
  }
  EXPECT_GE(suites, 4);
}

// The two tables differ in the widths of feed-forward layers alone, which only one of them chooses
// for each memory.
TEST(Configs, TheFieldIsTheSameAtEqualParameters) {
  const Suite bytes = read_suite(kConfigs / "suite/field.toml");
  const Suite both = read_suite(kConfigs / "suite/field_parameters.toml");
  ASSERT_EQ(bytes.tasks.size(), both.tasks.size());
  for (std::size_t i = 0; i < bytes.tasks.size(); ++i) {
    ASSERT_EQ(bytes.tasks[i].memories.size(), both.tasks[i].memories.size());
    for (std::size_t j = 0; j < bytes.tasks[i].memories.size(); ++j) {
      const SuiteMemory& memory = bytes.tasks[i].memories[j];
      const Experiment one = experiment_of(bytes.tasks[i], memory);
      Experiment other = experiment_of(both.tasks[i], both.tasks[i].memories[j]);
      EXPECT_EQ(one.model.ff, 128) << bytes.tasks[i].name << ' ' << memory.name;
      other.model.ff = one.model.ff;
      EXPECT_EQ(to_toml(one), to_toml(other)) << bytes.tasks[i].name << ' ' << memory.name;
    }
  }
}

// A file that names a folder of one build would work with that build only.
TEST(Configs, NoFileNamesAFolderOfPlugins) {
  for (const auto& entry : fs::recursive_directory_iterator(kConfigs)) {
    if (entry.path().extension() != ".toml" || is_suite(entry.path())) continue;
    const bool is_memory = entry.path().parent_path().filename() == "memory";
    const MemoryConfig memory =
        is_memory ? parse_memory_file(entry.path()) : parse_experiment(entry.path()).memory;
    EXPECT_TRUE(memory.plugins.empty()) << entry.path();
  }
}

// The rows of reference tables: L, D, H x d, ff, segment, rows, lanes, steps.
void expect_published(const Experiment& e, const std::vector<std::int64_t>& expected) {
  const std::vector<std::int64_t> got = {e.model.layers,
                                         e.model.width,
                                         e.model.heads,
                                         e.model.head_width,
                                         e.model.ff,
                                         e.train.segment,
                                         e.memory.tiers.at(0).options.find("rows")->as_integer(),
                                         e.train.lanes,
                                         e.train.steps};
  EXPECT_EQ(got, expected);
  EXPECT_EQ(e.train.optimizer, Optimizer::kAdam);
  EXPECT_EQ(e.train.lr, 2.5e-4);
  EXPECT_EQ(e.train.clip, 0.25);
  EXPECT_EQ(e.train.weight_decay, 0.0);
  EXPECT_EQ(e.model.dropout, 0.1);
  EXPECT_EQ(e.eval.lanes, 10);
  EXPECT_EQ(e.data.reset, Reset::kNever) << "the official code does not separate documents";
}

TEST(Configs, TransformerXlIsTrainedAsPublished) {
  const Experiment wt103 = parse_experiment(kConfigs / "wt103_base.toml");
  expect_published(wt103, {16, 410, 10, 41, 2100, 150, 150, 60, 200000});
  ASSERT_TRUE(wt103.model.adaptive.has_value());
  EXPECT_EQ(wt103.model.adaptive->cutoffs, (std::vector<std::int64_t>{20000, 40000, 200000}));
  EXPECT_EQ(wt103.model.adaptive->div, 1);
  EXPECT_EQ(wt103.data.vocabulary_size, 267735);
  const Experiment enwik8 = parse_experiment(kConfigs / "enwik8.toml");
  expect_published(enwik8, {12, 512, 8, 64, 2048, 512, 512, 22, 400000});
}

// The switches of the published evaluations, as the files' comments name them.
TEST(Configs, TransformerXlIsEvaluatedAsPublished) {
  const auto at = [](const char* file, std::vector<std::string> texts) {
    std::vector<Override> overrides;
    for (const std::string& text : texts) overrides.push_back(parse_override(text));
    return parse_experiment(kConfigs / file, overrides);
  };
  const Experiment wt103 =
      at("wt103_base.toml", {"eval.segment=64", "model.same_length=true",
                             "model.clamp_distance=400", "memory.tier.0.eval_rows=640"});
  EXPECT_EQ(wt103.eval.segment, 64);
  EXPECT_TRUE(wt103.model.same_length);
  EXPECT_EQ(wt103.model.clamp_distance, 400);
  EXPECT_EQ(wt103.memory.tiers.at(0).eval_options.find("rows")->as_integer(), 640);
  const Experiment enwik8 =
      at("enwik8.toml", {"eval.segment=80", "model.same_length=true", "model.clamp_distance=820",
                         "memory.tier.0.eval_rows=2100"});
  EXPECT_EQ(enwik8.memory.tiers.at(0).eval_options.find("rows")->as_integer(), 2100);
}

// The sizes and the training of the Transformer-XL article; its memory holds all but the last
// input.
TEST(Configs, DigitSortingIsThatOfTheArticle) {
  const Experiment e = parse_experiment(kConfigs / "digit_sorting.toml", {},
                                        kConfigs / "memory/digit_sorting_cache.toml");
  const std::vector<std::int64_t> got = {
      e.model.layers, e.model.width,  e.model.heads,           e.model.head_width,       e.model.ff,
      e.train.lanes,  e.train.epochs, e.data.sequences.length, e.data.sequences.alphabet};
  EXPECT_EQ(got, (std::vector<std::int64_t>{2, 128, 4, 32, 128, 128, 16, 20, 10}));
  EXPECT_EQ(e.data.sequences.train_sequences, 50000);
  EXPECT_EQ(e.data.sequences.test_sequences, 5000);
  EXPECT_EQ(e.model.dropout, 0.0);
  EXPECT_EQ(e.model.init, Init::kArticle);
  EXPECT_TRUE(e.model.untie_position_bias);
  EXPECT_FALSE(e.model.tie_embedding);
  EXPECT_EQ(e.model.embedding_scale, EmbeddingScale::kNone);
  EXPECT_EQ(e.train.optimizer, Optimizer::kAdam);
  EXPECT_EQ(e.train.schedule, Schedule::kLinear);
  EXPECT_EQ(e.train.lr, 1e-3);
  EXPECT_EQ(e.train.lr_min, 1e-5);
  EXPECT_EQ(e.train.warmup, 0);
  EXPECT_EQ(e.train.clip, 0.0);
  EXPECT_EQ(e.train.segment, 2 * e.data.sequences.length - 1) << "a sequence is one segment";
  EXPECT_EQ(e.memory.tiers.at(0).options.find("rows")->as_integer(), e.train.segment);
}

// [infinity-former, 4.1, C.1 and appendix D].
TEST(Configs, ContinuousMemoriesAreThoseOfThePaper) {
  struct Expected {
    const char* file;
    const char* memory;
    std::int64_t rows, basis, samples, reset_tokens;
    double tau, sigma_0;
    bool is_sticky;
  };
  for (const Expected& expected : {
           Expected{"sorting/8000.toml", "sorting/memory/continuous_ltm.toml", 1024, 1024, 512, 0,
                    0.75, 0.05, false},
           Expected{"sorting/16000.toml", "sorting/memory/continuous_ltm_sticky.toml", 1024, 1024,
                    512, 0, 0.75, 0.05, true},
           Expected{"sorting/small_1000.toml", "sorting/memory/small_continuous_ltm.toml", 130, 130,
                    130, 0, 0.75, 0.05, false},
           Expected{"wikitext103/infinity_former.toml",
                    "wikitext103/memory/continuous_ltm_sticky.toml", 150, 150, 150, 900, 0.5, 0.1,
                    true},
       }) {
    SCOPED_TRACE(expected.memory);
    const Experiment e = parse_experiment(kConfigs / expected.file, {}, kConfigs / expected.memory);
    ASSERT_EQ(e.memory.tiers.size(), 2U);
    EXPECT_EQ(e.memory.tiers[0].options.find("rows")->as_integer(), expected.rows);
    const auto& options = e.memory.tiers[1].options;
    EXPECT_EQ(options.find("basis")->as_integer(), expected.basis);
    EXPECT_EQ(options.find("samples")->as_integer(), expected.samples);
    EXPECT_EQ(options.find("tau")->as_real(), expected.tau);
    EXPECT_EQ(options.find("sigma_0")->as_real(), expected.sigma_0);
    EXPECT_EQ(options.find("lambda_kl")->as_real(), 1e-5);
    EXPECT_EQ(options.find("sticky")->as_boolean(), expected.is_sticky);
    const auto* reset = options.find("reset_tokens");
    EXPECT_EQ(reset == nullptr ? 0 : reset->as_integer(), expected.reset_tokens);
  }
  const Experiment wikitext = parse_experiment(kConfigs / "wikitext103/infinity_former.toml");
  EXPECT_EQ(wikitext.train.lanes, 40);
  EXPECT_EQ(wikitext.train.steps, 250000);
  EXPECT_EQ(wikitext.train.lr, 2.5e-4);
  EXPECT_EQ(wikitext.train.schedule, Schedule::kCosine);
}

// [infinity-former, 4.1 and C.1].
TEST(Configs, SortingIsThatOfThePaper) {
  const Experiment e = parse_experiment(kConfigs / "sorting/4000.toml", {},
                                        kConfigs / "sorting/memory/xl_cache.toml");
  const std::vector<std::int64_t> got = {e.model.layers,
                                         e.model.heads,
                                         e.train.segment,
                                         e.train.lanes,
                                         e.train.epochs,
                                         e.data.sequences.length,
                                         e.data.sequences.alphabet,
                                         e.memory.tiers.at(0).options.find("rows")->as_integer()};
  EXPECT_EQ(got, (std::vector<std::int64_t>{3, 6, 1024, 8, 20, 4000, 20, 2048}));
  EXPECT_EQ(e.train.lr, 2.5e-4);
  EXPECT_EQ(e.train.schedule, Schedule::kCosine);
  EXPECT_EQ(e.train.lr_min, 0.0);
}

std::int64_t integer_of(const TierConfig& tier, const char* key) {
  return tier.options.find(key)->as_integer();
}

// [Rae et al. 2019, section 5]: layers, segment, rows, compressed rows, rate, warm-up, steps, and
// the rows at evaluation.
TEST(Configs, CompressiveTransformersAreTrainedAsPublished) {
  struct Expected {
    std::string name;
    std::vector<std::int64_t> sizes;
    std::int64_t eval_rows, eval_compressed_rows;
  };
  for (const Expected& expected :
       {Expected{"wt103", {18, 512, 512, 512, 4, 16000, 516000}, 500, 1500},
        Expected{"enwik8", {24, 768, 768, 1152, 3, 4000, 104000}, 0, 3072},
        Expected{"pg19", {36, 512, 512, 512, 2, 16000, 516000}, 0, 0}}) {
    SCOPED_TRACE(expected.name);
    const fs::path folder = kConfigs / "compressive";
    const std::string file = expected.name + ".toml";
    const Experiment e = parse_experiment(folder / file, {}, folder / "memory" / file);
    ASSERT_EQ(e.memory.tiers.size(), 1U);
    const TierConfig& tier = e.memory.tiers[0];
    EXPECT_EQ((std::vector<std::int64_t>{e.model.layers, e.train.segment, integer_of(tier, "rows"),
                                         integer_of(tier, "compressed_rows"),
                                         integer_of(tier, "rate"), e.train.warmup, e.train.steps}),
              expected.sizes);
    const auto at_evaluation = [&](const char* key) {
      const Value* value = tier.eval_options.find(key);
      return value == nullptr ? 0 : value->as_integer();
    };
    EXPECT_EQ(at_evaluation("rows"), expected.eval_rows);
    EXPECT_EQ(at_evaluation("compressed_rows"), expected.eval_compressed_rows);
    EXPECT_EQ(tier.options.find("function")->as_string(), "conv");
    EXPECT_EQ(tier.options.find("loss")->as_string(), "attention");
    EXPECT_EQ(tier.options.find("start")->as_string(), "zeros");
    EXPECT_EQ(e.train.lr, 3e-4);
    EXPECT_EQ(e.train.lr_min, 1e-6);
    EXPECT_EQ(e.train.schedule, Schedule::kCosine);
    EXPECT_EQ(e.train.clip, 0.1);
    ASSERT_EQ(e.train.accumulate_from.size(), 1U);
    EXPECT_EQ(e.train.accumulate_from[0], (AccumulateFrom{.step = 60000, .segments = 4}));
    EXPECT_EQ(e.data.reset, Reset::kNever);
    EXPECT_EQ(e.eval.lanes, 1);
  }
}

// The caches that [Rae et al. 2019] compares with.
TEST(Configs, CachesBesideCompressiveMemoriesAreThoseOfThePaper) {
  const fs::path folder = kConfigs / "compressive/memory";
  const MemoryConfig enwik8 = parse_memory_file(folder / "enwik8_xl_cache.toml");
  EXPECT_EQ(integer_of(enwik8.tiers.at(0), "rows"), 2304);
  EXPECT_EQ(enwik8.tiers[0].eval_options.find("rows")->as_integer(), 4096);
  const MemoryConfig wt103 = parse_memory_file(folder / "wt103_xl_cache.toml");
  EXPECT_EQ(integer_of(wt103.tiers.at(0), "rows"), 1024);
}

// These two baselines of a comparison have equal bytes. Attention to everything keeps more.
TEST(Configs, TheWindowKeepsAsManyRowsAsTheWindowWithSinks) {
  const fs::path folder = kConfigs / "memory";
  const MemoryConfig window = parse_memory_file(folder / "window.toml");
  const MemoryConfig sinks = parse_memory_file(folder / "sinks.toml");
  const MemoryConfig attention = parse_memory_file(folder / "attention.toml");
  const std::int64_t rows = integer_of(window.tiers.at(0), "rows");
  EXPECT_EQ(integer_of(sinks.tiers.at(0), "sinks") + integer_of(sinks.tiers[0], "window"), rows);
  EXPECT_GT(integer_of(attention.tiers.at(0), "rows"), rows);
  EXPECT_EQ(attention.tiers[0].plugin, window.tiers[0].plugin);
}

// The infinity-former's compressive baseline [4.1, C.1 and appendix D]; as many rows are read as
// the caches beside it hold.
TEST(Configs, CompressiveBaselinesReadAsManyRowsAsTheCaches) {
  struct Expected {
    const char* file;
    const char* memory;
    const char* cache;
    std::int64_t rows, rate;
    const char* loss;
  };
  for (const Expected& expected :
       {Expected{"sorting/4000.toml", "sorting/memory/compressive.toml",
                 "sorting/memory/xl_cache.toml", 1024, 2, "attention"},
        Expected{"sorting/4000.toml", "sorting/memory/compressive_no_loss.toml",
                 "sorting/memory/xl_cache.toml", 1024, 2, "none"},
        Expected{"sorting/small_1000.toml", "sorting/memory/small_compressive.toml",
                 "sorting/memory/small_xl_cache.toml", 130, 4, "attention"},
        Expected{"sorting/small_1000.toml", "sorting/memory/small_compressive_no_loss.toml",
                 "sorting/memory/small_xl_cache.toml", 130, 4, "none"}}) {
    SCOPED_TRACE(expected.memory);
    const Experiment e = parse_experiment(kConfigs / expected.file, {}, kConfigs / expected.memory);
    ASSERT_EQ(e.memory.tiers.size(), 1U);
    const TierConfig& tier = e.memory.tiers[0];
    EXPECT_EQ(integer_of(tier, "rows"), expected.rows);
    EXPECT_EQ(integer_of(tier, "compressed_rows"), expected.rows);
    EXPECT_EQ(integer_of(tier, "rows"), e.train.segment);
    EXPECT_EQ(integer_of(tier, "rate"), expected.rate);
    EXPECT_EQ(tier.options.find("function")->as_string(), "conv");
    EXPECT_EQ(tier.options.find("loss")->as_string(), expected.loss);
    const MemoryConfig cache = parse_memory_file(kConfigs / expected.cache);
    EXPECT_EQ(integer_of(cache.tiers.at(0), "rows"), 2 * expected.rows);
  }
  const MemoryConfig wikitext = parse_memory_file(kConfigs / "wikitext103/memory/compressive.toml");
  const TierConfig& tier = wikitext.tiers.at(0);
  EXPECT_EQ(integer_of(tier, "rows"), 150);
  EXPECT_EQ(integer_of(tier, "compressed_rows"), 150);
  EXPECT_EQ(integer_of(tier, "rate"), 4);
  EXPECT_EQ(tier.options.find("loss")->as_string(), "attention");
}

// [LaMemo, 4.2]: layers, width, heads, head width, ff, segment, rows, lanes, steps.
TEST(Configs, LaMemoIsTrainedAsPublished) {
  struct Expected {
    std::string file, memory;
    std::vector<std::int64_t> sizes;
  };
  const fs::path folder = kConfigs / "lamemo";
  for (const Expected& expected :
       {Expected{"wt103", "wt103", {16, 410, 10, 41, 2100, 150, 150, 64, 250000}},
        Expected{"text8", "characters", {12, 512, 8, 64, 2048, 512, 512, 40, 100000}},
        Expected{"enwik8", "characters", {12, 512, 8, 64, 2048, 512, 512, 40, 100000}}}) {
    SCOPED_TRACE(expected.file);
    const Experiment e = parse_experiment(folder / (expected.file + ".toml"), {},
                                          folder / "memory" / (expected.memory + ".toml"));
    ASSERT_EQ(e.memory.tiers.size(), 1U);
    EXPECT_EQ(
        (std::vector<std::int64_t>{
            e.model.layers, e.model.width, e.model.heads, e.model.head_width, e.model.ff,
            e.train.segment, integer_of(e.memory.tiers[0], "rows"), e.train.lanes, e.train.steps}),
        expected.sizes);
    EXPECT_EQ(e.model.position, PositionScheme::kDisentangled);
    EXPECT_EQ(e.model.norm, Norm::kPost);
    EXPECT_EQ(e.model.dropout, 0.1);
    EXPECT_FALSE(e.model.adaptive.has_value()) << "the code trains one softmax";
    EXPECT_EQ(e.train.lr, 2.5e-4);
    EXPECT_EQ(e.train.lr_min, 0.0);
    EXPECT_EQ(e.train.schedule, Schedule::kCosine);
    EXPECT_EQ(e.train.warmup, 0);
    EXPECT_EQ(e.train.clip, 0.5) << "of the whole loss; the paper's 0.25 is of half of it";
    EXPECT_EQ(e.eval.segment, e.train.segment);
    EXPECT_EQ(e.eval.lanes, 16);
    const MemoryConfig cache =
        parse_memory_file(folder / "memory" / (expected.memory + "_xl_cache.toml"));
    EXPECT_EQ(integer_of(cache.tiers.at(0), "rows"), expected.sizes[6]);
  }
  EXPECT_EQ(parse_experiment(folder / "wt103.toml").data.vocabulary_size, 267735);
}

// Each ablation changes one option of the memory beside it.
TEST(Configs, LaMemosAblationsDifferInOneOption) {
  const fs::path folder = kConfigs / "lamemo/memory";
  for (const std::string base : {"wt103", "books"}) {
    const MemoryConfig whole = parse_memory_file(folder / (base + ".toml"));
    for (const auto& [name, option, value] :
         {std::tuple{"no_interpolation", "interpolation", false},
          std::tuple{"no_lookahead", "lookahead", false},
          std::tuple{"xl_encoding", "signed_ablation", true}}) {
      SCOPED_TRACE(base + "_" + name);
      MemoryConfig ablated = parse_memory_file(folder / (base + "_" + name + ".toml"));
      ASSERT_EQ(ablated.tiers.size(), 1U);
      EXPECT_EQ(ablated.tiers[0].options.find(option)->as_boolean(), value);
      EXPECT_TRUE(ablated.tiers[0].options.erase(option));
      EXPECT_EQ(ablated, whole);
    }
  }
}

// The novels of the text experiment, its model and training but for the position scheme.
TEST(Configs, LaMemosNovelsAreThoseOfTheTextExperiment) {
  const fs::path lamemo = kConfigs / "lamemo";
  Experiment e = parse_experiment(lamemo / "books.toml", {}, lamemo / "memory/books.toml");
  const Experiment text = parse_experiment(kConfigs / "text/books.toml");
  EXPECT_EQ(e.model.position, PositionScheme::kDisentangled);
  e.model.position = text.model.position;
  EXPECT_EQ(e.model, text.model);
  EXPECT_EQ(e.data, text.data);
  EXPECT_EQ(e.train, text.train);
  EXPECT_EQ(integer_of(e.memory.tiers.at(0), "rows"), e.train.segment);
  const MemoryConfig cache = parse_memory_file(lamemo / "memory/books_xl_cache.toml");
  EXPECT_EQ(integer_of(cache.tiers.at(0), "rows"), e.train.segment);
}

// All memories of the text experiment let a query read as many rows; runs have 2 M tokens.
TEST(Configs, TheTextExperimentComparesAtEqualAttentionCost) {
  const fs::path folder = kConfigs / "text";
  const Experiment e = parse_experiment(folder / "books.toml", {}, folder / "memory/xl_cache.toml");
  EXPECT_GE(e.model.layers, 4);
  EXPECT_EQ(e.model.width, 256);
  EXPECT_GE(e.train.steps * e.train.lanes * e.train.segment, 2000000);
  const std::int64_t rows = integer_of(e.memory.tiers.at(0), "rows");
  for (const char* file : {"compressive.toml", "compressive_mean.toml"}) {
    SCOPED_TRACE(file);
    const MemoryConfig memory = parse_memory_file(folder / "memory" / file);
    const TierConfig& tier = memory.tiers.at(0);
    EXPECT_EQ(integer_of(tier, "rows") + integer_of(tier, "compressed_rows"), rows);
    EXPECT_EQ(integer_of(tier, "rows"), e.train.segment);
    EXPECT_EQ(e.train.segment % integer_of(tier, "rate"), 0) << "no evicted row is lost";
  }
}

}  // namespace
}  // namespace mneme::config
