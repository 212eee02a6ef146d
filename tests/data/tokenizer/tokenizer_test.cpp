#include "host/data/tokenizer/tokenizer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/data/tokenizer/streaming_decoder.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer_files.hpp"

namespace mneme::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using TokenizerJson = nlohmann::json;

// Expects the file to be refused with a message that has every part.
void expect_refused(const TokenizerJson& json, const std::vector<std::string>& parts) {
  expect_error(ErrorKind::kUsage, parts, [&] { static_cast<void>(tokenizer_of(json)); });
}

TEST(Tokenizer, MergesByRankAndTellsUnknownCharacters) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer_json());
  EXPECT_EQ(tokenizer.size(), 8);
  EXPECT_THAT(tokenizer.encode("abcab a"), ElementsAre(5, 4, 6, 1));
  EXPECT_THAT(tokenizer.encode("xya<s>"), ElementsAre(0, 0, 1, 7));
  EXPECT_THAT(tokenizer.encode("<s>", {.finds_special = false}), ElementsAre(0, 0, 0));
  EXPECT_THAT(tokenizer.encode(""), IsEmpty());
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("abc a")), "abc a");
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{7, 1, 0}, true), "a");
  EXPECT_EQ(tokenizer.id_of("abc"), 5);
  EXPECT_EQ(tokenizer.id_of("<s>"), 7);
  EXPECT_FALSE(tokenizer.id_of("abcd"));
  EXPECT_EQ(tokenizer.token(7), "<s>");
  EXPECT_TRUE(tokenizer.is_special(7));
  EXPECT_FALSE(tokenizer.is_special(1));
}

TEST(Tokenizer, CountsTheCharactersThatItGivesUp) {
  std::vector<std::int32_t> ids;
  const auto count = [&](const Tokenizer& tokenizer) {
    ids.clear();
    return tokenizer.encode({"x.txt", "xéa"}, {}, [&](std::span<const std::int32_t> part) {
      ids.insert(ids.end(), part.begin(), part.end());
    });
  };
  EXPECT_EQ(count(tokenizer_of(small_tokenizer_json())), 2);
  EXPECT_THAT(ids, ElementsAre(0, 0, 1));
  TokenizerJson json = small_tokenizer_json();
  json["model"]["fuse_unk"] = true;
  EXPECT_EQ(count(tokenizer_of(json)), 2);
  EXPECT_THAT(ids, ElementsAre(0, 1));
  json["model"]["unk_token"] = nullptr;
  EXPECT_EQ(count(tokenizer_of(json)), 2);
  EXPECT_THAT(ids, ElementsAre(1));
}

// Words are cut before U+2581 where no merge reaches over it.
TEST(Tokenizer, MergesReachOverCharactersThatAreLeftOut) {
  TokenizerJson json = TokenizerJson::parse(R"({"model": {"type": "BPE",
    "vocab": {"a": 0, ".": 1, "\u2581": 2, ".\u2581": 3}, "merges": [[".", "\u2581"]]}})");
  const std::string text = "a.\n\u2581a";
  EXPECT_THAT(tokenizer_of(json).encode(text), ElementsAre(0, 3, 0));
  json["model"]["byte_fallback"] = true;  // without tokens of bytes
  EXPECT_THAT(tokenizer_of(json).encode(text), ElementsAre(0, 3, 0));
  json["model"]["unk_token"] = "a";
  EXPECT_THAT(tokenizer_of(json).encode(text), ElementsAre(0, 1, 0, 2, 0));
}

TEST(Tokenizer, OnlyATextThatNeedsTheMissingUnknownTokenIsRefused) {
  for (const char* name : {"?", ""}) {
    TokenizerJson json = small_tokenizer_json();
    json["model"]["unk_token"] = name;
    const Tokenizer tokenizer = tokenizer_of(json);
    EXPECT_THAT(tokenizer.encode("abc a"), ElementsAre(5, 6, 1));
    expect_error(ErrorKind::kUsage,
                 {"tokenizer.json: model.unk_token: the vocabulary lacks the token for unknown",
                  str("expected \"", name, "\" in the vocabulary"), "got the character \"é\""},
                 [&] { static_cast<void>(tokenizer.encode("abé")); });
    json["model"]["unk_token"] = nullptr;
    EXPECT_NE(tokenizer.sha256(), tokenizer_of(json).sha256());
  }
}

