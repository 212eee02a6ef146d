// mneme data: the options of its commands but for prepare; mneme data describe

#include "host/cli/data/data.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepared.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// --- mneme data describe ---

struct DataDescribeArguments {
  std::filesystem::path path;
  SetArgument set;
  std::int64_t lanes = 0;    // 0 = the experiment's; a prepared folder is then not cut
  std::int64_t segment = 0;  // likewise
  JsonArgument json;
};

// What is described: the data and, for an experiment, how it cuts them.
struct Described {
  config::DataConfig data;
  std::optional<config::Experiment> experiment;
};

// A file that is no experiment is usually a text.
config::Experiment read_experiment(const DataDescribeArguments& arguments) {
  try {
    return config::parse_experiment(arguments.path, arguments.set.overrides());
  } catch (const Error& error) {
    std::error_code ignored;
    const bool is_toml = arguments.path.extension() == ".toml";
    if (is_toml || !fs::is_regular_file(arguments.path, ignored)) throw;
    throw_usage({.where = "data describe " + arguments.path.string(),
                 .failed = "this is no prepared folder and no experiment file",
                 .expected = "a folder of mneme data prepare, or a TOML file",
                 .got = error.what(),
                 .hint = str("if it is a text: mneme data prepare --train ",
                             shell_word(arguments.path.string()),
                             " --out DIR, then mneme data describe DIR")});
  }
}

// Any folder may be given by mistake: one of texts is not damaged prepared data.
void check_is_prepared(const fs::path& folder) {
  std::error_code ignored;
  if (fs::exists(folder / "data.json", ignored)) return;
  std::string hint = str("if it holds texts: mneme data prepare --train ",
                         shell_word(folder.string()), " --out DIR, then mneme data describe DIR");
  if (const fs::path file = folder / "experiment.toml"; fs::exists(file, ignored)) {
    hint = str("if it is a run: mneme data describe ", shell_word(file.string()));
  }
  throw_usage({.where = "data describe " + folder.string(),
               .failed = "this is no prepared folder",
               .expected = "a folder that mneme data prepare wrote, or an experiment file",
               .got = "a folder without data.json",
               .hint = hint});
}

Described read(const DataDescribeArguments& arguments) {
  std::error_code ignored;
  Described out;
  if (fs::is_directory(arguments.path, ignored)) {
    if (!arguments.set.overrides().empty()) {
      throw_usage("data describe --set: used with an experiment file; leave it out");
    }
    check_is_prepared(arguments.path);
    out.data.prepared = arguments.path;
    return out;
  }
  out.experiment = read_experiment(arguments);
  out.data = out.experiment->data;
  return out;
}

// The options of a stream over the split; none when no cut was asked for.
std::optional<data::StreamOptions> options_of(const DataDescribeArguments& arguments,
                                              const Described& described, data::Split split) {
  data::StreamOptions options;
  options.epochs = 1;
  options.is_training = split == data::Split::kTrain;
  if (described.experiment) {
    const config::Experiment& experiment = *described.experiment;
    options.lanes = options.is_training ? experiment.train.lanes : experiment.eval.lanes;
    options.segment = options.is_training ? experiment.train.segment : experiment.eval.segment;
  } else if (arguments.lanes == 0 && arguments.segment == 0) {
    return std::nullopt;
  }
  if (arguments.lanes != 0) options.lanes = arguments.lanes;
  if (arguments.segment != 0) options.segment = arguments.segment;
  return options;
}

Json cut_json(const data::Dataset& dataset, data::Split split, const data::StreamOptions& options) {
  const auto stream = dataset.make_stream(split, options);
  Json json;
  json["lanes"] = options.lanes;
  json["segment"] = options.segment;
  if (const auto corpus = dataset.corpus(split); corpus && !dataset.has_dialogues()) {
    json["tokens_per_lane"] = corpus->size() / options.lanes;
    json["dropped_tokens"] = corpus->size() % options.lanes;
  }
  json["segments_per_epoch"] = stream->segments_per_epoch();
  json["targets_per_epoch"] = stream->targets_per_epoch();
  return json;
}

// Of a longer list of objects, such as a folder's files, this number is shown at each end.
constexpr std::size_t kShownAtEnds = 3;

// "key: value" lines; objects and lists of objects are indented below their key.
void print(std::ostream& out, const Json& json, const std::string& indent = "") {
  for (const auto& [key, value] : json.items()) {
    const bool is_list = value.is_array() && !value.empty() && value.front().is_object();
    out << indent << key << ':';
    if (value.is_object()) {
      out << '\n';
      print(out, value, indent + "  ");
    } else if (is_list) {
      out << '\n';
      const bool is_cut = value.size() > 2 * kShownAtEnds + 1;
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (is_cut && i == kShownAtEnds) {
          const std::size_t left_out = value.size() - 2 * kShownAtEnds;
          out << indent << "  .. " << left_out << " more, which --json FILE has\n\n";
          i += left_out;
        }
        print(out, value[i], indent + "  ");
        if (i + 1 < value.size()) out << '\n';
      }
    } else {
      out << ' ' << (value.is_string() ? value.get<std::string>() : json_text(value)) << '\n';
    }
  }
}

