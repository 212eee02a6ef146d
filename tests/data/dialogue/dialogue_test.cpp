#include "host/data/dialogue/dialogue.hpp"

#include <string>
#include <vector>

#include "tests/data/dialogue/dialogue_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Dialogues, AreReadFromOurOwnLines) {
  const TestFolder folder;
  const DialogueSet set = read_dialogues(folder.write("mine.jsonl", kOwnLines));
  ASSERT_EQ(set.dialogues.size(), 2U);
  EXPECT_EQ(set.dialogues[0].id, "a");
  EXPECT_EQ(set.dialogues[0].document, "Title\n1999\nA film.");
  EXPECT_THAT(set.dialogues[0].turns,
              ElementsAre(Turn{"2", "hello"}, Turn{"1", "hi there good film?"}, Turn{"2", "yes"}));
  EXPECT_EQ(set.dialogues[0].where, (folder.path() / "mine.jsonl").string() + ":1");
  EXPECT_EQ(set.dialogues[1].id, "7");
  EXPECT_THAT(set.dialogues[1].turns, ElementsAre(Turn{"Ann", "x"}));
  EXPECT_EQ(set.dialogues[1].where, (folder.path() / "mine.jsonl").string() + ":3");
  EXPECT_EQ(set.turns, 4);
  EXPECT_EQ(set.joined_turns, 1);
  EXPECT_EQ(set.blank_turns, 0);
}

TEST(Dialogues, KeepTurnsApartWhenAsked) {
  const TestFolder folder;
  const DialogueSet set =
      read_dialogues(folder.write("mine.jsonl", kOwnLines), {.joins_turns = false});
  EXPECT_THAT(set.dialogues[0].turns, ElementsAre(Turn{"2", "hello"}, Turn{"1", "hi there"},
                                                  Turn{"1", "good film?"}, Turn{"2", "yes"}));
  EXPECT_EQ(set.turns, 5);
  EXPECT_EQ(set.joined_turns, 0);
}

TEST(Dialogues, WithoutAnIdAreNamedAfterFileAndLine) {
  const TestFolder folder;
  const std::string line = R"({"document": "d", "turns": [{"speaker": 1, "text": "x"}]})";
  const DialogueSet set = read_dialogues(folder.write("mine.jsonl", line + "\n" + line));
  EXPECT_EQ(set.dialogues[0].id, "mine.jsonl:1");
  EXPECT_EQ(set.dialogues[1].id, "mine.jsonl:2");
}

TEST(Dialogues, MayStandInAListOrOverSeveralLines) {
  const TestFolder folder;
  const auto lines = read_dialogues(folder.write("lines.jsonl", kOwnLines)).dialogues;
  std::string list = kOwnLines;
  list.replace(list.find("\n\n"), 2, ",\n");
  EXPECT_EQ(read_dialogues(folder.write("list.json", " [" + list + "]\n")).dialogues, lines);
  std::string pretty = kOwnLines;
  for (std::size_t at = 0; (at = pretty.find(", \"", at)) != pretty.npos; ++at)
    pretty[at + 1] = '\n';
  EXPECT_EQ(read_dialogues(folder.write("pretty.json", pretty)).dialogues, lines);
  const auto brackets = folder.write(
      "brackets.json", R"([{"document": "]}\"", "turns": [{"speaker": 1, "text": "[{,"}]}])");
  EXPECT_EQ(read_dialogues(brackets).dialogues[0].document, "]}\"");
  EXPECT_EQ(read_dialogues(brackets).dialogues[0].id, "brackets.json:1");
}

TEST(Dialogues, OfCmuDogMayStandInAListToo) {
  const TestFolder folder;
  const auto lines = read_dialogues(write_cmu_lines(folder)).dialogues;
  std::string list = kCmuLines;
  list.replace(list.find('\n'), 1, ",");
  EXPECT_EQ(read_dialogues(folder.write("list.json", "[" + list + "]")).dialogues, lines);
}

TEST(Dialogues, NeedNoDocument) {
  const TestFolder folder;
  const auto path = folder.write(
      "mine.jsonl", R"({"id": 1, "turns": [{"speaker": 1, "text": "x"}]})"
                    "\n"
                    R"({"id": 2, "document": null, "turns": [{"speaker": 1, "text": "y"}]})"
                    "\n"
                    R"({"id": 3, "document": " ", "turns": [{"speaker": 1, "text": "z"}]})"
                    "\n"
                    R"({"id": 4, "document": "d", "turns": [{"speaker": 1, "text": "d"}]})");
  const std::vector<Dialogue> dialogues = read_dialogues(path).dialogues;
  ASSERT_EQ(dialogues.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(dialogues[i].document, "");
  EXPECT_EQ(dialogues[3].document, "d");
  write_dialogues(folder.path() / "again.jsonl", dialogues);
  EXPECT_EQ(read_dialogues(folder.path() / "again.jsonl").dialogues, dialogues);
}

TEST(Dialogues, OfCmuDogNeedNoDocuments) {
  const TestFolder alone;
  const auto lines = read_dialogues(alone.write("train.jsonl", kCmuLines)).dialogues;
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].document, "");
  const TestFolder release;
  const auto conversations = write_cmu_release(release);
  EXPECT_NE(read_dialogues(conversations).dialogues[0].document, "");
  std::filesystem::remove_all(release.path() / "WikiData");
  EXPECT_EQ(read_dialogues(conversations).dialogues[0].document, "");
  EXPECT_EQ(read_dialogues(conversations).dialogues.size(), 2U);
}

