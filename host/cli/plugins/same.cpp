// mneme plugins same: two plugins that are to compute the same.
#include "host/validate/same.hpp"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "host/tensor/device.hpp"
#include "host/validate/laws.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using validate::Sameness;
using validate::short_text;
using validate::Subject;

struct SameArguments {
  std::string first, second;
  std::vector<fs::path> folders;
  std::vector<std::string> options;
  std::optional<double> tolerance;
  std::uint64_t seed = 1;
  JsonArgument json;
};

constexpr double kTolerance = 1e-10;

std::string text_of(const validate::FirstDifference& found) {
  const std::string problem = found.problem.empty() ? str("off by ", short_text(found.absolute),
                                                          ", relative ", short_text(found.relative))
                                                    : found.problem;
  return str("differ first in ", found.what, ", ", found.phase, " segment ", found.segment, ": ",
             problem, '\n');
}

void print(const Sameness& found, double tolerance, const Streams& streams) {
  if (!found.declarations.empty()) {
    streams.out << "different declarations: no numbers were compared\n";
    for (const std::string& line : found.declarations)
      streams.out << fit_lines("    " + line + '\n', streams.out_width);
    return;
  }
  Table table({"", "numbers", "largest difference", "relative"});
  for (const validate::SameKind& kind : found.kinds) {
    table.add_row(
        {kind.kind, str(kind.numbers), short_text(kind.absolute), short_text(kind.relative)});
  }
  streams.out << table.text(streams.out_width);
  const std::string verdict = found.first.empty()
                                  ? str("the same, within ", short_text(tolerance), " in f64\n")
                                  : text_of(found.first.front());
  streams.out << fit_lines(verdict, streams.out_width);
}

Json json_of(const Sameness& found) {
  Json kinds = Json::array();
  for (const validate::SameKind& kind : found.kinds) {
    kinds.push_back({{"kind", kind.kind},
                     {"numbers", kind.numbers},
                     {"absolute", kind.absolute},
                     {"relative", kind.relative}});
  }
  Json first = nullptr;
  for (const validate::FirstDifference& one : found.first) {
    first = {{"what", one.what},       {"phase", one.phase},       {"segment", one.segment},
             {"problem", one.problem}, {"absolute", one.absolute}, {"relative", one.relative}};
  }
  return {{"same", found.is_same()},
          {"declarations", found.declarations},
          {"kinds", std::move(kinds)},
          {"first_difference", std::move(first)}};
}

int compare_two(const SameArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const double tolerance = arguments.tolerance.value_or(kTolerance);
  if (!std::isfinite(tolerance) || tolerance < 0.0) {
    throw_usage({.where = str("--tolerance ", tolerance),
                 .failed = "is no tolerance",
                 .expected = "a finite number of at least 0"});
  }
  std::vector<Subject> subjects;
  for (const std::string& name : {arguments.first, arguments.second}) {
    subjects.push_back({.file = plugin_file(name, arguments.folders, "plugins same"),
                        .options = tier_options(arguments.options),
                        .seed = arguments.seed});
  }
  Sameness found;
  {
    const LogListener silence([](LogLevel, std::string_view) { return false; });
    tensor::set_threads(1);  // the models are small
    found = validate::compare_plugins(subjects[0], subjects[1], tolerance);
  }
  Json json = {{"format", "mneme-sameness"}, {"plugins", Json::array()}};
  std::ostream& out = arguments.json.text(streams);
  for (const Subject& subject : subjects) {
    const std::string sha256 = plugin::sha256_of_plugin(subject.file);
    json["plugins"].push_back({{"file", subject.file.string()}, {"sha256", sha256}});
    out << subject.file.string() << "\n    sha256 " << sha256 << '\n';
  }
  if (!arguments.json.is_stdout()) print(found, tolerance, streams);
  json["options"] = tier_options(arguments.options);
  json["seed"] = arguments.seed;
  json["tolerance"] = tolerance;
  json.update(json_of(found));
  arguments.json.write(json, streams);
  return found.is_same() ? 0 : 1;
}

}  // namespace

void add_plugins_same(const Command& plugins) {
  const Command command = plugins.subcommand(
      "same",
      "Compare two plugins in a small model: losses, states and gradients in f64 from the same "
      "weights, as of a prototype in Python and its C++ form. Exit status 1 where they differ");
  const auto arguments = std::make_shared<SameArguments>();
  command.option("A", arguments->first, "", "File name, id, or path of a plugin",
                 {required, not_empty("a plugin")});
  command.option("B", arguments->second, "", "The other one", {required, not_empty("a plugin")});
  add_plugin_folders(command, arguments->folders);
  command.option("--set", arguments->options, "OPTION=VALUE",
                 "Value of an option of both plugins; repeatable", {one_each});
  command.option("--tolerance", arguments->tolerance, "X",
                 "Largest difference of equal numbers, as a share of a tensor's largest number "
                 "where that is above 1; default 1e-10");
  command.option("--seed", arguments->seed, "N", "Of texts and weights", {shown});
  arguments->json.add(command);
  command.examples({"mneme plugins same my_memory.py ./build/my_memory.so",
                    "mneme plugins same ./old/my_memory.so ./new/my_memory.so --set rows=8"});
  command.runs(arguments, &compare_two);
}

}  // namespace mneme::cli
