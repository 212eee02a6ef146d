// mneme eval RUN
#include <memory>
#include <optional>

#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/display.hpp"
#include "host/cli/input.hpp"
#include "host/compare/table.hpp"
#include "host/eval/score.hpp"
#include "host/train/checkpoint.hpp"
#include "host/train/device.hpp"
#include "host/train/run_folder.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct EvalArguments {
  fs::path run;
  std::vector<fs::path> memory;
  std::string split = "valid";
  fs::path tokens;
  fs::path dump;
  SetArgument set;
  MachineArguments machine;
  JsonArgument json;
  bool is_quiet = false;
};

// One memory to evaluate: the run's own, or a file's.
struct Candidate {
  std::string name;
  std::optional<fs::path> file;
};

void check_use(const EvalArguments& arguments) {
  if (arguments.tokens.empty() != arguments.dump.empty()) {
    throw_usage("eval: --tokens and --dump go together: expected both, got only ",
                arguments.tokens.empty() ? "--dump" : "--tokens");
  }
  if (!arguments.tokens.empty() && arguments.memory.size() > 1) {
    throw_usage("eval --tokens: expected at most one --memory, got ", arguments.memory.size());
  }
  for (const config::Override& override : arguments.set.overrides()) {
    const std::string table = override.key.substr(0, override.key.find('.'));
    if (table == "eval" || table == "memory" || table == "data") continue;
    throw_usage("eval --set ", override.key,
                ": the trained model is evaluated as it is: expected a "
                "key of eval, memory or data; train a new run for other settings");
  }
}

std::vector<Candidate> candidates(const EvalArguments& arguments) {
  if (arguments.memory.empty()) return {{.name = "as trained", .file = std::nullopt}};
  std::vector<Candidate> out;
  for (const fs::path& file : arguments.memory) {
    out.push_back({.name = file.stem().string(), .file = file});
  }
  return out;
}

// The run's model with its weights, its experiment changed by --memory and --set.
std::unique_ptr<train::Runtime> open(const EvalArguments& arguments, const Candidate& candidate,
                                     const std::shared_ptr<memory::PluginLoader>& loader,
                                     Display& display) {
  const train::RunFolder folder = train::RunFolder::open(arguments.run);
  const train::Checkpoint checkpoint = train::Checkpoint::open(folder.checkpoint());
  const config::Experiment experiment = config::parse_experiment(
      folder.path() / "experiment.toml", arguments.set.overrides(), candidate.file);
  data::DatasetOptions data{.splits = {}, .vocabulary = folder.vocabulary()};
  if (arguments.tokens.empty()) {
    data.splits = {arguments.split == "test" ? data::Split::kTest : data::Split::kValid};
  }
  train::RuntimeOptions options;
  options.device = train::open_device(arguments.machine.device);
  options.precision = experiment.eval.precision;
  options.dataset = std::make_shared<const data::Dataset>(experiment.data, data);
  options.loader = loader;
  auto runtime = std::make_unique<train::Runtime>(experiment, options);
  const auto untrained = checkpoint.load_weights(*runtime, experiment.memory.carry);
  if (!untrained.empty()) {
    display.note(str(
        candidate.name,
        ": initial values for parameters that the run has not trained: ", join(untrained, ", ")));
  }
  return runtime;
}

Json json_of(const train::Runtime& runtime, const Candidate& candidate) {
  Json plugins = Json::array();
  for (const auto& plugin : runtime.stack().identities()) plugins.push_back(train::to_json(plugin));
  return {{"name", candidate.name},
          {"memory", config::to_toml(runtime.experiment().memory)},
          {"plugins", std::move(plugins)}};
}

void add_row(compare::Table& table, const std::string& name, const eval::Result& result) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? format_number(*value, 4) : std::string("-");
  };
  const std::int64_t lanes = std::max<std::int64_t>(1, result.lanes);
  table.add_row({name, format_number(result.loss(), 4), format_number(result.perplexity(), 3),
                 optional(result.bits_per_character), format_number(result.accuracy(), 4),
                 optional(result.outside_accuracy()), str(result.total.tokens),
                 str(result.state_bytes / lanes), format_count(result.tokens_per_second())});
}

