// Ids and texts of PyPI tokenizers (tests/data/tokenizer/make_golden.py) and sentencepiece
// (pieces/make_golden.py there).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/data/tokenizer/streaming_decoder.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "tests/data/tokenizer_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;
using GoldenJson = nlohmann::json;

constexpr int kShownDifferences = 5;

// The golden files of a folder: every .json that has ids.
std::vector<fs::path> golden_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json" && entry.path().filename() != "strings.json") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Compares one golden file.
class GoldenCase {
 public:
  explicit GoldenCase(const fs::path& path)
      : path_(path), golden_(GoldenJson::parse(read_file(path))) {
    const GoldenJson& strings = golden_.at("strings");
    strings_ = strings.is_string()
                   ? GoldenJson::parse(read_file(path.parent_path() / strings.get<std::string>()))
                   : strings;
    tokenizer_ = std::make_shared<const Tokenizer>(
        Tokenizer::load(path.parent_path() / golden_.at("tokenizer").get<std::string>()));
  }

  // The number of strings compared.
  std::size_t compare() {
    const GoldenJson& ids = golden_.at("ids");
    EXPECT_EQ(ids.size(), strings_.size()) << path_;
    const std::size_t count = std::min(ids.size(), strings_.size());
    for (std::size_t i = 0; i < count; ++i) compare(i, strings_[i].get<std::string>(), ids[i]);
    EXPECT_EQ(differences_, 0) << path_;
    return count;
  }

 private:
  using Ids = std::vector<std::int32_t>;

  // The string's value of that member where it is named, else the usual one.
  template <typename T>
  T expected(const char* member, std::size_t place, const T& usual) const {
    const auto values = golden_.find(member);
    if (values == golden_.end()) return usual;
    const auto value = values->find(std::to_string(place));
    return value == values->end() ? usual : value->template get<T>();
  }

  template <typename T>
  void expect_equal(const char* what, std::size_t place, const std::string& text, const T& got,
                    const T& wanted) {
    if (got == wanted) return;
    if (++differences_ > kShownDifferences) return;
    ADD_FAILURE() << path_ << ", string " << place << " " << GoldenJson(text).dump(-1, ' ', true)
                  << ", " << what << ":\n  got      " << GoldenJson(got).dump(-1, ' ', true)
                  << "\n  expected " << GoldenJson(wanted).dump(-1, ' ', true);
  }

  void compare(std::size_t place, const std::string& text, const Ids& ids) {
    const Ids got = tokenizer_->encode(text);
    expect_equal("ids", place, text, got, ids);
    expect_equal("ids without special tokens", place, text,
                 tokenizer_->encode(text, {.finds_special = false}), expected("plain", place, ids));
    if (place < 200 && golden_.contains("special")) {
      expect_equal("ids with added special tokens", place, text,
                   tokenizer_->encode(text, {.adds_special = true}),
                   expected("special", place, ids));
    }
    const std::string decoded = expected("decoded", place, text);
    expect_equal("decoded text", place, text, tokenizer_->decode(ids), decoded);
    if (golden_.contains("skipped")) {
      expect_equal("text without special tokens", place, text, tokenizer_->decode(ids, true),
                   expected("skipped", place, text));
    }
    StreamingDecoder stream(tokenizer_, false);
    std::string streamed;
    for (const std::int32_t id : ids) streamed += stream.push(id);
    streamed += stream.finish();
    expect_equal("streamed text", place, text, streamed, decoded);
  }

  fs::path path_;
  GoldenJson golden_;
  GoldenJson strings_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  int differences_ = 0;
};

void compare_all(const fs::path& folder) {
  std::size_t files = 0;
  for (const fs::path& path : golden_files(folder)) {
    const std::size_t strings = GoldenCase(path).compare();
    EXPECT_GT(strings, 0U) << path;
    std::cout << path.filename().string() << ": " << strings << " strings\n";
    ++files;
  }
  EXPECT_GT(files, 0U) << "no golden file in " << folder;
}

TEST(TokenizerGolden, GivesTheIdsAndTextsOfPyPiTokenizers) {
  compare_all(tokenizer_golden_folder());
}

TEST(TokenizerGolden, GivesTheIdsAndTextsOfSentencepiece) {
  compare_all(fs::path(MNEME_SOURCE_DIR) / "tests/data/tokenizer/pieces/golden");
}

}  // namespace
}  // namespace mneme::data
