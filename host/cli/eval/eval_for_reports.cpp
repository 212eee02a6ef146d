// mneme generate RUN --for-report N, mneme analyze RUN --for-report N
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/analyze/run_diagnostics.hpp"
#include "host/base/log_once.hpp"
#include "host/base/text.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/generate/split_samples.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/generated.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

Json json_of(const scores::Generated& made) {
  Json samples = Json::array();
  for (const scores::GeneratedSample& one : made.samples) {
    samples.push_back({{"id", one.id},
                       {"prompt", one.prompt},
                       {"expected", one.expected},
                       {"generated", one.generated}});
  }
  return samples;
}

struct Made {
  std::string what;  // "3 samples"
  fs::path file;
  Json json;
};

Made make_samples(run::Runtime& runtime, const scores::EvaluationName& name,
                  const OpenArguments& arguments, const ForReport& wanted, Display& display) {
  const scores::Generated made = generate::continue_split(
      runtime, split_of(arguments), name,
      {.count = wanted.samples,
       .prompt_tokens = wanted.prompt_tokens,
       .on_progress = [&](std::int64_t samples) { display.update(samples, samples); }});
  const fs::path file = scores::write_generated(arguments.run, made);
  return {str(made.samples.size(), " samples"),
          file,
          {{"samples_file", file.string()}, {"samples", json_of(made)}}};
}

Made measure(run::Runtime& runtime, const scores::EvaluationName& name,
             const OpenArguments& arguments, const ForReport& wanted, Display& display) {
  const scores::Diagnostics made = analyze::diagnose(
      runtime, split_of(arguments),
      {.segments = wanted.segments, .on_progress = [&](std::int64_t segments, std::int64_t tokens) {
         display.update(segments, tokens);
       }});
  const fs::path file = scores::write_diagnostics(arguments.run, name, made,
                                                  {{"device", tensor::describe(runtime.device())},
                                                   {"threads", tensor::threads()},
                                                   {"mneme", MNEME_SDK_VERSION},
                                                   {"commit", run::host_commit()}});
  return {str("diagnostics of ", made.segments, " segments"),
          file,
          {{"diagnostics_file", file.string()}}};
}

}  // namespace

int make_for_report(const OpenArguments& arguments, const ForReport& wanted,
                    const Streams& streams) {
  begin_alone(arguments);
  Display display(streams, arguments.is_quiet);
  OpenEvaluation opened = read_input([&] { return open_evaluation(arguments); });
  check_output_folder("RUN", arguments.run / "evaluations");
  check_plugin_files(opened.experiment, opened.memories);
  const LogOnce log;
  run::Sweep sweep(opened.checkpoint, opened.experiment, opened.options);
  if (opened.memories.size() > 1) load_each(sweep, opened.memories);
  const std::int64_t step = opened.checkpoint.progress().step;
  Json memories = Json::array();
  for (const run::SweepMemory& memory : opened.memories) {
    const std::vector<std::string> untrained = sweep.load(memory.memory);
    warn_of_untrained(memory.name, untrained);
    display.begin(
        str(wanted.samples != 0 ? "samples " : "diagnostics ", memory.name, ' ', arguments.split),
        std::max(wanted.samples, wanted.segments));
    const Made made = (wanted.samples != 0 ? make_samples : measure)(
        sweep.runtime(), run::evaluation_name(sweep.runtime(), split_of(arguments), step),
        arguments, wanted, display);
    display.end();
    arguments.json.text(streams) << memory.name << ": " << made.what << " of " << arguments.split
                                 << " in " << made.file.string() << '\n'
                                 << std::flush;
    Json& json = memories.emplace_back(Json{{"name", memory.name}});
    json.update(made.json);
    if (!untrained.empty()) json["untrained_parameters"] = untrained;
  }
  arguments.json.write({{"format", "mneme-for-reports"},
                        {"run", arguments.run.string()},
                        {"step", step},
                        {"split", arguments.split},
                        {"memories", std::move(memories)}},
                       streams);
  return 0;
}

}  // namespace mneme::cli
