#include <string>
#include <vector>

#include "host/data/dialogue/dialogue.hpp"
#include "host/data/dialogue/dialogue_data.hpp"
#include "host/data/dialogue/sequence.hpp"
#include "tests/data/dialogue/dialogue_files.hpp"

namespace mneme::data {
namespace {

// Expects the second line of a file to be refused with these parts in the message.
void expect_refused(const std::string& second_line, const std::vector<std::string>& parts) {
  SCOPED_TRACE(second_line);
  const TestFolder folder;
  const std::string first = R"({"id": "first", "document": "d", "turns": [)"
                            R"({"speaker": 1, "text": "x"}]})";
  const auto file = folder.write("mine.jsonl", first + "\n" + second_line + "\n");
  std::vector<std::string> all = {file.string() + ":2"};
  all.insert(all.end(), parts.begin(), parts.end());
  expect_error(ErrorKind::kUsage, all, [&] { static_cast<void>(read_dialogues(file)); });
}

TEST(DialogueErrors, NameTheLineOfADocumentThatIsNoText) {
  expect_refused(R"({"document": 3, "turns": [{"speaker": 1, "text": "x"}]})",
                 {"document", "a text in quotes", "got 3"});
}

TEST(DialogueErrors, NameTheLineOfARecordWithoutTurns) {
  expect_refused(R"({"document": "d"})", {"no turns", "\"turns\""});
  expect_refused(R"({"document": "d", "turns": []})", {"no turns", "got []"});
  expect_refused(R"({"document": "d", "turns": {"speaker": 1}})", {"no turns", "a list of turns"});
}

TEST(DialogueErrors, NameTheTurnWithoutText) {
  const std::string begin = R"({"document": "d", "turns": [{"speaker": 1, "text": "x"}, )";
  expect_refused(begin + R"({"speaker": 2, "text": ""}]})",
                 {"turn 1 (the first is 0) has no text", "--leave-out-blank"});
  expect_refused(begin + R"({"speaker": 2, "text": " \t\u3000"}]})", {"turn 1", "has no text"});
  expect_refused(begin + R"({"speaker": 2}]})", {"turn 1", "\"text\""});
  expect_refused(begin + R"({"speaker": 2, "text": null}]})", {"turn 1", "text", "got null"});
  expect_refused(begin + R"("x"]})", {"turn 1", "an object", "got \"x\""});
}

TEST(DialogueErrors, NameTheSpeakerOfAnUnknownForm) {
  for (const std::string speaker : {"0", "3", "1.5", "true", "\" \"", "[1]"}) {
    expect_refused(R"({"document": "d", "turns": [{"speaker": )" + speaker + R"(, "text": "x"}]})",
                   {"turn 0", "1, 2 or a name", speaker});
  }
  expect_refused(R"({"document": "d", "turns": [{"text": "x"}]})", {"turn 0", "\"speaker\""});
  expect_refused(R"({"document": "d", "turns": [{"speaker": "A", "text": "x"}, )"
                 R"({"speaker": "B", "text": "x"}, {"speaker": "A", "text": "x"}, )"
                 R"({"speaker": "C", "text": "x"}]})",
                 {"turn 3", "third speaker", "\"C\""});
}

TEST(DialogueErrors, NameTheIdThatIsThereTwice) {
  expect_refused(R"({"id": "first", "document": "d", "turns": [{"speaker": 1, "text": "x"}]})",
                 {"\"first\"", "mine.jsonl:1"});
  expect_refused(R"({"id": "", "document": "d", "turns": [{"speaker": 1, "text": "x"}]})",
                 {"id", "a text in quotes or an integer"});
}

TEST(DialogueErrors, NameThePlaceWhereALineIsNoJson) {
  expect_refused(R"({"document": "d", "turns": [{"speaker": 1, "text": "x"}])",
                 {"no JSON",
                  "its end; unexpected end of input; expected '}': the object is cut "
                  "off, or lacks a bracket"});
  expect_refused(R"({"document": "d" "turns": []})", {"mine.jsonl:2:24", "no JSON"});
  expect_refused(R"(["document"])", {"a JSON object", "[\"document\"]"});
  expect_refused("plain text", {"mine.jsonl:2:1", "no JSON"});
  expect_refused(R"({"document": 1e999})",
                 {"mine.jsonl:2: a number is too large: expected numbers of 64 bits", "'1e999'"});
}

TEST(DialogueErrors, SayWhyALineIsNoJson) {
  const std::string quotes = ": quotes and backslashes in texts have a backslash before them";
  const std::string line =
      ": one object a line, and nothing behind it, or all in one list, [{...}, {...}]";
  const std::string value =
      "invalid literal: keys and texts have double quotes, and quotes in texts a backslash before "
      "them; NaN and None are written null; there are no comments";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"a": "\ud83d x"})",
       R"(got  x"}; invalid string: surrogate U+D800..U+DBFF must be followed by U+DC00..U+DFFF: )"
       R"(write both halves of the character, \ud83d\ude00, or the character itself)"},
      {R"({"a": "\ude00"})", "surrogate U+DC00..U+DFFF must follow U+D800..U+DBFF: write both"},
      {R"({"a": NaN})", "got NaN}; " + value},
      {R"({"a": None})", "got None}; " + value},
      {R"({'a': 1})", value},
      {R"({"a": "he said "no" to it"})", value},
      {"// a comment", value},
      {R"({"a": 1},)", "got ,; unexpected ','; expected end of input" + line},
      {R"({"a": 1} {"a": 2})", "unexpected '{'; expected end of input" + line},
      {"{\"a\": \"\t\"}", "control character U+0009 (HT) must be escaped to \\u0009 or \\t"},
      {R"({"a": "C:\x"})", "forbidden character after backslash" + quotes},
      {R"({"a": "x})", "missing closing quote" + quotes},
      {R"({"a": "" "b": 1})", "a comma is missing, or a backslash before a quote in a text"},
      {R"({"a": -x})", "invalid number; expected digit after '-'"}};
  for (const auto& [text, reason] : cases) expect_refused(text, {"the text is no JSON", reason});
}

