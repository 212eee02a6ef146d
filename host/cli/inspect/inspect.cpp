// mneme inspect FILE|RUN
#include "host/cli/inspect/inspect.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/command.hpp"
#include "host/cli/input.hpp"
#include "host/base/table.hpp"
#include "host/run/checkpoint/checkpoint_checksum.hpp"

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

// The checksums of a file: those that mneme writes carry them, of others nothing can be told.
run::ChecksumReport checksums_of(const SafetensorsFile& file) {
  run::ChecksumReport report = run::compare_checksums(file);
  const auto format = file.metadata().find("format");
  const bool is_ours = format != file.metadata().end() && (format->second == "mneme.checkpoint" ||
                                                           format->second == "mneme-conversation");
  if (!report.is_carried && is_ours) {
    report.damage.push_back({.part = "metadata", .expected = "of every tensor", .got = "none"});
  }
  return report;
}

std::string text_of(const run::ChecksumReport& report) {
  if (!report.damage.empty()) {
    std::string text = "damaged after it was written:\n";
    for (const auto& [part, expected, got] : report.damage) {
      text += str("  ", part, ": expected checksum ", expected, ", got ", got, '\n');
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
  constexpr std::size_t kMost = 100;
  const std::string line = text.substr(0, std::min(text.find('\n'), kMost));
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
    table.add_row(
        {name, std::string(dtype_name(tensor.dtype)), list_text(tensor.shape), str(tensor.bytes)});
  }
  const run::ChecksumReport checksums = checksums_of(file);
  if (!arguments.json.is_stdout()) {
    if (const std::string kind = kind_of(file); !kind.empty()) streams.out << kind << "\n\n";
    streams.out << table.text(streams.out_width);
    for (const auto& [key, value] : file.metadata()) {
      streams.out << "metadata " << key << ": " << first_line(value) << '\n';
    }
    streams.out << file.names().size() << " tensors, " << elements << " elements, "
                << human_bytes(bytes) << '\n'
                << text_of(checksums);
  }
  Json json = json_of(file, bytes);
  json["checksums"] = json_of(checksums);
  arguments.json.write(json, streams);
  check_undamaged(arguments.file.string(), checksums);
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
