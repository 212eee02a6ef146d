// mneme inspect FILE|RUN
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/run/record/run_summary.hpp"
#include "host/weights/pretrained/folder_record.hpp"

namespace mneme::cli {
namespace {

struct InspectArguments {
  std::filesystem::path file;
  JsonArgument json;
};

// The program that wrote the file, from its metadata; "" when not known.
std::string kind_of(const SafetensorsFile& file) {
  const auto value = [&](const char* key) { return file.metadata_or(key, ""); };
  const std::string format = value("format");
  if (format == "mneme.checkpoint") {
    const bool is_weights = value("contents") == "weights";
    return str("checkpoint of mneme: step ", value("step"), ", ",
               is_weights ? "weights alone" : str(value("tokens"), " tokens"), ", precision ",
               value("precision"));
  }
  if (format == "transformer_xl") return "weights of the official Transformer-XL";
  return format.empty() ? "" : "format " + format;
}

// Checks the checksums of a file. Files that mneme writes have them; others cannot be checked.
run::ChecksumReport checksums_of(const SafetensorsFile& file) {
  run::ChecksumReport report = run::compare_checksums(file);
  const std::string format = file.metadata_or("format", "");
  const bool is_ours = format == "mneme.checkpoint" || format == "mneme-conversation";
  if (!report.is_carried && is_ours) {
    report.damage.push_back({.part = "metadata", .expected = "of every tensor", .got = "none"});
  }
  return report;
}

std::string text_of(const run::ChecksumReport& report) {
  if (!report.damage.empty()) {
    std::string text = "damaged after it was written:\n";
    for (const auto& [part, expected, got] : report.damage) {
      text += str("  ", printable(part), ": expected checksum ", expected, ", got ", got, '\n');
    }
    return text;
  }
  return report.is_carried
             ? "checksums of all tensors and of the metadata agree\n"
             : "the file carries no checksums: whether it is damaged cannot be told\n";
}

Json json_of(const run::ChecksumReport& report) {
  Json damaged = Json::array();
  for (const auto& [part, expected, got] : report.damage) {
    damaged.push_back({{"part", part}, {"expected", expected}, {"got", got}});
  }
  return {{"carried", report.is_carried}, {"damaged", std::move(damaged)}};
}

void check_undamaged(const std::string& path, const run::ChecksumReport& report) {
  if (report.damage.empty()) return;
  throw_run({.where = path,
             .failed = "the file was damaged after it was written",
             .got = str(report.damage.front().part,
                        report.damage.size() == 1 ? std::string()
                                                  : str(" and ", report.damage.size() - 1, " more"),
                        ", not as the checksums say"),
             .hint = "take a copy of it, or another checkpoint of the run"});
}

Json json_of(const SafetensorsFile& file, std::uint64_t bytes) {
  Json tensors = Json::array();
  for (const std::string& name : file.names()) {
    const TensorView& tensor = file.at(name);
    tensors.push_back({{"name", name},
                       {"dtype", std::string(dtype_name(tensor.dtype))},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  }
  return {{"file", file.path().string()},
          {"kind", kind_of(file)},
          {"metadata", file.metadata()},
          {"tensors", std::move(tensors)},
          {"bytes", bytes}};
}

// One line of a metadata value, which may hold a whole experiment file.
std::string first_line(const std::string& text) {
  constexpr std::size_t kMax = 100;
  std::size_t end = std::min({text.find('\n'), kMax, text.size()});
  while (end > 0 && end < text.size() && is_continuation(text[end])) --end;
  const std::string line = text.substr(0, end);
  return line.size() == text.size() ? line : line + " ...";
}

void inspect_file(const InspectArguments& arguments, const Streams& streams) {
  const SafetensorsFile file = read_input([&] { return SafetensorsFile::open(arguments.file); });
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  Table table({"tensor", "dtype", "shape", "bytes"});
  for (const std::string& name : file.names()) {
    const TensorView& tensor = file.at(name);
    bytes += tensor.bytes;
    elements += tensor.elements();
    table.add_row({printable(name), std::string(dtype_name(tensor.dtype)), list_text(tensor.shape),
                   str(tensor.bytes)});
  }
  const run::ChecksumReport checksums = checksums_of(file);
  std::ostream& out = arguments.json.text(streams);
  const auto fitted = [&](const std::string& text) { return fit_lines(text, streams.out_width); };
  if (const std::string kind = kind_of(file); !kind.empty()) out << fitted(printable(kind)) << '\n';
  out << table.text(streams.out_width);
  for (const auto& [key, value] : file.metadata()) {
    out << fitted(printable(str("metadata ", key, ": ", first_line(value))));
  }
  out << file.names().size() << " tensors, " << elements << " elements, " << human_bytes(bytes)
      << '\n'
      << fitted(text_of(checksums));
  Json json = json_of(file, bytes);
  json["checksums"] = json_of(checksums);
  arguments.json.write(json, streams);
  check_undamaged(arguments.file.string(), checksums);
}

// --- mneme inspect RUN ---

constexpr std::size_t kColumn = 14;
constexpr std::size_t kShownDigits = 12;  // of a SHA-256

void line(const Streams& streams, const std::string& title, const std::string& text) {
  const std::size_t gap = title.size() < kColumn ? kColumn - title.size() : 1;
  streams.out << fit_lines(title + std::string(gap, ' ') + printable_lines(text),
                           streams.out_width);
}

// A value of run.json as text; "?" for one that an older or a damaged file lacks.
std::string value(const Json& json, const char* key) {
  const Json found = json.is_object() ? json.value(key, Json()) : Json();
  if (found.is_null()) return "?";
  return found.is_string() ? found.get<std::string>() : found.dump();
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
  if (const auto record = weights::FolderRecord::find(summary.path)) {
    if (!record->stored_types.empty()) {
      line(streams, "weights were", str(record->stored_types_text(), ", and are f32"));
    }
    if (!record->ignored.empty()) {
      line(streams, "passed over", str(join(record->ignored, ", "), ", as import --ignore says"));
    }
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

void print_evaluations(const run::RunSummary& summary, const Streams& streams) {
  for (const run::EvaluationSummary& one : summary.evaluations) {
    const char* const plural = one.samples == 1 ? "" : "s";
    line(streams, "evaluation",
         one.problem.empty() ? str(one.name, ": loss ", format_number(one.loss, 4), ", ",
                                   one.targets, " targets, ", one.samples, ' ', one.unit, plural)
                             : "cannot be read: " + one.problem);
  }
  for (const run::ReportFileSummary& one : summary.report_files) {
    line(streams, one.kind == "diagnostics" ? one.kind : "samples",
         one.problem.empty() ? str(one.name, ": ", one.text) : "cannot be read: " + one.problem);
  }
}

// Prints a run's settings, origin, data, plugins, checkpoints, vocabulary and metrics, all that can
// be read of them. Error (kUsage) for a folder that holds no run; Error (kRun) at the end, naming
// the parts, when some are damaged.
void inspect_run(const std::filesystem::path& folder, const JsonArgument& json,
                 const Streams& streams) {
  const run::RunSummary summary =
      read_input([&] { return run::summarize(run::RunFolder::open(folder)); });
  if (!json.is_stdout()) {
    print_origin(summary, streams);
    print_checkpoints(summary, streams);
    print_vocabulary(summary.vocabulary, streams);
    print_metrics(summary.metrics, streams);
    print_evaluations(summary, streams);
  }
  json.write(run::to_json(summary), streams);
  const std::vector<std::string> damaged = summary.damaged_parts();
  if (damaged.empty()) return;
  throw_run({.where = folder.string(),
             .failed = "the run is damaged",
             .got = join(damaged, ", ") + ", which cannot be read"});
}

int inspect(const InspectArguments& arguments, const Streams& streams) {
  arguments.json.check();
  std::error_code ignored;
  if (!std::filesystem::is_directory(arguments.file, ignored)) {
    inspect_file(arguments, streams);
  } else {
    inspect_run(arguments.file, arguments.json, streams);
  }
  return 0;
}

}  // namespace

void add_inspect(const Command& app) {
  const Command command =
      app.subcommand("inspect", "Check a safetensors file or a run and list what it holds");
  const auto arguments = std::make_shared<InspectArguments>();
  command.option("FILE", arguments->file, "", "The safetensors file, or a run's folder",
                 {required});
  arguments->json.add(command);
  command.examples(
      {"mneme inspect runs/first", "mneme inspect ids.safetensors --json listing.json"});
  command.runs(arguments, &inspect);
}

}  // namespace mneme::cli
