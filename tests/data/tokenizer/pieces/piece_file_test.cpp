// What a tokenizer.model says, and every way in which it can be wrong.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "host/data/tokenizer/pieces/charsmap.hpp"
#include "host/data/tokenizer/token_model.hpp"
#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer/pieces/piece_builder.hpp"

namespace mneme::data {
namespace {

using test::bytes_field;
using test::integer_field;
using test::map_of;
using test::piece_bytes;
using test::PieceModel;
using test::real_field;
using test::trie_of;
using test::units;

// A refusal, whose message has these parts.
void expect_bad_pieces(const std::string& bytes, const std::vector<std::string>& parts) {
  expect_error(ErrorKind::kUsage, parts,
               [&] { static_cast<void>(read_piece_file(bytes, "m.model")); });
}

TEST(PieceFile, HasWhatWasWritten) {
  PieceModel model = PieceModel::of({"a", "b"});
  model.add("<x>", PieceKind::kUserDefined, 0.5F);
  model.add_bytes();
  model.charsmap = "";
  model.adds_space = false;
  model.removes_extra_spaces = false;
  model.marks_spaces = false;
  const PieceFile file = model.read();
  ASSERT_EQ(file.pieces.size(), 3U + 2U + 1U + 256U);
  EXPECT_EQ(file.pieces[4].text, "b");
  EXPECT_EQ(file.pieces[4].score, -2.0F);
  EXPECT_EQ(file.pieces[5].kind, PieceKind::kUserDefined);
  EXPECT_EQ(file.pieces[5].score, 0.5F);
  EXPECT_EQ(file.pieces[6].text, "<0x00>");
  EXPECT_FALSE(file.is_unigram);
  EXPECT_TRUE(file.falls_back_to_bytes);
  EXPECT_EQ(file.unknown, 0);
  EXPECT_EQ(file.begin, 1);
  EXPECT_FALSE(file.adds_space || file.removes_extra_spaces || file.marks_spaces);
}

TEST(PieceFile, HasTheDefaultsOfSentencepiece) {
  const PieceFile file = read_piece_file(
      bytes_field(1, bytes_field(1, "a")) + piece_bytes({"<unk>", 0.0F, PieceKind::kUnknownPiece}),
      "m.model");
  EXPECT_TRUE(file.is_unigram);
  EXPECT_FALSE(file.falls_back_to_bytes);
  EXPECT_EQ(file.pieces[0].kind, PieceKind::kNormal);
  EXPECT_EQ(file.pieces[0].score, 0.0F);
  EXPECT_EQ(file.unknown, 1);
  EXPECT_EQ(file.begin, std::nullopt);
  EXPECT_TRUE(file.adds_space && file.removes_extra_spaces && file.marks_spaces);
}

TEST(PieceFile, KnowsThePieceThatBeginsAText) {
  PieceModel model = PieceModel::of({"a"});
  model.add("<bos>", PieceKind::kControl);
  model.more = bytes_field(2, bytes_field(46, "<bos>"));
  EXPECT_EQ(model.read().begin, 4);
  model.more = bytes_field(2, integer_field(41, static_cast<std::uint64_t>(-1)));
  EXPECT_EQ(model.read().begin, std::nullopt);
}

TEST(PieceFile, PassesOverFieldsOfOtherVersions) {
  PieceModel model = PieceModel::of({"a"});
  model.more = integer_field(200, 7) + bytes_field(4, "self test") + real_field(201, 1.0F) +
               test::varint(202U << 3 | 1) + std::string(8, 'x');
  EXPECT_EQ(model.read().pieces.size(), 4U);
}

TEST(BadPieceFile, IsCutOff) {
  PieceModel model = PieceModel::of({"a", "b"});
  model.adds_space = true;
  const std::string bytes = model.bytes();
  std::size_t refused = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    try {
      static_cast<void>(read_piece_file(std::string_view(bytes).substr(0, size), "m.model"));
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("m.model: ")) << error.what();
      ++refused;
    }
  }
  // Behind each of the five pieces, and before the normaliser, it is a file that says less.
  EXPECT_EQ(refused, bytes.size() - 6);
  expect_bad_pieces("", {"m.model: the file has no pieces", "expected pieces, got none"});
  expect_bad_pieces(bytes.substr(0, bytes.size() - 1), {"m.model: byte ", "field 3 is cut off"});
  expect_bad_pieces(
      "\x0A\x05\x0A\x06"
      "abc",
      {"byte 2: field 1 is cut off: expected 6 bytes, got 3 bytes"});
}

