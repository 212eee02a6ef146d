// mneme eval RUN --tokens FILE --dump FILE
#include "host/cli/eval.hpp"
#include "host/cli/eval_report.hpp"
#include "host/cli/input.hpp"
#include "host/eval/score.hpp"

namespace mneme::cli {

int score_tokens(const EvalArguments& arguments, const Streams& streams) {
  Display display(streams, arguments.is_quiet);
  OpenEvaluation opened = read_input([&] { return open_evaluation(arguments); });
  const train::SweepMemory& memory = opened.memories.front();
  train::Sweep sweep(opened.checkpoint, opened.experiment, opened.options);
  note_untrained(display, memory.name, sweep.load(memory.memory));
  train::Runtime& runtime = sweep.runtime();
  const config::EvalConfig& settings = runtime.experiment().eval;
  eval::ScoreOptions options{.segment = settings.segment, .lanes = settings.lanes};
  display.begin("score " + arguments.tokens.string(), 0);
  options.on_progress = [&](std::int64_t rows, std::int64_t tokens) {
    display.update(rows, tokens);
  };
  const eval::ScoreSummary summary = read_input([&] {
    return eval::score_file(runtime.model(), runtime.stack(), arguments.tokens, arguments.dump,
                            options);
  });
  display.end();
  const double mean =
      summary.targets == 0 ? 0.0 : summary.nll / static_cast<double>(summary.targets);
  Json json = to_json(train::SweepResult{
      .name = memory.name, .memory = memory.memory, .plugins = runtime.stack().identities()});
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

}  // namespace mneme::cli
