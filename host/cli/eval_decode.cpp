// mneme eval RUN --decode
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/cli/eval.hpp"
#include "host/cli/eval_report.hpp"
#include "host/cli/input.hpp"
#include "host/compare/table.hpp"
#include "host/eval/decode.hpp"
#include "host/train/device.hpp"

namespace mneme::cli {
namespace {

// One memory with a model of its own, so that all memories can take turns.
struct Contender {
  std::string name;
  std::unique_ptr<train::Runtime> runtime;
  std::unique_ptr<eval::Decoder> decoder;
};

void check_task(const OpenEvaluation& run) {
  if (run.options.dataset->answer_task()) return;
  throw_usage({.where = "eval --decode",
               .failed = "the run's task has no answer to decode",
               .expected = quoted_list({"sorting", "digit_sorting"}),
               .got = str("data.task = \"", config::to_word(run.experiment.data.task), "\"")});
}

Contender open_contender(const OpenEvaluation& run, const train::SweepMemory& memory,
                         const std::string& split, Display& display) {
  const config::Experiment experiment = config::with_memory(run.experiment, memory.memory);
  Contender out;
  out.name = memory.name;
  out.runtime = std::make_unique<train::Runtime>(experiment, run.options);
  note_untrained(display, memory.name,
                 run.checkpoint.load_weights(*out.runtime, memory.memory.carry));
  const config::EvalConfig& eval = experiment.eval;
  out.decoder = std::make_unique<eval::Decoder>(
      out.runtime->model(), out.runtime->stack(), run.options.dataset->answer_task(),
      eval::DecodeOptions{.split = split,
                          .lanes = eval.lanes,
                          .segment = eval.segment,
                          .max_sequences = eval.steps * eval.lanes});
  return out;
}

std::vector<Contender> open_contenders(const EvalArguments& arguments, Display& display) {
  const OpenEvaluation run = open_evaluation(arguments);
  check_task(run);
  std::vector<Contender> out;
  for (const train::SweepMemory& memory : run.memories) {
    out.push_back(open_contender(run, memory, arguments.split, display));
  }
  return out;
}

void decode_in_turns(std::vector<Contender>& contenders, Display& display) {
  const std::int64_t batches = contenders.front().decoder->batches();
  display.begin("decode", batches * static_cast<std::int64_t>(contenders.size()));
  std::int64_t done = 0;
  std::int64_t tokens = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (Contender& contender : contenders) {
      const std::int64_t before = contender.decoder->result().tokens;
      contender.decoder->run_batch();
      tokens += contender.decoder->result().tokens - before;
      display.update(++done, tokens);
    }
  }
  display.end();
}

// How many predicted tokens differ from the first memory's.
std::int64_t differences(const eval::Decoded& first, const eval::Decoded& other) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < first.predictions.size(); ++i) {
    if (first.predictions[i] != other.predictions[i]) ++count;
  }
  return count;
}

Json json_of(const Contender& contender, const eval::Decoded& first) {
  const eval::Decoded& result = contender.decoder->result();
  Json json = to_json(train::SweepResult{.name = contender.name,
                                         .memory = contender.runtime->experiment().memory,
                                         .plugins = contender.runtime->stack().identities()});
  json["result"] = eval::to_json(result);
  json["times_as_fast"] = first.seconds / result.seconds;
  json["predictions_that_differ"] = differences(first, result);
  json["predictions"] = result.predictions;
  return json;
}

std::vector<std::string> row_of(const Contender& contender, const eval::Decoded& first) {
  const eval::Decoded& result = contender.decoder->result();
  const std::int64_t differ = differences(first, result);
  return {contender.name,
          str(result.sequences),
          format_number(result.sequence_accuracy(), 4),
          format_number(result.token_accuracy(), 4),
          str(result.fed_tokens),
          format_number(result.seconds, 3),
          format_number(first.seconds / result.seconds, 2),
          differ == 0 ? "equal" : str(differ, " differ")};
}

}  // namespace

int decode_answers(const EvalArguments& arguments, const Streams& streams) {
  Display display(streams, arguments.is_quiet);
  std::vector<Contender> contenders =
      read_input([&] { return open_contenders(arguments, display); });
  decode_in_turns(contenders, display);
  const eval::Decoded& first = contenders.front().decoder->result();
  compare::Table table({"memory", "sequences", "accuracy", "token accuracy", "tokens fed",
                        "seconds", "times as fast", "predictions"});
  Json results = Json::array();
  for (const Contender& contender : contenders) {
    table.add_row(row_of(contender, first));
    results.push_back(json_of(contender, first));
  }
  if (!arguments.json.is_stdout()) streams.out << table.text(streams.out_width);
  arguments.json.write({{"format", "mneme-decode"},
                        {"run", arguments.run.string()},
                        {"split", arguments.split},
                        {"device", train::describe(contenders.front().runtime->device())},
                        {"memories", std::move(results)}},
                       streams);
  return 0;
}

}  // namespace mneme::cli