TEST(Tokenizer, TakesMergesAsStringsAndAsPairs) {
  TokenizerJson json = small_tokenizer_json();
  const Tokenizer pairs = tokenizer_of(json);
  json["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  const Tokenizer strings = tokenizer_of(json);
  EXPECT_EQ(strings.encode("abc"), pairs.encode("abc"));
  EXPECT_EQ(strings.sha256(), pairs.sha256());
}

TEST(Tokenizer, ChecksumIsThatOfWhatDecidesTheIds) {
  const TokenizerJson json = small_tokenizer_json();
  const std::string digest = tokenizer_of(json).sha256();
  EXPECT_EQ(digest.size(), 64U);
  TokenizerJson other = json;
  other["decoder"] = {{"type", "ByteFallback"}};
  other["model"]["vocab_size"] = 7;
  EXPECT_EQ(tokenizer_of(other).sha256(), digest);
  other = json;
  other["model"]["merges"] = TokenizerJson::parse(R"([["ab", "c"], ["a", "b"]])");
  EXPECT_NE(tokenizer_of(other).sha256(), digest);
  other = json;
  other["normalizer"] = {{"type", "NFC"}};
  EXPECT_NE(tokenizer_of(other).sha256(), digest);
  other = json;
  other["added_tokens"][1]["special"] = false;
  EXPECT_NE(tokenizer_of(other).sha256(), digest);
}

TEST(Tokenizer, LongWordsEqualTheSameWordInPieces) {
  // Above 32 symbols the merges are found by a queue, and words before U+2581 are merged apart.
  TokenizerJson json = small_tokenizer_json();
  json["model"]["vocab"]["ca"] = 7;
  json["added_tokens"][1]["id"] = 8;
  json["model"]["merges"] = TokenizerJson::parse(R"([["c", "a"], ["a", "b"], ["ab", "c"]])");
  const Tokenizer tokenizer = tokenizer_of(json);
  std::string text;
  std::vector<std::int32_t> expected = {4};  // "ab", then "ca" "b" again and again
  for (int i = 0; i < 400; ++i) text += "abc";
  for (int i = 0; i < 399; ++i) expected.insert(expected.end(), {7, 2});
  expected.push_back(3);
  EXPECT_EQ(tokenizer.encode(text), expected);
}

// Files of folders name default ids that the tokenizer lacks; nothing in a tokenizer needs them.
TEST(Tokenizer, GenerationConfigIsNoPartOfIt) {
  TokenizerFiles files;
  files.texts["tokenizer.json"] = small_tokenizer_json().dump();
  for (const char* text : {R"({"eos_token_id": 50256})", R"({"eos_token_id": "x"})", "broken"}) {
    files.texts["generation_config.json"] = text;  // as vocabularies of older programs hold it
    EXPECT_EQ(Tokenizer(files).size(), 8);
  }
}

TEST(Tokenizer, TruncationAndPaddingArePassedOver) {
  TokenizerFiles files;
  TokenizerJson json = small_tokenizer_json();
  files.texts["tokenizer.json"] = json.dump();
  const Tokenizer plain(files);
  EXPECT_EQ(plain.notes().size(), 0U);
  json["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 9}}}, {"pad_id", 2}};
  files.texts["tokenizer.json"] = json.dump();
  const Tokenizer tokenizer(files);
  EXPECT_EQ(tokenizer.encode("abcabcabc"), plain.encode("abcabcabc"));
  EXPECT_EQ(tokenizer.sha256(), plain.sha256());
  EXPECT_THAT(tokenizer.notes(),
              ElementsAre("tokenizer.json: truncation is passed over: texts stay whole",
                          "tokenizer.json: padding is passed over: texts stay whole"));
}

TEST(Tokenizer, ErrorsNameTheFileThatWasGiven) {
  TokenizerFiles saved{
      .folder = "run/vocabulary.json", .is_in_file = true, .given = "", .texts = {}};
  EXPECT_EQ(saved.place("tokenizer.json"), "run/vocabulary.json: tokenizer.json");
  const test::TemporaryFolder folder;
  TokenizerJson json = small_tokenizer_json();
  json["normalizer"] = {{"type", "Nmt"}};
  const std::filesystem::path path = folder.write("mine.json", json.dump());
  expect_error(ErrorKind::kUsage, {path.string() + ": normalizer.type"},
               [&] { static_cast<void>(Tokenizer::load(path)); });
}

TEST(Tokenizer, TextThatIsNotUtf8IsAnErrorWithItsPlace) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer_json());
  expect_error(ErrorKind::kUsage, {"text:2:2", "byte 0xff at byte offset 3", "valid UTF-8"},
               [&] { static_cast<void>(tokenizer.encode("a\nb\xFF")); });
  expect_error(ErrorKind::kUsage, {"token id 8", "0 to 7"},
               [&] { static_cast<void>(tokenizer.token(8)); });
  expect_error(ErrorKind::kUsage, {"token id -1"},
               [&] { static_cast<void>(tokenizer.decode(std::vector<std::int32_t>{-1})); });
}