TEST(BadPieceFile, IsNoMessage) {
  expect_bad_pieces("\x0A", {"m.model: byte 1: an integer is cut off", "the end of the message",
                             "fetch it again"});
  expect_bad_pieces("\x0A" + std::string(10, '\xFF'),
                    {"byte 1: an integer is too long: expected at most 10 bytes, got more"});
  expect_bad_pieces(
      "\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F",
      {"byte 0: field 1 is cut off: expected ", "9223372036854775807 bytes, got 0 bytes"});
  expect_bad_pieces(std::string(1, '\0'),
                    {"byte 0: no field begins here", "from 1 to 536870911, got 0"});
  expect_bad_pieces("\x0B", {"byte 0: field 1 has a type that is not read", "got a group"});
  expect_bad_pieces("\x0E", {"field 1 has a type that is not read", "got type 6"});
  expect_bad_pieces(
      "\x0D"
      "ab",
      {"byte 0: field 1 is cut off: expected 4 bytes, got 2 bytes"});
}

TEST(BadPieceFile, HasFieldsOfOtherTypes) {
  expect_bad_pieces(integer_field(1, 3), {"m.model: byte 0: pieces[0]: the field has another type",
                                          "expected bytes with their length, got an integer"});
  expect_bad_pieces(bytes_field(1, integer_field(1, 3)),
                    {"m.model: byte 2: pieces[0].piece", "expected bytes with their length"});
  expect_bad_pieces(bytes_field(1, bytes_field(1, "a") + integer_field(2, 3)),
                    {"byte 5: pieces[0].score", "expected 4 bytes, got an integer"});
  expect_bad_pieces(bytes_field(1, real_field(3, 1.0F)), {"pieces[0].type", "expected an integer"});
  const std::string pieces = PieceModel::of({"a"}).bytes();
  for (const std::uint32_t number : {3U, 24U, 35U, 41U}) {
    expect_bad_pieces(pieces + bytes_field(2, bytes_field(number, "x")),
                      {": trainer_spec.", "expected an integer, got bytes with their length"});
  }
  expect_bad_pieces(pieces + bytes_field(2, integer_field(46, 1)), {"trainer_spec.bos_piece"});
  expect_bad_pieces(pieces + bytes_field(3, integer_field(2, 1)),
                    {"normalizer_spec.precompiled_charsmap"});
  for (const std::uint32_t number : {3U, 4U, 5U}) {
    expect_bad_pieces(pieces + bytes_field(3, bytes_field(number, "x")), {": normalizer_spec."});
  }
  expect_bad_pieces(pieces + integer_field(2, 1), {": trainer_spec: the field has another type"});
  expect_bad_pieces(pieces + integer_field(3, 1),
                    {": normalizer_spec: the field has another type"});
  expect_bad_pieces(pieces + integer_field(5, 1),
                    {": denormalizer_spec: the field has another type"});
}

