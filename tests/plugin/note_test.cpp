#include "host/plugin/file/note.hpp"

#include <cstring>
#include <random>

#include "tests/plugin/loader_support.hpp"
#include "tests/seed.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A good note as a compiler would lay it out, to be spoiled.
mneme_note_record good_record() {
  mneme_note_record record{};
  record.name_size = sizeof(MNEME_NOTE_NAME);
  record.descriptor_size = sizeof(mneme_note);
  record.type = MNEME_NOTE_TYPE;
  std::memcpy(record.name, MNEME_NOTE_NAME, sizeof(MNEME_NOTE_NAME));
  record.note.struct_size = sizeof(mneme_note);
  record.note.abi_min = MNEME_ABI_MAKE(0, 1);
  record.note.abi_target = MNEME_ABI_MAKE(0, 3);
  std::strcpy(record.note.id, "org.example.tier");
  std::strcpy(record.note.version, "1.2.0");
  std::strcpy(record.note.features, "mneme.op/1 mneme.state/1");
  return record;
}

std::vector<std::byte> bytes_of(const mneme_note_record& record) {
  const auto* const first = reinterpret_cast<const std::byte*>(&record);
  return {first, first + sizeof(record)};
}

// A note of another owner, as linkers put them in front.
std::vector<std::byte> foreign_note() {
  const std::uint32_t header[] = {4, 20, 3};
  std::vector<std::byte> bytes(sizeof(header) + 4 + 20, std::byte{'x'});
  std::memcpy(bytes.data(), header, sizeof(header));
  std::memcpy(bytes.data() + sizeof(header), "GNU", 4);
  return bytes;
}

mneme_note parse(const std::vector<std::byte>& bytes) {
  return plugin::parse_note({std::span<const std::byte>(bytes)}, "here");
}

std::string refusal_of(const mneme_note_record& record) {
  return refusal([&] { parse(bytes_of(record)); });
}

TEST(Note, IsReadWhenWellFormed) {
  const mneme_note note = parse(bytes_of(good_record()));
  EXPECT_STREQ(note.id, "org.example.tier");
  EXPECT_STREQ(note.version, "1.2.0");
  EXPECT_EQ(note.abi_target, MNEME_ABI_MAKE(0, 3));
  EXPECT_THAT(plugin::note_words(note.features), ElementsAre("mneme.op/1", "mneme.state/1"));
  mneme_note_record optional = good_record();
  std::strcpy(optional.note.features, "mneme.op/1 mneme.log/1?");
  const std::vector<plugin::NoteFeature> features =
      plugin::note_features(parse(bytes_of(optional)));
  ASSERT_EQ(features.size(), 2U);
  EXPECT_EQ(features[0].id, "mneme.op/1");
  EXPECT_FALSE(features[0].is_optional);
  EXPECT_EQ(features[1].id, "mneme.log/1");
  EXPECT_TRUE(features[1].is_optional);
}

TEST(Note, IsFoundBehindNotesOfOthers) {
  std::vector<std::byte> bytes = foreign_note();
  const std::vector<std::byte> ours = bytes_of(good_record());
  bytes.insert(bytes.end(), ours.begin(), ours.end());
  EXPECT_STREQ(parse(bytes).id, "org.example.tier");
}

TEST(Note, MayBeLongerThanThisHostKnows) {
  mneme_note_record record = good_record();
  record.descriptor_size += 64;
  record.note.struct_size += 64;
  std::vector<std::byte> bytes = bytes_of(record);
  bytes.resize(bytes.size() + 64, std::byte{0xff});
  const mneme_note note = parse(bytes);
  EXPECT_EQ(note.struct_size, sizeof(mneme_note));
  EXPECT_STREQ(note.id, "org.example.tier");
}

TEST(Note, IsMissedWhenOnlyOthersAreThere) {
  const auto bytes = foreign_note();
  EXPECT_THAT(refusal([&] { parse(bytes); }),
              AllOf(StartsWith("here: is no mneme plugin: expected a note in section .note.mneme"),
                    HasSubstr("MNEME_PLUGIN")));
}

TEST(Note, IsRefusedWhenTwice) {
  const std::vector<std::byte> one = bytes_of(good_record());
  std::vector<std::byte> two = one;
  two.insert(two.end(), one.begin(), one.end());
  EXPECT_THAT(refusal([&] { parse(two); }),
              HasSubstr("the file holds several plugins: expected one note, got 2"));
}

