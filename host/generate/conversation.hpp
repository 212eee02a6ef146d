// Conversations on disk: a text that another process continues.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "host/generate/generator.hpp"

namespace mneme::generate {

// A saved conversation is a safetensors file with the tensors
//
//   state/<name>   the memory's slots and queues, and the keys and values that are kept of them
//   open           i64 [1,n], the open segment's tokens
//
// and the metadata format, revision, identity.<key>, state (JSON: counters), steps (JSON: lengths
// in which the open segment was fed), types (JSON: the token type of the turn that is open, for
// models with token types), lanes, tokens, pending, seed, segment (the options' length of a
// segment; files of earlier programs lack it), checksums as a checkpoint's.

// What a conversation must be continued with: keys such as "weights" or "vocabulary" with values to
// compare.
using Identity = std::map<std::string, std::string>;

// Writes atomically. Error (kRun) when the file cannot be written.
void write_conversation(const std::filesystem::path& path, const Generator::Saved& saved,
                        const Identity& identity);

// Reads what write_conversation wrote. Error (kUsage) when one of the identity's values is another
// than the file's, naming the key and both; Error (kRun) for a file that is no conversation, that
// is damaged, or whose contents contradict each other: ids outside the vocabulary, steps that do
// not add up to the open segment. Generator::restore checks the memory's state.
[[nodiscard]] Generator::Saved read_conversation(const std::filesystem::path& path,
                                                 const Identity& identity, std::int64_t vocabulary);

// Of the file of a conversation, the tokens of a segment in which it was generated; 0 where it does
// not say. Reads no tensor. Errors as read_conversation's for a file that is no conversation.
[[nodiscard]] std::int64_t segment_of_conversation(const std::filesystem::path& path);

}  // namespace mneme::generate
