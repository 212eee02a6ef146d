// mneme data sets
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "host/cli/data/data.hpp"

namespace mneme::cli {
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
       .counts =
           "tokens with <eos>: train 103227021, valid 217646, test 245569; vocabulary 267735; "
           "articles: valid 60, test 60"},
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
       .prepare = "mneme data prepare --vocabulary word --min-count 10 --no-eos --train "
                  "data/pg19/train --valid data/pg19/validation --test data/pg19/test --out "
                  "data/pg19-prepared",
       .counts = "books: 28602, 50, 100; words: 1973136207, 3007061, 6966499"},
      {.name = "CMU-DoG",
       .what = "dialogues about 30 documents (no licence stated)",
       .found = "github.com/festvox/datasets-CMU_DoG (Zhou, Prabhumoye, Black, EMNLP 2018)",
       .put =
           "data/cmu-dog/train.txt, data/cmu-dog/valid.txt, data/cmu-dog/test.txt; one utterance a "
           "line, and a line <dialogue> before each conversation",
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

int list_data_sets(const DataSetsArguments& arguments, const Streams& streams) {
  arguments.json.check();
  Json json = Json::array();
  for (const DataSet& set : data_sets()) {
    json.push_back({{"name", set.name},
                    {"what", set.what},
                    {"found", set.found},
                    {"put", set.put},
                    {"prepare", set.prepare},
                    {"counts", set.counts}});
  }
  if (!arguments.json.is_stdout()) print_data_sets(streams);
  arguments.json.write({{"format", "mneme-data-sets"}, {"sets", json}}, streams);
  return 0;
}

}  // namespace mneme::cli