TEST(Note, IsRefusedWhenTooShort) {
  mneme_note_record record = good_record();
  record.descriptor_size = 960;
  EXPECT_THAT(refusal_of(record),
              HasSubstr("descriptor is too short: expected at least 968 bytes, got 960"));
}

TEST(Note, IsRefusedWhenItEndsBeyondItsSection) {
  mneme_note_record record = good_record();
  record.descriptor_size = 4096;
  EXPECT_THAT(refusal_of(record), HasSubstr("it ends too early: expected 4096 bytes, got 968"));
}

TEST(Note, IsRefusedWhenStructSizeIsOutOfRange) {
  for (const std::uint32_t size : {0U, 100U, 972U, 0xffffffffU}) {
    mneme_note_record record = good_record();
    record.note.struct_size = size;
    EXPECT_THAT(refusal_of(record), HasSubstr(str("struct_size is out of range: expected 968 to "
                                                  "968 (the descriptor's bytes), got ",
                                                  size)));
  }
}

TEST(Note, IsRefusedWhenTextDoesNotEnd) {
  mneme_note_record record = good_record();
  std::memset(record.note.commit, 'a', sizeof(record.note.commit));
  EXPECT_THAT(refusal_of(record), HasSubstr("the text of \"commit\" does not end: expected at most "
                                            "47 bytes and a zero byte"));
}

TEST(Note, IsRefusedWhenTextHoldsControlCharacters) {
  mneme_note_record record = good_record();
  std::strcpy(record.note.compiler, "gcc \x1b[31m");
  EXPECT_THAT(refusal_of(record), HasSubstr("\"compiler\" holds control characters"));
}

TEST(Note, IsRefusedWhenIdIsNotWellFormed) {
  for (const char* const id : {"", "two words", "a/b"}) {
    mneme_note_record record = good_record();
    std::strcpy(record.note.id, id);
    EXPECT_THAT(refusal_of(record), HasSubstr(str("the id is not well formed: expected letters, "
                                                  "digits, '.', '_' and '-', got \"",
                                                  id, '"')));
  }
}

TEST(Note, IsRefusedWhenVersionIsEmpty) {
  mneme_note_record record = good_record();
  record.note.version[0] = '\0';
  EXPECT_THAT(refusal_of(record), HasSubstr("the version is empty"));
}

TEST(Note, IsRefusedWhenAbiRangeIsEmpty) {
  mneme_note_record record = good_record();
  record.note.abi_min = MNEME_ABI_MAKE(0, 4);
  EXPECT_THAT(refusal_of(record), HasSubstr("the ABI range is empty"));
  record.note.abi_min = 0;
  EXPECT_THAT(refusal_of(record), HasSubstr("got 0.0 to 0.3"));
}

TEST(Note, IsRefusedWhenReservedFieldIsSet) {
  mneme_note_record record = good_record();
  record.note.reserved = 5;
  EXPECT_THAT(refusal_of(record), HasSubstr("its reserved field is not zero: expected 0, got 5"));
}

TEST(Note, IsReadOrRefusedWhateverTheBytes) {
  std::mt19937 random(test::drawn_seed("bytes"));
  const std::vector<std::byte> good = bytes_of(good_record());
  int refused = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    std::vector<std::byte> bytes = good;
    bytes.resize(random() % (good.size() + 1));
    for (int flips = static_cast<int>(random() % 4); flips > 0 && !bytes.empty(); --flips) {
      bytes[random() % std::min<std::size_t>(bytes.size(), 40)] = static_cast<std::byte>(random());
    }
    try {
      parse(bytes);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

TEST(Note, WordsAreSplitAtSpaces) {
  EXPECT_TRUE(plugin::note_words("").empty());
  EXPECT_THAT(plugin::note_words(" sm_80  sm_90 "), ElementsAre("sm_80", "sm_90"));
}

TEST(Note, AbiRangeIsShownAsPeopleWriteIt) {
  EXPECT_EQ(plugin::abi_text(MNEME_ABI_MAKE(1, 12)), "1.12");
  EXPECT_EQ(plugin::abi_range_text(MNEME_ABI_MAKE(0, 1), MNEME_ABI_MAKE(0, 1)), "0.1");
  EXPECT_EQ(plugin::abi_range_text(MNEME_ABI_MAKE(0, 1), MNEME_ABI_MAKE(0, 4)), "0.1 to 0.4");
}

}  // namespace
}  // namespace mneme::memory
