// Files of questions: what is read, and what is refused by file and line.
#include "host/data/questions/questions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(Questions, AreReadAsTheyStand) {
  const TestFolder folder;
  const auto read = read_questions(folder.write(
      "mine.jsonl",
      R"({"prompt": "1 + 1 = ", "answer": " 2\n", "id": "a", "unit": "b", "groups": {"task": "sum", "length": "8"}})"
      "\n\n"
      R"({"groups": {"length": "9", "task": "sum"}, "choices": ["x", "\u00e9", " x"], "prompt": "?", "answer": 2})"
      "\r\n"));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].prompt, "1 + 1 = ");
  EXPECT_THAT(read[0].choices, ElementsAre(" 2\n"));
  EXPECT_EQ(read[0].right, 0u);
  EXPECT_EQ(read[0].unit, "b");
  EXPECT_EQ(read[1].unit, "");
  EXPECT_FALSE(read[0].has_choices());
  EXPECT_THAT(read[0].groups, ElementsAre(Pair("length", "8"), Pair("task", "sum")));
  EXPECT_EQ(read[1].where, (folder.path() / "mine.jsonl").string() + ":3");
  EXPECT_THAT(read[1].choices, ElementsAre("x", "é", " x"));
  EXPECT_EQ(read[1].right, 2u);
  EXPECT_TRUE(read[1].has_choices());
  std::vector<std::string> texts;
  for (const NamedText& text : texts_of(read)) texts.emplace_back(text.text);
  EXPECT_THAT(texts, ElementsAre("1 + 1 = ", " 2\n", "?", "x", "é", " x"));
}

TEST(Questions, HaveGroupsOnlyWhereTheyAreGiven) {
  const TestFolder folder;
  const auto read = read_questions(folder.write("mine.jsonl", R"({"prompt": "p", "answer": "a"})"));
  ASSERT_EQ(read.size(), 1u);
  EXPECT_THAT(read[0].groups, IsEmpty());
}

// Expects the second line of a file to be refused with these parts in the message.
void expect_refused(const std::string& line, const std::vector<std::string>& parts) {
  SCOPED_TRACE(line);
  const TestFolder folder;
  const std::string first = R"({"prompt": "p", "answer": "a", "groups": {"task": "t"}})";
  const auto file = folder.write("mine.jsonl", first + "\n" + line + "\n");
  std::vector<std::string> all = {file.string() + ":2"};
  all.insert(all.end(), parts.begin(), parts.end());
  expect_error(ErrorKind::kUsage, all, [&] { static_cast<void>(read_questions(file)); });
}

TEST(Questions, AreRefusedByLine) {
  expect_refused(R"({"prompt": "p", )", {"no JSON", "its end"});
  expect_refused(R"(["p", "a"])", {"a JSON object"});
  expect_refused(R"({"prompt": "p", "answer": "a", "anwser": "b"})", {"unknown key", "got anwser"});
  expect_refused(R"({"prompt": "p", "answer": "a", "answer": "b"})",
                 {"a key is there twice", "each key once", "got \"answer\""});
  expect_refused(R"({"groups": {"task": "t", "id": "1", "task": "u"}, "prompt": "p", "id": "1"})",
                 {"a key is there twice", "got \"task\""});
  expect_refused(R"({"answer": "a"})", {"the question has no prompt", "\"prompt\""});
  expect_refused(R"({"prompt": "p"})", {"the question has no answer", "\"answer\""});
  expect_refused(R"({"prompt": 3, "answer": "a"})", {"prompt", "a text in quotes", "got 3"});
  expect_refused(R"({"prompt": "", "answer": "a"})", {"prompt", "not empty", "got \"\""});
  expect_refused(R"({"prompt": "p", "answer": ""})", {"answer", "not empty", "got \"\""});
  expect_refused(R"({"prompt": "p", "answer": 1})", {"without choices", "a text", "got 1"});
  expect_refused(R"({"prompt": "p", "answer": "a", "id": 7})", {"id", "a text", "got 7"});
  expect_refused(R"({"prompt": "p", "answer": "a", "unit": 7})", {"unit", "a text", "got 7"});
}

TEST(Questions, AreRefusedForTheirChoices) {
  const auto with = [](const std::string& rest) { return R"({"prompt": "p", "choices": )" + rest; };
  expect_refused(with(R"("a", "answer": 0})"), {"a list of at least two texts", "got \"a\""});
  expect_refused(with(R"(["a"], "answer": 0})"), {"a list of at least two texts", "got [\"a\"]"});
  expect_refused(with(R"(["a", 2], "answer": 0})"), {"a choice", "a text", "got 2"});
  expect_refused(with(R"(["a", ""], "answer": 0})"), {"a choice", "not empty"});
  expect_refused(with(R"(["a", "b", "a"], "answer": 0})"), {"two choices", "equal", "got \"a\""});
  expect_refused(with(R"(["a", "b"]})"), {"the question has no answer"});
  for (const std::string answer : {"2", "-1", "0.5", "\"a\"", "true"}) {
    expect_refused(with(R"(["a", "b"], "answer": )" + answer + "}"),
                   {"the index of the right one, from 0 to 1", "got " + answer});
  }
}

TEST(Questions, AreRefusedForTheirGroups) {
  const std::string begin = R"({"prompt": "p", "answer": "a")";
  expect_refused(begin + "}", {"other groups than that of", "mine.jsonl:1", "task", "got none"});
  expect_refused(begin + R"(, "groups": {"task": "t", "length": "1"}})", {"got length, task"});
  expect_refused(begin + R"(, "groups": {"task": 1}})", {"the group task", "a text", "got 1"});
  expect_refused(begin + R"(, "groups": {"task": ""}})", {"the group task", "not empty"});
  expect_refused(begin + R"(, "groups": ["task"]})", {"an object of texts", "[\"task\"]"});
}

TEST(Questions, AreThere) {
  const TestFolder folder;
  expect_error(ErrorKind::kUsage, {"empty.jsonl", "no record"},
               [&] { static_cast<void>(read_questions(folder.write("empty.jsonl", "\n \n"))); });
}

}  // namespace
}  // namespace mneme::data
