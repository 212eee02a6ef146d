// mneme inspect FILE|RUN
#include "host/cli/inspect.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "host/base/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/input.hpp"
#include "host/compare/table.hpp"

namespace mneme::cli {
namespace {

struct InspectArguments {
  std::filesystem::path file;
  JsonArgument json;
};

// What wrote the file, by its metadata; "" when they do not say.
std::string kind_of(const SafetensorsFile& file) {
  const auto value = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
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
  constexpr std::size_t kMost = 100;
  const std::string line = text.substr(0, std::min(text.find('\n'), kMost));
  return line.size() == text.size() ? line : line + " ...";
}

int inspect_file(const InspectArguments& arguments, const Streams& streams) {
  const SafetensorsFile file = read_input([&] { return SafetensorsFile::open(arguments.file); });
  std::uint64_t bytes = 0;
  std::int64_t elements = 0;
  compare::Table table({"tensor", "dtype", "shape", "bytes"});
  for (const std::string& name : file.names()) {
    const TensorView& tensor = file.at(name);
    bytes += tensor.bytes;
    elements += tensor.elements();
    table.add_row(
        {name, std::string(dtype_name(tensor.dtype)), list_text(tensor.shape), str(tensor.bytes)});
  }
  arguments.json.write(json_of(file, bytes), streams);
  if (arguments.json.is_stdout()) return 0;
  if (const std::string kind = kind_of(file); !kind.empty()) streams.out << kind << "\n\n";
  streams.out << table.text(streams.out_width);
  for (const auto& [key, value] : file.metadata()) {
    streams.out << "metadata " << key << ": " << first_line(value) << '\n';
  }
  streams.out << file.names().size() << " tensors, " << elements << " elements, "
              << human_bytes(bytes) << '\n';
  return 0;
}

int inspect(const InspectArguments& arguments, const Streams& streams) {
  arguments.json.check();
  std::error_code ignored;
  if (!std::filesystem::is_directory(arguments.file, ignored)) {
    return inspect_file(arguments, streams);
  }
  return read_input([&] { return inspect_run(arguments.file, arguments.json, streams); });
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  CLI::App* const command =
      app.add_subcommand("inspect", "Check a safetensors file or a run and list what it holds");
  const auto arguments = std::make_shared<InspectArguments>();
  command->add_option("FILE", arguments->file, "The safetensors file, or a run's folder")
      ->required()
      ->type_name("");
  arguments->json.add(*command);
  set_examples(*command,
               {"mneme inspect runs/first", "mneme inspect ids.safetensors --json listing.json"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return inspect(*arguments, streams); };
  });
}

}  // namespace mneme::cli