TEST(DialogueErrors, NameTheLineThatIsNestedTooDeep) {
  const std::string deep(100'000, '[');
  expect_refused(R"({"document": )" + deep, {"at most 100 deep", "got 100001"});
  expect_refused(R"({"document": )" + deep + std::string(deep.size(), ']') + "}",
                 {"at most 100 deep"});
  // Brackets in texts are none.
  expect_refused(R"({"document": "\"[{\\)" + deep + R"(", "turns": 3})", {"a list of turns"});
}

TEST(DialogueErrors, NameBytesThatAreNoUtf8) {
  expect_refused("{\"document\": \"d\xff\"}", {"mine.jsonl:2:16", "not UTF-8", "\\xff", "iconv"});
}

TEST(DialogueErrors, TellAFileWithoutDialogues) {
  const TestFolder folder;
  const auto read = [](const std::filesystem::path& path) {
    static_cast<void>(read_dialogues(path));
  };
  const auto empty = folder.write("empty.jsonl", "\n \n");
  expect_error(ErrorKind::kUsage, {"empty.jsonl", "no record"}, [&] { read(empty); });
  expect_error(ErrorKind::kRun, {"missing.jsonl"}, [&] { read(folder.path() / "missing.jsonl"); });
}

// Expects a file with this text to be refused.
void expect_text_refused(const std::string& text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text);
  const TestFolder folder;
  const auto file = folder.write("mine.json", text);
  expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(read_dialogues(file)); });
}

TEST(DialogueErrors, TellThePlaceInAList) {
  const std::string one = R"({"document": "d", "turns": [{"speaker": 1, "text": "x"}]})";
  expect_text_refused("[" + one + ",\n\n{\"document\": \"d\"}]", {"mine.json:3: ", "no turns"});
  expect_text_refused("[" + one + ",\n {\"document\": d}]",
                      {"mine.json:2:15: ", "the text is no JSON", "got d}"});
  expect_text_refused("[" + one + "\n" + one + "]",
                      {"mine.json:2: the list of records: expected a comma or its end, got {"});
  expect_text_refused("[\n1]", {"mine.json:2: the list of records has another value: expected "
                                "objects, got 1]"});
  expect_text_refused("[" + one + ",", {"mine.json:1: the list of records has no end: expected a "
                                        "closing bracket, got the file's end"});
  expect_text_refused("[" + one + "]\n[" + one + "]",
                      {"mine.json:2: text after the list of records",
                       "one list, or one object a "
                       "line",
                       "got [{"});
  expect_text_refused("[" + one + ",\n {\"document\": \"d}]",
                      {"mine.json:2:", "no JSON", "its end"});
  expect_text_refused("[ ]", {"mine.json: the file has no record", "got an empty list"});
}

