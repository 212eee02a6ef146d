// The ids of a split in one file, or in several, its shards. Shards are for corpora that do not fit
// on one disk: each may be moved elsewhere and replaced by a symbolic link. In data.json the split
// lists them in the order of the ids:
//
//   "shards": [{"file": "train-0001.safetensors", "tokens": 1000000, "sha256": "..."}, ...]
//   "sha256": of the file that an unsharded preparation of the same text has
//
// so that runs, evaluations and comparisons see no difference between the two forms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/corpus/id_file.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// The most files of a split: a process can map a limited number.
inline constexpr std::size_t kMaxShards = 1000;

// Writes the files of a split as ids are added.
class SplitWriter final : public TokenSink {
 public:
  // Files of at most `shard_tokens` ids, `<split>-0001.safetensors` and so on; 0 = one file,
  // `<split>.safetensors`. `on_write` is called with the ids taken so far whenever some go to the
  // disk, and may throw. Error (kRun) as IdFileWriter; adding ids throws Error (kUsage) when they
  // need more than kMaxShards files.
  SplitWriter(std::filesystem::path folder, std::string split, std::int64_t vocabulary_size,
              std::int64_t shard_tokens, std::function<void(std::int64_t)> on_write = nullptr);

  // Writes the remaining ids and the documents, and returns what data.json says of the files:
  // `file` or `shards`, and `sha256`.
  [[nodiscard]] Json finish(const std::vector<std::int64_t>& documents);

 private:
  void write(std::span<const std::int32_t> ids) override;
  void open();
  void next_shard();

  std::filesystem::path folder_;
  std::string split_;
  std::int64_t vocabulary_size_;
  std::int64_t shard_tokens_;
  std::function<void(std::int64_t)> on_write_;
  std::vector<std::string> names_;  // of the files, the current one last
  std::int64_t finished_ = 0;       // ids in the files before it
  std::optional<IdFileWriter> file_;
};

// A split of a prepared folder. `where` names its entry in data.json, for messages.
struct SplitPlace {
  std::filesystem::path folder;
  std::string split;
  std::string where;
};

// Tokens, documents and checksum of a split whose entry in data.json lists shards; the ids stay in
// them, mapped. Reads every shard once, to compare the checksum of the whole with the entry's. When
// these differ, the shards' own checksums tell which shard is another one. `width`: bytes of an id.
// Error (kUsage) naming the file and the split when a shard is missing, a symbolic link to what is
// not there, damaged, or another than the entry lists, and when the entry contradicts itself.
[[nodiscard]] Corpus read_shards(const SplitPlace& place, const Json& entry, int width);

}  // namespace mneme::data
