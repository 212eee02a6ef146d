// Experiment files, memory files, suites, overrides, and the options of a plugin.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/config/options.hpp"
#include "host/config/suite.hpp"
#include "host/config/toml/toml.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSource = "input.toml";
constexpr const char* kFolder = "/input";

// An option of every type, required and not.
const std::vector<config::OptionSpec>& option_specs() {
  using Type = config::OptionType;
  static const std::vector<config::OptionSpec> specs = {
      {.key = "rows", .type = Type::kInteger, .integers = {1, 4096}},
      {.key = "share", .type = Type::kReal, .default_value = 0.5, .reals = {.min = 0, .max = 1}},
      {.key = "open", .type = Type::kReal, .default_value = 1.0, .may_differ_at_evaluation = true},
      {.key = "is_on", .type = Type::kBoolean, .default_value = false},
      {.key = "note", .type = Type::kText, .default_value = std::string("none")},
      {.key = "kind",
       .type = Type::kChoice,
       .default_value = std::string("a"),
       .choices = {"a", "b"}},
      {.key = "rates",
       .type = Type::kIntegerList,
       .default_value = std::vector<std::int64_t>{1, 2},
       .integers = config::kNotNegative},
      {.key = "weights", .type = Type::kRealList, .default_value = std::vector<double>{}}};
  return specs;
}

std::vector<config::Override> overrides_of(const Files& files) {
  std::vector<config::Override> out;
  if (!files.has("set")) return out;
  std::istringstream in(files.texts.at("set"));
  for (std::string line; std::getline(in, line);) {
    const bool is_removal = line.starts_with('-');
    out.push_back(is_removal ? config::parse_removal(std::string_view(line).substr(1))
                             : config::parse_override(line));
  }
  return out;
}

// Every value reads back as an equal one.
void check_values(const std::string& text) {
  const config::Value root = config::parse_toml(text, kSource, kFolder);
  for (const config::Member& member : root.members()) {
    const std::string line = str(config::toml_key(member.key), " = ", member.value.toml());
    const config::Value again = config::parse_toml(line, "again", kFolder);
    const config::Value* const value = again.find(member.key);
    require(value != nullptr && *value == member.value, str("a value reads back: ", line));
  }
}

void check_options(const config::MemoryConfig& memory) {
  for (const config::TierConfig& tier : memory.tiers) {
    static_cast<void>(accepts([&] {
      const config::OptionValues values = config::resolve_options(tier, option_specs());
      const std::int64_t rows = values.training.integer("rows");
      require(rows >= 1 && rows <= 4096, "an option lies in its range");
      require(values.evaluation.integer("rows") == rows, "rows is the same at evaluation");
      const std::string& kind = values.training.text("kind");
      require(kind == "a" || kind == "b", "a choice is one of its words");
    }));
  }
}

void read_experiment_text(const std::string& text, const std::vector<config::Override>& overrides) {
  check_values(text);
  const config::Experiment experiment =
      config::parse_experiment_text(text, kSource, kFolder, overrides);
  const std::string written = config::to_toml(experiment);
  const config::Experiment again = config::parse_experiment_text(written, "again", kFolder);
  require(again == experiment, str("an experiment reads back: ", written));
  require(config::to_toml(again) == written, "an experiment is written as it was before");
  check_options(experiment.memory);
}

void read_memory_file(const std::string& text, const std::vector<config::Override>& overrides) {
  const config::MemoryConfig memory =
      config::parse_memory_file(write_alone("memory.toml", text), overrides);
  const std::string written = config::to_toml(memory);
  const fs::path file = write_alone("again.toml", written);
  require(config::parse_memory_file(file) == memory, str("a memory reads back: ", written));
  check_options(memory);
}

void read_suite(const Files& files) {
  const fs::path& folder = empty_folder();
  Files with_names = files;
  with_names.texts.try_emplace("experiment.toml");
  with_names.texts.try_emplace("memory.toml");
  write_files(folder, with_names, {"suite.toml", "experiment.toml", "memory.toml"});
  const config::Suite suite = config::read_suite(folder / "suite.toml");
  require(suite.seeds >= 1 && !suite.tasks.empty(), "a suite has seeds and tasks");
  for (const config::SuiteTask& task : suite.tasks) {
    require(!task.memories.empty() && fs::exists(task.experiment), "a task has its files");
  }
}

