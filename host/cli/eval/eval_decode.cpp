// mneme decode RUN: all memories are loaded at once and decode each batch in turn, so that other load
// on the machine slows all of them alike.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "host/eval/decode.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

// One memory with its own model, so that memories can alternate batch by batch.
struct DecodedMemory : run::SweepResult {  // one that failed is skipped from then on
  std::unique_ptr<run::Runtime> runtime;
  std::unique_ptr<eval::Decoder> decoder;
};

constexpr const char* kLessMemory = "lower eval.lanes or the size of the memory";

void check_task(const OpenEvaluation& opened) {
  if (opened.options.dataset->answer_task()) return;
  throw_usage({.where = "decode",
               .failed = "the run's task has no answer to decode",
               .expected = quoted_list(data::answer_task_words()),
               .got = str("data.task = \"", config::to_word(opened.experiment.data.task), "\"")});
}

void open_one(DecodedMemory& out, const OpenEvaluation& opened, const std::string& split) {
  const config::Experiment experiment = config::with_memory(opened.experiment, out.memory);
  run::RuntimeOptions options = opened.options;
  options.weights_follow = true;
  run::check_evaluation_fits(experiment, options);
  out.runtime = std::make_unique<run::Runtime>(experiment, options);
  out.reset = opened.checkpoint.load_weights(*out.runtime, out.memory.carry);
  warn_of_untrained(out.name, out.reset);
  out.plugins = out.runtime->stack().identities();
  out.differences = run::plugin_differences(opened.checkpoint.plugins(), out.plugins);
  run::log_differences(out.name, out.differences);
  const config::EvalConfig& eval = experiment.eval;
  out.decoder = std::make_unique<eval::Decoder>(
      out.runtime->model(), out.runtime->stack(), opened.options.dataset->answer_task(),
      eval::DecodeOptions{.split = split,
                          .lanes = eval.lanes,
                          .segment = eval.segment,
                          .max_sequences = eval.steps * eval.lanes});
}

// `differences`: of the data from the run's.
std::vector<DecodedMemory> open_all(const OpenArguments& arguments,
                                    std::vector<run::RunDifference>& differences) {
  const OpenEvaluation opened = open_evaluation(arguments);
  check_task(opened);
  check_plugin_files(opened.experiment, opened.memories);
  differences = opened.differences;
  std::vector<DecodedMemory> out;
  std::vector<MemoryProblem> problems;
  for (const run::SweepMemory& each : opened.memories) {
    DecodedMemory& one = out.emplace_back();
    one.name = each.name;
    one.memory = each.memory;
    try {
      open_one(one, opened, arguments.split);
    } catch (const std::exception& error) {
      problems.push_back({one.name, run::failure_of(error, "decoding", kLessMemory)});
    }
  }
  refuse_memories(problems, opened.memories.size());
  return out;
}

// The first memory that has not failed; the first one's error is thrown when all have.
const DecodedMemory& first_of(const std::vector<DecodedMemory>& memories) {
  for (const DecodedMemory& memory : memories) {
    if (!memory.error) return memory;
  }
  throw *memories.front().error;
}

// A failure is reported at once and does not stop the other memories; with a single memory it is
// thrown.
void decode_in_turns(std::vector<DecodedMemory>& memories, Display& display,
                     const Streams& streams) {
  const std::int64_t batches = first_of(memories).decoder->batches();
  display.begin("decode", batches * static_cast<std::int64_t>(memories.size()));
  std::int64_t done = 0;
  std::int64_t tokens = 0;
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    for (DecodedMemory& memory : memories) {
      if (memory.error) continue;
      try {
        const std::int64_t before = memory.decoder->result().tokens;
        memory.decoder->run_batch();
        tokens += memory.decoder->result().tokens - before;
        display.update(++done, tokens);
      } catch (const std::exception& error) {
        memory.error = run::failure_of(error, "decoding", kLessMemory);
        if (memories.size() == 1) throw *memory.error;
        report_error(streams, memory.name, *memory.error);
      }
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

Json json_of(DecodedMemory& memory, const eval::Decoded& first, const OpenArguments& arguments) {
  if (!memory.error) {
    const eval::Decoded& decoded = memory.decoder->result();
    memory.speed = measured_speed(arguments, *memory.runtime,
                                  static_cast<double>(decoded.fed_tokens) / decoded.seconds);
  }
  Json json = to_json(memory);
  if (memory.error) return json;
  const eval::Decoded& result = memory.decoder->result();
  json["result"] = eval::to_json(result);
  json["times_as_fast"] = first.seconds / result.seconds;
  json["predictions_that_differ"] = differences(first, result);
  json["predictions"] = result.predictions;
  return json;
}

// `all`: sequences of the split.
std::vector<std::string> row_of(const DecodedMemory& memory, const eval::Decoded& first,
                                std::int64_t all) {
  if (memory.error) return {memory.name, "failed"};
  const eval::Decoded& result = memory.decoder->result();
  const std::int64_t differ = differences(first, result);
  return {memory.name,
          result.sequences < all ? str(result.sequences, " of ", all) : str(result.sequences),
          format_number(result.sequence_accuracy(), 4),
          format_number(result.token_accuracy(), 4),
          str(result.fed_tokens),
          format_number(result.seconds, 3),
          format_number(first.seconds / result.seconds, 2),
          differ == 0 ? "equal" : str(differ, " differ")};
}

int decode_answers(const OpenArguments& arguments, const Streams& streams) {
  begin_alone(arguments);
  Display display(streams, arguments.is_quiet);
  std::vector<run::RunDifference> differences;
  std::vector<DecodedMemory> memories =
      read_input([&] { return open_all(arguments, differences); });
  decode_in_turns(memories, display, streams);
  const DecodedMemory& first_done = first_of(memories);
  const eval::Decoded& first = first_done.decoder->result();
  Table table({"memory", "sequences", "accuracy", "token accuracy", "tokens fed", "seconds",
               "times as fast", "predictions"});
  const std::int64_t all = first_done.runtime->dataset()->answer_task()->count(arguments.split);
  Json results = Json::array();
  int exit_code = 0;
  for (DecodedMemory& memory : memories) {
    if (memory.error && exit_code == 0) exit_code = memory.error->exit_code();
    table.add_row(row_of(memory, first, all));
    results.push_back(json_of(memory, first, arguments));
  }
  Outputs outputs;  // the file first: a reader of what is printed may end early
  outputs.add([&] {
    arguments.json.write({{"format", "mneme-decode"},
                          {"run", arguments.run.string()},
                          {"split", arguments.split},
                          {"split_sequences", all},
                          {"differs_from_run", run::to_json(differences)},
                          {"device", tensor::describe(first_done.runtime->device())},
                          {"memories", std::move(results)}},
                         streams);
  });
  if (!arguments.json.is_stdout()) streams.out << table.text(streams.out_width) << std::flush;
  outputs.finish();
  return exit_code;
}

}  // namespace

void add_decode(const Command& app) {
  const Command command = app.subcommand(
      "decode",
      "Decode the answers of a generated task greedily: how often they are right, how fast");
  const auto arguments = std::make_shared<OpenArguments>();
  arguments->add_run(
      command, "Memory file to decode with in place of the run's own; may be given several times");
  arguments->add_settings(command);
  command.examples({"mneme decode runs/digit_sorting --split test",
                    "mneme decode runs/digit_sorting --memory configs/memory/none.toml --memory "
                    "configs/memory/digit_sorting_cache.toml"});
  command.runs(arguments, &decode_answers);
}

}  // namespace mneme::cli
