// JSON files that a run keeps beside its evaluations: with a format, a version and a checksum,
// written whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::scores {

// What a file holds, for its keys and for messages.
struct RecordKind {
  std::string_view format;   // "mneme-generated"
  std::int64_t version = 1;  // rises when a reader of the old form would misread the new one
  std::string_view words;    // "the stored samples"
  std::string_view remedy;   // what to do about a damaged file
};

// Writes `record` behind the keys format and version, and with the key `checksum`: CRC-32C of the
// object without it, written in one line. Makes the file's folder. Error (kRun) when it cannot be
// written; what was there stays.
void write_record(const std::filesystem::path& file, const RecordKind& kind, const Json& record);

// Reads it. Error (kRun) naming the file, what was expected and what was found, when it is damaged
// or of another version.
[[nodiscard]] Json read_record(const std::filesystem::path& file, const RecordKind& kind);

// The Error (kRun) of a record that was read but lacks what a reader needs.
[[noreturn]] void fail_record(const std::filesystem::path& file, const RecordKind& kind,
                              const std::string& expected, const std::string& got);

// The records in a folder, by name; none where there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> list_records(const std::filesystem::path& folder);

// Removes the records in a folder whose names are those of evaluations of later steps than `step`:
// their weights are gone. Error (kRun) naming the file when one cannot be removed.
void remove_later_records(const std::filesystem::path& folder, std::int64_t step);

}  // namespace mneme::scores
