// What the writer and the reader of stored evaluations share.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::scores {

inline constexpr std::string_view kColumnsFile = "nll.safetensors";
inline constexpr std::string_view kSamplesFile = "samples.jsonl";
inline constexpr std::string_view kInfoFile = "evaluation.json";
inline constexpr std::string_view kCountsFile = "counts.safetensors";  // beside the evaluations

// The columns of nll.safetensors but nll, correct, source and predicted.
struct IntegerColumn {
  const char* name;
  std::vector<std::int32_t> Columns::*values;
};
inline constexpr std::array kIntegerColumns = {
    IntegerColumn{"target", &Columns::target},       IntegerColumn{"document", &Columns::document},
    IntegerColumn{kDistanceKey, &Columns::distance}, IntegerColumn{"lane", &Columns::lane},
    IntegerColumn{"place", &Columns::place},         IntegerColumn{"segment", &Columns::segment},
};

// CRC-32C of a whole file, 8 hexadecimal digits; read in parts. Error (kRun) when it cannot be.
[[nodiscard]] std::string crc32c_text(const std::filesystem::path& path);
[[nodiscard]] std::string hex_text(std::uint32_t number);
// The key `checksum` of evaluation.json: CRC-32C of the object without it, as it is written in one
// line.
[[nodiscard]] std::string checksum_of_info(Json info);

// The key `unit`.
[[nodiscard]] std::string_view unit_word(SampleUnit unit);
// The key `sample_columns`: the columns that tell samples apart.
[[nodiscard]] std::vector<std::string> sample_columns(SampleUnit unit);
[[nodiscard]] Json to_json(const Sums& sums);

// One writer at a time in a folder of evaluations, whichever process: the kernel releases the lock
// however the process ends. Makes the folder, and removes what a killed writer left. Waits, but not
// for ever, as a stopped process must not stop a training: Error (kRun) after `patience`.
class WriterLock {
 public:
  explicit WriterLock(const std::filesystem::path& folder,
                      std::chrono::milliseconds patience = std::chrono::seconds(60));

 private:
  Descriptor file_;
};

}  // namespace mneme::scores
