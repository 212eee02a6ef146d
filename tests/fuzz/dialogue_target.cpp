// Dialogues about documents, in all forms that are read.
#include "host/base/text.hpp"
#include "host/data/dialogue/dialogue.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLines = "dialogues.jsonl";

void check_dialogues(const data::DialogueSet& set) {
  std::int64_t turns = 0;
  for (const data::Dialogue& dialogue : set.dialogues) {
    require(!dialogue.turns.empty(), "a dialogue has turns");
    for (const data::Turn& turn : dialogue.turns) {
      require(!turn.text.empty() && !turn.speaker.empty(), "a turn has a speaker and a text");
    }
    turns += static_cast<std::int64_t>(dialogue.turns.size());
  }
  require(turns == set.turns, "the turns are counted");
}

bool read_dialogue(std::string_view input) {
  const Files files = Files::of(input, kLines);
  const fs::path& folder = empty_folder();
  fs::create_directories(folder / "Conversations/train");
  write_files(folder, files,
              {kLines, "documents.jsonl", "Conversations/train/a.json",
               "Conversations/train/b.json", "WikiData/a.json", "WikiData/b.json"});
  const fs::path path = folder / (files.has(kLines) ? kLines : "Conversations/train");
  bool is_accepted = false;
  for (const bool leaves_out : {false, true}) {
    is_accepted |= accepts([&] {
      const data::DialogueOptions options{.joins_turns = !leaves_out,
                                          .leaves_out_blank_turns = leaves_out};
      const data::DialogueSet set = data::read_dialogues(path, options);
      check_dialogues(set);
      data::write_dialogues(folder / "again.jsonl", set.dialogues);
      const data::DialogueSet again = data::read_dialogues(folder / "again.jsonl", options);
      require(again.dialogues == set.dialogues, "dialogues read back");
    });
  }
  return is_accepted;
}

std::vector<std::string> dialogue_seeds() {
  return {
      R"({"id": "a", "document": "Title\n1999", "turns": [{"speaker": 2, "text": "hello"}, )"
      R"({"speaker": 1, "text": "hi"}, {"speaker": 1, "text": "good film?"}]})"
      "\n\n"
      R"({"id": 7, "document": "Other", "turns": [{"speaker": "Ann", "text": "x"}], "rating": 3})"
      "\r\n",
      R"([{"id": "a", "document": "T", "turns": [{"speaker": 1, "text": "]}"}]},)"
      "\n\n {\"turns\": [{\"speaker\": 2, \"text\": \"\\\"\"}], \"document\": null}\n]",
      "{\n \"id\": 1,\n \"turns\": [{\"speaker\": 1,\n \"text\": \"x\"}]\n}\n"
      "{\n \"document\": \"D\",\n \"turns\": [{\"speaker\": 2, \"text\": \"y\"}]\n}",
      "\xEF\xBB\xBF"
      R"({"document": "D", "turns": [{"speaker": "1", "text": " "}, )"
      R"({"speaker": 2, "text": "\u00e9\ud83d\ude00"}]})",
      "==> dialogues.jsonl\n"
      R"({"id": "0123456789ab", "doc": 4, "history": [{"u": "user2", "t": "hello"}, )"
      R"({"u": "user1", "t": "hi"}]})"
      "\n==> documents.jsonl\n"
      R"({"0": {"movieName": "T", "cast": ["A", "B"]}, "1": "One.", "wikiDocumentIdx": 4})",
      "==> Conversations/train/a.json\n"
      R"({"wikiDocumentIdx": 9, "history": [{"text": "one", "uid": "user1"}, )"
      R"({"text": "two", "uid": "user2"}]})"
      "\n==> WikiData/a.json\n"
      R"({"0": {"introduction": "Intro."}, "2": ["Two."], "wikiDocumentIdx": 9})"};
}

std::vector<std::string> dialogue_extremes() {
  const std::string turn = R"({"speaker": 1, "text": "x"},)";
  std::string documents;
  for (int i = 0; i < 20'000; ++i) {
    documents += str(R"({"0": {"year": "1"}, "wikiDocumentIdx": )", i, "}\n");
  }
  return {
      R"({"document": )" + repeated("[", 100'000),
      R"({"turns": )" + repeated("[", 200'000) + repeated("]", 200'000) + "}",
      R"({"history": )" + repeated("{\"a\":", 200'000) + "1" + repeated("}", 200'000) + "}",
      R"({"document": "d", "turns": [)" + repeated(turn, 20'000) +
          R"({"speaker": 2, "text": "y"}]})",
      R"({"document": "d", "turns": [{"speaker": ")" + repeated("\\u001b", 50'000) +
          R"(", "text": ""}]})",
      R"({"id": "a", "doc": -1, "history": [1]})"
      "\n==> documents.jsonl\n" +
          documents,
      "[" + repeated(R"({"turns": [{"speaker": 1, "text": "x"}]},)", 10'000),
      "[" + repeated("{", 200'000),
      repeated(" ", 300'000),
      repeated("\n", 300'000) + "{",
  };
}

}  // namespace

Target dialogue_target() { return {"dialogue", read_dialogue, dialogue_seeds, dialogue_extremes}; }

}  // namespace mneme::fuzz
