#include "host/data/prepare/prepare.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/prepare/prepared.hpp"
#include "host/data/prepare/shards.hpp"
#include "host/data/text/folder_files.hpp"
#include "host/data/text/text.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kWhitespace = " \t\n\v\f\r";

// That names the split's files.
std::string option_of(Split split) { return str("--", to_word(split)); }

// data.json keeps the mark, and JSON is UTF-8. Checked before the work, not after it.
void check_mark(const std::string& mark) {
  if (is_utf8(mark)) return;
  throw_usage({.where = "--document-mark: " + mark,
               .failed = "data.json cannot keep it",
               .expected = "UTF-8",
               .got = "other bytes",
               .hint = "convert the text and the mark (iconv -t UTF-8)"});
}

// The files of a folder by name; at least one.
std::vector<fs::path> files_in(const fs::path& folder, const std::string& option) {
  const std::string where = str(option, ": ", folder.string());
  const FolderFiles listed = list_files(folder);
  if (listed.files.empty()) {
    throw_usage({.where = where,
                 .failed = "there is no text to read",
                 .expected = "a folder with text files",
                 .got = listed.leftovers.empty() ? "no file in it"
                                                 : "hidden files and copies of editors alone",
                 .hint = "name another folder; those inside it are not searched"});
  }
  warn_of_left_out(where, listed);
  return listed.files;
}

// The files themselves, and a folder's files by name.
std::vector<fs::path> expand(const std::vector<fs::path>& paths, const std::string& option) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      files.push_back(fs::absolute(path));
      continue;
    }
    for (const fs::path& inside : files_in(path, option)) files.push_back(fs::absolute(inside));
  }
  return files;
}

NamedText without_blanks(const NamedText& text) {
  return {text.source, trimmed(text.text, kWhitespace), text.context()};
}

// Prepares one corpus.
class Preparer {
 public:
  explicit Preparer(const PrepareOptions& options) : options_(options) {
    for (const Split split : kSplits) open(split);
    check_mark(options_.documents.mark);
    if (!options_.split.empty()) cut();
    if (options_.preparation != Preparation::kText8) return;
    for (auto& texts : texts_)
      std::transform(texts.begin(), texts.end(), texts.begin(), without_blanks);
  }

  Json write(const fs::path& folder) {
    StagedFolder staged(folder);  // first: a place that cannot be used is found out at once
    const Vocabulary vocabulary = make_vocabulary();
    Json json;
    json["format"] = kPreparedFormat;
    json["revision"] = options_.shard_tokens == 0 ? kPreparedRevision : kShardedRevision;
    json["vocabulary"] = {{"kind", to_word(vocabulary.kind())},
                          {"size", vocabulary.size()},
                          {"sha256", vocabulary.sha256()}};
    json["settings"] = settings(vocabulary);
    for (const Split split : kSplits) {
      if (texts_[index_of(split)].empty()) continue;
      json["splits"][std::string(to_word(split))] = write_split(split, vocabulary, staged.path());
    }
    vocabulary.save(staged.path() / "vocabulary.json");
    write_file_atomic(staged.path() / "data.json", json_text(json, 2) + "\n");
    staged.commit();
    return json;
  }

 private:
  void open(Split split) {
    const std::vector<fs::path> paths = expand(options_.files[index_of(split)], option_of(split));
    if (paths.empty() && split != Split::kTrain) return;
    if (!options_.split.empty() && split != Split::kTrain) {
      throw_usage({.where = option_of(split),
                   .failed = "the splits are shares of the training file",
                   .expected = "--split or files of their own, not both",
                   .got = paths.front().string()});
    }
    files_[index_of(split)].emplace(paths, option_of(split));
    texts_[index_of(split)] = files_[index_of(split)]->texts();
  }

