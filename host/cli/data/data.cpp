// mneme data prepare | describe | sets

#include "host/cli/data/data.hpp"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepared.hpp"

namespace mneme::cli {
namespace {

void add_prepare(CLI::App& data, Action& action) {
  CLI::App* const command =
      data.add_subcommand("prepare", "Encode text files of any size into a folder, once");
  const auto arguments = std::make_shared<DataPrepareArguments>();
  const auto add_files = [&](const char* name, std::vector<std::filesystem::path>& files,
                             const char* help) {
    return command->add_option(name, files, help)->type_name("FILE...");
  };
  add_files("--train", arguments->train,
            "Training text: files, or folders of files; each file begins a document")
      ->required();
  add_files("--valid", arguments->valid, "Validation text");
  add_files("--test", arguments->test, "Test text");
  command->add_option("--out", arguments->out, "The folder to make")->required()->type_name("DIR");
  command
      ->add_option("--split", arguments->split,
                   "Shares of the one training file: train,valid,test, as 0.9,0.05,0.05")
      ->type_name("SHARES")
      ->delimiter(',')
      ->expected(3);
  command
      ->add_option("--preparation", arguments->preparation,
                   "Prepare as published: wikitext-103, enwik8 or text8 (docs/data.md)")
      ->type_name("NAME")
      ->check(CLI::IsMember({"wikitext-103", "enwik8", "text8"}));
  command->add_option("--vocabulary", arguments->vocabulary, "byte (default), char or word")
      ->type_name("KIND")
      ->check(CLI::IsMember({"byte", "char", "word"}));
  command
      ->add_option("--vocabulary-file", arguments->vocabulary_file,
                   "A saved vocabulary.json in place of one built from --train")
      ->type_name("FILE");
  command
      ->add_option("--min-count", arguments->min_count, "Words seen less often become <unk> (word)")
      ->type_name("N")
      ->check(between(1, kMaxCount));
  command
      ->add_option("--vocabulary-size", arguments->vocabulary_size,
                   "Keep at most so many words (word); 0 = all")
      ->type_name("N")
      ->check(between(0, kMaxCount));
  command->add_flag("--no-eos", arguments->has_no_eos, "No <eos> at the ends of lines (word)");
  command
      ->add_option("--documents", arguments->documents,
                   "What begins a document inside a file: file (nothing; default), heading "
                   "(WikiText's \" = Title = \"), mark or line")
      ->type_name("UNIT")
      ->check(CLI::IsMember({"file", "heading", "mark", "line"}));
  command
      ->add_option("--document-mark", arguments->document_mark,
                   "The line that begins a document and is left out (--documents mark)")
      ->type_name("TEXT");
  arguments->json.add(*command);
  command->add_flag("--quiet", arguments->is_quiet, "Show no progress");
  set_examples(*command,
               {"mneme data prepare --preparation wikitext-103 --train wiki.train.tokens --valid "
                "wiki.valid.tokens --test wiki.test.tokens --out data/wt103",
                "mneme data prepare --vocabulary char --train my.txt --split 0.9,0.05,0.05 --out "
                "data/mine"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return prepare_data(*arguments, streams); };
  });
}

void add_describe(CLI::App& data, Action& action) {
  CLI::App* const command = data.add_subcommand(
      "describe", "Print what a prepared folder or an experiment's data hold, and check it");
  const auto arguments = std::make_shared<DataDescribeArguments>();
  command->add_option("PATH", arguments->path, "A prepared folder, or an experiment file")
      ->required()
      ->type_name("");
  arguments->set.add(*command);
  command->add_option("--lanes", arguments->lanes, "Show the cut into so many lanes")
      ->type_name("N")
      ->check(between(1, kMaxExtent));
  command->add_option("--segment", arguments->segment, "with segments of so many tokens")
      ->type_name("N")
      ->check(between(1, kMaxExtent));
  arguments->json.add(*command);
  set_examples(*command, {"mneme data describe configs/quickstart.toml",
                          "mneme data describe data/wt103 --lanes 60 --segment 150"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return describe_data(*arguments, streams); };
  });
}

void add_sets(CLI::App& data, Action& action) {
  CLI::App* const command = data.add_subcommand(
      "sets", "List where the standard data sets are found, where to put them and their counts");
  const auto arguments = std::make_shared<DataSetsArguments>();
  arguments->json.add(*command);
  set_examples(*command, {"mneme data sets", "mneme data sets --json sets.json"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return list_data_sets(*arguments, streams); };
  });
}

}  // namespace

void add_data(CLI::App& app, Action& action) {
  CLI::App* const data = app.add_subcommand("data", "Prepare and describe texts");
  data->require_subcommand(1);
  set_examples(*data, {"mneme data prepare --vocabulary word --train my.txt --out data/mine",
                       "mneme data sets"});
  add_prepare(*data, action);
  add_describe(*data, action);
  add_sets(*data, action);
}

// mneme data describe

namespace {

namespace fs = std::filesystem;

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
