// mneme data describe
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/shell_word.hpp"
#include "host/cli/data/data.hpp"
#include "host/cli/input.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepared.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// What is described: the data and, for an experiment, how it cuts them.
struct Described {
  config::DataConfig data;
  std::optional<config::Experiment> experiment;
};

// A file that is no experiment is a text, as a rule.
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

Described read(const DataDescribeArguments& arguments) {
  std::error_code ignored;
  Described out;
  if (fs::is_directory(arguments.path, ignored)) {
    if (!arguments.set.overrides().empty()) {
      throw_usage("data describe --set: used with an experiment file; leave it out");
    }
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
  if (const auto corpus = dataset.corpus(split)) {
    json["tokens_per_lane"] = corpus->size() / options.lanes;
    json["dropped_tokens"] = corpus->size() % options.lanes;
  }
  json["segments_per_epoch"] = stream->segments_per_epoch();
  json["targets_per_epoch"] = stream->targets_per_epoch();
  return json;
}

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
      for (const Json& item : value) {
        print(out, item, indent + "  ");
        if (&item != &value.back()) out << '\n';
      }
    } else {
      out << ' ' << (value.is_string() ? value.get<std::string>() : value.dump()) << '\n';
    }
  }
}

}  // namespace

int describe_data(const DataDescribeArguments& arguments, const Streams& streams) {
  arguments.json.check();
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

}  // namespace mneme::cli
