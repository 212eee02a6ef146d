// mneme data dialogues
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/cli/data/data.hpp"
#include "host/data/dialogue/dialogue.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::cli {
namespace {

using mneme::test::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;

const std::string kLines = R"({"id": "a", "document": "d", "turns": [{"speaker": 1, "text": "x"}, )"
                           R"({"speaker": 1, "text": "y"}, {"speaker": 2, "text": " "}]})"
                           "\n"
                           R"({"id": "b", "document": "e", "turns": [{"speaker": 2, "text": "z"}]})"
                           "\n";

std::string convert(const DataDialoguesArguments& arguments) {
  std::ostringstream out, err;
  EXPECT_EQ(convert_dialogues(arguments, {.out = out, .err = err}), 0);
  return out.str();
}

void expect_refused(const DataDialoguesArguments& arguments, const std::string& text) {
  std::ostringstream out, err;
  try {
    convert_dialogues(arguments, {.out = out, .err = err});
    ADD_FAILURE() << "no error; expected one with " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(DataDialogues, WritesOurOwnFormAndSaysWhatItDid) {
  const TemporaryFolder folder;
  DataDialoguesArguments arguments;
  arguments.source = folder.write("in.jsonl", kLines);
  arguments.out = folder / "out.jsonl";
  arguments.leaves_out_blank_turns = true;
  const std::string said = convert(arguments);
  EXPECT_THAT(said, HasSubstr("2 dialogues, 2 turns\n1 turns of the source joined"));
  EXPECT_THAT(said, HasSubstr("1 turns of the source without text left out"));
  EXPECT_THAT(said, Not(HasSubstr("--except")));
  const data::DialogueSet set = data::read_dialogues(arguments.out);
  ASSERT_EQ(set.dialogues.size(), 2U);
  EXPECT_EQ(set.dialogues[0].turns, (std::vector<data::Turn>{{"1", "x y"}}));

  expect_refused(arguments, "out.jsonl: the file is there already: expected a new file; choose");
  arguments.keeps_turns = true;
  arguments.out = folder / "kept.jsonl";
  EXPECT_THAT(convert(arguments),
              HasSubstr("2 dialogues, 3 turns\n1 turns of the source without text"));
}

TEST(DataDialogues, CountsDialoguesWithoutADocument) {
  const TemporaryFolder folder;
  DataDialoguesArguments arguments;
  arguments.source =
      folder.write("in.json", R"([{"id": "a", "turns": [{"speaker": 1, "text": "x"}]},
    {"id": "b", "document": "d", "turns": [{"speaker": 1, "text": "x"}]}])");
  arguments.out = folder / "out.jsonl";
  EXPECT_THAT(convert(arguments),
              HasSubstr("2 dialogues, 2 turns\n1 dialogues without a document"));
  EXPECT_EQ(read_file(arguments.out),
            "{\"id\":\"a\",\"turns\":[{\"speaker\":1,\"text\":\"x\"}]}\n"
            "{\"id\":\"b\",\"document\":\"d\",\"turns\":[{\"speaker\":1,\"text\":\"x\"}]}\n");
}

TEST(DataDialogues, LeavesOutDialoguesThatOtherFilesHave) {
  const TemporaryFolder folder;
  DataDialoguesArguments arguments;
  arguments.source = folder.write("in.jsonl", kLines);
  arguments.out = folder / "out.jsonl";
  arguments.leaves_out_blank_turns = true;
  arguments.except = {folder.write(
      "other.jsonl", R"({"id": "a", "document": "d", "turns": [{"speaker": 1, "text": "x"}]})")};
  EXPECT_THAT(convert(arguments), HasSubstr("1 dialogues left out"));
  const data::DialogueSet set = data::read_dialogues(arguments.out);
  ASSERT_EQ(set.dialogues.size(), 1U);
  EXPECT_EQ(set.dialogues[0].id, "b");
}

TEST(DataDialogues, RefusesWithoutWritingAnything) {
  const TemporaryFolder folder;
  DataDialoguesArguments arguments;
  arguments.source = folder.write("in.jsonl", kLines);
  arguments.out = folder / "new.jsonl";
  expect_refused(arguments, "in.jsonl:1: turn 2 (the first is 0) has no text");
  arguments.leaves_out_blank_turns = true;
  arguments.except = {arguments.source};
  expect_refused(arguments, "no dialogue is left");
  EXPECT_FALSE(std::filesystem::exists(arguments.out));
  arguments.out = folder.write("out.jsonl", "before");
  arguments.except = {arguments.out};
  expect_refused(arguments, "this file is read");
  arguments.except = {};
  expect_refused(arguments, "out.jsonl: the file is there already");
  EXPECT_EQ(read_file(arguments.out), "before");
  arguments.out = arguments.source;
  expect_refused(arguments, "this file is read");
  EXPECT_EQ(read_file(arguments.source), kLines);
  arguments.out = folder / "new.jsonl";
  arguments.source = folder / "missing.jsonl";
  expect_refused(arguments, "missing.jsonl");
}

}  // namespace
}  // namespace mneme::cli
