// The file of ids that `mneme data prepare` writes for a split: safetensors with `tokens` [n], U8,
// U16 or I32 by vocabulary, and `documents` [d], I64, the first token of each document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/corpus.hpp"
#include "host/data/stream.hpp"
#include "host/data/text/text.hpp"

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
  ~IdFileWriter() override;

  // Writes the remaining ids, the documents and the header, and syncs the file to the disk.
  void finish(const std::vector<std::int64_t>& documents);

 private:
  void write(std::span<const std::int32_t> ids) override;
  void write_bytes(std::span<const std::byte> bytes);
  [[nodiscard]] std::string header(std::size_t documents) const;
  [[noreturn]] void fail(int code) const;

  std::filesystem::path path_;
  int width_;
  std::function<void(std::int64_t)> on_write_;
  int file_ = -1;
  std::vector<std::byte> waiting_;
};

// Tokens and documents of such a file; the tokens stay in it, mapped. Error (kUsage) naming the
// file when it is damaged: no safetensors file, other tensors, or documents that do not ascend from
// 0 inside the tokens.
[[nodiscard]] Corpus read_id_file(const std::filesystem::path& path);

}  // namespace mneme::data