TEST(DialogueErrors, TellThePlaceInAnObjectOverSeveralLines) {
  const std::string one =
      "{\n\"document\": \"d\",\n\"turns\": [{\"speaker\": 1, \"text\": \"x\"}]\n}\n";
  expect_text_refused(one + "{\n\"turns\": []\n}", {"mine.json:5: ", "no turns"});
  expect_text_refused(one + "{\n\"document\": d\n}", {"mine.json:6:13: ", "the text is no JSON"});
  expect_text_refused(one + "{\n", {"mine.json:", "the text is no JSON", "got its end"});
  expect_text_refused(one + "x", {"mine.json:5:1: ", "the text is no JSON", "got x"});
  // No object, however far one reads: a line with a mistake.
  expect_text_refused("{\"document\": \"d\", \"turns\": [\n" + one, {"mine.json:1:", "no JSON"});
}

TEST(DialogueErrors, TellHowAPackedFileIsUnpacked) {
  const TestFolder folder;
  const auto packed = folder.write("train.jsonl.xz", std::string("\xFD"
                                                                 "7zXZ\0rest",
                                                                 10));
  const std::string command = "xz -dk " + packed.string();
  expect_error(ErrorKind::kUsage, {"train.jsonl.xz", "packed", command},
               [&] { static_cast<void>(read_dialogues(packed)); });
  expect_error(ErrorKind::kUsage, {"train.jsonl", "not there", command},
               [&] { static_cast<void>(read_dialogues(folder.path() / "train.jsonl")); });
}

// Expects CMU_DoG conversations with one part replaced to be refused.
void expect_cmu_refused(const std::string& part, const std::string& other,
                        const std::vector<std::string>& parts) {
  SCOPED_TRACE(other);
  const TestFolder folder;
  const auto file = write_cmu_lines(folder);
  std::string lines = kCmuLines;
  std::string documents = kCmuDocuments;
  const std::size_t place = lines.find(part);
  const std::size_t document_place = documents.find(part);
  ASSERT_NE(place == lines.npos, document_place == documents.npos);
  if (place != lines.npos) {
    static_cast<void>(folder.write("train.jsonl", lines.replace(place, part.size(), other)));
  } else {
    static_cast<void>(
        folder.write("documents.jsonl", documents.replace(document_place, part.size(), other)));
  }
  expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(read_dialogues(file)); });
}

TEST(DialogueErrors, OfCmuDogNameTheLine) {
  expect_cmu_refused(
      R"("doc": 9)", R"("doc": 5)",
      {"train.jsonl:2", "number of the document", "one of 4, 9", "got 5", "documents.jsonl"});
  expect_cmu_refused(R"("doc": 9, )", "", {"train.jsonl:2", "no doc"});
  expect_cmu_refused(R"("doc": 9)", R"("doc": "nine")", {"train.jsonl:2", "an integer"});
  expect_cmu_refused(R"("u": "user1", "d": 1)", R"("u": "user3", "d": 1)",
                     {"train.jsonl:1", "turn 2", "\"user1\" or \"user2\"", "\"user3\""});
  expect_cmu_refused(R"("t": "hi")", R"("t": " ")", {"train.jsonl:1", "turn 2", "no text"});
  expect_cmu_refused(R"("id": "ba9876543210")", R"("id": "0123456789ab")",
                     {"train.jsonl:2", "0123456789ab", "train.jsonl:1"});
}

TEST(DialogueErrors, OfCmuDogsDocumentsNameTheLine) {
  expect_cmu_refused(R"("wikiDocumentIdx": 9)", R"("wikiDocumentIdx": 4)",
                     {"documents.jsonl:2", "another number"});
  expect_cmu_refused(R"("0": {"introduction": "Intro."}, )", "", {"documents.jsonl:2", "no 0"});
  expect_cmu_refused(R"({"introduction": "Intro."})", R"("Intro.")",
                     {"documents.jsonl:2", "section 0", "an object"});
  expect_cmu_refused(R"("introduction": "Intro.")", R"("introduction": "")",
                     {"documents.jsonl:2", "no text"});
  expect_cmu_refused(R"(["A as B", "C"])", "12", {"documents.jsonl:1", "cast", "got 12"});
  expect_cmu_refused(R"(["A as B", "C"])", "[12]", {"documents.jsonl:1", "cast", "got 12"});
}

