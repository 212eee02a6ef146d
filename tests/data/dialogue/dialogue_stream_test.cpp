// Dialogues as data: the marks of a vocabulary, segments of pieces, what is predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "host/data/dataset.hpp"
#include "host/data/dialogue/dialogue_data.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Words w0, w1, ... of `document` and of turns of these many words.
Dialogue dialogue_of(int number, int document, const std::vector<int>& turns) {
  const auto words = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += str(i == 0 ? "" : " ", "w", i % 5);
    return text;
  };
  Dialogue out{.id = str("d", number), .document = words(document), .turns = {}};
  out.where = str("dialogues:", number + 1);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    out.turns.push_back({i % 2 == 0 ? "1" : "2", words(turns[i])});
  }
  return out;
}

std::vector<Dialogue> some_dialogues() {
  return {dialogue_of(0, 9, {3, 2, 4}), dialogue_of(1, 2, {1}), dialogue_of(2, 5, {2, 6}),
          dialogue_of(3, 4, {3, 3, 3, 3}), dialogue_of(4, 7, {1, 1})};
}

Vocabulary words_with_marks() {
  const std::vector<NamedText> texts = {{"w", "w0 w1 w2 w3 w4"}};
  return Vocabulary::words(texts, {.add_eos = false}).with_marks(kDialogueMarks);
}

std::shared_ptr<const DialogueData> data_of(std::vector<Dialogue> dialogues,
                                            bool has_document = true) {
  return encode_dialogues(std::move(dialogues), "dialogues", "data.train", words_with_marks(),
                          has_document);
}

std::vector<TokenSegment> segments_of(const std::shared_ptr<const DialogueData>& data,
                                      const StreamOptions& options) {
  DialogueStream stream(data, {}, options);
  return read_all(stream);
}

// Of each dialogue, by number: input -> target pairs of all segments in order.
std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> pairs_by_dialogue(
    const std::vector<TokenSegment>& segments) {
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> out;
  for (const TokenSegment& segment : segments) {
    for (std::int64_t b = 0; b < segment.lanes; ++b) {
      for (std::int64_t t = 0; t < segment.valid[at(b)]; ++t) {
        const std::size_t i = at(b * segment.length + t);
        out[segment.document[at(b)]].emplace_back(segment.inputs[i], segment.targets[i]);
      }
    }
  }
  return out;
}

TEST(DialogueStream, CutsPiecesFromTheEnd) {
  const auto data = data_of({dialogue_of(0, 3, {2, 1})});
  // <doc> w0 w1 w2 <eos> <speaker2> w0 w1 <speaker1> w0: ten tokens, pieces of 2, 4 and 4
  const DialogueSequence& sequence = data->sequences[0];
  ASSERT_EQ(sequence.size(), 10);
  const auto segments = segments_of(data, {.lanes = 1, .segment = 4, .epochs = 1});
  ASSERT_THAT(segments, SizeIs(3));
  EXPECT_EQ(segments[0].length, 2);
  EXPECT_THAT(segments[0].reset, ElementsAre(1));
  EXPECT_THAT(segments[1].reset, ElementsAre(0));
  EXPECT_THAT(segments[2].offset, ElementsAre(6));
  for (std::int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(segments[2].inputs[at(i)], sequence.tokens[at(6 + i)]);
  // Only the turns' texts are predicted: w0 w1 of the first, w0 of the second.
  EXPECT_THAT(segments[0].targets, ElementsAre(kNoTarget, kNoTarget));
  EXPECT_THAT(segments[1].targets,
              ElementsAre(kNoTarget, kNoTarget, kNoTarget, sequence.tokens[6]));
  EXPECT_THAT(segments[2].targets,
              ElementsAre(sequence.tokens[7], kNoTarget, sequence.tokens[9], kNoTarget));
  EXPECT_THAT(segments[0].types, ElementsAre(data->ids.doc, data->ids.doc));
  EXPECT_THAT(segments[2].types, ElementsAre(data->ids.speaker2, data->ids.speaker2,
                                             data->ids.speaker1, data->ids.speaker1));
}

// Only a lane's last segment before a reset may be shorter than a segment.
TEST(DialogueStream, CutsPiecesOfSeveralLanesFromTheBeginning) {
  const auto data = data_of(some_dialogues());
  for (const TokenSegment& one : segments_of(data, {.lanes = 2, .segment = 5, .epochs = 1})) {
    for (std::int64_t b = 0; b < 2; ++b) {
      if (one.valid[at(b)] == 0) continue;
      EXPECT_EQ(one.offset[at(b)] % 5, 0);
      const std::int64_t size = data->sequences[at(one.document[at(b)])].size();
      EXPECT_EQ(one.valid[at(b)], std::min<std::int64_t>(5, size - one.offset[at(b)]));
    }
  }
}

TEST(DialogueStream, TrainsOnEveryTokenButTheFirst) {
  const auto data = data_of(some_dialogues());
  const StreamOptions options{.lanes = 2, .segment = 5, .epochs = 3, .is_training = true};
  const auto segments = segments_of(data, options);
  DialogueStream stream(data, {}, options);
  EXPECT_EQ(segments.size(), static_cast<std::size_t>(3 * stream.segments_per_epoch()));
  std::int64_t tokens = 0, targets = 0;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<TokenSegment> own;
    for (const TokenSegment& one : segments) {
      if (one.epoch == epoch) own.push_back(one);
    }
    const auto pairs = pairs_by_dialogue(own);
    ASSERT_THAT(pairs, SizeIs(5)) << epoch;
    for (const auto& [number, read] : pairs) {
      const DialogueSequence& sequence = data->sequences[at(number)];
      ASSERT_EQ(static_cast<std::int64_t>(read.size()), sequence.size());
      for (std::size_t i = 0; i < read.size(); ++i) {
        EXPECT_EQ(read[i].first, sequence.tokens[i]);
        EXPECT_EQ(read[i].second,
                  i + 1 < read.size() ? std::int64_t{sequence.tokens[i + 1]} : kNoTarget);
      }
      tokens += sequence.size();
    }
    for (const TokenSegment& one : own) targets += one.target_count();
  }
  EXPECT_EQ(tokens, 3 * data->corpus->size());
  EXPECT_EQ(targets, 3 * stream.targets_per_epoch());
  EXPECT_EQ(stream.target_segments_per_epoch(), stream.segments_per_epoch());
}

