// mneme inspect RUN
#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/cli/input.hpp"
#include "host/cli/inspect/inspect.hpp"
#include "host/run/run_summary.hpp"

namespace mneme::cli {
namespace {

constexpr std::size_t kColumn = 14;
constexpr std::size_t kShownDigits = 12;  // of a SHA-256

void line(const Streams& streams, const std::string& title, const std::string& text) {
  const std::size_t gap = title.size() < kColumn ? kColumn - title.size() : 1;
  streams.out << title << std::string(gap, ' ') << text << '\n';
}

// A value of run.json as text; "?" for one that an older or a damaged file lacks.
std::string value(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end() || found->is_null()) return "?";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string digest(const Json& json) { return value(json, "sha256").substr(0, kShownDigits); }

std::string model_text(const config::ModelConfig& model) {
  return str(config::to_word(model.backbone), ", ", model.layers, " layers of width ", model.width,
             ", ", model.heads, " heads x ", model.head_width, ", ff ", model.ff, ", position ",
             config::to_word(model.position), ", norm ", config::to_word(model.norm),
             model.adaptive ? str(", adaptive, div ", model.adaptive->div) : std::string());
}

std::string training_text(const config::TrainConfig& train) {
  return str("segment ", train.segment, ", ", train.lanes, " lanes, ",
             train.steps > 0 ? str(train.steps, " steps") : str(train.epochs, " epochs"), ", ",
             config::to_word(train.optimizer), ", lr ", train.lr, " ",
             config::to_word(train.schedule), ", ", config::to_word(train.precision), ", seed ",
             train.seed);
}

void print_data(const Json& data, const Streams& streams) {
  line(streams, "data",
       str("task ", value(data, "task"), ", ", value(data, "vocabulary_size"), " ids"));
  for (const char* split : {"train", "valid", "test"}) {
    if (!data.is_object() || !data.contains(split)) continue;
    const Json& one = data.at(split);
    line(streams, str("  ", split),
         str(value(one, "tokens"), " tokens, sha256 ", digest(one), ", files ",
             value(one, "files")));
  }
}

void print_origin(const run::RunSummary& summary, const Streams& streams) {
  const Json& info = summary.info;
  line(streams, "run", summary.path.string());
  line(streams, "begun",
       str(value(info, "started"), ", mneme ", value(info, "mneme"), " (commit ",
           value(info, "commit").substr(0, kShownDigits),
           value(info, "dirty") == "true" ? ", with changes" : "", "), LibTorch ",
           value(info, "torch"), ", ", value(info, "device")));
  line(streams, "model", model_text(summary.experiment.model));
  line(streams, "training", training_text(summary.experiment.train));
  line(streams, "parameters",
       str(value(info, "backbone_parameters"), " in the backbone, ",
           value(info, "memory_parameters"), " in the memory"));
  if (info.contains("initial_weights")) {
    const Json& source = info.at("initial_weights");
    line(streams, "weights from", str(value(source, "file"), ", sha256 ", digest(source)));
  }
  print_data(info.value("data", Json()), streams);
  for (const config::TierConfig& tier : summary.experiment.memory.tiers) {
    line(streams, "tier", tier.plugin);
  }
  for (const Json& plugin : info.value("plugins", Json::array())) {
    line(streams, "plugin",
         str(value(plugin, "id"), ' ', value(plugin, "version"), ", sha256 ", digest(plugin), ", ",
             value(plugin, "path")));
  }
}

void print_checkpoints(const run::RunSummary& summary, const Streams& streams) {
  if (summary.checkpoints.empty()) line(streams, "checkpoints", "none");
  for (const run::CheckpointSummary& checkpoint : summary.checkpoints) {
    const std::string state =
        checkpoint.problem.empty()
            ? str(checkpoint.tokens, " tokens, ", format_duration(checkpoint.seconds), ", ",
                  human_bytes(checkpoint.bytes),
                  checkpoint.holds_whole_run ? "" : ", weights alone",
                  checkpoint.is_best ? ", best" : "")
            : "cannot be read: " + checkpoint.problem;
    line(streams, "checkpoint", str("step ", checkpoint.step, ": ", state));
  }
}

std::string number(const Json& json, const char* key, int digits) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? format_number(found->get<double>(), digits)
                                                   : "?";
}

void print_vocabulary(const run::VocabularySummary& vocabulary, const Streams& streams) {
  if (!vocabulary.text.empty()) line(streams, "vocabulary", vocabulary.text);
  if (!vocabulary.problem.empty()) {
    line(streams, "vocabulary", "cannot be used: " + vocabulary.problem);
  }
}

void print_metrics(const run::MetricsSummary& metrics, const Streams& streams) {
  if (!metrics.problem.empty()) {
    line(streams, "metrics", "cannot be read: " + metrics.problem);
    return;
  }
  line(streams, "metrics",
       str(metrics.lines, metrics.lines == 1 ? " line" : " lines",
           metrics.damaged_lines > 0 ? str(", ", metrics.damaged_lines, " damaged") : ""));
  if (!metrics.last_step.is_null()) {
    line(streams, "  training",
         str("step ", value(metrics.last_step, "step"), ": loss ",
             number(metrics.last_step, "loss", 4), ", lr ", value(metrics.last_step, "lr")));
  }
  for (const auto& [split, report] : metrics.last_eval) {
    const Json result = report.value("result", Json::object());
    line(streams, "  " + split,
         str("step ", value(report, "step"), ": loss ", number(result, "loss", 4), ", perplexity ",
             number(result, "perplexity", 3)));
  }
}

}  // namespace

void inspect_run(const std::filesystem::path& folder, const JsonArgument& json,
                 const Streams& streams) {
  const run::RunSummary summary =
      read_input([&] { return run::summarize(run::RunFolder::open(folder)); });
  if (!json.is_stdout()) {
    print_origin(summary, streams);
    print_checkpoints(summary, streams);
    print_vocabulary(summary.vocabulary, streams);
    print_metrics(summary.metrics, streams);
  }
  json.write(run::to_json(summary), streams);
  const std::vector<std::string> damaged = summary.damaged_parts();
  if (damaged.empty()) return;
  throw_run({.where = folder.string(),
             .failed = "the run is damaged",
             .got = join(damaged, ", ") + ", which cannot be read"});
}

}  // namespace mneme::cli
