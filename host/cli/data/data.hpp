// The commands about data.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/cli/streams.hpp"

namespace mneme::cli {

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

// Writes dialogues of any form that data::read_dialogues knows as our own JSON lines and prints
// their counts. Error (kUsage) for what read_dialogues refuses, for an output that is also read and
// when no dialogue is left.
int convert_dialogues(const DataDialoguesArguments& arguments, const Streams& streams);

// Prints where the standard data sets are found, where to put them and the counts that they must
// give.
int list_data_sets(const JsonArgument& json_file, const Streams& streams);

// Adds mneme data prepare, which encodes text files into a folder.
void add_data_prepare(const Command& data);

}  // namespace mneme::cli