// --- Files that are refused ---

TEST(BadTokenizer, VocabularyWithTwiceAnIdAHoleOrNoInteger) {
  TokenizerJson json = small_tokenizer_json();
  json["model"]["vocab"]["c"] = 2;
  expect_refused(json,
                 {"tokenizer.json: model.vocab: two tokens have the id 2", "\"b\" and \"c\""});
  json["model"]["vocab"]["c"] = 30;
  expect_refused(json, {"model.vocab", "\"c\"", "without holes", "0 to 6", "got 30"});
  json["model"]["vocab"]["c"] = "3";
  expect_refused(json, {"model.vocab", "\"c\"", "got \"3\""});
  json["model"]["vocab"] = TokenizerJson::object();
  expect_refused(json, {"model.vocab", "ids by token"});
}

TEST(BadTokenizer, MergesOfAnotherTokenizer) {
  TokenizerJson json = small_tokenizer_json();
  json["model"]["merges"].push_back({"b", "q"});
  expect_refused(json, {"tokenizer.json: model.merges[2]", "another tokenizer", "\"q\""});
  json["model"]["merges"][2] = {"b", "c"};
  expect_refused(json, {"model.merges[2]", "\"bc\" in the vocabulary"});
  json["model"]["merges"][2] = "b c d";
  expect_refused(json, {"model.merges[2]", "two tokens", "b c d"});
  json["model"]["merges"][2] = {"b"};
  expect_refused(json, {"model.merges[2]", "two tokens"});
}

TEST(BadTokenizer, AddedTokensThatContradictTheirIds) {
  TokenizerJson json = small_tokenizer_json();
  json["added_tokens"][1]["id"] = 9;
  expect_refused(json, {"added_tokens[1]", "\"<s>\"", "expected 7", "got 9", "no holes"});
  json["added_tokens"][1]["id"] = 7;
  json["added_tokens"][0]["id"] = 1;
  expect_refused(json, {"added_tokens[0]", "its id in model.vocab", "got 1"});
}

TEST(Tokenizer, OfATokenThatIsAddedTwiceTheLastSettingsCount) {
  TokenizerJson json = small_tokenizer_json();
  json["added_tokens"].push_back(json["added_tokens"][1]);
  json["added_tokens"][2]["lstrip"] = true;
  EXPECT_THAT(tokenizer_of(json).encode("a <s>"), ElementsAre(1, 7));
  json["added_tokens"][2]["id"] = 8;
  expect_refused(json, {"added_tokens[2]", "expected 7, the id that it has already", "got 8"});
}

TEST(BadTokenizer, FieldsThatAreNotUnderstoodAreNamedWithTheirValue) {
  struct Case {
    const char* place;
    const char* value;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {"/model/type", R"("WordPiece")", {"model.type", "\"BPE\"", "\"WordPiece\""}},
      {"/model/dropout", "0.1", {"model.dropout", "0.1"}},
      {"/model/end_of_word_suffix", R"("</w>")", {"model.end_of_word_suffix", "</w>"}},
      {"/model/continuing_subword_prefix", R"("##")", {"model.continuing_subword_prefix", "##"}},
      {"/model/fuse_unk", "1", {"model.fuse_unk", "true or false", "got 1"}},
      {"/model/speed", "1", {"model.speed", "no such member"}},
      {"/version", R"("2.0")", {"version", "\"1.0\"", "\"2.0\""}},
      {"/normalizer", R"({"type": "Lowercase"})", {"normalizer.type", "\"Lowercase\""}},
      {"/normalizer",
       R"({"type": "Sequence", "normalizers": [{"type": "Nmt"}]})",
       {"normalizer.normalizers[0].type", "\"Nmt\""}},
      {"/pre_tokenizer",
       R"({"type": "BertPreTokenizer"})",
       {"pre_tokenizer.type", "\"BertPreTokenizer\""}},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"Regex": "a(?m)b"}, "behavior": "Isolated", "invert": false})",
       {"pre_tokenizer.pattern.Regex", "this kind of group", "at byte 1"}},
      {"/pre_tokenizer",
       R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Gone", "invert": false})",
       {"pre_tokenizer.behavior", "\"Gone\""}},
      {"/pre_tokenizer",
       R"({"type": "Metaspace", "replacement": "ab"})",
       {"pre_tokenizer.replacement", "one character"}},
      {"/pre_tokenizer",
       R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
       {"pre_tokenizer.prepend_scheme", "\"last\""}},
      {"/post_processor",
       R"({"type": "WordProcessing"})",
       {"post_processor.type", "\"BertProcessing\"", "\"WordProcessing\""}},
      {"/post_processor",
       R"({"type": "BertProcessing", "cls": ["a"], "sep": ["b", 2]})",
       {"post_processor.cls", "a token and its id"}},
      {"/post_processor",
       R"({"type": "RobertaProcessing", "cls": ["a", 1], "sep": ["b", 8]})",
       {"post_processor.sep[1]", "0 to 7", "got 8"}},
      {"/decoder", R"({"type": "WordPiece"})", {"decoder.type", "\"WordPiece\""}},
      {"/decoder",
       R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
       {"decoder.start", "at least 0"}},
      {"/decoder",
       R"({"type": "Sequence", "decoders": [
         {"type": "Replace", "pattern": {"Regex": "a*"}, "content": "0123456789012345678901234567890123456789"},
         {"type": "Replace", "pattern": {"String": "0"}, "content": "0123456789012345678901234567890123456789"}]})",
       {"decoder.decoders[1]", "make a text at most 1000 times as long"}},
      {"/decoder", R"({"start": 1})", {"decoder.type", "no such member"}},
      {"/model", "null", {"tokenizer.json: model", "got null"}},
  };
  for (const Case& each : cases) {
    TokenizerJson json = small_tokenizer_json();
    json[TokenizerJson::json_pointer(each.place)] = TokenizerJson::parse(each.value);
    SCOPED_TRACE(each.place);
    expect_refused(json, each.parts);
  }
}