// Prints what a prepared folder or an experiment's data hold, and how lanes cut them. Reads all of
// it: a damaged file is an Error (kUsage).
int describe_data(const DataDescribeArguments& arguments, const Streams& streams) {
  arguments.json.check();
  check_is_there("data describe", arguments.path, "a prepared folder, or an experiment file");
  const Json json = read_input([&] {
    const Described described = read(arguments);
    const data::Dataset dataset(described.data);
    Json out;
    out["format"] = "mneme-data";
    out["path"] = arguments.path.string();
    out["data"] = dataset.describe();
    if (!described.data.prepared.empty()) {
      out["prepared"] = data::PreparedFolder::open(described.data.prepared).info();
    }
    for (const data::Split split : data::kSplits) {
      const auto options = options_of(arguments, described, split);
      if (!options || !dataset.has(split)) continue;
      out["cut"][std::string(data::to_word(split))] = cut_json(dataset, split, *options);
    }
    return out;
  });
  if (!arguments.json.is_stdout()) print(streams.out, json);
  arguments.json.write(json, streams);
  return 0;
}

void add_describe(const Command& data) {
  const Command command = data.subcommand(
      "describe", "Print what a prepared folder or an experiment's data hold, and check it");
  const auto arguments = std::make_shared<DataDescribeArguments>();
  command.option("PATH", arguments->path, "", "A prepared folder, or an experiment file",
                 {required});
  arguments->set.add(command);
  command.option("--lanes", arguments->lanes, "N", "Show the cut into N lanes",
                 {in(1, kMaxExtent)});
  command.option("--segment", arguments->segment, "N", "with segments of N tokens",
                 {in(1, kMaxExtent)});
  arguments->json.add(command);
  command.examples({"mneme data describe configs/quickstart.toml",
                    "mneme data describe data/wt103 --lanes 60 --segment 150"});
  command.runs(arguments, &describe_data);
}

void add_dialogues(const Command& data) {
  const Command command = data.subcommand(
      "dialogues", "Write dialogues about documents as JSON lines (docs/dialogue.md)");
  const auto arguments = std::make_shared<DataDialoguesArguments>();
  command.option("SOURCE", arguments->source, "",
                 "A file of dialogues as JSON lines, ours or CMU_DoG's, or a folder of CMU_DoG's "
                 "release: Conversations/train",
                 {required});
  command.option("--out", arguments->out, "FILE", "The file to write", {required});
  command.option("--except", arguments->except, "FILE...",
                 "Leave out dialogues whose ids these files or folders have");
  command.flag("--keep-turns", arguments->keeps_turns,
               "Do not join turns of one speaker that follow each other");
  command.flag("--leave-out-blank", arguments->leaves_out_blank_turns,
               "Leave out turns without text, which are errors otherwise");
  arguments->json.add(command);
  command.examples(
      {"mneme data dialogues cmu-dog/train.jsonl --leave-out-blank --out train.jsonl",
       "mneme data dialogues cmu-dog/test.jsonl --except cmu-dog/train.jsonl --out test.jsonl"});
  command.runs(arguments, &convert_dialogues);
}

void add_sets(const Command& data) {
  const Command command = data.subcommand(
      "sets", "List where the standard data sets are found, where to put them and their counts");
  const auto json = std::make_shared<JsonArgument>();
  json->add(command);
  command.examples({"mneme data sets", "mneme data sets --json sets.json"});
  command.runs(json, &list_data_sets);
}

}  // namespace

void add_data(const Command& app) {
  const Command data = app.subcommand("data", "Prepare and describe texts");
  data.require_subcommand();
  data.examples(
      {"mneme data prepare --vocabulary word --train my.txt --out data/mine", "mneme data sets"});
  add_data_prepare(data);
  add_describe(data);
  add_dialogues(data);
  add_sets(data);
}

void check_is_there(const std::string& argument, const std::filesystem::path& path,
                    const std::string& expected) {
  std::error_code ignored;
  const bool is_link = fs::is_symlink(fs::symlink_status(path, ignored));
  // Links to nothing and packed files beside the path have messages of their own.
  if (fs::exists(path, ignored) || is_link || find_packed_beside(path)) return;
  throw_usage({.where = str(argument, ": ", path.string()),
               .failed = "the data cannot be read",
               .expected = expected,
               .got = "no such file or folder",
               .hint = str("correct the path; a relative path starts at the current folder, ",
                           fs::current_path(ignored).string())});
}

}  // namespace mneme::cli
