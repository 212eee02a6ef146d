// mneme import WEIGHTS EXP, mneme import --from DIR|FILE.gguf [EXP]

#include <memory>

#include "host/base/file/write_file.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/unread_output.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/run/run_description.hpp"
#include "host/run/run_folder.hpp"
#include "host/weights/pretrained/export_folder.hpp"
#include "host/weights/pretrained/family/family.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "host/weights/weight_files.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct ImportArguments {
  fs::path weights;
  fs::path experiment;
  fs::path from;
  fs::path run;
  fs::path vocabulary;
  fs::path names;
  std::string prefix;
  std::vector<fs::path> memory;
  std::vector<std::string> ignored;
  bool is_locked = false;
  SetArgument set;
  JsonArgument json;
};

std::optional<fs::path> memory_file(const ImportArguments& arguments) {
  if (arguments.memory.size() > 1) {
    throw_usage("import --memory: expected one file, got ", arguments.memory.size());
  }
  if (arguments.memory.empty()) return std::nullopt;
  return arguments.memory.front();
}

// With --from the only word without an option is the experiment.
void check_words(const ImportArguments& arguments) {
  const bool is_folder = !arguments.from.empty();
  if (is_folder && !arguments.experiment.empty()) {
    throw_usage("import --from: expected at most one experiment, got ", arguments.weights.string(),
                " and ", arguments.experiment.string());
  }
  if (is_folder || !arguments.experiment.empty()) return;
  throw_usage(arguments.weights.empty() ? "import: WEIGHTS is required" : "import: EXP is required",
              ": mneme import WEIGHTS EXP --run DIR, or mneme import --from DIR [EXP] --run DIR");
}

int run_folder(const ImportArguments& arguments, const Streams& streams) {
  const weights::FolderImportReport report = read_input([&] {
    weights::FolderImportOptions options{.run = arguments.run,
                                         .experiment = arguments.weights,
                                         .overrides = arguments.set.overrides(),
                                         .memory = memory_file(arguments),
                                         .is_locked = arguments.is_locked,
                                         .ignored = arguments.ignored};
    if (!arguments.vocabulary.empty()) {
      options.vocabulary = data::Vocabulary::load(arguments.vocabulary);
    }
    return weights::import_folder(arguments.from, options);
  });
  std::ostream& out = arguments.json.text(streams);
  out << "imported " << report.backbone_parameters << " parameters of the family " << report.family
      << ": " << arguments.run.string() << '\n';
  if (!report.stored_types.empty()) {
    out << "the file holds " << report.stored_types << "; the run has f32\n";
  }
  if (report.marks > 0) {
    out << report.marks << " marks of dialogues have new rows in the embedding\n";
  }
  arguments.json.write({{"format", "mneme-import"},
                        {"run", arguments.run.string()},
                        {"weights", arguments.from.string()},
                        {"names", report.family},
                        {"backbone_parameters", report.backbone_parameters},
                        {"memory_parameters", report.memory_parameters},
                        {"rounded", report.is_rounded},
                        {"stored_types", report.stored_types},
                        {"marks", report.marks},
                        {"ignored", arguments.ignored},
                        {"initial", report.fresh}},
                       streams);
  return 0;
}

