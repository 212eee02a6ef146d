// A folder that `mneme data prepare` wrote:
//
//   data.json           format, vocabulary, settings, and per split counts, checksum and sources
//   vocabulary.json     vocabulary.hpp
//   <split>.safetensors id_file.hpp; of a split in shards <split>-<number>.safetensors, shards.hpp
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host/base/text.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/prepare/prepare.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

inline constexpr std::string_view kPreparedFormat = "mneme.prepared";
inline constexpr std::int64_t kPreparedRevision = 1;
// Of a folder with a split in shards, so that a program that does not know them says so.
inline constexpr std::int64_t kShardedRevision = 2;

class PreparedFolder {
 public:
  // Reads data.json and vocabulary.json. Error (kUsage) naming the file for a folder that is none
  // of these, and for files that are damaged or do not belong to each other.
  [[nodiscard]] static PreparedFolder open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // What data.json holds.
  [[nodiscard]] const Json& info() const { return info_; }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] bool has(Split split) const;
  // The split's tokens, mapped from its file or its shards, which are read through once to compare
  // the checksum. Error (kUsage) when a file is missing, damaged or another than data.json
  // describes.
  [[nodiscard]] Corpus corpus(Split split) const;

 private:
  PreparedFolder(std::filesystem::path path, Json info, Vocabulary vocabulary)
      : path_(std::move(path)), info_(std::move(info)), vocabulary_(std::move(vocabulary)) {}

  std::filesystem::path path_;
  Json info_;
  Vocabulary vocabulary_;
};

// A count of a prepared folder and the count that was published for the data set.
struct PublishedCount {
  std::string what;  // "train tokens", "vocabulary"
  std::int64_t here = 0;
  std::int64_t published = 0;
};

// The counts of what data.json describes that are published for the preparation, of the splits that
// it has; empty for Preparation::kNone.
[[nodiscard]] std::vector<PublishedCount> published_counts(Preparation preparation,
                                                           const Json& info);

// --- A folder that is complete or absent ---

// Files are written to path(), a hidden folder beside `target`; commit() renames it to `target`.
// Without a commit the destructor removes it with everything in it.
class StagedFolder {
 public:
  // Error (kUsage) when `target` exists and is no empty folder; Error (kRun) with the system's
  // reason when the folder cannot be made.
  explicit StagedFolder(std::filesystem::path target);
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // The files must be on the disk. Error (kRun).
  void commit();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
};

}  // namespace mneme::data
