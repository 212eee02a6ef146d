// The files of ids that `mneme data prepare` writes for a split: safetensors with `tokens` [n], U8,
// U16 or I32 by vocabulary, and `documents` [d], I64, the first token of each document. Of the
// shards of a split (prepare/shards.hpp) the last one alone has `documents`, those of the split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme {

class SafetensorsFile;
struct TensorView;
}  // namespace mneme

namespace mneme::data {

// Writes ids as they are added, so that memory does not grow with their number. Error (kRun) with
// the path and the system's reason when the file cannot be written. A file that was not finished is
// not a valid safetensors file.
class IdFileWriter final : public TokenSink {
 public:
  // Creates the file, which must not exist. `on_write` is called with the ids taken so far whenever
  // some go to the disk, and may throw.
  IdFileWriter(std::filesystem::path path, std::int64_t vocabulary_size,
               std::function<void(std::int64_t)> on_write = nullptr);

  // Writes the remaining ids, the documents and the header, and syncs the file to the disk.
  void finish(const std::vector<std::int64_t>& documents);
  // The same for a shard that is not the last one: a file without documents.
  void finish();

 private:
  void write(std::span<const std::int32_t> ids) override;
  void put(std::span<const std::byte> bytes);
  void write_rest();
  void write_start(const std::string& start);
  [[noreturn]] void fail(int code) const;

  std::filesystem::path path_;
  int width_;
  std::function<void(std::int64_t)> on_write_;
  Descriptor file_;
  std::vector<std::byte> waiting_;
};

// What such a file holds. The ids stay in it, mapped.
struct IdFile {
  std::filesystem::path path;
  std::shared_ptr<const SafetensorsFile> file;
  TokenArray tokens;
  const TensorView* documents = nullptr;  // in `file`; nullptr = it has none
};

// Error (kUsage) naming the file when it is no safetensors file or `tokens` is missing or another
// tensor than described above.
[[nodiscard]] IdFile open_id_file(const std::filesystem::path& path);
// The documents of a split of `tokens` tokens. Error (kUsage) naming the file when it has none, or
// another tensor than described above, or they do not ascend from 0 inside the tokens.
[[nodiscard]] std::vector<std::int64_t> read_documents(const IdFile& file, std::int64_t tokens);

// Tokens and documents of a split's only file. Errors as above.
[[nodiscard]] Corpus read_id_file(const std::filesystem::path& path);

// SHA-256 of the file that IdFileWriter writes for these ids and documents, wherever they lie.
[[nodiscard]] std::string id_file_sha256(const TokenArray& tokens,
                                         const std::vector<std::int64_t>& documents);

}  // namespace mneme::data