int run(const ImportArguments& arguments, const Streams& streams) {
  arguments.json.check();
  check_words(arguments);
  check_new_folder("--run", arguments.run);
  go_on_unread();
  if (!arguments.from.empty()) return run_folder(arguments, streams);
  const weights::ImportReport report = read_input([&] {
    weights::ImportOptions options{
        .folder = arguments.run, .prefix = arguments.prefix, .names = arguments.names};
    if (!arguments.vocabulary.empty()) {
      options.vocabulary = data::Vocabulary::load(arguments.vocabulary);
    }
    return weights::import_official(
        arguments.weights,
        plugin::read_experiment(arguments.experiment, arguments.set.overrides(),
                                memory_file(arguments), arguments.is_locked),
        options);
  });
  arguments.json.text(streams) << "imported " << report.backbone_parameters
                               << " parameters: " << arguments.run.string() << '\n';
  arguments.json.write({{"format", "mneme-import"},
                        {"run", arguments.run.string()},
                        {"weights", arguments.weights.string()},
                        {"names", report.weights.names ? report.weights.names->format
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
  const Command command = app.subcommand(
      "import", "Make a run of official weights, of a model folder or of a GGUF file");
  const auto arguments = std::make_shared<ImportArguments>();
  command.option("WEIGHTS", arguments->weights, "",
                 "The safetensors file, with the names of the official state dict "
                 "(scripts/pytorch_to_safetensors.py makes one of a PyTorch checkpoint); left out "
                 "with --from");
  command.option("EXP", arguments->experiment, "",
                 "The experiment file with the model's settings; with --from, which has them, it "
                 "gives the rest and may be left out");
  command.option("--from", arguments->from, "DIR",
                 "A Hugging Face model folder (config.json and safetensors files), or a GGUF file, "
                 "in place of "
                 "WEIGHTS");
  command.option("--run", arguments->run, "DIR", "Folder to make for the run", {required});
  command.option("--vocabulary", arguments->vocabulary, "FILE",
                 "The vocabulary.json that the weights were trained with; default: as [data] says");
  command.option("--prefix", arguments->prefix, "TEXT",
                 "Read only the tensors whose names begin so, without it (\"module.\")");
  command.option("--names", arguments->names, "FILE",
                 "The name map of the weights' program; default: beside the library of the memory, "
                 "else the official Transformer-XL's names");
  command.option("--ignore", arguments->ignored, "KEY",
                 "A key of config.json (also rope_scaling.factor), a tensor (with * for any "
                 "characters) or an adapter's file that is passed over; may be given several times",
                 {one_each});
  add_memory_files(command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(command);
  add_locked(command, arguments->is_locked);
  arguments->json.add(command);
  command.examples({"mneme import wt103.safetensors configs/wt103_base.toml --run runs/official",
                    "mneme import model.safetensors my.toml --run runs/mine --prefix module.",
                    "mneme import --from models/smollm my.toml --run runs/smollm",
                    "mneme import --from SmolLM2-135M-Instruct.Q4_1.gguf --run runs/smollm2"});
  command.runs(arguments, &run, nullptr, {R"(
--from refuses --prefix, --names: reads names as the folder's family has them
--ignore needs --from
)"});
}

// --- mneme export RUN OUT ---

namespace {

struct ExportArguments {
  fs::path run;
  fs::path out;
  fs::path to;
  std::string family;
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
    used.back().sha256 = plugin::sha256_of_plugin(plugin.path);
  }
  return run::plugin_differences(trained, used);
}

const fs::path& target_of(const ExportArguments& arguments) {
  return arguments.to.empty() ? arguments.out : arguments.to;
}

run::Checkpoint open_source(const ExportArguments& arguments) {
  std::error_code ignored;
  if (!fs::is_directory(arguments.run, ignored)) {
    if (arguments.checkpoint != "last") {
      throw_usage("export --checkpoint ", arguments.checkpoint, ": ", arguments.run.string(),
                  " is no run's folder: expected a run, or a checkpoint without --checkpoint");
    }
    return run::Checkpoint::open(arguments.run, run::CheckpointUse::kEvaluation);
  }
  const run::RunFolder folder = run::RunFolder::open(arguments.run);
  static_cast<void>(folder.vocabulary());  // throws when the vocabulary was changed
  return folder.open_checkpoint(
      arguments.checkpoint,
      str("mneme export ", shell_word(arguments.run.string()), ' ',
          arguments.to.empty() ? "" : "--to ", shell_word(target_of(arguments).string())),
      run::CheckpointUse::kEvaluation);
}

void check_target(const ExportArguments& arguments) {
  if (arguments.out.empty() == arguments.to.empty()) {
    throw_usage("export: expected either OUT, the file to write, or --to DIR, the folder; got ",
                arguments.out.empty() ? "neither" : "both");
  }
}

int run_folder(const ExportArguments& arguments, const run::Checkpoint& checkpoint,
               const Streams& streams) {
  const weights::FolderExportReport report =
      weights::export_folder(checkpoint, arguments.to, arguments.family);
  std::ostream& out = arguments.json.text(streams);
  out << "exported step " << checkpoint.progress().step << ": " << report.tensors << " tensors, "
      << human_bytes(report.bytes) << ", "
      << (report.is_as_imported ? "in the form of the imported folder" : "family " + report.family)
      << ": " << arguments.to.string() << '\n';
  if (!report.memory.empty()) {
    out << "the memory's " << report.memory.size()
        << " parameters are in memory.safetensors, which other programs do not read\n";
  }
  arguments.json.write({{"format", "mneme-export"},
                        {"folder", arguments.to.string()},
                        {"checkpoint", checkpoint.path().string()},
                        {"names", report.family},
                        {"step", checkpoint.progress().step},
                        {"files", report.files},
                        {"tensors", report.tensors},
                        {"bytes", report.bytes},
                        {"as_imported", report.is_as_imported},
                        {"memory", report.memory}},
                       streams);
  return 0;
}

int run(const ExportArguments& arguments, const Streams& streams) {
  arguments.json.check();
  check_target(arguments);
  if (arguments.to.empty()) {
    check_output_file("export", arguments.out);
  } else {
    check_new_folder("--to", arguments.to);
  }
  const run::Checkpoint checkpoint = read_input([&] { return open_source(arguments); });
  if (!arguments.to.empty()) return run_folder(arguments, checkpoint, streams);
  make_parents(arguments.out);
  const weights::ExportReport report = weights::export_official(
      checkpoint, arguments.out, {.format = arguments.format, .names = arguments.names});
  const std::vector<run::RunDifference> differences = differences_of(checkpoint);
  run::log_differences(arguments.run.string(), differences);
  if (!report.left_out.empty()) {
    log_warning(arguments.out.string(), ": the format has no place for the memory's parameters: ",
                join(report.left_out, ", "));
  }
  arguments.json.text(streams) << "exported step " << checkpoint.progress().step << ": "
                               << report.tensors << " tensors, " << human_bytes(report.bytes)
                               << ": " << arguments.out.string() << '\n';
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
  command.option("RUN", arguments->run, "", "The run's folder, or a checkpoint", {required});
  command.option("OUT", arguments->out, "", "The safetensors file to write; left out with --to");
  command.option("--to", arguments->to, "DIR",
                 "The Hugging Face model folder to make in place of OUT: in the form of the folder "
                 "that the run was imported from, or of --family");
  command.option(
      "--family", arguments->family, "NAME",
      "The family to write for (" + weights::family_list() + "); default: the imported folder's",
      {not_empty("a family")});
  command.option("--format", arguments->format, "FORMAT",
                 "transformer_xl (the state dict of the official PyTorch code), or the format of "
                 "the memory's name map; default: the name map's when there is one",
                 {not_empty("a format")});
  command.option("--names", arguments->names, "FILE",
                 "The name map to write by; default: beside the library of the memory");
  command.option("--checkpoint", arguments->checkpoint, "WHICH",
                 "Which of the run's checkpoints: last, best or its number of steps", {shown});
  arguments->json.add(command);
  command.examples({"mneme export runs/first --format transformer_xl first.safetensors",
                    "mneme export runs/first best.safetensors --checkpoint best",
                    "mneme export runs/smollm --to models/tuned"});
  command.runs(arguments, &run, nullptr, {R"(
--to refuses --format, --names: writes names as the family has them
--family needs --to
)"});
}

}  // namespace mneme::cli
