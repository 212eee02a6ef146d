#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "host/data/dialogue/dialogue_data.hpp"
#include "host/data/dialogue/sequence.hpp"
#include "tests/data/dialogue/dialogue_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using TokenIds = std::vector<std::int32_t>;

// One id for each word, in the order of first use; at most 1,000,000 words.
class FirstUseEncoder {
 public:
  TokenIds operator()(std::string_view text) {
    TokenIds ids;
    for_each_word(
        {"text", text},
        [&](std::string_view word) {
          ids.push_back(ids_.try_emplace(std::string(word), static_cast<std::int32_t>(ids_.size()))
                            .first->second);
        },
        [] {});
    return ids;
  }

 private:
  std::map<std::string, std::int32_t> ids_;
};

// Letters a, b, c, ... are the ids 0, 1, 2, ...
TokenIds letter_ids(std::string_view text) {
  TokenIds ids;
  for (const char c : text) ids.push_back(c - 'a');
  return ids;
}

const Dialogue kSmallDialogue = {"s", "abc", {{"1", "de"}, {"2", "f"}, {"1", "gh"}}, "small:1"};

TEST(DialogueIds, FollowTheVocabularyInAFixedOrder) {
  const DialogueIds ids = dialogue_ids(Vocabulary::bytes().with_marks(kDialogueMarks));
  EXPECT_EQ(ids.bos, 256);
  EXPECT_EQ(ids.eos, 257);
  EXPECT_EQ(ids.pad, 258);
  EXPECT_EQ(ids.speaker1, 259);
  EXPECT_EQ(ids.speaker2, 260);
  EXPECT_EQ(ids.doc, 261);
  EXPECT_EQ(ids.vocabulary_size, 262);
  EXPECT_EQ(ids.speaker_of(0), ids.speaker2);
  EXPECT_EQ(ids.speaker_of(1), ids.speaker1);
}

TEST(DialogueIds, AreThoseOfTheVocabularyWhereItHasMarks) {
  const std::vector<NamedText> training = {{"t", "<doc> a b\n"}};  // <eos> <doc> a b <unk>
  const DialogueIds ids = dialogue_ids(Vocabulary::words(training).with_marks(kDialogueMarks));
  EXPECT_EQ(ids.bos, 5);
  EXPECT_EQ(ids.eos, 0);
  EXPECT_EQ(ids.pad, 6);
  EXPECT_EQ(ids.speaker1, 7);
  EXPECT_EQ(ids.speaker2, 8);
  EXPECT_EQ(ids.doc, 1);
  EXPECT_EQ(ids.vocabulary_size, 9);
}

// With 10 ids of texts: bos 10, eos 11, pad 12, speaker1 13, speaker2 14, doc 15.
TEST(DialogueSequences, HaveMarksTypesAndUtterances) {
  const DialogueIds ids = marks_behind(10);
  const DialogueSequence got = make_sequence(kSmallDialogue, ids, &letter_ids);
  EXPECT_THAT(got.tokens, ElementsAre(15, 0, 1, 2, 11, 14, 3, 4, 13, 5, 14, 6, 7));
  EXPECT_THAT(got.types, ElementsAre(15, 15, 15, 15, 15, 14, 14, 14, 13, 13, 14, 14, 14));
  EXPECT_THAT(got.is_utterance, ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1, 1));
  EXPECT_EQ(got.document, (TokenRange{1, 4}));
  EXPECT_THAT(got.turns, ElementsAre(TokenRange{5, 8}, TokenRange{8, 10}, TokenRange{10, 13}));
}

TEST(DialogueSequences, MayLeaveOutTheDocument) {
  const DialogueIds ids = marks_behind(10);
  const DialogueSequence got =
      make_sequence(kSmallDialogue, ids, &letter_ids, /*has_document=*/false);
  EXPECT_THAT(got.tokens, ElementsAre(14, 3, 4, 13, 5, 14, 6, 7));
  EXPECT_THAT(got.types, ElementsAre(14, 14, 14, 13, 13, 14, 14, 14));
  EXPECT_THAT(got.is_utterance, ElementsAre(0, 1, 1, 0, 1, 0, 1, 1));
  EXPECT_EQ(got.document.size(), 0);
  EXPECT_EQ(got.turns.front(), (TokenRange{0, 3}));
}

