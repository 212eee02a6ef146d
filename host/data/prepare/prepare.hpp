// Encodes texts of any size once, into a folder that experiments read by data.prepared.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/vocabulary/documents.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

// How a corpus is prepared by the programs that published numbers on it; docs/data.md describes
// each with the counts that come out.
enum class Preparation {
  kNone,         // as the options say
  kWikitext103,  // words, <eos> at each line's end, articles are documents
  kEnwik8,       // bytes without newlines, numbered by falling count over all splits
  kText8,        // characters, numbered likewise; each split loses blanks at both ends
};
constexpr auto words_of(Preparation) {
  return std::array{"none", "wikitext-103", "enwik8", "text8"};
}

struct PrepareOptions {
  // Text files by Split; a folder stands for its files in order of their names. Each file begins a
  // document. At least one training file.
  std::array<std::vector<std::filesystem::path>, kSplits.size()> files;
  // Shares of the one training file, as data.split; empty = a file for each split.
  std::vector<double> split = {};
  Preparation preparation = Preparation::kNone;
  VocabularyKind vocabulary = VocabularyKind::kByte;
  std::filesystem::path vocabulary_file = {};  // in place of one built from the training files
  WordOptions words = {};
  DocumentOptions documents = {};
  // Tokens of a file at most, so that a split may have several (shards.hpp); 0 = one file a split.
  std::int64_t shard_tokens = 0;
  // Called with the name of each phase ("build the vocabulary", "encode train") and repeatedly with
  // the tokens processed so far; may throw.
  std::function<void(const std::string& work)> on_work = nullptr;
  std::function<void(std::int64_t tokens)> on_tokens = nullptr;
};

// Writes the folder (prepared.hpp) and returns its data.json. Memory grows with the number of
// different symbols and of documents, not with the text. The folder is complete or absent: it is
// written under another name and renamed. Errors: Error (kUsage) when it exists and is not empty,
// as TextFiles, cut_shares, Vocabulary and encode_texts say, for a folder without files, for names
// that are not UTF-8, and for a vocabulary_file of another kind or, with a preparation, other line
// ends, and for more than kMaxShards files; Error (kRun) when something cannot be written.
Json prepare(const PrepareOptions& options, const std::filesystem::path& folder);

}  // namespace mneme::data