TEST(DialogueStream, DrawsAnotherOrderForEachEpochAndSeed) {
  const auto data = data_of(some_dialogues());
  const auto order_of = [&](std::uint64_t seed, std::int64_t epoch) {
    std::vector<std::int64_t> order;
    for (const TokenSegment& one : segments_of(
             data, {.lanes = 1, .segment = 64, .epochs = 4, .is_training = true, .seed = seed})) {
      if (one.epoch == epoch) order.push_back(one.document[0]);
    }
    return order;
  };
  EXPECT_EQ(order_of(1, 0), order_of(1, 0));
  std::set<std::vector<std::int64_t>> orders;
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) orders.insert(order_of(seed, epoch));
  }
  EXPECT_GT(orders.size(), 6U);
  std::vector<std::int64_t> evaluated;
  for (const TokenSegment& one : segments_of(data, {.lanes = 1, .segment = 64, .epochs = 1})) {
    evaluated.push_back(one.document[0]);
  }
  EXPECT_THAT(evaluated, ElementsAre(0, 1, 2, 3, 4));
}

// What a lane reads depends on the dialogue alone.
TEST(DialogueStream, GivesEachDialogueTheSamePiecesInAnyNumberOfLanes) {
  const auto data = data_of(some_dialogues());
  const auto one = pairs_by_dialogue(segments_of(data, {.lanes = 1, .segment = 6, .epochs = 1}));
  for (const std::int64_t lanes : {2, 3, 7}) {
    const auto segments = segments_of(data, {.lanes = lanes, .segment = 6, .epochs = 1});
    EXPECT_EQ(pairs_by_dialogue(segments), one) << lanes;
    for (const TokenSegment& segment : segments) {
      EXPECT_GE(segment.length, 1);
      for (std::int64_t b = 0; b < lanes; ++b) {
        if (segment.valid[at(b)] == 0) {
          EXPECT_EQ(segment.reset[at(b)], 1);
        }
      }
    }
  }
}

TEST(DialogueStream, ContinuesWhereItStood) {
  const auto data = data_of(some_dialogues());
  const StreamOptions options{
      .lanes = 2, .segment = 4, .epochs = 3, .is_training = true, .seed = 5};
  const auto all = segments_of(data, options);
  for (const std::size_t stop : {std::size_t{1}, all.size() / 2, all.size() - 1}) {
    DialogueStream first(data, {}, options), second(data, {}, options);
    TokenSegment segment;
    for (std::size_t i = 0; i < stop; ++i) ASSERT_TRUE(first.next(segment));
    second.seek(first.position());
    for (std::size_t i = stop; i < all.size(); ++i) {
      ASSERT_TRUE(second.next(segment));
      EXPECT_EQ(segment.inputs, all[i].inputs);
      EXPECT_EQ(segment.targets, all[i].targets);
      EXPECT_EQ(segment.reset, all[i].reset);
      EXPECT_EQ(segment.index, all[i].index);
      EXPECT_EQ(segment.epoch, all[i].epoch);
    }
    EXPECT_FALSE(second.next(segment));
  }
  DialogueStream other(data, {}, {.lanes = 3, .segment = 4});
  expect_error(ErrorKind::kRun, {"other data: lanes", "expected 3"},
               [&] { other.seek(DialogueStream(data, {}, options).position()); });
}

