// mneme data prepare | sets

#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/text.hpp"
#include "host/base/words.hpp"
#include "host/cli/data/data.hpp"
#include "host/cli/display.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/unread_output.hpp"
#include "host/config/toml/toml.hpp"
#include "host/data/prepare/prepare.hpp"
#include "host/data/prepare/prepared.hpp"

namespace mneme::cli {
namespace {

constexpr std::int64_t kMaxShardTokens = 100 * kMaxCount;

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

void check_texts(const DataPrepareArguments& arguments) {
  if (arguments.document_mark.find('\n') != std::string::npos) {
    throw_usage("data prepare --document-mark: expected one line, without its end, got ",
                config::toml_string(arguments.document_mark));
  }
  if (arguments.split.empty()) return;
  double sum = 0.0;
  bool is_share = arguments.split.front() > 0.0;
  for (const double share : arguments.split) {
    sum += share;
    is_share = is_share && share >= 0.0;
  }
  if (!is_share || std::abs(sum - 1.0) > 1e-9) {
    throw_usage(
        "data prepare --split: expected three shares, train,valid,test, that sum to 1, the first "
        "above 0, got shares with the sum ",
        sum);
  }
}

data::PrepareOptions options_of(const DataPrepareArguments& arguments) {
  data::PrepareOptions options;
  options.files = {arguments.train, arguments.valid, arguments.test};
  options.split = arguments.split;
  options.preparation =
      find_word<data::Preparation>(arguments.preparation).value_or(data::Preparation::kNone);
  options.vocabulary =
      find_word<data::VocabularyKind>(arguments.vocabulary).value_or(data::VocabularyKind::kByte);
  options.vocabulary_file = arguments.vocabulary_file;
  options.words = {.add_eos = !arguments.has_no_eos,
                   .min_count = arguments.min_count,
                   .max_size = arguments.vocabulary_size};
  options.documents.unit =
      find_word<config::Documents>(arguments.documents).value_or(config::Documents::kFile);
  options.documents.mark = arguments.document_mark;
  options.shard_tokens = arguments.shard_tokens;
  return options;
}

Table table_of(const Json& json) {
  Table table({"split", "tokens", "documents", "lines", "words", "bytes", "characters", "unknown",
               "unknown %"});
  for (const auto& [split, entry] : json["splits"].items()) {
    std::vector<std::string> row = {split};
    for (const char* key :
         {"tokens", "documents", "lines", "words", "bytes", "characters", "unknown"}) {
      row.push_back(entry[key].dump());
    }
    row.push_back(format_number(100.0 * entry["unknown_share"].get<double>(), 3));
    table.add_row(std::move(row));
  }
  return table;
}

// How many files each split has, where it may have several.
std::string shards_text(const Json& json) {
  std::string text;
  for (const auto& [split, entry] : json.at("splits").items()) {
    if (!entry.contains("shards")) continue;
    const std::size_t files = entry.at("shards").size();
    text += str(split, ": ", files, files == 1 ? " shard\n" : " shards\n");
  }
  return text;
}

// `counts`: lines about how the counts compare with the published ones.
void print(const Json& json, const std::string& counts, const DataPrepareArguments& arguments,
           const Streams& streams) {
  const Json& vocabulary = json.at("vocabulary");
  streams.out << "vocabulary: " << vocabulary.at("kind").get<std::string>() << ", "
              << vocabulary.at("size") << " symbols\n"
              << table_of(json).text(streams.out_width) << shards_text(json) << counts
              << "prepared " << arguments.out.string()
              << "; to use it: [data] task = \"text\", prepared = "
              // Absolute: a relative path in an experiment begins at the experiment's folder.
              << config::toml_string(std::filesystem::absolute(arguments.out).string()) << '\n';
}

// Where the counts differ from the published ones, the text is another one, or a part of it.
std::string text_of(const std::vector<data::PublishedCount>& counts, const std::string& name) {
  std::string text;
  for (const data::PublishedCount& count : counts) {
    if (count.here == count.published) continue;
    text += str("  ", count.what, ": ", count.here, ", published ", count.published, '\n');
  }
  if (counts.empty()) return "";
  return text.empty() ? str("counts as published for ", name, '\n')
                      : str("not the text published as ", name, ":\n", text);
}

Json counts_json(const std::vector<data::PublishedCount>& counts) {
  Json json = Json::array();
  for (const data::PublishedCount& count : counts) {
    json.push_back({{"what", count.what}, {"here", count.here}, {"published", count.published}});
  }
  return json;
}

// Encodes text files into a folder and prints its counts. Errors as data::prepare, and Error
// (kUsage) for options that contradict each other.
int prepare_data(const DataPrepareArguments& arguments, const Streams& streams) {
  check_texts(arguments);
  arguments.json.check();
  check_new_folder("--out", arguments.out);
  go_on_unread();
  Display display(streams, arguments.is_quiet);
  std::int64_t steps = 0;  // of one work
  data::PrepareOptions options = options_of(arguments);
  options.on_work = [&](const std::string& work) {
    throw_if_interrupted();
    display.begin(work, 0);
    display.note(work);
    steps = 0;
  };
  options.on_tokens = [&](std::int64_t tokens) {
    throw_if_interrupted();
    display.update(++steps, tokens);
  };
  Json json;
  const InterruptGuard guard;
  try {
    json = data::prepare(options, arguments.out);
  } catch (const Interrupted& interrupted) {
    display.end();
    streams.err << "mneme: stopped by " << signal_name(interrupted.signal)
                << "; nothing was written\n";
    return exit_code_of_signal(interrupted.signal);
  }
  display.end();
  const auto published = data::published_counts(options.preparation, json);
  if (!published.empty()) json["published"] = counts_json(published);
  if (!arguments.json.is_stdout()) {
    print(json, text_of(published, arguments.preparation), arguments, streams);
  }
  arguments.json.write(json, streams);
  return 0;
}

}  // namespace

void add_data_prepare(const Command& data) {
  const Command command =
      data.subcommand("prepare", "Encode text files of any size into a folder, once");
  const auto arguments = std::make_shared<DataPrepareArguments>();
  command.option("--train", arguments->train, "FILE...",
                 "Training text: files, or folders of files; each file begins a document",
                 {required});
  command.option("--valid", arguments->valid, "FILE...", "Validation text");
  command.option("--test", arguments->test, "FILE...", "Test text");
  command.option("--out", arguments->out, "DIR", "The folder to make", {required});
  command.option("--split", arguments->split, "SHARES",
                 "Shares of the one training file: train,valid,test, as 0.9,0.05,0.05",
                 {delimiter(','), expected(3)});
  command.option("--preparation", arguments->preparation, "NAME",
                 "Prepare as published: wikitext-103, enwik8 or text8 (docs/data.md)",
                 {one_of({"wikitext-103", "enwik8", "text8"})});
  command.option("--vocabulary", arguments->vocabulary, "KIND",
                 "byte (default), char, word or tokenizer",
                 {one_of({"byte", "char", "word", "tokenizer"})});
  command.option("--vocabulary-file", arguments->vocabulary_file, "FILE",
                 "A saved vocabulary.json in place of one built from --train; with --vocabulary "
                 "tokenizer, a tokenizer.json, a tokenizer.model or its folder");
  command.option("--min-count", arguments->min_count, "N", "Words seen less often become <unk>",
                 {in(1, kMaxCount)});
  command.option("--vocabulary-size", arguments->vocabulary_size, "N",
                 "Keep at most N words; 0 = all", {in(0, kMaxCount)});
  command.flag("--no-eos", arguments->has_no_eos, "No <eos> at the ends of lines");
  command.option("--documents", arguments->documents, "UNIT",
                 "What begins a document inside a file: file (nothing; default), heading "
                 "(WikiText's \" = Title = \"), mark or line",
                 {one_of({"file", "heading", "mark", "line"})});
  command.option("--document-mark", arguments->document_mark, "TEXT",
                 "The line that begins a document and is left out");
  command.option("--shard-tokens", arguments->shard_tokens, "N",
                 "Write the ids of a split into files of at most N tokens, which may then "
                 "lie on several disks (docs/data.md); without it, one file a split",
                 {in(1, kMaxShardTokens)});
  arguments->json.add(command);
  command.flag("--quiet", arguments->is_quiet, "Show no progress");
  command.examples(
      {"mneme data prepare --preparation wikitext-103 --train wiki.train.tokens --valid "
       "wiki.valid.tokens --test wiki.test.tokens --out data/wt103",
       "mneme data prepare --vocabulary char --train my.txt --split 0.9,0.05,0.05 --out "
       "data/mine"});
  command.runs(arguments, &prepare_data, nullptr, {R"(
--preparation refuses --vocabulary, --min-count, --vocabulary-size, --no-eos, --documents: fixes vocabulary and documents
--min-count, --vocabulary-size, --no-eos needs --vocabulary word
--vocabulary-file refuses --min-count, --vocabulary-size, --no-eos: fixes the words
--documents mark needs --document-mark
--document-mark needs --documents mark
)"});
}

// --- mneme data sets ---

namespace {

// A public data set. `prepare` reads what lies at `put` and makes the folder that configs/ names;
// the counts are those that must come out of it.
struct DataSet {
  std::string_view name;
  std::string_view what;
  std::string_view found;
  std::string_view put;
  std::string_view prepare;
  std::string_view counts;
};

const std::vector<DataSet>& data_sets() {
  static const std::vector<DataSet> sets = {
      {.name = "WikiText-103",
       .what = "articles of Wikipedia as words (CC BY-SA)",
       .found = "Salesforce Research, \"The WikiText Long Term Dependency Language Modeling "
                "Dataset\": wikitext-103-v1.zip",
       .put = "data/wikitext-103/wiki.train.tokens, data/wikitext-103/wiki.valid.tokens, "
              "data/wikitext-103/wiki.test.tokens",
       .prepare = "mneme data prepare --preparation wikitext-103 --train "
                  "data/wikitext-103/wiki.train.tokens --valid data/wikitext-103/wiki.valid.tokens "
                  "--test data/wikitext-103/wiki.test.tokens --out data/wikitext-103-prepared",
       .counts = "tokens with <eos>: train 103227021, valid 217646, test 245569; vocabulary "
                 "267735; articles: valid 60, test 60"},
      {.name = "enwik8",
       .what = "the first 100000000 bytes of an English Wikipedia dump (CC BY-SA)",
       .found = "Large Text Compression Benchmark, mattmahoney.net/dc/textdata.html: enwik8.zip",
       .put = "data/enwik8/enwik8",
       .prepare = "mneme data prepare --preparation enwik8 --train data/enwik8/enwik8 --out "
                  "data/enwik8-prepared",
       .counts = "tokens (bytes without newlines): train 88982818, valid 4945742, test 4943417"},
      {.name = "text8",
       .what = "the same dump as 27 characters: a to z and the blank",
       .found = "Large Text Compression Benchmark, mattmahoney.net/dc/textdata.html: text8.zip",
       .put = "data/text8/text8",
       .prepare = "mneme data prepare --preparation text8 --train data/text8/text8 --out "
                  "data/text8-prepared",
       .counts = "characters: 90000000, 5000000 and 5000000, less the blanks at the ends of each "
                 "split, of which the file's first character is one; vocabulary 27"},
      {.name = "PG-19",
       .what = "28752 books printed before 1919 (public domain)",
       .found = "github.com/google-deepmind/pg19, which names the storage bucket",
       .put = "data/pg19/train/*.txt, data/pg19/validation/*.txt, data/pg19/test/*.txt; ids of "
              "subwords of your own, which the configuration pg19.toml reads, at "
              "data/pg19-subwords/train.safetensors, data/pg19-subwords/validation.safetensors, "
              "data/pg19-subwords/test.safetensors",
       .prepare =
           "mneme data prepare --vocabulary word --min-count 10 --no-eos --train data/pg19/train "
           "--valid data/pg19/validation --test data/pg19/test --out data/pg19-prepared",
       .counts = "books: 28602, 50, 100; words: 1973136207, 3007061, 6966499"},
      {.name = "CMU-DoG",
       .what = "dialogues about 30 documents (no licence stated)",
       .found = "github.com/festvox/datasets-CMU_DoG (Zhou, Prabhumoye, Black, EMNLP 2018)",
       .put = "data/cmu-dog/train.txt, data/cmu-dog/valid.txt, data/cmu-dog/test.txt; one "
              "utterance a line, and a line <dialogue> before each conversation",
       .prepare = "mneme data prepare --vocabulary word --documents mark --document-mark "
                  "\"<dialogue>\" --train data/cmu-dog/train.txt --valid data/cmu-dog/valid.txt "
                  "--test data/cmu-dog/test.txt --out data/cmu-dog-prepared",
       .counts = "conversations: 3373, 229, 619; utterances: 107792, 7030, 19375; words: 1188610, "
                 "85894, 211992"},
  };
  return sets;
}

void print_data_sets(const Streams& streams) {
  for (const DataSet& set : data_sets()) {
    streams.out << set.name << ": " << set.what << "\n  found at:    " << set.found
                << "\n  put it at:   " << set.put << "\n  prepare:     " << set.prepare
                << "\n  counts:      " << set.counts << "\n\n";
  }
  streams.out << "Nothing is fetched by this program. docs/data.md describes each preparation.\n";
}

}  // namespace

int list_data_sets(const JsonArgument& json_file, const Streams& streams) {
  json_file.check();
  Json json = Json::array();
  for (const DataSet& set : data_sets()) {
    json.push_back({{"name", set.name},
                    {"what", set.what},
                    {"found", set.found},
                    {"put", set.put},
                    {"prepare", set.prepare},
                    {"counts", set.counts}});
  }
  if (!json_file.is_stdout()) print_data_sets(streams);
  json_file.write({{"format", "mneme-data-sets"}, {"sets", json}}, streams);
  return 0;
}

}  // namespace mneme::cli