bool read_experiment(std::string_view input) {
  const Files files = Files::of(input, "experiment.toml");
  return accepts([&] {
    const std::vector<config::Override> overrides = overrides_of(files);
    if (files.has("suite.toml")) {
      read_suite(files);
    } else if (files.has("memory.toml")) {
      read_memory_file(files.texts.at("memory.toml"), overrides);
    } else {
      const auto text = files.texts.find("experiment.toml");
      read_experiment_text(text == files.texts.end() ? "" : text->second, overrides);
    }
  });
}

// Files of the tree whose text is small.
void add_configs(std::vector<std::string>& out, const char* folder, const char* head) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(MNEME_SOURCE_DIR) / folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) out.push_back(head + bytes_of(file));
}

std::vector<std::string> experiment_seeds() {
  std::vector<std::string> out = {
      R"([model]
layers = 2
heads = 2
width = 8
[model.adaptive]
cutoffs = [3, 5]
[memory]
plugins = ["plugins", '/a b']
carry = "reset"
[[memory.tier]]
plugin = "one"
layers = [1, 0]
feed = "segment"
lr = 1e-3
weight.drift = 0.25
rows = 16
share = 0.5
kind = "b"
rates = [1, 2, 3]
weights = [0.5, 1.0]
note = """
two
lines"""
eval_open = 2.0
[data]
task = "motif"
period_max = 9
[train]
steps = 10
lr = 0.001
[[train.group]]
parameters = ["model.*.norm.*"]
lr = 1e-4
[eval]
segment = 32
)",
      "==> set\ntrain.steps=5\n-model.adaptive\nmemory.tier.0.rows=7\n==> experiment.toml\n"
      "[model.adaptive]\ncutoffs = [4]\n[[memory.tier]]\nplugin = 'x'\n[data]\ntask = 'copy'\n"
      "[train]\nsteps = 1\n",
      "==> suite.toml\nseeds = 2\n[[memory]]\nname = \"none\"\nfile = \"memory.toml\"\n"
      "set = [\"memory.carry=reset\"]\n[[task]]\nexperiment = \"experiment.toml\"\n"
      "measure = \"outside_accuracy\"\n[[task.memory]]\nname = \"none\"\nset = [\"train.lr=1\"]\n",
      "==> memory.toml\n[memory]\n[[memory.tier]]\nplugin = \"two\"\nrows = 3\neval_rows = 4\n",
      "==> memory.toml\n[memory]\n"};
  add_configs(out, "configs", "");
  add_configs(out, "configs/memory", "==> memory.toml\n");
  return out;
}

std::vector<std::string> experiment_extremes() {
  const std::string many_keys = [] {
    std::string out = "[model]\n";
    for (int i = 0; i < 20'000; ++i) out += str("key", i, " = 1\n");
    return out;
  }();
  return {
      repeated("[", 100'000),
      "x = " + repeated("[", 250) + repeated("]", 250),
      "x = " + repeated("{a=", 250) + "1" + repeated("}", 250),
      repeated("a.", 100'000) + "a = 1",
      "[" + repeated("a.", 100'000) + "a]",
      // Quotes at the end of a text of several lines, and a backslash that continues no line.
      "t = \"\"\"x\"\"\"\" # \\\n" + repeated("a.", 100'000) + "a = 1",
      "t = '''x'''' # \\\n" + repeated("a.", 100'000) + "a = 1",
      "t = \"\"\"x\"\"\"\"\"\n" + repeated("b.", 100'000) + "a = 1",
      // Inline tables with keys of many parts in each other.
      "x = " + repeated("{" + repeated("a.", 32) + "a=", 250) + "1" + repeated("}", 250),
      repeated("a.", 32) + "a = " + repeated("{" + repeated("a.", 32) + "a=", 250) + "1",
      many_keys,
      "==> memory.toml\n[memory]\nplugins = [" + repeated("1,", 20'000) + "]",
      "[model]\nbackbone = \"" + repeated("x", 200'000) + "\"",
      "[model]\n" + repeated("x", 200'000) + " = 1",
      "==> set\n" + repeated("a.", 50'000) + "a=1",
  };
}

}  // namespace

Target experiment_target() {
  return {"experiment", read_experiment, experiment_seeds, experiment_extremes};
}

}  // namespace mneme::fuzz