TEST(Tokenizer, BertAndRobertaPutOneTokenBeforeATextAndOneBehind) {
  TokenizerJson json = small_tokenizer_json();
  json["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"<s>", 7}}, {"sep", {"b", 2}}};
  EXPECT_THAT(tokenizer_of(json).encode("a", {.adds_special = true}), ElementsAre(7, 1, 2));
  EXPECT_THAT(tokenizer_of(json).encode("a"), ElementsAre(1));
  json["post_processor"].update({{"type", "RobertaProcessing"}, {"trim_offsets", true}});
  EXPECT_THAT(tokenizer_of(json).encode("a", {.adds_special = true}), ElementsAre(7, 1, 2));
}

TEST(BadTokenizer, TemplatesThatLackTheTextOrNameUnknownIds) {
  TokenizerJson json = small_tokenizer_json();
  json["post_processor"] = TokenizerJson::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}}})");
  const Tokenizer tokenizer = tokenizer_of(json);
  EXPECT_THAT(tokenizer.encode("a", {.adds_special = true}), ElementsAre(7, 1));
  EXPECT_THAT(tokenizer.encode("a"), ElementsAre(1));
  json["post_processor"]["special_tokens"]["<s>"]["ids"] = {77};
  expect_refused(json, {"post_processor.special_tokens.<s>.ids[0]", "0 to 7", "got 77"});
  json["post_processor"]["single"].erase(1);
  json["post_processor"]["special_tokens"]["<s>"]["ids"] = {7};
  expect_refused(json, {"post_processor.single", "the text \"A\""});
}

TEST(BadTokenizer, FilesNestedTooDeeplyAndNone) {
  TokenizerFiles files;
  std::string open;
  std::string closed;
  for (int i = 0; i < 100'000; ++i) {
    open += R"({"type": "Sequence", "decoders": [)";
    closed += "]}";
  }
  files.texts["tokenizer.json"] = "{\"decoder\": " + open + closed + "}";
  expect_error(ErrorKind::kUsage, {"tokenizer.json", "too deep", "got 200001"},
               [&] { static_cast<void>(Tokenizer(files)); });
  files.texts = {{"notes.txt", "x"}};
  expect_error(ErrorKind::kUsage, {"there is no tokenizer", "texts of 1 other files"},
               [&] { static_cast<void>(Tokenizer(files)); });
}