TEST(BadPieceFile, HasPiecesThatAreNone) {
  const auto with = [](const Piece& piece) {
    PieceModel model = PieceModel::of({"a"});
    model.pieces.push_back(piece);
    return model.bytes();
  };
  expect_bad_pieces(with({""}), {"m.model: pieces[4]: a piece is empty", "at least one character"});
  expect_bad_pieces(with({"a"}),
                    {"pieces[4]: two pieces have the same text", "got \"a\" as pieces 3 and 4"});
  expect_bad_pieces(with({"<s>"}), {"got \"<s>\" as pieces 1 and 4"});
  expect_bad_pieces(with({std::string(1025, 'x')}),
                    {"pieces[4]: a piece is too long", "at most 1024 bytes, got 1025 bytes"});
  expect_bad_pieces(with({"\xFF"}),
                    {"pieces[4]: a piece is no text", "UTF-8 without NUL", "\\xff"});
  expect_bad_pieces(with({std::string("a\0b", 3)}), {"pieces[4]: a piece is no text"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_bad_pieces(with({"b", nan}), {": pieces[4].score: the value is not read",
                                       "expected a finite number, got nan"});
  expect_bad_pieces(with({"b", -std::numeric_limits<float>::infinity()}),
                    {"a finite number, got -inf"});
  expect_bad_pieces(with({"b", 0.0F, static_cast<PieceKind>(7)}),
                    {"pieces[4].type", "from 1 to 6, got 7"});
  expect_bad_pieces(with({"b", 0.0F, static_cast<PieceKind>(0)}), {"from 1 to 6, got 0"});
  expect_bad_pieces(with({"b", 0.0F, PieceKind::kUnknownPiece}),
                    {"pieces[4]: the file has two unknown pieces", "pieces 0 and 4"});
  expect_bad_pieces(piece_bytes({"a"}),
                    {"m.model: the file has no unknown piece", "one piece of type 2"});
}

TEST(BadPieceFile, HasBytesThatAreNone) {
  PieceModel model = PieceModel::of({"a"});
  model.add("<0x41>", PieceKind::kByte);
  expect_bad_pieces(model.bytes(), {"pieces[4]: a piece of a byte, but byte_fallback is not set"});
  model.falls_back_to_bytes = true;
  expect_bad_pieces(model.bytes(), {"m.model: byte_fallback is set, but a byte has no piece",
                                    "256 pieces of type 6, got none for <0x00>"});
  for (const char* text : {"<0x4a>", "<0x+4>", "A"}) {
    PieceModel other = PieceModel::of({"a"});
    other.falls_back_to_bytes = true;
    other.add(text, PieceKind::kByte);
    expect_bad_pieces(other.bytes(),
                      {"pieces[4]: a piece of type 6 is no byte", "<0x00> to <0xFF>"});
  }
}

TEST(BadPieceFile, HasWhatIsNotSupported) {
  PieceModel model = PieceModel::of({"a"});
  const auto expect_refused = [&](const std::string& more, const std::vector<std::string>& parts) {
    model.more = more;
    expect_bad_pieces(model.bytes(), parts);
  };
  expect_refused(
      bytes_field(2, integer_field(3, 3)),
      {"trainer_spec.model_type", "1 (unigram) or 2 (byte pair encoding), got 3 (words)"});
  expect_refused(bytes_field(2, integer_field(3, 4)), {"got 4 (characters)"});
  expect_refused(bytes_field(2, integer_field(3, 9)), {"byte pair encoding), got 9"});
  expect_refused(bytes_field(2, integer_field(24, 1)),
                 {"trainer_spec.treat_whitespace_as_suffix", "expected false, got true"});
  expect_refused(
      bytes_field(5, bytes_field(2, "rules")),
      {"denormalizer_spec.precompiled_charsmap", "no rules for decoded texts", "5 bytes of them"});
  model.more = bytes_field(5, bytes_field(2, ""));
  EXPECT_EQ(model.read().pieces.size(), 4U);
  model.add("b", PieceKind::kUnused);
  expect_bad_pieces(model.bytes(),
                    {"pieces[4]: an unused piece is not read in byte pair encoding"});
  model.is_unigram = true;
  EXPECT_EQ(model.read().pieces.size(), 5U);
}

// --- Rules for characters ---

TEST(Charsmap, FindsTheLongestRule) {
  const Charsmap map(map_of(trie_of('A', 2), std::string("x\0yz\0", 5)), "m");
  EXPECT_EQ(map.find("AB").bytes, 1U);
  EXPECT_EQ(map.find("AB").replacement, "yz");
  for (const char* text : {"B", "a", "\x01", "\xFF"}) EXPECT_EQ(map.find(text).bytes, 0U);
  EXPECT_EQ(map.find(std::string(1, '\0')).bytes, 0U);
  EXPECT_EQ(Charsmap().find("A").bytes, 0U);
  EXPECT_EQ(Charsmap("", "m").find("A").bytes, 0U);
}

TEST(Charsmap, StaysInItsBytes) {
  // Every place of the trie, with every number that leads out of it or in a circle.
  for (std::size_t at = 0; at < trie_of('A', 0).size(); ++at) {
    for (const std::uint32_t number : {0U, 0x7FFFFFFFU, 1U << 10 | 1U << 8 | 'A', 0x200U | 'A'}) {
      std::vector<std::uint32_t> trie = trie_of('A', 0);
      trie[at] = number;
      const Charsmap map(map_of(trie, std::string("x\0", 2)), "m");
      EXPECT_LE(map.find(std::string(1000, 'A')).bytes, 256U);
    }
  }
}

TEST(BadCharsmap, IsRefused) {
  const auto expect_refused = [](const std::string& bytes, const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.emplace_back("m: the rules for characters cannot be read");
    expect_error(ErrorKind::kUsage, all, [&] { static_cast<void>(Charsmap(bytes, "m")); });
  };
  const std::string end("\0", 1);
  expect_refused("abc", {"the trie's size in 4 bytes, got 3 bytes"});
  expect_refused(units({0}) + end, {"a trie of whole units of 4 bytes", "got 0 bytes"});
  expect_refused(units({3}) + "abcd" + end, {"got 3 bytes"});
  expect_refused(units({4, 1}), {"fewer than the 4 that follow, got 4 bytes"});
  expect_refused(units({0xFFFFFFFC, 1}), {"got 4294967292 bytes"});
  expect_refused(map_of(trie_of('A', 0), "x"), {"each with NUL at its end"});
  expect_refused(map_of(trie_of('A', 0), "\xFF" + end), {"replacements in UTF-8"});
  expect_refused(map_of(trie_of('A', 2), "x" + end), {"begin before byte 2", "got byte 2"});
  expect_refused(map_of(trie_of('A', 1), "\xC3\xA9" + end), {"with a character, got byte 1"});
  expect_refused(map_of(trie_of('A', 0), std::string(1001, 'x') + end),
                 {"at most 1000 bytes, got 1001 bytes"});
}

TEST(BadCharsmap, IsNamedByItsFile) {
  PieceModel model = PieceModel::of({"a"});
  model.charsmap = "abc";
  expect_error(ErrorKind::kUsage,
               {"tokenizer.model: normalizer_spec.precompiled_charsmap: the rules for characters"},
               [&] { static_cast<void>(model.tokenizer()); });
}

}  // namespace
}  // namespace mneme::data