TEST(Dialogues, OfCmuDogsReleaseAreNoLeftovers) {
  const TestFolder folder;
  const auto conversations = write_cmu_release(folder);
  static_cast<void>(folder.write("Conversations/train/._0123456789abcdef.json", "no JSON"));
  static_cast<void>(folder.write("WikiData/.#Title.json", "no JSON"));
  EXPECT_EQ(read_dialogues(conversations).dialogues.size(), 2U);
}

TEST(Dialogues, MayBeginWithAByteOrderMark) {
  const TestFolder folder;
  EXPECT_EQ(read_dialogues(folder.write("mine.jsonl", std::string(kByteOrderMark) + kOwnLines))
                .dialogues.size(),
            2U);
}

TEST(Dialogues, OfCmuDogHaveTheWholeDocument) {
  const TestFolder folder;
  const DialogueSet set = read_dialogues(write_cmu_lines(folder));
  ASSERT_EQ(set.dialogues.size(), 2U);
  EXPECT_EQ(set.dialogues[0].id, "0123456789ab");
  EXPECT_EQ(set.dialogues[0].document, "Title\n1999\nDrama\nA as B\nC\nScene one.\nScene two.");
  EXPECT_THAT(set.dialogues[0].turns, ElementsAre(Turn{"2", "hello there"}, Turn{"1", "hi"}));
  EXPECT_EQ(set.dialogues[1].document, "Intro.");
  EXPECT_THAT(set.dialogues[1].turns, ElementsAre(Turn{"1", "one"}, Turn{"2", "two"}));
  EXPECT_EQ(set.joined_turns, 1);
}

TEST(Dialogues, OfCmuDogsReleaseAreThoseOfItsLines) {
  const TestFolder folder;
  const DialogueSet lines = read_dialogues(write_cmu_lines(folder));
  const std::filesystem::path release = write_cmu_release(folder);
  EXPECT_EQ(read_dialogues(release).dialogues, lines.dialogues);
  EXPECT_EQ(read_dialogues(release / "").dialogues, lines.dialogues);
  EXPECT_EQ(read_dialogues(release / ".." / "train").dialogues, lines.dialogues);
}

TEST(Dialogues, LeaveOutBlankTurnsWhenAsked) {
  const TestFolder folder;
  const auto file = folder.write(
      "mine.jsonl",
      R"({"document": "d", "turns": [{"speaker": 1, "text": "x"}, {"speaker": 2, "text": " \n"}, )"
      R"({"speaker": 1, "text": "y"}, {"speaker": 2, "text": "\u3000"}]})");
  const DialogueSet set = read_dialogues(file, {.leaves_out_blank_turns = true});
  EXPECT_THAT(set.dialogues[0].turns, ElementsAre(Turn{"1", "x y"}));
  EXPECT_EQ(set.blank_turns, 2);
  EXPECT_EQ(set.joined_turns, 1);
}

TEST(Dialogues, AreReadBackAsWritten) {
  const TestFolder folder;
  const std::vector<Dialogue> dialogues = {
      {"a\"b", "d\u00e9j\u00e0\n\t\\", {{"1", "x"}, {"2", "y\nz"}}},
      {"2",
       "doc",
       {{"Ann", "\U0001F600"},
        {"1", "."},
        {"Ann",
         "\u2028"
         "x"}}}};
  const std::filesystem::path file = folder.path() / "out.jsonl";
  write_dialogues(file, dialogues);
  EXPECT_EQ(read_dialogues(file).dialogues, dialogues);
  // Again in place of the file.
  write_dialogues(file, std::span(dialogues).first(1));
  EXPECT_EQ(read_dialogues(file).dialogues.size(), 1U);
}

TEST(Dialogues, ThatOtherDialoguesShareCanBeRemoved) {
  const TestFolder folder;
  DialogueSet set = read_dialogues(folder.write("mine.jsonl", kOwnLines));
  EXPECT_EQ(remove_shared(set, {}), 0);
  const std::vector<Dialogue> others = {{"a", "", {}}, {"b", "", {}}};
  EXPECT_EQ(remove_shared(set, others), 1);
  ASSERT_EQ(set.dialogues.size(), 1U);
  EXPECT_EQ(set.dialogues[0].id, "7");
  EXPECT_EQ(set.turns, 1);
  EXPECT_EQ(remove_shared(set, set.dialogues), 1);
  EXPECT_THAT(set.dialogues, IsEmpty());
}

}  // namespace
}  // namespace mneme::data