TEST(BadTokenizer, FilesThatAreMissingOrCutOff) {
  const TestFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    static_cast<void>(folder.write(name, text));
  };
  expect_error(ErrorKind::kUsage, {folder.path().string(), "none of them"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  expect_error(ErrorKind::kUsage, {"absent", "no such file or folder"},
               [&] { static_cast<void>(Tokenizer::load(folder.path() / "absent")); });
  const auto file = folder.write("tokenizer.json", "{\"version\": \"1.0\", \"mod");
  expect_error(ErrorKind::kUsage, {file.string(), "no JSON", "at byte"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  write("tokenizer.json", "{\"version\": 1e999}");
  expect_error(ErrorKind::kUsage,
               {file.string(), "a number is too large: expected numbers of 64 bits", "'1e999'"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  std::filesystem::remove(file);
  write("vocab.json", R"({"a": 0, "b": 1})");
  expect_error(ErrorKind::kUsage, {"vocab.json without merges.txt"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  write("merges.txt", "#version: 0.2\na b\n");
  expect_error(ErrorKind::kUsage, {"merges.txt:2", "another tokenizer", "\"ab\""},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  write("merges.txt", "a\n");
  expect_error(ErrorKind::kUsage, {"merges.txt:1", "no merge"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  write("merges.txt", "");
  write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  expect_error(ErrorKind::kUsage, {"vocab.json", "do not say how a text is cut", "tokenizer_class"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  write("config.json", R"({"model_type": 3})");
  expect_error(ErrorKind::kUsage, {"config.json: model_type", "a string", "got 3"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
}

// --- Streaming ---

TEST(StreamingDecoder, NeverGivesAPartOfACharacter) {
  for (const char* kind : {"gpt2", "llama2"}) {
    const auto tokenizer =
        std::make_shared<const Tokenizer>(Tokenizer::load(trained_tokenizer(kind)));
    StreamingDecoder stream(tokenizer);
    const std::string text = "a \xF0\x9F\x98\x80 \xE2\x82\xAC!";  // U+1F600, U+20AC
    std::string whole;
    std::size_t empty = 0;
    for (const std::int32_t id : tokenizer->encode(text)) {
      const std::string part = stream.push(id);
      EXPECT_NO_THROW(check_utf8({"part", part})) << kind;
      if (part.empty()) ++empty;
      whole += part;
    }
    whole += stream.finish();
    EXPECT_EQ(whole, text) << kind;
    EXPECT_GE(empty, 3U) << kind << ": the emoji comes in several tokens";
  }
}

TEST(StreamingDecoder, IncompleteCharactersAreReplacedAtTheEnd) {
  for (const char* kind : {"gpt2", "llama2"}) {
    const auto tokenizer =
        std::make_shared<const Tokenizer>(Tokenizer::load(trained_tokenizer(kind)));
    std::vector<std::int32_t> ids = tokenizer->encode("x\xF0\x9F\x98\x80");
    ids.pop_back();
    StreamingDecoder stream(tokenizer);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    EXPECT_EQ(streamed, "x") << kind;
    streamed += stream.finish();
    EXPECT_TRUE(streamed.starts_with("x\xEF\xBF\xBD")) << kind;
    // finish() begins a new text: the space that sentencepiece puts before it goes again.
    const std::int32_t first = tokenizer->encode("x").front();
    streamed = stream.push(first);
    EXPECT_EQ(streamed + stream.finish(), tokenizer->decode(std::vector{first})) << kind;
  }
}

TEST(StreamingDecoder, LeavesSpecialTokensOut) {
  const auto tokenizer =
      std::make_shared<const Tokenizer>(Tokenizer::load(trained_tokenizer("llama2")));
  const std::vector<std::int32_t> ids = tokenizer->encode("a</s>");
  StreamingDecoder silent(tokenizer);
  StreamingDecoder loud(tokenizer, false);
  std::string without;
  std::string with;
  for (const std::int32_t id : ids) {
    without += silent.push(id);
    with += loud.push(id);
  }
  EXPECT_EQ(without + silent.finish(), "a");
  EXPECT_EQ(with + loud.finish(), "a</s>");
  expect_error(ErrorKind::kUsage, {"token id 99999"},
               [&] { static_cast<void>(silent.push(99999)); });
}

TEST(StreamingDecoder, WaitsForTheEndWhereALaterTokenCouldChangeTheText) {
  TokenizerJson json = small_tokenizer_json();
  json["decoder"] = TokenizerJson::parse(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
    {"type": "Replace", "pattern": {"String": "ab"}, "content": "x"}]})");
  const auto tokenizer = std::make_shared<const Tokenizer>(tokenizer_of(json));
  StreamingDecoder stream(tokenizer);
  EXPECT_EQ(stream.push(1), "");
  EXPECT_EQ(stream.push(2), "");
  EXPECT_EQ(stream.finish(), "x");
  json["decoder"] = nullptr;
  StreamingDecoder joined(std::make_shared<const Tokenizer>(tokenizer_of(json)));
  EXPECT_EQ(joined.push(1), "a");
  EXPECT_EQ(joined.push(2), " b");
}

}  // namespace
}  // namespace mneme::data