int evaluate(const EvalArguments& arguments, const Streams& streams) {
  const data::Split split = arguments.split == "test" ? data::Split::kTest : data::Split::kValid;
  Display display(streams, arguments.is_quiet);
  const auto loader = std::make_shared<memory::PluginLoader>();
  compare::Table table({"memory", "loss", "perplexity", "bits/character", "accuracy",
                        "accuracy outside", "tokens", "state bytes/lane", "tokens/s"});
  Json results = Json::array();
  for (const Candidate& candidate : candidates(arguments)) {
    const auto runtime = read_input([&] { return open(arguments, candidate, loader, display); });
    display.begin(str("evaluate ", candidate.name, ' ', arguments.split),
                  runtime->evaluation_segments(split));
    eval::Options options;
    options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
      display.update(segments, tokens);
    };
    const eval::Result result = runtime->evaluate(split, std::move(options));
    display.end();
    add_row(table, candidate.name, result);
    Json json = json_of(*runtime, candidate);
    json["result"] = eval::to_json(result);
    results.push_back(std::move(json));
  }
  arguments.json.write({{"format", "mneme-eval"},
                        {"run", arguments.run.string()},
                        {"split", arguments.split},
                        {"memories", std::move(results)}},
                       streams);
  if (!arguments.json.is_stdout()) streams.out << table.text();
  return 0;
}

int score(const EvalArguments& arguments, const Streams& streams) {
  Display display(streams, arguments.is_quiet);
  const Candidate candidate = candidates(arguments).front();
  const auto runtime = read_input([&] {
    return open(arguments, candidate, std::make_shared<memory::PluginLoader>(), display);
  });
  const config::EvalConfig& settings = runtime->experiment().eval;
  eval::ScoreOptions options{.segment = settings.segment, .lanes = settings.lanes};
  display.begin("score " + arguments.tokens.string(), 0);
  options.on_progress = [&](std::int64_t rows, std::int64_t tokens) {
    display.update(rows, tokens);
  };
  const eval::ScoreSummary summary = read_input([&] {
    return eval::score_file(runtime->model(), runtime->stack(), arguments.tokens, arguments.dump,
                            options);
  });
  display.end();
  const double mean =
      summary.targets == 0 ? 0.0 : summary.nll / static_cast<double>(summary.targets);
  Json json = json_of(*runtime, candidate);
  json["tokens"] = arguments.tokens.string();
  json["dump"] = arguments.dump.string();
  json["rows"] = summary.rows;
  json["targets"] = summary.targets;
  json["nll"] = summary.nll;
  arguments.json.write(json, streams);
  if (arguments.json.is_stdout()) return 0;
  streams.out << "scored " << summary.targets << " targets in " << summary.rows << " rows: loss "
              << format_number(mean, 4) << " nats a token; nll in " << arguments.dump.string()
              << '\n';
  return 0;
}

int run(const EvalArguments& arguments, const Streams& streams) {
  check_use(arguments);
  arguments.json.check();
  train::set_threads(arguments.machine.threads);
  return arguments.tokens.empty() ? evaluate(arguments, streams) : score(arguments, streams);
}

}  // namespace

void add_eval(CLI::App& app, Action& action) {
  CLI::App* const command =
      app.add_subcommand("eval", "Evaluate a trained run, or score given token ids");
  const auto arguments = std::make_shared<EvalArguments>();
  command->add_option("RUN", arguments->run, "The run's folder")->required()->type_name("");
  add_memory_files(
      *command, arguments->memory,
      "Memory file to evaluate with in place of the run's own; may be given several times");
  command->add_option("--split", arguments->split, "valid or test")
      ->type_name("SPLIT")
      ->check(CLI::IsMember({"valid", "test"}))
      ->capture_default_str();
  command
      ->add_option("--tokens", arguments->tokens,
                   "Score the ids of this safetensors file: input [lanes, n], optional target")
      ->type_name("FILE");
  command->add_option("--dump", arguments->dump, "Where to write their nll, in nats")
      ->type_name("FILE");
  arguments->set.add(*command);
  arguments->machine.add(*command);
  arguments->json.add(*command);
  command->add_flag("--quiet", arguments->is_quiet, "Show no progress");
  set_examples(*command, {"mneme eval runs/first --memory configs/memory/none.toml --memory "
                          "my_memory.toml",
                          "mneme eval runs/first --tokens ids.safetensors --dump nll.safetensors"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
