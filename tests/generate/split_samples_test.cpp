#include "host/generate/split_samples.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "host/base/error.hpp"

namespace mneme::generate {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

data::Corpus corpus_of(const std::vector<std::int64_t>& lengths) {
  data::Corpus corpus;
  corpus.key = "data.valid";
  std::int64_t all = 0;
  for (const std::int64_t length : lengths) {
    corpus.documents.push_back(all);
    all += length;
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(all));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i % 200);
  corpus.tokens = data::TokenArray(ids, 1);
  return corpus;
}

std::string error_text(const data::Corpus& corpus, const WindowOptions& options) {
  try {
    static_cast<void>(choose_windows(corpus, options));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "";
}

TEST(ChooseWindows, LieInsideDocumentsWithoutOverlap) {
  const std::vector<std::int64_t> lengths = {300, 40, 1, 500, 90};
  const data::Corpus corpus = corpus_of(lengths);
  const WindowOptions options{.count = 5, .prompt = 56, .continuation = 24};
  const std::vector<Window> windows = choose_windows(corpus, options);
  ASSERT_THAT(windows, SizeIs(5));
  EXPECT_EQ(windows, choose_windows(corpus, options));
  std::set<std::int64_t> taken;
  for (const Window& one : windows) {
    const auto document = static_cast<std::size_t>(one.document);
    EXPECT_EQ(one.prompt, 56);
    EXPECT_EQ(one.continuation, 24);
    EXPECT_EQ(one.start, corpus.documents[document] + one.distance);
    EXPECT_LE(one.distance + 80, lengths[document]);
    for (std::int64_t i = 0; i < 80; ++i) EXPECT_TRUE(taken.insert(one.start + i).second);
  }
}

// Documents shorter than a window: as long as the count-th longest one, a quarter of it to
// continue.
TEST(ChooseWindows, ShrinkToTheDocuments) {
  const std::vector<Window> windows =
      choose_windows(corpus_of({12, 3, 20, 16}), {.count = 2, .prompt = 56, .continuation = 64});
  ASSERT_THAT(windows, SizeIs(2));
  for (const Window& one : windows) {
    EXPECT_EQ(one.prompt, 12);
    EXPECT_EQ(one.continuation, 4);
  }
  const std::vector<Window> smallest =
      choose_windows(corpus_of({2}), {.count = 3, .prompt = 5, .continuation = 5});
  ASSERT_THAT(smallest, SizeIs(1));
  EXPECT_EQ(smallest[0], (Window{.prompt = 1, .continuation = 1}));
}

TEST(ChooseWindows, RefuseWhatCannotBeContinued) {
  EXPECT_THAT(error_text(corpus_of({1, 1}), {}),
              AllOf(HasSubstr("data.valid"), HasSubstr("a document of at least two tokens")));
  EXPECT_THAT(error_text(corpus_of({9}), {.count = 0}), HasSubstr("--for-report"));
  EXPECT_THAT(error_text(corpus_of({9}), {.prompt = 0}), HasSubstr("--prompt-tokens"));
}

}  // namespace
}  // namespace mneme::generate
