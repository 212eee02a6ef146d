#include "host/weights/gguf/gguf_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "tests/base/temporary_folder.hpp"
#include "tests/weights/gguf/gguf_builder.hpp"

namespace mneme::weights {
namespace {

using ::testing::HasSubstr;

class GgufFileTest : public testing::Test {
 protected:
  GgufFileTest() {
    file_.text("general.architecture", "llama");
    file_.integer("llama.block_count", 2);
    file_.real("llama.epsilon", 1e-5F);
    file_.flag("yes", true);
    file_.texts("words", {"a", "", "\xC3\xA9"});
    file_.numbers<std::int32_t>("kinds", test::kGgufI32, {1, -2});
    file_.numbers<float>("scores", test::kGgufF32, {0.1F, -1.0F});
    file_.tensors = {{"first", 0, {2, 3}, std::string(24, 'x')},
                     {"second", 8, {1, 64}, std::string(68, 'y')}};
  }

  [[nodiscard]] GgufFile open(const std::string& bytes) const {
    folder_.write("m.gguf", bytes);
    return GgufFile::open(path_);
  }
  [[nodiscard]] std::string error(const std::string& bytes) const {
    return test::error_of([&] { static_cast<void>(open(bytes)); });
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "m.gguf";
  test::GgufBuilder file_;
};

TEST_F(GgufFileTest, ReadsValuesAndTensors) {
  for (const std::uint32_t version : {2U, 3U}) {
    file_.version = version;
    const GgufFile file = open(file_.bytes());
    EXPECT_EQ(file.text("general.architecture"), "llama");
    EXPECT_EQ(file.integer("llama.block_count"), 2);
    EXPECT_EQ(file.real("llama.epsilon"), 1e-5);
    EXPECT_EQ(file.flag("yes"), true);
    EXPECT_EQ(file.texts("words"), (std::vector<std::string>{"a", "", "\xC3\xA9"}));
    EXPECT_EQ(file.integers("kinds"), (std::vector<std::int64_t>{1, -2}));
    EXPECT_EQ(file.reals("scores"), (std::vector<double>{0.1, -1.0}));
    EXPECT_EQ(file.integer("absent"), std::nullopt);
    ASSERT_EQ(file.tensors().size(), 2U);
    const GgufTensor& second = *file.find("second");
    EXPECT_EQ(second.type->name, "Q8_0");
    EXPECT_EQ(second.shape, (std::vector<std::int64_t>{1, 64}));
    EXPECT_EQ(second.bytes(), 68U);
    EXPECT_EQ(static_cast<char>(second.data[67]), 'y');
    EXPECT_EQ(file.find("third"), nullptr);
  }
}

TEST_F(GgufFileTest, TakesAnotherAlignment) {
  file_.integer("general.alignment", 128);
  file_.alignment = 128;
  EXPECT_EQ(static_cast<char>(open(file_.bytes()).find("second")->data[0]), 'y');
  file_.integer("general.alignment", 48);
  EXPECT_THAT(error(file_.bytes()),
              HasSubstr("general.alignment: the bounds of tensors: expected a power of 2"));
}

TEST_F(GgufFileTest, RefusesOtherFiles) {
  EXPECT_THAT(error("{}"),
              HasSubstr("m.gguf: magic: the file ends early: expected 4 bytes from byte 0, got 2"));
  EXPECT_THAT(error("GGML..."),
              HasSubstr("this is no GGUF file: expected \"GGUF\" at its beginning"));
  EXPECT_THAT(
      error("\x1F\x8B\x08..."),
      HasSubstr("m.gguf: the file is packed: expected a GGUF file, got data packed by gzip; "
                "unpack it: gzip -dc "));
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
              HasSubstr("m.gguf: the file is a pointer of Git LFS: its contents were not fetched: "
                        "expected a GGUF file"));
  file_.version = 1;
  EXPECT_THAT(error(file_.bytes()),
              HasSubstr("version: the version is not read: expected 2 or 3, got 1"));
  file_.version = 0x03000000;
  EXPECT_THAT(error(file_.bytes()),
              HasSubstr("version: the file is big endian: expected little endian"));
}

TEST_F(GgufFileTest, RefusesOneOfSeveralFiles) {
  file_.integer("split.count", 1);
  static_cast<void>(open(file_.bytes()));
  file_.integer("split.count", 3);
  EXPECT_THAT(error(file_.bytes()),
              HasSubstr("split.count: this is one of 3 files of a model: expected one "
                        "file; merge them first: llama-gguf-split --merge"));
}

TEST_F(GgufFileTest, NamesAnUnknownQuantisation) {
  file_.tensors[1].type = 10;
  EXPECT_THAT(error(file_.bytes()),
              HasSubstr("second: its quantisation is not read: expected F32, F16, Q4_0, "));
  EXPECT_THAT(error(file_.bytes()), HasSubstr(", got Q2_K; "));
}

TEST_F(GgufFileTest, RefusesWhatTheFormatDoesNotHave) {
  const auto with = [&](const auto& change) {
    test::GgufBuilder file = file_;
    change(file);
    return error(file.bytes());
  };
  EXPECT_THAT(with([](auto& file) { file.set("k", 13, "xxxx"); }),
              HasSubstr("k: the kind of its value: expected a number from 0 to 12, got 13"));
  EXPECT_THAT(with([](auto& file) {
                file.set("k", test::kGgufArray,
                         test::raw(test::kGgufArray) + test::raw(std::uint64_t{1}));
              }),
              HasSubstr("k: an array of arrays: expected an array of numbers or of texts"));
  EXPECT_THAT(
      with([](auto& file) {
        file.set("k", test::kGgufArray,
                 test::raw(test::kGgufU32) + test::raw(std::numeric_limits<std::uint64_t>::max()));
      }),
      HasSubstr("k: the file ends early: expected 18446744073709551615 numbers of 4 bytes"));
  EXPECT_THAT(with([](auto& file) { file.text("k", "\xFF"); }),
              HasSubstr("k: a text: expected UTF-8"));
  EXPECT_THAT(with([](auto& file) { file.values.push_back(file.values.front()); }),
              HasSubstr("general.architecture: the name is given twice"));
  EXPECT_THAT(with([](auto& file) { file.tensors[1].name = "first"; }),
              HasSubstr("first: the name is given twice"));
  EXPECT_THAT(with([](auto& file) {
                file.tensors[0].shape = {1, 1, 1, 1, 6};
              }),
              HasSubstr("first: its dimensions: expected at most 4, got 5"));
  EXPECT_THAT(with([](auto& file) { file.tensors[0].shape = {0}; }),
              HasSubstr("first: its extents"));
  EXPECT_THAT(with([](auto& file) {
                file.tensors[0].shape = {1 << 20, 1 << 20};
              }),
              HasSubstr("first: its extents"));
  EXPECT_THAT(
      with([](auto& file) { file.tensors[1].shape = {63}; }),
      HasSubstr("second: its rows are no whole blocks of Q8_0: expected a multiple of 32, got 63"));
  EXPECT_THAT(with([](auto& file) {
                file.tensors[0].shape = {2, 5};
              }),
              HasSubstr("second: its offset: expected 64, behind the tensor before it, got 32"));
  EXPECT_THAT(with([](auto& file) { file.tensors[1].bytes.pop_back(); }),
              HasSubstr("second: the file ends early"));
}

TEST_F(GgufFileTest, NamesTheKindOfAValue) {
  const GgufFile file = open(file_.bytes());
  const auto error_of_key = [&](const auto& read) {
    return test::error_of([&] { static_cast<void>(read()); });
  };
  EXPECT_THAT(error_of_key([&] { return file.integer("general.architecture"); }),
              HasSubstr("general.architecture: its value: expected an integer, got \"llama\""));
  EXPECT_THAT(error_of_key([&] { return file.integer("kinds"); }),
              HasSubstr("expected an integer, got an array of 2 I32"));
  EXPECT_THAT(error_of_key([&] { return file.text("yes"); }),
              HasSubstr("expected a text, got true"));
  EXPECT_THAT(error_of_key([&] { return file.flag("llama.epsilon"); }),
              HasSubstr("expected a truth value, got 1e-05"));
}

TEST_F(GgufFileTest, IsCutOrChangedAtEveryByte) {
  const std::string bytes = file_.bytes();
  const std::size_t index = file_.index().size();
  for (std::size_t i = 0; i < index; ++i) {
    EXPECT_THAT(error(bytes.substr(0, i)), HasSubstr(path_.string())) << i;
    for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(static_cast<unsigned char>(changed[i]) ^ change);
      EXPECT_THAT(error(changed), ::testing::AnyOf("no error", HasSubstr(path_.string()))) << i;
    }
  }
}

TEST_F(GgufFileTest, IsKnownByItsBeginningOrItsName) {
  folder_.write("a", "GGUF");
  folder_.write("b.gguf", "");
  folder_.write("c", "{}");
  EXPECT_TRUE(is_gguf(folder_ / "a"));
  EXPECT_TRUE(is_gguf(folder_ / "b.gguf"));
  EXPECT_FALSE(is_gguf(folder_ / "c"));
  EXPECT_FALSE(is_gguf(folder_.path()));
  EXPECT_FALSE(is_gguf(folder_ / "absent.gguf"));
}

}  // namespace
}  // namespace mneme::weights
