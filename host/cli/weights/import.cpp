// mneme import WEIGHTS EXP
#include "host/weights/import.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/input.hpp"

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

void add_import(CLI::App& app, Action& action) {
  CLI::App* const command = app.add_subcommand("import", "Make a run of official weights");
  const auto arguments = std::make_shared<ImportArguments>();
  command
      ->add_option("WEIGHTS", arguments->weights,
                   "The safetensors file, with the names of the official state dict "
                   "(scripts/pytorch_to_safetensors.py makes one of a PyTorch checkpoint)")
      ->required()
      ->type_name("");
  command->add_option("EXP", arguments->experiment, "The experiment file with the model's settings")
      ->required()
      ->type_name("");
  command->add_option("--run", arguments->run, "Folder to make for the run")
      ->required()
      ->type_name("DIR");
  command
      ->add_option(
          "--vocabulary", arguments->vocabulary,
          "The vocabulary.json that the weights were trained with; default: as [data] says")
      ->type_name("FILE");
  command
      ->add_option("--prefix", arguments->prefix,
                   "Read only the tensors whose names begin so, without it (\"module.\")")
      ->type_name("TEXT");
  command
      ->add_option("--names", arguments->names,
                   "The name map of the weights' program; default: beside the library of the "
                   "memory, else the official Transformer-XL's names")
      ->type_name("FILE");
  add_memory_files(*command, arguments->memory,
                   "Memory file to use in place of the experiment's [memory]");
  arguments->set.add(*command);
  arguments->json.add(*command);
  set_examples(*command,
               {"mneme import wt103.safetensors configs/wt103_base.toml --run runs/official",
                "mneme import model.safetensors my.toml --run runs/mine --prefix module."});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return run(*arguments, streams); };
  });
}

}  // namespace mneme::cli
