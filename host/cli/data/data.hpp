// The commands about data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

struct DataPrepareArguments {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> valid;
  std::vector<std::filesystem::path> test;
  std::filesystem::path out;
  std::vector<double> split;
  std::string preparation;
  std::string vocabulary;
  std::filesystem::path vocabulary_file;
  std::int64_t min_count = 1;
  std::int64_t vocabulary_size = 0;
  bool has_no_eos = false;
  std::string documents;
  std::string document_mark;
  std::int64_t shard_tokens = 0;  // 0 = one file a split
  JsonArgument json;
  bool is_quiet = false;
};

struct DataDescribeArguments {
  std::filesystem::path path;
  SetArgument set;
  std::int64_t lanes = 0;    // 0 = the experiment's; a prepared folder is then not cut
  std::int64_t segment = 0;  // likewise
  JsonArgument json;
};

struct DataSetsArguments {
  JsonArgument json;
};

struct DataDialoguesArguments {
  std::filesystem::path source;
  std::filesystem::path out;
  std::vector<std::filesystem::path> except;
  bool keeps_turns = false;
  bool leaves_out_blank_turns = false;
  JsonArgument json;
};

// Error (kUsage) where nothing is at a path of the command line: `argument` names it.
void check_is_there(const std::string& argument, const std::filesystem::path& path,
                    const std::string& expected);

// Encodes text files into a folder and prints its counts. Errors as data::prepare, and Error
// (kUsage) for options that contradict each other.
int prepare_data(const DataPrepareArguments& arguments, const Streams& streams);

// Prints what a prepared folder or an experiment's data hold, and how lanes cut them. Reads all of
// it: a damaged file is an Error (kUsage).
int describe_data(const DataDescribeArguments& arguments, const Streams& streams);

// Writes dialogues of any form that data::read_dialogues knows as our own JSON lines and prints
// their counts. Error (kUsage) for what read_dialogues refuses, for an output that is also read and
// when no dialogue is left.
int convert_dialogues(const DataDialoguesArguments& arguments, const Streams& streams);

// Prints where the standard data sets are found, where to put them and the counts that they must
// give.
int list_data_sets(const DataSetsArguments& arguments, const Streams& streams);

}  // namespace mneme::cli
