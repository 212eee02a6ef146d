// Token ids of text files and safetensors files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file.hpp"
#include "host/data/vocabulary.hpp"

namespace mneme {
class SafetensorsFile;
}

namespace mneme::data {

// A sequence of tokens made of documents: each text file, or each row of an id tensor, is one.
struct Corpus {
  std::string key;  // of the experiment file that named it: "data.train"
  std::vector<std::filesystem::path> files;
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> documents;  // first token of each, ascending, from 0
  std::int64_t bytes = 0;               // of the files' text; 0 for ids
  std::int64_t characters = 0;          // code points; bytes for a byte vocabulary; 0 for ids
  std::int64_t lines = 0;               // of the text; 0 for ids
  std::int64_t unknown = 0;             // words that became <unk>
  // Of the file's bytes; of several files: of their digests in hexadecimal, each with a newline.
  std::string sha256;

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  // Averages over the corpus; 0 when the text is not known. Bits per character are nats per token
  // / (ln 2 * characters_per_token()).
  [[nodiscard]] double characters_per_token() const;
  [[nodiscard]] double bytes_per_token() const;
};

// Text files, mapped for the object's lifetime. `key` is the key of the experiment file that names
// them and stands in messages. Error (kUsage) for no path, a missing file, a folder, anything else
// that is no regular file, and an empty file.
class TextFiles {
 public:
  TextFiles(std::vector<std::filesystem::path> paths, std::string key);

  [[nodiscard]] const std::vector<std::filesystem::path>& paths() const { return paths_; }
  [[nodiscard]] const std::string& key() const { return key_; }
  // The texts, borrowed from this object.
  [[nodiscard]] const std::vector<NamedText>& texts() const { return texts_; }

 private:
  std::vector<std::filesystem::path> paths_;
  std::string key_;
  std::vector<MappedFile> maps_;
  std::vector<NamedText> texts_;
};

// The files' tokens, one document a file. Errors as Vocabulary::encode; Error (kUsage) when a file
// holds no token.
[[nodiscard]] Corpus encode_files(const TextFiles& files, const Vocabulary& vocabulary);

// Token ids as rows.
struct IdRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int32_t> ids;  // [rows, columns]
};

// Reads an int32 or int64 tensor [n] or [rows, n]. Ids must be at least `least` (0, or -1 where "no
// target" is allowed) and below `vocabulary_size` (0 = any that fits 31 bits). Error (kUsage)
// naming file, tensor and, for an id, its place, for another dtype or shape, no ids, and ids out of
// range.
[[nodiscard]] IdRows read_ids(const SafetensorsFile& file, std::string_view tensor,
                              std::int64_t vocabulary_size, std::int32_t least = 0);

// The tensor `input` or `tokens` of a safetensors file as a corpus, one document a row. Error
// (kUsage) when the file is missing, no safetensors file, or has neither tensor or both.
[[nodiscard]] Corpus read_id_corpus(const std::filesystem::path& path, const std::string& key,
                                    std::int64_t vocabulary_size);

}  // namespace mneme::data
