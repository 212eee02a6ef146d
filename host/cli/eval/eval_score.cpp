// mneme eval RUN --tokens FILE --dump FILE

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/write_file.hpp"
#include "host/base/progress.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/eval/score.hpp"
#include "host/run/sweep.hpp"

namespace mneme::cli {

int score_tokens(const EvalArguments& arguments, const Streams& streams) {
  Display display(streams, arguments.is_quiet);
  OpenEvaluation opened = read_input([&] { return open_evaluation(arguments); });
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
  const double mean = scored.targets == 0 ? 0.0 : scored.sum / static_cast<double>(scored.targets);
  const bool is_for_people = !arguments.json.is_stdout();
  if (is_for_people) {
    streams.out << "scored " << scored.targets << " targets in " << scored.rows << " rows: loss "
                << format_number(mean, 4) << " nats a token" << std::flush;
  }
  Json json = to_json(run::SweepResult{.name = memory.name,
                                       .memory = memory.memory,
                                       .plugins = runtime.stack().identities(),
                                       .reset = untrained,
                                       .differences = sweep.differences()});
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
    if (is_for_people) streams.out << "; nll in " << arguments.dump.string();
  });
  if (is_for_people) streams.out << '\n';
  outputs.add([&] { arguments.json.write(json, streams); });
  outputs.finish();
  return 0;
}

}  // namespace mneme::cli
