// Small dialogues as files, for the tests of dialogues. The texts are made up.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "host/data/dialogue/sequence.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {

// The marks behind so many ids of texts.
inline DialogueIds marks_behind(std::int32_t ids) {
  return {ids, ids + 1, ids + 2, ids + 3, ids + 4, ids + 5, ids + 6};
}

// One dialogue a line, as our own form has it.
inline const std::string kOwnLines =
    R"({"id": "a", "document": "Title\n1999\nA film.", "turns": [{"speaker": 2, "text": "hello"}, )"
    R"({"speaker": 1, "text": "hi there"}, {"speaker": 1, "text": "good film?"}, )"
    R"({"speaker": 2, "text": "yes"}]})"
    "\n\n"
    R"({"id": 7, "document": "Other", "turns": [{"speaker": "Ann", "text": "x"}], "rating": 3})"
    "\r\n";

// Two documents and two conversations as shared/data/cmu-dog has them; documents.jsonl is written
// beside the conversations.
inline const std::string kCmuDocuments =
    R"({"0": {"movieName": "Title", "year": "1999", "cast": ["A as B", "C"], "genre": "Drama"}, )"
    R"("1": "Scene one.", "2": "Scene two.", "3": " ", "wikiDocumentIdx": 4})"
    "\n"
    R"({"0": {"introduction": "Intro."}, "wikiDocumentIdx": 9})"
    "\n";
inline const std::string kCmuLines =
    R"({"id": "0123456789ab", "doc": 4, "rating": 2, "saw": ["user1"], "history": [)"
    R"({"u": "user2", "d": 0, "t": "hello"}, {"u": "user2", "d": 0, "t": "there"}, )"
    R"({"u": "user1", "d": 1, "t": "hi"}]})"
    "\n"
    R"({"id": "ba9876543210", "doc": 9, "rating": 1, "saw": ["user1", "user2"], "history": [)"
    R"({"u": "user1", "d": 0, "t": "one"}, {"u": "user2", "d": 0, "t": "two"}]})"
    "\n";

inline std::filesystem::path write_cmu_lines(const TestFolder& folder) {
  static_cast<void>(folder.write("documents.jsonl", kCmuDocuments));
  return folder.write("train.jsonl", kCmuLines);
}

// The same two conversations and documents as the release has them: the folder of conversations.
inline std::filesystem::path write_cmu_release(const TestFolder& folder) {
  const std::filesystem::path conversations = folder.path() / "Conversations" / "train";
  std::filesystem::create_directories(conversations);
  std::filesystem::create_directories(folder.path() / "WikiData");
  static_cast<void>(folder.write("WikiData/Title.json",
                                 R"({
  "0": {"movieName": "Title", "year": "1999", "cast": ["A as B", "C"], "genre": "Drama"},
  "1": "Scene one.", "2": "Scene two.", "3": " ",
  "wikiDocumentIdx": 4
})"));
  static_cast<void>(folder.write("WikiData/Other.json",
                                 R"({"0": {"introduction": "Intro."}, "wikiDocumentIdx": 9})"));
  static_cast<void>(folder.write("Conversations/train/0123456789abcdef.json",
                                 R"({
  "date": "2018-01-01", "rating": 2, "whoSawDoc": ["user1"], "wikiDocumentIdx": 4,
  "history": [
    {"docIdx": 0, "text": "hello", "uid": "user2", "utcTimestamp": "1"},
    {"docIdx": 0, "text": "there", "uid": "user2", "utcTimestamp": "2"},
    {"docIdx": 1, "text": "hi", "uid": "user1", "utcTimestamp": "3"}
  ]
})"));
  static_cast<void>(folder.write(
      "Conversations/train/ba98765432100000.json",
      R"({"wikiDocumentIdx": 9, "history": [{"docIdx": 0, "text": "one", "uid": "user1"}, )"
      R"({"docIdx": 0, "text": "two", "uid": "user2"}]})"));
  static_cast<void>(folder.write("Conversations/train/notes.txt", "not a conversation"));
  return conversations;
}

}  // namespace mneme::data