TEST(DialoguePieces, AreCutFromTheEnd) {
  EXPECT_THAT(cut_from_end(0, 4), IsEmpty());
  EXPECT_THAT(cut_from_end(3, 4), ElementsAre(TokenRange{0, 3}));
  EXPECT_THAT(cut_from_end(4, 4), ElementsAre(TokenRange{0, 4}));
  EXPECT_THAT(cut_from_end(13, 4),
              ElementsAre(TokenRange{0, 1}, TokenRange{1, 5}, TokenRange{5, 9}, TokenRange{9, 13}));
  EXPECT_THAT(cut_from_end(1025),
              ElementsAre(TokenRange{0, 1}, TokenRange{1, 513}, TokenRange{513, 1025}));
}

TEST(DialoguePieces, LeaveRoomInTheLastOne) {
  EXPECT_THAT(cut_from_end(13, 4, 3), ElementsAre(TokenRange{0, 4}, TokenRange{4, 8},
                                                  TokenRange{8, 12}, TokenRange{12, 13}));
  EXPECT_THAT(cut_from_end(2, 4, 1), ElementsAre(TokenRange{0, 2}));
}

TEST(GenerationInstances, EndInTheOwnMarkAndNeverHoldTheAnswer) {
  const DialogueIds ids = marks_behind(10);
  const DialogueSequence sequence = make_sequence(kSmallDialogue, ids, &letter_ids);
  const std::vector<GenerationInstance> got = generation_instances(sequence);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].context, (TokenRange{0, 6}));  // <doc> a b c <eos> <speaker2>
  EXPECT_EQ(got[0].reference, (TokenRange{6, 8}));
  EXPECT_EQ(got[1].context, (TokenRange{0, 9}));  // ... d e <speaker1>
  EXPECT_EQ(got[1].reference, (TokenRange{9, 10}));
  EXPECT_EQ(got[2].context, (TokenRange{0, 11}));  // ... f <speaker2>
  EXPECT_EQ(got[2].reference, (TokenRange{11, 13}));
}

TEST(GenerationInstances, MayBeThoseOfLaterTurns) {
  const DialogueIds ids = marks_behind(10);
  const DialogueSequence sequence = make_sequence(kSmallDialogue, ids, &letter_ids);
  const auto turns = [&](std::int64_t turns_before) {
    std::vector<std::int64_t> out;
    for (const GenerationInstance& each : generation_instances(sequence, turns_before)) {
      out.push_back(each.turn);
    }
    return out;
  };
  EXPECT_THAT(turns(1), ElementsAre(1, 2));
  EXPECT_THAT(turns(2), ElementsAre(2));
  EXPECT_THAT(turns(3), IsEmpty());
}

