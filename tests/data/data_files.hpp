// Shared by the data tests: a temporary folder, and errors as values.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// A fresh folder, removed at the end.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::path(testing::TempDir()) / "mneme_data_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed: " + name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Writes a file and gives its path.
  [[nodiscard]] std::filesystem::path write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = path_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // Writes ids as a tensor of a safetensors file.
  template <typename T>
  [[nodiscard]] std::filesystem::path write_ids(const std::string& name, const std::string& tensor,
                                                std::vector<std::int64_t> shape,
                                                const std::vector<T>& ids) const {
    SafetensorsWriter writer;
    writer.add(tensor, sizeof(T) == 8 ? DType::I64 : DType::I32, std::move(shape), ids.data());
    writer.write(path_ / name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

// Expects an Error of that kind whose message contains every part.
inline void expect_error(ErrorKind kind, const std::vector<std::string>& parts,
                         const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    for (const std::string& part : parts) EXPECT_THAT(error.what(), testing::HasSubstr(part));
    return;
  }
  ADD_FAILURE() << "no error; expected one with \"" << (parts.empty() ? "" : parts.front()) << '"';
}

// A corpus of documents of the given lengths whose tokens are 0, 1, 2, ...: a token is its place.
inline std::shared_ptr<const Corpus> counting_corpus(const std::vector<std::int64_t>& lengths) {
  auto corpus = std::make_shared<Corpus>();
  corpus->key = "data.train";
  corpus->files = {"counting.txt"};
  std::vector<std::int64_t> tokens;
  for (const std::int64_t length : lengths) {
    corpus->documents.push_back(static_cast<std::int64_t>(tokens.size()));
    for (std::int64_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<std::int64_t>(tokens.size()));
    }
  }
  corpus->tokens = TokenArray(tokens, 2);
  return corpus;
}

inline std::vector<std::int64_t> ids_of(const TokenArray& tokens) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens.size()));
  tokens.copy(0, tokens.size(), ids.data());
  return ids;
}

// Every segment until the end, or the first `count`.
inline std::vector<TokenSegment> read_all(Stream& stream, std::int64_t count = 1'000'000) {
  std::vector<TokenSegment> segments;
  for (TokenSegment segment; count > 0 && stream.next(segment); --count)
    segments.push_back(segment);
  return segments;
}

// The most tokens between resets of all lanes, as a memory counts them: padding of a lane too.
inline std::int64_t longest_between_resets(const std::vector<TokenSegment>& segments) {
  std::int64_t longest = 0, tokens = 0;
  for (const TokenSegment& segment : segments) {
    if (std::ranges::find(segment.reset, 0) == segment.reset.end()) tokens = 0;
    tokens += segment.length;
    longest = std::max(longest, tokens);
  }
  return longest;
}

inline void expect_equal(const TokenSegment& a, const TokenSegment& b) {
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.length, b.length);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.valid, b.valid);
  EXPECT_EQ(a.reset, b.reset);
  EXPECT_EQ(a.document, b.document);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.index, b.index);
}

// Reads `skip` segments, then expects an equally made stream that continues from the stored place
// to give the same `count` segments as this one.
inline void expect_resumes(const std::function<std::unique_ptr<Stream>()>& make, std::int64_t skip,
                           std::int64_t count) {
  const auto whole = make();
  static_cast<void>(read_all(*whole, skip));
  const std::vector<std::int64_t> place = whole->position();
  const auto rest = make();
  rest->seek(place);
  EXPECT_EQ(rest->position(), place);
  const std::vector<TokenSegment> expected = read_all(*whole, count);
  const std::vector<TokenSegment> got = read_all(*rest, count);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) expect_equal(got[i], expected[i]);
}

}  // namespace mneme::data