TEST(DialogueStream, RefusesWhatCannotBeRead) {
  expect_error(ErrorKind::kUsage, {"data.train", "there are no dialogues"},
               [] { static_cast<void>(data_of({})); });
  const auto data = data_of(some_dialogues());
  expect_error(ErrorKind::kUsage, {"train.segment", "a segment without a target", "at least 2"},
               [&] { DialogueStream(data, {}, {.lanes = 1, .segment = 1, .is_training = true}); });
  expect_error(ErrorKind::kUsage, {"no marks of dialogues", "<speaker1>"}, [] {
    static_cast<void>(
        encode_dialogues(some_dialogues(), "f", "data.train", Vocabulary::bytes(), true));
  });
  auto marked = some_dialogues();
  marked[1].turns[0].text = "w0 <doc>";
  expect_error(ErrorKind::kUsage, {"dialogues:2", "write the mark otherwise"},
               [&] { static_cast<void>(data_of(marked)); });
}

// --- Marks of a vocabulary ---

TEST(VocabularyMarks, FollowTheSymbolsAndComeBackFromJson) {
  const std::vector<NamedText> texts = {{"t", "ab a c <doc>"}};
  const Vocabulary kinds[] = {
      Vocabulary::bytes(), Vocabulary::bytes_without_newline(texts), Vocabulary::characters(texts),
      Vocabulary::words(texts, {.add_eos = false}),
      Vocabulary::pretrained(
          std::make_shared<const Tokenizer>(tokenizer_of(small_tokenizer_json())))};
  for (const Vocabulary& plain : kinds) {
    SCOPED_TRACE(to_word(plain.kind()));
    const Vocabulary marked = plain.with_marks(kDialogueMarks);
    const std::int64_t known = plain.find("<doc>") ? 1 : 0;  // a word of the text
    EXPECT_EQ(marked.size(), plain.size() + 6 - known);
    EXPECT_EQ(marked.marks(), 6 - known);
    EXPECT_TRUE(marked.is_mark(marked.size() - 1));
    EXPECT_FALSE(marked.is_mark(plain.size() - 1));
    EXPECT_EQ(marked.with_marks(kDialogueMarks), marked);
    EXPECT_FALSE(marked == plain);
    EXPECT_NE(marked.sha256(), plain.sha256());
    const Vocabulary read = Vocabulary::from_json(marked.to_json(), "again");
    EXPECT_EQ(read, marked);
    EXPECT_EQ(read.sha256(), marked.sha256());
    EXPECT_EQ(read.marks(), marked.marks());
    EXPECT_EQ(read.counts(), marked.counts());
    const std::int32_t speaker = marked.find("<speaker1>").value();
    std::vector<std::int32_t> ids = {speaker};
    static_cast<void>(marked.encode({"t", "a"}, ids));
    ids.push_back(speaker);
    const std::string text = marked.decode(ids);
    EXPECT_TRUE(text.starts_with("<speaker1>") && text.ends_with("<speaker1>")) << text;
    EXPECT_NE(text.find('a'), std::string::npos);
    std::vector<std::int32_t> before, after;
    static_cast<void>(plain.encode({"t", "ab a"}, before));
    static_cast<void>(marked.encode({"t", "ab a"}, after));
    EXPECT_EQ(before, after);
  }
}

TEST(VocabularyMarks, AreCheckedWhenTheyAreRead) {
  Json json = Vocabulary::bytes().with_marks(kDialogueMarks).to_json();
  for (const Json& wrong :
       {Json(3), Json::array({"a"}), Json::array({"<x>", "<x>"}), Json::array({1})}) {
    json["marks"] = wrong;
    expect_error(ErrorKind::kUsage, {"file: marks", "different strings that are no symbols"},
                 [&] { static_cast<void>(Vocabulary::from_json(json, "file")); });
  }
}

// --- [data] task = "dialogue" ---