// What every sequence, its pieces and its instances have to keep.
void expect_sound(const Dialogue& dialogue, const DialogueIds& ids, const TextEncoder& encode,
                  std::int64_t length, std::int64_t room) {
  const DialogueSequence all = make_sequence(dialogue, ids, encode);
  TokenIds joined = {ids.doc};
  const TokenIds document = encode(dialogue.document);
  joined.insert(joined.end(), document.begin(), document.end());
  joined.push_back(ids.eos);
  std::int64_t of_turns = 0;
  for (std::size_t i = 0; i < dialogue.turns.size(); ++i) {
    joined.push_back(i % 2 == 0 ? ids.speaker2 : ids.speaker1);
    const TokenIds turn = encode(dialogue.turns[i].text);
    joined.insert(joined.end(), turn.begin(), turn.end());
    of_turns += static_cast<std::int64_t>(turn.size());
  }
  ASSERT_EQ(all.tokens, joined);
  ASSERT_EQ(all.types.size(), joined.size());
  EXPECT_EQ(std::count(all.is_utterance.begin(), all.is_utterance.end(), 1), of_turns);

  TokenIds rejoined;
  const std::vector<TokenRange> pieces = cut_from_end(all.size(), length, room);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int64_t full = i + 1 == pieces.size() ? length - room : length;
    EXPECT_GT(pieces[i].size(), 0);
    if (i == 0) {
      EXPECT_LE(pieces[i].size(), full);
    } else {
      EXPECT_EQ(pieces[i].size(), full);
    }
    rejoined.insert(rejoined.end(), all.tokens.begin() + pieces[i].begin,
                    all.tokens.begin() + pieces[i].end);
  }
  EXPECT_EQ(rejoined, joined);

  std::int64_t marks = 0;
  for (const GenerationInstance& instance : generation_instances(all)) {
    EXPECT_EQ(instance.context.begin, 0);
    EXPECT_EQ(instance.context.end, instance.reference.begin);
    const auto mark = static_cast<std::size_t>(instance.context.end - 1);
    EXPECT_EQ(all.tokens[mark], ids.speaker_of(instance.turn));
    const TokenIds answer(all.tokens.begin() + instance.reference.begin,
                          all.tokens.begin() + instance.reference.end);
    EXPECT_EQ(answer, encode(dialogue.turns[static_cast<std::size_t>(instance.turn)].text));
    for (std::int64_t i = instance.reference.begin; i < instance.reference.end; ++i) {
      EXPECT_EQ(all.is_utterance[static_cast<std::size_t>(i)], 1);
      EXPECT_EQ(all.types[static_cast<std::size_t>(i)], ids.speaker_of(instance.turn));
    }
    ++marks;
  }
  EXPECT_EQ(marks, static_cast<std::int64_t>(dialogue.turns.size()));
}

TEST(DialogueSequences, OfRandomDialoguesAreSound) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const auto words = [&](unsigned most) {
    std::string text;
    for (auto n = random() % most + 1; n > 0; --n) {
      text += "w" + std::to_string(random() % 50) + (random() % 9 == 0 ? "\n" : " ");
    }
    return text;
  };
  const auto encoder = std::make_shared<FirstUseEncoder>();
  const TextEncoder encode = [encoder](std::string_view text) { return (*encoder)(text); };
  for (int i = 0; i < 200; ++i) {
    Dialogue dialogue = {std::to_string(i), words(60), {}, "random:" + std::to_string(i)};
    for (auto n = random() % 12 + 1; n > 0; --n) {
      dialogue.turns.push_back({n % 2 == 0 ? "1" : "2", words(20)});
    }
    const auto length = static_cast<std::int64_t>(random() % 40 + 2);
    const auto room = static_cast<std::int64_t>(random()) % length;
    expect_sound(dialogue, marks_behind(1'000'000), encode, length, room);
  }
}

// Over a whole data set: MNEME_DIALOGUES names files or folders, separated by ':'.
TEST(DialogueSequences, OfNamedFilesAreSound) {
  const char* const named = std::getenv("MNEME_DIALOGUES");
  if (named == nullptr) GTEST_SKIP() << "MNEME_DIALOGUES names no files";
  std::string list = std::string(named) + ":";
  const auto encoder = std::make_shared<FirstUseEncoder>();
  const TextEncoder encode = [encoder](std::string_view text) { return (*encoder)(text); };
  const DialogueIds ids = marks_behind(1'000'000);
  for (std::size_t end = list.find(':'); end != list.npos; end = list.find(':')) {
    const std::string path = list.substr(0, end);
    list.erase(0, end + 1);
    const DialogueSet set = read_dialogues(path, {.leaves_out_blank_turns = true});
    std::int64_t tokens = 0;
    std::int64_t targets = 0;
    std::int64_t pieces = 0;
    for (const Dialogue& dialogue : set.dialogues) {
      expect_sound(dialogue, ids, encode, 512, 0);
      const DialogueSequence sequence = make_sequence(dialogue, ids, encode);
      tokens += sequence.size();
      targets += std::count(sequence.is_utterance.begin(), sequence.is_utterance.end(), 1);
      pieces += static_cast<std::int64_t>(cut_from_end(sequence.size()).size());
    }
    std::cout << path << ": " << set.dialogues.size() << " dialogues, " << set.turns << " turns, "
              << set.joined_turns << " joined, " << set.blank_turns << " blank, " << tokens
              << " tokens, " << targets << " of utterances, " << pieces << " pieces of 512\n";
  }
}

}  // namespace
}  // namespace mneme::data