TEST(DialogueErrors, OfCmuDogsReleaseNameTheFile) {
  const TestFolder folder;
  const auto release = write_cmu_release(folder);
  const auto read = [&] { static_cast<void>(read_dialogues(release)); };
  const std::string name = "Conversations/train/ba98765432100000.json";
  static_cast<void>(folder.write(name, R"({"wikiDocumentIdx": 9, "history": []})"));
  expect_error(ErrorKind::kUsage, {name, "no turns"}, read);
  static_cast<void>(folder.write(name, "{\"wikiDocumentIdx\": 9,\n \"history\": [}"));
  expect_error(ErrorKind::kUsage, {name + ":2:14", "no JSON"}, read);
  std::filesystem::remove_all(folder.path() / "WikiData");
  expect_error(ErrorKind::kUsage, {name + ":2:14", "no JSON"}, read);  // needs no documents
  std::filesystem::create_directories(folder.path() / "WikiData");
  expect_error(ErrorKind::kUsage, {"WikiData", "no documents"}, read);
  expect_error(ErrorKind::kUsage, {"Conversations", "no conversations"},
               [&] { static_cast<void>(read_dialogues(release.parent_path())); });
}

TEST(DialogueErrors, OfWritingLeaveTheFileAsItWas) {
  const TestFolder folder;
  const auto file = folder.write("out.jsonl", "before");
  const std::vector<Dialogue> no_text = {{"a", "d", {{"1", "x\xff"}}, "in.jsonl:1"}};
  const std::vector<Dialogue> no_turns = {{"a", "d", {}}};
  expect_error(ErrorKind::kRun, {"out.jsonl", "in.jsonl:1", "UTF-8"},
               [&] { write_dialogues(file, no_text); });
  expect_error(ErrorKind::kRun, {"out.jsonl", "\"a\"", "turns"},
               [&] { write_dialogues(file, no_turns); });
  EXPECT_EQ(std::filesystem::file_size(file), 6U);
}

TEST(DialogueErrors, OfAVocabularyWithoutMarksNameThem) {
  expect_error(ErrorKind::kUsage, {"no marks of dialogues", "<bos>, <eos>, ", "byte vocabulary"},
               [] { static_cast<void>(dialogue_ids(Vocabulary::bytes())); });
}

TEST(DialogueErrors, OfSequencesNameTheTextAndItsPlace) {
  const Dialogue dialogue = {"a", "doc", {{"1", "x"}, {"2", "y"}}, "mine.jsonl:5"};
  const DialogueIds ids = marks_behind(10);
  // An encoder that gives `bad` for one of the texts.
  const auto expect_bad = [&](const std::string& text, const std::vector<std::int32_t>& bad,
                              const std::vector<std::string>& parts) {
    expect_error(ErrorKind::kUsage, parts, [&] {
      static_cast<void>(make_sequence(dialogue, ids, [&](std::string_view part) {
        return part == text ? bad : std::vector<std::int32_t>{1};
      }));
    });
  };
  expect_bad("doc", {}, {"mine.jsonl:5", "the document", "at least one"});
  expect_bad("y", {}, {"mine.jsonl:5", "turn 1", "at least one"});
  expect_bad("x", {0, 16}, {"mine.jsonl:5", "turn 0", "from 0 to 15", "got 16"});
  expect_bad("x", {-1}, {"turn 0", "got -1"});
  for (const std::int32_t id : {ids.speaker1, ids.speaker2, ids.doc}) {
    expect_bad("y", {1, id}, {"turn 1", "<speaker1>, <speaker2> and <doc>", std::to_string(id)});
  }
}

TEST(DialogueErrors, OfPiecesNameLengthAndRoom) {
  expect_error(ErrorKind::kUsage, {"length 0"}, [] { static_cast<void>(cut_from_end(5, 0)); });
  expect_error(ErrorKind::kUsage, {"room 4"}, [] { static_cast<void>(cut_from_end(5, 4, 4)); });
  expect_error(ErrorKind::kUsage, {"room -1"}, [] { static_cast<void>(cut_from_end(5, 4, -1)); });
  expect_error(ErrorKind::kUsage, {"turns before", "got -1"},
               [] { static_cast<void>(generation_instances({}, -1)); });
}

}  // namespace
}  // namespace mneme::data
