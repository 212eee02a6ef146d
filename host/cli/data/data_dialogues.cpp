// mneme data dialogues

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/text.hpp"
#include "host/cli/data/data.hpp"
#include "host/data/dialogue/dialogue.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// The file that is written must be none of those that are read: it could not be read again.
void check_sources(const DataDialoguesArguments& arguments) {
  std::vector<fs::path> sources = arguments.except;
  sources.push_back(arguments.source);
  for (const fs::path& source : sources) {
    std::error_code ignored;
    if (fs::equivalent(source, arguments.out, ignored)) {
      throw_usage("data dialogues --out ", arguments.out.string(),
                  ": this file is read; name another one");
    }
  }
}

std::string counted(std::int64_t count, const std::string& what) {
  return count == 0 ? "" : str(count, " ", what, "\n");
}

void print(const Json& json, const Streams& streams) {
  const auto count = [&](const char* key) { return json.at(key).get<std::int64_t>(); };
  streams.out << count("dialogues") << " dialogues, " << count("turns") << " turns\n"
              << counted(count("without_document"),
                         "dialogues without a document, for data.with_document = false")
              << counted(count("joined_turns"), "turns of the source joined to the one before them")
              << counted(count("blank_turns"), "turns of the source without text left out")
              << counted(count("excepted_dialogues"), "dialogues left out, which --except has")
              << "written to " << json.at("out").get<std::string>() << '\n';
}

}  // namespace

int convert_dialogues(const DataDialoguesArguments& arguments, const Streams& streams) {
  arguments.json.check();
  check_output_file("data dialogues --out", arguments.out);
  constexpr const char* kSource = "a file of dialogues, or a folder of them";
  check_is_there("data dialogues", arguments.source, kSource);
  for (const fs::path& other : arguments.except) {
    check_is_there("data dialogues --except", other, kSource);
  }
  check_sources(arguments);
  std::error_code ignored;
  if (fs::is_regular_file(arguments.out, ignored)) {
    throw_usage({.where = str("data dialogues --out ", arguments.out.string()),
                 .failed = "the file is there already",
                 .expected = "a new file",
                 .hint = "choose another --out, or remove the file"});
  }
  std::int64_t excepted = 0;
  const data::DialogueSet set = read_input([&] {
    const data::DialogueOptions options = {
        .joins_turns = !arguments.keeps_turns,
        .leaves_out_blank_turns = arguments.leaves_out_blank_turns};
    data::DialogueSet read = data::read_dialogues(arguments.source, options);
    for (const fs::path& other : arguments.except) {
      // Only ids count there, so what else it lacks is no reason to refuse it.
      const data::DialogueSet others =
          data::read_dialogues(other, {.leaves_out_blank_turns = true});
      excepted += data::remove_shared(read, others.dialogues);
    }
    if (read.dialogues.empty()) {
      throw_usage({.where = arguments.source.string(),
                   .failed = "no dialogue is left",
                   .expected = "one that --except does not have",
                   .got = "none"});
    }
    return read;
  });
  make_parents(arguments.out);
  data::write_dialogues(arguments.out, set.dialogues);
  const auto without_document = std::ranges::count_if(
      set.dialogues, [](const data::Dialogue& one) { return one.document.empty(); });
  const Json json = {{"format", "mneme-data-dialogues"},
                     {"source", arguments.source.string()},
                     {"out", arguments.out.string()},
                     {"dialogues", set.dialogues.size()},
                     {"turns", set.turns},
                     {"without_document", without_document},
                     {"joined_turns", set.joined_turns},
                     {"blank_turns", set.blank_turns},
                     {"excepted_dialogues", excepted}};
  if (!arguments.json.is_stdout()) print(json, streams);
  arguments.json.write(json, streams);
  return 0;
}

}  // namespace mneme::cli
