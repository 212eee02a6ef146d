// Tokenizers of tokenizer.model: what a text becomes, and the settings of the files beside it.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer/pieces/piece_builder.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;
using test::PieceModel;
using testing::ElementsAre;
using Pieces = std::vector<std::string>;

constexpr const char* kSpaceText = "\u2581";

Pieces pieces_of(const Tokenizer& tokenizer, const std::string& text,
                 const EncodeOptions& options = {}) {
  Pieces out;
  for (const std::int32_t id : tokenizer.encode(text, options)) out.push_back(tokenizer.token(id));
  return out;
}

// With a letter, a space, both, and bytes.
PieceModel letter_pieces() {
  PieceModel model = PieceModel::of({"a", "b", kSpaceText, "\u2581a", "ab"});
  model.add_bytes();
  return model;
}

Tokenizer with_settings(const PieceModel& model, const std::string& config) {
  TokenizerFiles files;
  files.texts = {{"tokenizer.model", model.bytes()}, {"tokenizer_config.json", config}};
  return Tokenizer(std::move(files));
}

TEST(PieceTokenizer, HandlesSpacesAsTheFileSays) {
  PieceModel model = letter_pieces();
  EXPECT_THAT(pieces_of(model.tokenizer(), "  a  b "), ElementsAre("\u2581a", kSpaceText, "b"));
  model.removes_extra_spaces = false;
  EXPECT_THAT(pieces_of(model.tokenizer(), " b  a"),
              ElementsAre(kSpaceText, kSpaceText, "b", kSpaceText, "\u2581a"));
  model.adds_space = false;
  EXPECT_THAT(pieces_of(model.tokenizer(), "a a"), ElementsAre("a", "\u2581a"));
  model.marks_spaces = false;
  EXPECT_THAT(pieces_of(model.tokenizer(), "a a"), ElementsAre("a", "<0x20>", "a"));
  for (const char* text : {"", "   "}) {
    EXPECT_THAT(pieces_of(letter_pieces().tokenizer(), text), ElementsAre());
  }
}

TEST(PieceTokenizer, ChangesCharactersByTheRules) {
  PieceModel model = letter_pieces();
  model.charsmap = test::charsmap_of('A', "ab ");
  EXPECT_THAT(pieces_of(model.tokenizer(), "A A"), ElementsAre("\u2581a", "b", "\u2581a", "b"));
  model.charsmap = test::charsmap_of('x', "");
  EXPECT_THAT(pieces_of(model.tokenizer(), "xaxbx"), ElementsAre("\u2581a", "b"));
  EXPECT_THAT(pieces_of(model.tokenizer(), "xx"), ElementsAre());
  model.charsmap = test::charsmap_of('x', " ");
  EXPECT_THAT(pieces_of(model.tokenizer(), "xbx"), ElementsAre(kSpaceText, "b"));
}

TEST(PieceTokenizer, KeepsUserDefinedPieces) {
  for (const bool is_unigram : {false, true}) {
    PieceModel model = letter_pieces();
    model.is_unigram = is_unigram;
    model.add("<Ab>", PieceKind::kUserDefined);
    model.charsmap = test::charsmap_of('A', "a");
    EXPECT_THAT(pieces_of(model.tokenizer(), "A<Ab>b"), ElementsAre("\u2581a", "<Ab>", "b"));
    EXPECT_THAT(pieces_of(model.tokenizer(), "<Ab>", {.finds_special = false}),
                ElementsAre(kSpaceText, "<Ab>"));
    EXPECT_FALSE(model.tokenizer().is_special(*model.tokenizer().id_of("<Ab>")));
  }
}

