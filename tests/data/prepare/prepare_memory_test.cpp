// A separate program, because memory that other tests freed would hide growth.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "host/data/dataset.hpp"
#include "host/data/prepare/prepare.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

PrepareOptions prepare_memory_words_of(const fs::path& train) {
  PrepareOptions options;
  options.files[0] = {train};
  options.vocabulary = VocabularyKind::kWord;
  return options;
}

// Anonymous resident memory of this process in bytes.
std::int64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

// Growth of anonymous memory while a corpus of `bytes` is prepared, opened and read through.
std::int64_t growth_for(const TestFolder& folder, std::int64_t bytes) {
  const fs::path text = folder.path() / str(bytes, ".txt");
  {
    std::ofstream out(text, std::ios::binary);
    std::string line;
    for (std::int64_t written = 0, i = 0; written < bytes; ++i) {
      line = str("word", i % 5000, " and word", (i * 31) % 5000, " follow each other\n");
      out << line;
      written += static_cast<std::int64_t>(line.size());
    }
  }
  const std::int64_t before = anonymous_bytes();
  std::int64_t most = before;
  PrepareOptions options = prepare_memory_words_of(text);
  options.on_tokens = [&](std::int64_t) { most = std::max(most, anonymous_bytes()); };
  static_cast<void>(prepare(options, folder.path() / str("out", bytes)));
  config::DataConfig config;
  config.prepared = folder.path() / str("out", bytes);
  const Dataset dataset(config);
  const auto stream = dataset.make_stream(
      Split::kTrain, {.lanes = 4, .segment = 512, .epochs = 1, .is_training = true});
  for (TokenSegment segment; stream->next(segment);) continue;
  EXPECT_LT(0, before);
  return std::max(most, anonymous_bytes()) - before;
}

// A corpus 32 times as large needs no more memory: ids are written while they come and then mapped.
// Ids in memory would be 16 MB more. scripts/check/check_large_corpus.sh does the same with 2 GB.
TEST(Prepare, NeedsNoMoreMemoryForALargerText) {
  const TestFolder folder;
  const std::int64_t small = growth_for(folder, 2'000'000);
  const std::int64_t large = growth_for(folder, 24'000'000);
  EXPECT_LT(large - small, 6'000'000) << small << " and " << large << " bytes";
}

}  // namespace
}  // namespace mneme::data
