// mneme generate RUN --for-report N, mneme analyze RUN --for-report N
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "host/analyze/run_diagnostics.hpp"
#include "host/base/log_once.hpp"
#include "host/base/text.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/generate/split_samples.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/record/evaluation_recorder.hpp"
#include "host/run/run_folder.hpp"
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

// One memory of a run with its weights.
class ForReports {
 public:
  ForReports(const OpenArguments& arguments, const ForReport& wanted, const Streams& streams,
             Display& display, run::Runtime& runtime, std::int64_t step)
      : arguments_(arguments),
        wanted_(wanted),
        streams_(streams),
        display_(display),
        runtime_(runtime),
        name_(run::evaluation_name(runtime, split_of(arguments), step)) {}

  // What was made and where it is.
  Json make(const std::string& memory) {
    Json json = {{"name", memory}};
    if (wanted_.segments != 0) measure(memory, json);
    if (wanted_.samples != 0) make_samples(memory, json);
    return json;
  }

 private:
  void make_samples(const std::string& memory, Json& json) {
    display_.begin(str("samples ", memory, ' ', arguments_.split), wanted_.samples);
    const scores::Generated made = generate::continue_split(
        runtime_, split_of(arguments_), name_,
        {.count = wanted_.samples,
         .prompt_tokens = wanted_.prompt_tokens,
         .on_progress = [&](std::int64_t samples) { display_.update(samples, samples); }});
    display_.end();
    const fs::path file = scores::write_generated(arguments_.run, made);
    say(memory, str(made.samples.size(), " samples of ", arguments_.split), file);
    json["samples_file"] = file.string();
    json["samples"] = json_of(made);
  }

  void measure(const std::string& memory, Json& json) {
    display_.begin(str("diagnostics ", memory, ' ', arguments_.split), wanted_.segments);
    const scores::Diagnostics made =
        analyze::diagnose(runtime_, split_of(arguments_),
                          {.segments = wanted_.segments,
                           .on_progress = [&](std::int64_t segments, std::int64_t tokens) {
                             display_.update(segments, tokens);
                           }});
    display_.end();
    const fs::path file =
        scores::write_diagnostics(arguments_.run, name_, made,
                                  {{"device", tensor::describe(runtime_.device())},
                                   {"threads", tensor::threads()},
                                   {"mneme", MNEME_SDK_VERSION},
                                   {"commit", run::host_commit()}});
    say(memory, str("diagnostics of ", made.segments, " segments of ", arguments_.split), file);
    json["diagnostics_file"] = file.string();
  }

  void say(const std::string& memory, const std::string& what, const fs::path& file) {
    if (arguments_.json.is_stdout()) return;
    streams_.out << memory << ": " << what << " in " << file.string() << '\n' << std::flush;
  }

  const OpenArguments& arguments_;
  const ForReport& wanted_;
  const Streams& streams_;
  Display& display_;
  run::Runtime& runtime_;
  scores::EvaluationName name_;
};

}  // namespace

int make_for_report(const OpenArguments& arguments, const ForReport& wanted,
                    const Streams& streams) {
  begin_alone(arguments);
  Display display(streams, arguments.is_quiet);
  OpenEvaluation run = read_input([&] { return open_evaluation(arguments); });
  check_output_folder("RUN", arguments.run / "evaluations");
  check_plugin_files(run.experiment, run.memories);
  const LogOnce log;
  run::Sweep sweep(run.checkpoint, run.experiment, run.options);
  if (run.memories.size() > 1) load_each(sweep, run.memories);
  const std::int64_t step = run.checkpoint.progress().step;
  Json memories = Json::array();
  for (const run::SweepMemory& memory : run.memories) {
    const std::vector<std::string> untrained = sweep.load(memory.memory);
    warn_of_untrained(memory.name, untrained);
    Json made =
        ForReports(arguments, wanted, streams, display, sweep.runtime(), step).make(memory.name);
    if (!untrained.empty()) made["untrained_parameters"] = untrained;
    memories.push_back(std::move(made));
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
