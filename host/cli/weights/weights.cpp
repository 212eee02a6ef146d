// mneme import WEIGHTS EXP

#include <memory>

#include "host/base/file/checksum.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/run/run_description.hpp"
#include "host/run/run_folder.hpp"
#include "host/weights/weight_files.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  fs::path weights;
  fs::path experiment;
  fs::path run;
  fs::path vocabulary;
  fs::path names;
  std::string prefix;
  std::vector<fs::path> memory;
  SetArgument set;
  JsonArgument json;
};

config::Experiment read_experiment(const ImportArguments& arguments) {
  if (arguments.memory.size() > 1) {
    throw_usage("import --memory: expected one file, got ", arguments.memory.size());
  }
  std::optional<fs::path> memory;
  if (!arguments.memory.empty()) memory = arguments.memory.front();
  return config::parse_experiment(arguments.experiment, arguments.set.overrides(), memory);
}

int run(const ImportArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const weights::ImportReport report = read_input([&] {
    weights::ImportOptions options{
        .folder = arguments.run, .prefix = arguments.prefix, .names = arguments.names};
    if (!arguments.vocabulary.empty()) {
      options.vocabulary = data::Vocabulary::load(arguments.vocabulary);
    }
    return weights::import_official(arguments.weights, read_experiment(arguments), options);
  });
  if (!arguments.json.is_stdout()) {
    streams.out << "imported " << report.backbone_parameters
                << " parameters: " << arguments.run.string() << '\n';
  }
  arguments.json.write({{"format", "mneme-import"},
                        {"run", arguments.run.string()},
                        {"weights", arguments.weights.string()},
                        {"names", report.weights.names ? report.weights.names->format()
                                                       : std::string("transformer_xl")},
                        {"backbone_parameters", report.backbone_parameters},
                        {"memory_parameters", report.memory_parameters},
                        {"rounded", report.weights.is_rounded},
                        {"initial", report.weights.fresh}},
                       streams);
  return 0;
}

}  // namespace

void add_import(const Command& app) {
  const Command command = app.subcommand("import", "Make a run of official weights");
  const auto arguments = std::make_shared<ImportArguments>();
  command
      .option("WEIGHTS", arguments->weights, "",
              "The safetensors file, with the names of the official state dict "
              "(scripts/pytorch_to_safetensors.py makes one of a PyTorch checkpoint)")
      .required();
  command.option("EXP", arguments->experiment, "", "The experiment file with the model's settings")
      .required();
  command.option("--run", arguments->run, "DIR", "Folder to make for the run").required();
  command.option("--vocabulary", arguments->vocabulary, "FILE",
                 "The vocabulary.json that the weights were trained with; default: as [data] says");
  command.option("--prefix", arguments->prefix, "TEXT",
                 "Read only the tensors whose names begin so, without it (\"module.\")");
  command.option("--names", arguments->names, "FILE",
                 "The name map of the weights' program; default: beside the library of the "
                 "memory, else the official Transformer-XL's names");
  add_memory_files(command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(command);
  arguments->json.add(command);
  command.examples({"mneme import wt103.safetensors configs/wt103_base.toml --run runs/official",
                    "mneme import model.safetensors my.toml --run runs/mine --prefix module."});
  command.runs(arguments, &run);
}

// --- mneme export RUN OUT ---

namespace {

struct ExportArguments {
  fs::path run;
  fs::path out;
  std::string format;
  fs::path names;
  std::string checkpoint = "last";
  JsonArgument json;
};

// The plugins that the checkpoint names as their files are now: the name map beside a library is
// read with it. Those whose files are gone are left out.
std::vector<run::RunDifference> differences_of(const run::Checkpoint& checkpoint) {
  std::vector<memory::TierIdentity> trained, used;
  std::error_code ignored;
  for (const memory::TierIdentity& plugin : checkpoint.plugins()) {
    if (!fs::is_regular_file(plugin.path, ignored)) continue;
    trained.push_back(plugin);
    used.push_back(plugin);
    used.back().sha256 = sha256_file(plugin.path);
  }
  return run::plugin_differences(trained, used);
}

run::Checkpoint open_source(const ExportArguments& arguments) {
  std::error_code ignored;
  if (!fs::is_directory(arguments.run, ignored)) {
    if (arguments.checkpoint != "last") {
      throw_usage("export --checkpoint ", arguments.checkpoint, ": ", arguments.run.string(),
                  " is no run's folder: expected a run, or a checkpoint without --checkpoint");
    }
    return run::Checkpoint::open(arguments.run);
  }
  const run::RunFolder folder = run::RunFolder::open(arguments.run);
  static_cast<void>(folder.vocabulary());  // throws when the vocabulary was changed
  return folder.open_checkpoint(arguments.checkpoint,
                                str("mneme export ", shell_word(arguments.run.string()), ' ',
                                    shell_word(arguments.out.string())));
}

int run(const ExportArguments& arguments, const Streams& streams) {
  arguments.json.check();
  check_output_file("export", arguments.out);
  const run::Checkpoint checkpoint = read_input([&] { return open_source(arguments); });
  const weights::ExportReport report = weights::export_official(
      checkpoint, arguments.out, {.format = arguments.format, .names = arguments.names});
  const std::vector<run::RunDifference> differences = differences_of(checkpoint);
  run::log_differences(arguments.run.string(), differences);
  if (!report.left_out.empty()) {
    log_warning(arguments.out.string(), ": the format has no place for the memory's parameters: ",
                join(report.left_out, ", "));
  }
  if (!arguments.json.is_stdout()) {
    streams.out << "exported step " << checkpoint.progress().step << ": " << report.tensors
                << " tensors, " << human_bytes(report.bytes) << ": " << arguments.out.string()
                << '\n';
  }
  arguments.json.write({{"format", "mneme-export"},
                        {"file", arguments.out.string()},
                        {"checkpoint", checkpoint.path().string()},
                        {"names", report.format},
                        {"step", checkpoint.progress().step},
                        {"tensors", report.tensors},
                        {"bytes", report.bytes},
                        {"left_out", report.left_out},
                        {"differs_from_run", run::to_json(differences)}},
                       streams);
  return 0;
}

}  // namespace

void add_export(const Command& app) {
  const Command command =
      app.subcommand("export", "Write a run's weights in another program's format");
  const auto arguments = std::make_shared<ExportArguments>();
  command.option("RUN", arguments->run, "", "The run's folder, or a checkpoint").required();
  command.option("OUT", arguments->out, "", "The safetensors file to write").required();
  command.option("--format", arguments->format, "FORMAT",
                 "transformer_xl (the state dict of the official PyTorch code), or the format of "
                 "the memory's name map; default: the name map's when there is one");
  command.option("--names", arguments->names, "FILE",
                 "The name map to write by; default: beside the library of the memory");
  command
      .option("--checkpoint", arguments->checkpoint, "WHICH",
              "Which of the run's checkpoints: last, best or its number of steps")
      .shown();
  arguments->json.add(command);
  command.examples({"mneme export runs/first --format transformer_xl first.safetensors",
                    "mneme export runs/first best.safetensors --checkpoint best"});
  command.runs(arguments, &run);
}

}  // namespace mneme::cli
