// mneme score RUN --tokens FILE --dump FILE

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/progress.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/eval/score.hpp"
#include "host/run/sweep.hpp"

namespace mneme::cli {
namespace {

struct ScoreArguments : OpenArguments {
  std::filesystem::path tokens;
  std::filesystem::path dump;
};

int score_tokens(const ScoreArguments& arguments, const Streams& streams) {
  if (arguments.memory.size() > 1) {
    throw_usage("score: expected at most one --memory, got ", arguments.memory.size());
  }
  check_output_file("--dump", arguments.dump);
  begin_alone(arguments);
  Display display(streams, arguments.is_quiet);
  OpenEvaluation opened = read_input([&] {
    check_readable(arguments.tokens);
    return open_evaluation(arguments);
  });
  const run::SweepMemory& memory = opened.memories.front();
  run::Sweep sweep(opened.checkpoint, opened.experiment, opened.options);
  const std::vector<std::string> untrained = sweep.load(memory.memory);
  warn_of_untrained(memory.name, untrained);
  run::Runtime& runtime = sweep.runtime();
  const config::EvalConfig& settings = runtime.experiment().eval;
  eval::ScoreOptions options{.segment = settings.segment, .lanes = settings.lanes};
  display.begin("score " + arguments.tokens.string(), 0);
  options.on_progress = [&](std::int64_t rows, std::int64_t tokens) {
    display.update(rows, tokens);
  };
  const double start = steady_clock().seconds();
  const eval::ScoredFile scored = read_input([&] {
    return eval::score_file(runtime.model(), runtime.stack(), arguments.tokens, options);
  });
  const double seconds = steady_clock().seconds() - start;
  display.end();
  const double rate = seconds > 0.0 ? static_cast<double>(scored.targets) / seconds : 0.0;
  const double mean = scored.targets == 0 ? 0.0 : scored.sum / static_cast<double>(scored.targets);
  std::ostream& out = arguments.json.text(streams);
  out << "scored " << scored.targets << " targets in " << scored.rows << " rows: loss "
      << format_number(mean, 4) << " nats a token" << std::flush;
  Json json = to_json(run::SweepResult{.name = memory.name,
                                       .memory = memory.memory,
                                       .plugins = runtime.stack().identities(),
                                       .reset = untrained,
                                       .differences = sweep.differences(),
                                       .speed = measured_speed(arguments, runtime, rate)});
  json["tokens"] = arguments.tokens.string();
  json["dump"] = arguments.dump.string();
  json["rows"] = scored.rows;
  json["targets"] = scored.targets;
  json["nll"] = scored.sum;
  json["seconds"] = seconds;  // the reading of the ids included
  Outputs outputs;
  outputs.add([&] {
    make_parents(arguments.dump);
    eval::write_nll(scored, arguments.dump);
    out << "; nll in " << arguments.dump.string();
  });
  out << '\n';
  outputs.add([&] { arguments.json.write(json, streams); });
  outputs.finish();
  return 0;
}

}  // namespace

void add_score(const Command& app) {
  const Command command = app.subcommand("score", "Score given token ids with a trained run");
  const auto arguments = std::make_shared<ScoreArguments>();
  arguments->reads_split = false;
  arguments->add_run(command, "Memory file to score with in place of the run's own");
  command.option("--tokens", arguments->tokens, "FILE",
                 "The ids, a safetensors file: input [lanes, n], optional target", {required});
  command.option("--dump", arguments->dump, "FILE", "Where to write their nll, in nats",
                 {required});
  arguments->add_settings(command);
  command.examples({"mneme score runs/first --tokens ids.safetensors --dump nll.safetensors",
                    "mneme score runs/first --tokens ids.safetensors --dump nll.safetensors "
                    "--memory my_memory.toml"});
  command.runs(arguments, &score_tokens);
}

}  // namespace mneme::cli