  void cut() {
    const std::vector<NamedText>& training = texts_[index_of(Split::kTrain)];
    if (training.size() != 1) {
      throw_usage({.where = "--split",
                   .failed = "shares are cut from one text",
                   .expected = "one training file",
                   .got = str(training.size())});
    }
    const auto parts =
        cut_shares(training.front(), options_.split, options_.vocabulary, options_.documents);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      texts_[i].clear();
      if (!parts[i].text.empty()) texts_[i].push_back(parts[i]);
    }
  }

  void begin(const std::string& work) const {
    if (options_.on_work) options_.on_work(work);
  }

  [[nodiscard]] std::vector<NamedText> all_texts() const {
    std::vector<NamedText> all;
    for (const auto& texts : texts_) all.insert(all.end(), texts.begin(), texts.end());
    return all;
  }

  [[nodiscard]] Vocabulary make_vocabulary() const {
    if (!options_.vocabulary_file.empty()) return load_vocabulary();
    if (options_.vocabulary == VocabularyKind::kTokenizer) {
      throw_usage({.where = "--vocabulary-file",
                   .failed = "a tokenizer is not built from a text",
                   .expected = "the path of a tokenizer.json or of its folder",
                   .got = "none"});
    }
    begin("build the vocabulary");
    if (options_.preparation == Preparation::kEnwik8) {
      return Vocabulary::bytes_without_newline(all_texts(), options_.on_tokens);
    }
    if (options_.preparation == Preparation::kText8) {
      return Vocabulary::characters(all_texts(), CharacterOrder::kCount, options_.on_tokens);
    }
    const std::vector<NamedText>& training = texts_[index_of(Split::kTrain)];
    if (options_.vocabulary == VocabularyKind::kChar) {
      return Vocabulary::characters(training, CharacterOrder::kCodePoint, options_.on_tokens);
    }
    if (options_.vocabulary == VocabularyKind::kWord) {
      return Vocabulary::words(training, options_.words, options_.on_tokens);
    }
    return Vocabulary::bytes();
  }

  [[nodiscard]] Vocabulary load_vocabulary() const {
    Vocabulary vocabulary =
        data::load_vocabulary(options_.vocabulary_file, options_.vocabulary, "--vocabulary-file");
    if (vocabulary.kind() != options_.vocabulary) {
      throw_usage({.where = str("--vocabulary-file: ", options_.vocabulary_file.string()),
                   .failed = "a vocabulary of another kind",
                   .expected = str("--vocabulary ", to_word(vocabulary.kind())),
                   .got = str("--vocabulary ", to_word(options_.vocabulary))});
    }
    check_line_ends(vocabulary);
    return vocabulary;
  }

  // What a preparation does at the ends of lines is a property of its vocabulary.
  void check_line_ends(const Vocabulary& vocabulary) const {
    const bool is_words = options_.preparation == Preparation::kWikitext103;
    const bool is_bytes = options_.preparation == Preparation::kEnwik8;
    const bool is_other =
        (is_words && !vocabulary.adds_eos()) || (is_bytes && !vocabulary.drops_newlines());
    if (!is_other) return;
    throw_usage({.where = str("--vocabulary-file: ", options_.vocabulary_file.string()),
                 .failed = str("no vocabulary of --preparation ", to_word(options_.preparation)),
                 .expected = is_words ? "one with an <eos> at each line's end"
                                      : "one that leaves newlines out",
                 .got = str("a ", vocabulary.summary(), ", that does not"),
                 .hint = "take the file of a text prepared likewise, or leave --preparation out"});
  }

  [[nodiscard]] Json settings(const Vocabulary& vocabulary) const {
    Json json;
    json["preparation"] = to_word(options_.preparation);
    json["documents"] = to_word(options_.documents.unit);
    if (!options_.documents.mark.empty()) json["document_mark"] = options_.documents.mark;
    if (!options_.split.empty()) json["split"] = options_.split;
    if (!options_.vocabulary_file.empty()) {
      json["vocabulary_file"] = options_.vocabulary_file.string();
    } else if (vocabulary.kind() == VocabularyKind::kWord) {
      json["min_count"] = options_.words.min_count;
      json["vocabulary_size"] = options_.words.max_size;
    }
    if (vocabulary.kind() == VocabularyKind::kWord) json["add_eos"] = vocabulary.adds_eos();
    if (options_.shard_tokens > 0) json["shard_tokens"] = options_.shard_tokens;
    return json;
  }

  Json write_split(Split split, const Vocabulary& vocabulary, const fs::path& folder) {
    begin(str("encode ", to_word(split)));
    SplitWriter files(folder, std::string(to_word(split)), vocabulary.size(), options_.shard_tokens,
                      options_.on_tokens);
    const EncodedTexts encoded = encode_texts(texts_[index_of(split)], option_of(split), vocabulary,
                                              options_.documents, files);
    const EncodeCounts& counts = encoded.counts;
    Json json = files.finish(encoded.documents);
    json["bytes_per_token"] = token_width(vocabulary.size());
    json["tokens"] = counts.tokens;
    json["documents"] = encoded.documents.size();
    json["lines"] = counts.lines;
    json["words"] = counts.words;
    json["bytes"] = counts.bytes;
    json["characters"] = counts.characters;
    json["unknown"] = counts.unknown;
    json["unknown_share"] = counts.unknown_share();
    json["sources"] = sources(options_.split.empty() ? split : Split::kTrain);
    return json;
  }

  Json sources(Split split) {
    Json json = Json::array();
    for (const NamedText& text : files_[index_of(split)]->texts()) {
      std::string& digest = digests_[text.source];
      const std::string_view file = text.context();
      if (digest.empty()) digest = sha256_hex(file);
      json.push_back({{"path", text.source}, {"bytes", file.size()}, {"sha256", digest}});
    }
    return json;
  }

  const PrepareOptions& options_;
  std::array<std::optional<TextFiles>, kSplits.size()> files_;
  std::array<std::vector<NamedText>, kSplits.size()> texts_;
  std::map<std::string, std::string> digests_;  // of source files
};

// The options, completed by what the preparation fixes.
PrepareOptions with_preparation(PrepareOptions options) {
  const bool has_other_files = !options.files[index_of(Split::kValid)].empty() ||
                               !options.files[index_of(Split::kTest)].empty();
  switch (options.preparation) {
    case Preparation::kNone:
      return options;
    case Preparation::kWikitext103:
      options.vocabulary = VocabularyKind::kWord;
      options.words = {};
      options.documents = {.unit = config::Documents::kHeading};
      return options;
    case Preparation::kEnwik8:
    case Preparation::kText8:
      options.vocabulary = options.preparation == Preparation::kEnwik8 ? VocabularyKind::kByte
                                                                       : VocabularyKind::kChar;
      options.documents = {};
      if (!has_other_files && options.split.empty()) options.split = {0.9, 0.05, 0.05};
      return options;
  }
  return options;
}

}  // namespace

Json prepare(const PrepareOptions& options, const fs::path& folder) {
  const PrepareOptions full = with_preparation(options);
  return Preparer(full).write(folder);
}

}  // namespace mneme::data
