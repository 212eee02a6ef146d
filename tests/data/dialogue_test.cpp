#include "host/data/dialogue/dialogue.hpp"

#include <string>
#include <vector>

#include "tests/data/dialogue_files.hpp"

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