TEST(PieceTokenizer, FindsControlPiecesWhereTheyAreLookedFor) {
  const Tokenizer tokenizer = letter_pieces().tokenizer();
  EXPECT_THAT(pieces_of(tokenizer, "a<s>a</s>"), ElementsAre("\u2581a", "<s>", "a", "</s>"));
  EXPECT_THAT(pieces_of(tokenizer, "<s>", {.finds_special = false}),
              ElementsAre(kSpaceText, "<0x3C>", "<0x73>", "<0x3E>"));
  EXPECT_THAT(pieces_of(tokenizer, "a", {.adds_special = true}), ElementsAre("<s>", "\u2581a"));
  EXPECT_TRUE(tokenizer.is_special(0) && tokenizer.is_special(1) && !tokenizer.is_special(3));
}

TEST(PieceTokenizer, ReadsBackWhatItWrote) {
  PieceModel model = letter_pieces();
  model.removes_extra_spaces = false;
  const Tokenizer tokenizer = model.tokenizer();
  for (const std::string text :
       {"", "a", " a", "  b a ", "\u00e9\t\n", "\U0001F600b", "\u65e5\u672c", "<0x41>"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
  EXPECT_EQ(tokenizer.bytes_of(*tokenizer.id_of("\u2581a")), " a");
  EXPECT_EQ(tokenizer.bytes_of(*tokenizer.id_of("<0x0A>")), "\n");
}

TEST(PieceTokenizer, TakesTheSettingsBesideIt) {
  const PieceModel model = letter_pieces();
  const auto ids = [&](const std::string& config, const std::string& text, bool adds = false) {
    return pieces_of(with_settings(model, config), text, {.adds_special = adds});
  };
  EXPECT_THAT(ids(R"({"add_prefix_space": false})", "b"), ElementsAre("b"));
  EXPECT_THAT(ids(R"({"legacy": true})", "b<s>b"),
              ElementsAre(kSpaceText, "b", "<s>", kSpaceText, "b"));
  EXPECT_THAT(ids(R"({"legacy": false})", "<s>b"), ElementsAre("<s>", "b"));
  EXPECT_THAT(ids(R"({"add_bos_token": false})", "a", true), ElementsAre("\u2581a"));
  EXPECT_THAT(ids(R"({"add_bos_token": true})", "a", true), ElementsAre("<s>", "\u2581a"));
  EXPECT_THAT(ids(R"({"bos_token": "</s>"})", "a", true), ElementsAre("</s>", "\u2581a"));
  EXPECT_EQ(ids(R"({"split_special_tokens": true})", "<s>").size(), 4U);
  const Tokenizer more = with_settings(model, R"({"pad_token": "<pad>", "mine": 1})");
  EXPECT_EQ(more.id_of("<pad>"), static_cast<std::int32_t>(model.pieces.size()));
  EXPECT_THAT(more.notes(), ElementsAre("tokenizer_config.json: mine is passed over: transformers "
                                        "gives it no meaning"));
  EXPECT_NE(more.sha256(), model.tokenizer().sha256());
}

TEST(PieceTokenizer, KnowsItsChecksum) {
  const std::string own = letter_pieces().tokenizer().sha256();
  EXPECT_EQ(letter_pieces().tokenizer().sha256(), own);
  const auto changed = [](const auto& change) {
    PieceModel model = letter_pieces();
    change(model);
    return model.tokenizer().sha256();
  };
  EXPECT_NE(changed([](PieceModel& m) { m.pieces[4].score = -1.5F; }), own);
  EXPECT_NE(changed([](PieceModel& m) { m.is_unigram = true; }), own);
  EXPECT_NE(changed([](PieceModel& m) { m.adds_space = false; }), own);
  EXPECT_NE(changed([](PieceModel& m) { m.removes_extra_spaces = false; }), own);
  EXPECT_NE(changed([](PieceModel& m) { m.marks_spaces = false; }), own);
  EXPECT_NE(changed([](PieceModel& m) { m.charsmap = test::charsmap_of('x', ""); }), own);
}

TEST(PieceTokenizer, OfAClassWithOtherIdsIsRefused) {
  for (const char* name : {"LlamaTokenizer", "LlamaTokenizerFast", "GemmaTokenizer",
                           "PreTrainedTokenizerFast", "TokenizersBackend"}) {
    static_cast<void>(with_settings(letter_pieces(), str(R"({"tokenizer_class": ")", name, "\"}")));
  }
  expect_error(
      ErrorKind::kUsage,
      {"tokenizer_config.json: tokenizer_class", "ids of tokenizer.model is not known",
       "\"LlamaTokenizer\"", "got \"XLMRobertaTokenizer\""},
      [] { with_settings(letter_pieces(), R"({"tokenizer_class": "XLMRobertaTokenizer"})"); });
  TokenizerFiles files;
  files.texts = {{"tokenizer.model", letter_pieces().bytes()},
                 {"config.json", R"({"tokenizer_class": "CamembertTokenizer"})"}};
  expect_error(ErrorKind::kUsage, {"config.json: tokenizer_class", "CamembertTokenizer"},
               [&] { static_cast<void>(Tokenizer(files)); });
}

TEST(PieceTokenizer, IsReadFromAFolderAndFromAFile) {
  const TestFolder folder;
  const fs::path model = folder.write("tokenizer.model", letter_pieces().bytes());
  static_cast<void>(folder.write("tokenizer_config.json", R"({"add_prefix_space": false})"));
  const fs::path other = folder.write("mine.spm", letter_pieces().bytes());
  EXPECT_TRUE(has_tokenizer(folder.path()));
  EXPECT_THAT(pieces_of(Tokenizer::load(folder.path()), "b"), ElementsAre("b"));
  EXPECT_THAT(pieces_of(Tokenizer::load(model), "b"), ElementsAre("b"));
  EXPECT_THAT(pieces_of(Tokenizer::load(other), "b"), ElementsAre(kSpaceText, "b"));
  const fs::path cut = folder.write("cut.model", letter_pieces().bytes().substr(0, 40));
  expect_error(ErrorKind::kUsage, {cut.string() + ": byte ", "is cut off"},
               [&] { static_cast<void>(Tokenizer::load(cut)); });
  // A tokenizer.json is read first, unless the other file is named.
  static_cast<void>(folder.write("tokenizer.json", "{}"));
  expect_error(ErrorKind::kUsage, {"tokenizer.json"},
               [&] { static_cast<void>(Tokenizer::load(folder.path())); });
  EXPECT_THAT(pieces_of(Tokenizer::load(model), "b"), ElementsAre("b"));
}

TEST(PieceTokenizer, IsKeptInAVocabulary) {
  const TestFolder folder;
  PieceModel model = letter_pieces();
  model.more = "\xF8\x01\x01";  // a field that is no UTF-8
  const fs::path source = folder.write("tokenizer.model", model.bytes());
  const Vocabulary vocabulary = load_vocabulary(source, VocabularyKind::kTokenizer, "test");
  const fs::path file = folder.path() / "vocabulary.json";
  vocabulary.save(file);
  const Vocabulary read = Vocabulary::load(file);
  EXPECT_TRUE(read == vocabulary);
  EXPECT_EQ(read.tokenizer()->files().texts.at("tokenizer.model"), model.bytes());
  const std::string head = R"({"format": "mneme.vocabulary", "revision": 1, "kind": "tokenizer",)";
  for (const char* value : {R"({"hex": "0g"})", R"({"hex": "0"})"}) {
    const fs::path bad =
        folder.write("bad.json", str(head, R"("files": {"tokenizer.model": )", value, "}}"));
    expect_error(ErrorKind::kUsage,
                 {"bad.json: files", "tokenizer.model in other than hexadecimal digits"},
                 [&] { static_cast<void>(Vocabulary::load(bad)); });
  }
  for (const char* value : {R"({"hex": 1})", R"({"base64": ""})", R"({"hex": "", "x": ""})"}) {
    const fs::path bad =
        folder.write("bad.json", str(head, R"("files": {"tokenizer.model": )", value, "}}"));
    expect_error(ErrorKind::kUsage, {"bad.json: files", "got object"},
                 [&] { static_cast<void>(Vocabulary::load(bad)); });
  }
}

}  // namespace
}  // namespace mneme::data