constexpr const char* kLines =
    R"({"id": "a", "document": "one two", "turns": [{"speaker": 1, "text": "three"}, )"
    R"({"speaker": 2, "text": "one"}]})"
    "\n"
    R"({"id": "b", "document": "two", "turns": [{"speaker": 1, "text": "three three"}]})"
    "\n";

config::DataConfig dialogue_config(const std::filesystem::path& file) {
  config::DataConfig config;
  config.task = config::Task::kDialogue;
  config.vocabulary = config::Vocabulary::kWord;
  config.add_eos = false;
  config.train = config.valid = file;
  return config;
}

TEST(DialogueDataset, ReadsSplitsWithOneVocabulary) {
  const TestFolder folder;
  const auto config = dialogue_config(folder.write("train.jsonl", kLines));
  const Dataset dataset(config);
  EXPECT_EQ(dataset.vocabulary_size(), 3 + 1 + 6);  // one two three <unk>
  EXPECT_EQ(dataset.vocabulary()->marks(), 6);
  ASSERT_NE(dataset.dialogues(Split::kValid), nullptr);
  EXPECT_EQ(dataset.dialogues(Split::kTest), nullptr);
  EXPECT_EQ(dataset.corpus(Split::kTrain), dataset.dialogues(Split::kTrain)->corpus);
  EXPECT_THAT(dataset.corpus(Split::kTrain)->documents, ElementsAre(0, 8));
  const DialogueIds ids = dialogue_ids(*dataset.vocabulary());
  EXPECT_THAT(dataset.type_marks(), ElementsAre(ids.doc, ids.speaker1, ids.speaker2));
  EXPECT_TRUE(dataset.has_dialogues());
  const Json described = dataset.describe();
  EXPECT_EQ(described.at("task"), "dialogue");
  EXPECT_EQ(described.at("with_document"), true);
  EXPECT_EQ(described.at("train").at("documents"), 2);
  EXPECT_FALSE(described.contains("reset"));
  // A run's vocabulary needs no training file.
  const Dataset again(config, {.splits = {Split::kValid}, .vocabulary = *dataset.vocabulary()});
  EXPECT_EQ(again.vocabulary_size(), dataset.vocabulary_size());
  EXPECT_EQ(again.dialogues(Split::kTrain), nullptr);
}

TEST(DialogueDataset, NamesTheKeyOfAFileThatIsNotThere) {
  const TestFolder folder;
  expect_error(ErrorKind::kUsage,
               {"data.train: ", "nowhere.jsonl", "expected a file or folder of dialogues",
                "got no such file"},
               [&] { Dataset(dialogue_config(folder.path() / "nowhere.jsonl")); });
  static_cast<void>(folder.write("packed.jsonl.xz", "packed"));
  expect_error(ErrorKind::kUsage, {"packed.jsonl", "unpack it: xz -dk"},
               [&] { Dataset(dialogue_config(folder.path() / "packed.jsonl")); });
}

TEST(DialogueDataset, LeavesOutDocumentsAndTypes) {
  const TestFolder folder;
  auto config = dialogue_config(folder.write("train.jsonl", kLines));
  config.dialogue = {.has_document = false, .has_token_types = false};
  const Dataset dataset(config);
  EXPECT_THAT(dataset.type_marks(), IsEmpty());
  EXPECT_THAT(dataset.corpus(Split::kTrain)->documents, ElementsAre(0, 4));
  // A document that is not read may be missing; one that is read may not.
  const auto turns = folder.write("turns.jsonl", R"({"turns": [{"speaker": 1, "text": "x"}]})");
  auto alone = dialogue_config(turns);
  const auto blank = folder.write(
      "blank.jsonl", R"({"document": " \u00a0", "turns": [{"speaker": 1, "text": "x"}]})");
  for (const auto& path : {turns, blank}) {
    expect_error(ErrorKind::kUsage,
                 {":1: the dialogue has no document", "data.with_document = false"},
                 [&] { Dataset{dialogue_config(path)}; });
  }
  alone.dialogue.has_document = false;
  EXPECT_EQ(Dataset(alone).dialogues(Split::kTrain)->sequences[0].size(), 2);
  const auto stream = dataset.make_stream(Split::kValid, {.lanes = 1, .segment = 8, .epochs = 1});
  TokenSegment segment;
  ASSERT_TRUE(stream->next(segment));
  EXPECT_THAT(segment.types, IsEmpty());
  EXPECT_EQ(segment.inputs[0], dialogue_ids(*dataset.vocabulary()).speaker2);
}

}  // namespace
}  // namespace mneme::data
