// Conversations on disk: a text that another process continues.
//
// A safetensors file: state/<name> (the memory's slots, queues, and the keys and values that are
// kept of them), open (i64 [1,n], the open segment's tokens). Metadata: format, revision,
// identity.<key>, state (JSON: counters), steps (JSON: lengths in which the open segment was fed),
// lanes, tokens, pending, seed, checksums as a checkpoint's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "host/generate/generator.hpp"

namespace mneme::generate {

// What a text depends on besides its file: keys such as "weights" or "vocabulary" with values to
// compare.
using Identity = std::map<std::string, std::string>;

// Writes atomically. Error (kRun) when the file cannot be written.
void write_conversation(const std::filesystem::path& path, const Generator::Saved& saved,
                        const Identity& identity);

// Reads what write_conversation wrote. Error (kUsage) when one of the identity's values is another
// than the file's, naming the key and both; Error (kRun) for a file that is none of these, that is
// damaged, or whose text no generator can have left behind: ids from `vocabulary` on, steps that
// are not the open segment's. The memory's state is Session's to check.
[[nodiscard]] Generator::Saved read_conversation(const std::filesystem::path& path,
                                                 const Identity& identity, std::int64_t vocabulary);

}  // namespace mneme::generate
