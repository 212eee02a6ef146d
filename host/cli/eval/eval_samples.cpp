// mneme eval RUN --samples N
#include <nlohmann/json.hpp>
#include <string>

#include "host/base/text.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/generate/split_samples.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/run/run_folder.hpp"
#include "host/scores/generated.hpp"

namespace mneme::cli {
namespace {

Json json_of(const std::string& memory, const std::filesystem::path& file,
             const scores::Generated& made) {
  Json samples = Json::array();
  for (const scores::GeneratedSample& one : made.samples) {
    samples.push_back({{"id", one.id},
                       {"prompt", one.prompt},
                       {"expected", one.expected},
                       {"generated", one.generated}});
  }
  return {{"name", memory}, {"file", file.string()}, {"samples", std::move(samples)}};
}

}  // namespace

int make_samples(const EvalArguments& arguments, const Streams& streams) {
  Display display(streams, arguments.is_quiet);
  OpenEvaluation run = read_input([&] { return open_evaluation(arguments); });
  run::Sweep sweep(run.checkpoint, run.experiment, run.options,
                   {.lanes = 1, .tokens = run.experiment.eval.segment});
  const std::int64_t step = run.checkpoint.progress().step;
  Json memories = Json::array();
  for (const run::SweepMemory& memory : run.memories) {
    note_untrained(display, memory.name, sweep.load(memory.memory));
    display.begin(str("samples ", memory.name, ' ', arguments.split), arguments.samples);
    const scores::EvaluationName name =
        run::evaluation_name(sweep.runtime(), split_of(arguments), step);
    const scores::Generated made = generate::continue_split(
        sweep.runtime(), split_of(arguments), name,
        {.count = arguments.samples,
         .prompt_tokens = arguments.prompt_tokens,
         .on_progress = [&](std::int64_t samples) { display.update(samples, samples); }});
    display.end();
    const std::filesystem::path file = scores::write_generated(arguments.run, made);
    if (!arguments.json.is_stdout()) {
      streams.out << memory.name << ": " << made.samples.size() << " samples of " << arguments.split
                  << " in " << file.string() << '\n'
                  << std::flush;
    }
    memories.push_back(json_of(memory.name, file, made));
  }
  arguments.json.write({{"format", "mneme-samples"},
                        {"run", arguments.run.string()},
                        {"step", step},
                        {"split", arguments.split},
                        {"memories", std::move(memories)}},
                       streams);
  return 0;
}

}  // namespace mneme::cli
