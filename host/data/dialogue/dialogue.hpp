// Dialogues about a document: what is read from files, and how they are written.
// docs/dialogue.md describes the forms of files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace mneme::data {

struct Turn {
  std::string speaker;  // "1", "2" or a name
  std::string text;

  friend bool operator==(const Turn&, const Turn&) = default;
};

// Dialogues that were read have turns that are not blank, at most two speakers, and a document that
// is not blank; "" = no document.
struct Dialogue {
  std::string id;
  std::string document;
  std::vector<Turn> turns;
  std::string where = {};  // "file:line" or "file", for messages

  friend bool operator==(const Dialogue& a, const Dialogue& b) {
    return a.id == b.id && a.document == b.document && a.turns == b.turns;
  }
};

struct DialogueOptions {
  // Turns of one speaker that follow each other become one, with a blank between their texts, so
  // that the speakers take turns as the marks of a sequence do. CMU_DoG has many such turns.
  bool joins_turns = true;
  // A turn without text is left out and counted; otherwise it is an Error. CMU_DoG has 17.
  bool leaves_out_blank_turns = false;
};

struct DialogueSet {
  std::vector<Dialogue> dialogues;
  std::int64_t turns = 0;         // of all dialogues
  std::int64_t joined_turns = 0;  // that were added to the turn before them
  std::int64_t blank_turns = 0;   // that were left out
};

// Reads a file or folder of one of the forms of docs/dialogue.md:
//   a file of our own JSON objects, one a line, over several lines each, or in one list;
//   a file of CMU_DoG conversations likewise, with documents.jsonl in the same folder or none;
//   a folder of CMU_DoG's release, Conversations/<split>, with WikiData beside it or none.
// Error (kUsage), with file and line, for text that is no UTF-8 or no JSON, for a dialogue without
// turns, for a blank turn, for a third speaker, for an id that is there twice and for a document
// that is not among the documents; Error (kRun) for a file that cannot be read.
[[nodiscard]] DialogueSet read_dialogues(const std::filesystem::path& path,
                                         const DialogueOptions& options = {});

// Removes the dialogues whose ids `others` have and gives their number. CMU_DoG's splits share
// conversations.
std::int64_t remove_shared(DialogueSet& set, std::span<const Dialogue> others);

// Writes our own JSON lines, in place of the file or not at all; a dialogue without turns or one
// that is no UTF-8 is an Error (kRun).
void write_dialogues(const std::filesystem::path& path, std::span<const Dialogue> dialogues);

}  // namespace mneme::data
