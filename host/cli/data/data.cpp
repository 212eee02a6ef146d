// mneme data prepare | describe | sets
#include "host/cli/data/data.hpp"

#include <CLI/CLI.hpp>
#include <memory>

#include "host/cli/command.hpp"
#include "host/cli/ranges.hpp"

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
      ->check(between(1, kMostCount));
  command
      ->add_option("--vocabulary-size", arguments->vocabulary_size,
                   "Keep at most so many words (word); 0 = all")
      ->type_name("N")
      ->check(between(0, kMostCount));
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
      ->check(between(1, kMostExtent));
  command->add_option("--segment", arguments->segment, "with segments of so many tokens")
      ->type_name("N")
      ->check(between(1, kMostExtent));
  arguments->json.add(*command);
  set_examples(*command, {"mneme data describe configs/quickstart.toml",
                          "mneme data describe data/wt103 --lanes 60 --segment 150"});
  command->callback([arguments, &action] {
    action = [arguments](const Streams& streams) { return describe_data(*arguments, streams); };
  });
}

void add_sets(CLI::App& data, Action& action) {
  CLI::App* const command = data.add_subcommand(
      "sets", "Say where the standard data sets are found, where to put them and what comes out");
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

}  // namespace mneme::cli
