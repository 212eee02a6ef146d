// The corpora of token ids that are read from the files of an experiment's data.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/stream/stream.hpp"
#include "host/data/text/text_files.hpp"
#include "host/data/vocabulary/documents.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme {

class SafetensorsFile;
}  // namespace mneme

namespace mneme::data {

// A sequence of tokens made of documents: parts of a text (text/documents.hpp), or rows of an id
// tensor. The ids lie in memory or in mapped files.
struct Corpus {
  std::string key;                           // of the experiment file that named it: "data.train"
  std::vector<std::filesystem::path> files;  // data.json of a prepared split in shards
  TokenArray tokens;
  std::vector<std::int64_t> documents;  // first token of each, ascending, from 0
  // Of the text that the tokens stand for; all 0 for ids. Newlines that a vocabulary leaves out and
  // lines that mark a document are not counted. The number of tokens is size(), not counts.tokens.
  EncodeCounts counts;
  // Of the file's bytes, or of the part that data.split took; of several files: of their digests in
  // hexadecimal, each with a newline; of a prepared split: of its file of ids, or, of one in
  // shards, of the file that would hold them all.
  std::string sha256;

  [[nodiscard]] std::int64_t size() const { return tokens.size(); }
  // "217646 tokens, 60 documents, 213886 words, 0 of them unknown (0.00 %)", for people.
  [[nodiscard]] std::string summary() const;
};

// What encode_texts() counted and found.
struct EncodedTexts {
  EncodeCounts counts;
  std::vector<std::int64_t> documents;  // first token of each
};

// Passes the ids of texts to `sink`, which is flushed; each text begins a document, and `options`
// says what else does. Documents without a token are left out. Warns, through the log, when no text
// has a line equal to the mark that begins documents. Errors as Vocabulary::encode; Error (kUsage)
// when a text holds no token, with `key` in its message.
EncodedTexts encode_texts(std::span<const NamedText> texts, const std::string& key,
                          const Vocabulary& vocabulary, const DocumentOptions& options,
                          TokenSink& sink);

// The same as a corpus in memory. The files' names are for reports.
[[nodiscard]] Corpus encode_corpus(std::vector<std::filesystem::path> files, std::string key,
                                   std::span<const NamedText> texts, const Vocabulary& vocabulary,
                                   const DocumentOptions& options = {});

// SHA-256 of one text, or of the texts' digests in hexadecimal, each with a newline.
[[nodiscard]] std::string sha256_of(std::span<const NamedText> texts);

// Token ids as rows.
struct IdRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int32_t> ids;  // [rows, columns]
};

// Reads a tensor [n] or [rows, n] of type U8, U16, U32, I32 or I64. Ids must be at least `least`
// (0, or -1 where "no target" is allowed) and below `vocabulary_size` (0 = any that fits 31 bits).
// Error (kUsage) naming file, tensor and, for an id, its place, for another dtype or shape, no ids,
// and ids out of range.
[[nodiscard]] IdRows read_ids(const SafetensorsFile& file, std::string_view tensor,
                              std::int64_t vocabulary_size, std::int32_t least = 0);

// The tensor `input` or `tokens` of a safetensors file as a corpus that stays in the file, mapped.
// A tensor `documents` [d] beside ids [n] has the first token of each document, ascending from 0;
// without it each row is a document. Every id is checked once. Error (kUsage) when the file is
// missing, no safetensors file, or has neither tensor of ids or both, and for other `documents`.
[[nodiscard]] Corpus read_id_corpus(const std::filesystem::path& path, const std::string& key,
                                    std::int64_t vocabulary_size);

// --- The parts of an experiment's data ---

enum class Split { kTrain, kValid, kTest };
constexpr auto words_of(Split) { return std::array{"train", "valid", "test"}; }
inline constexpr std::array<Split, 3> kSplits = {Split::kTrain, Split::kValid, Split::kTest};

// Its place in an array of kSplits.size() entries.
[[nodiscard]] constexpr std::size_t index_of(Split split) {
  return static_cast<std::size_t>(split);
}
// "data.train" and so on, for messages.
[[nodiscard]] std::string key_of(Split split);

}  // namespace mneme::data
