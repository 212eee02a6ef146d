#include "host/data/prepare/published.hpp"

#include <nlohmann/json.hpp>
#include <string_view>

#include "host/base/text.hpp"

namespace mneme::data {
namespace {

struct Published {
  std::string_view split;  // "" = of the vocabulary
  std::string_view count;  // a key of the split in data.json
  std::int64_t value;
};

// docs/data.md has the sources. text8's splits lose the blanks at their ends, so that their tokens
// are not published; of its file the length is.
constexpr Published kWikitext103Counts[] = {
    {"", "size", 267'735},      {"train", "tokens", 103'227'021}, {"valid", "tokens", 217'646},
    {"valid", "documents", 60}, {"test", "tokens", 245'569},      {"test", "documents", 60}};
constexpr Published kEnwik8Counts[] = {
    {"train", "tokens", 88'982'818}, {"valid", "tokens", 4'945'742}, {"test", "tokens", 4'943'417}};
constexpr Published kText8Counts[] = {{"", "size", 27}, {"train", "source bytes", 100'000'000}};

std::int64_t count_of(const Json& entry, std::string_view count) {
  if (count != "source bytes") return entry.at(std::string(count)).get<std::int64_t>();
  std::int64_t bytes = 0;
  for (const Json& source : entry.at("sources")) bytes += source.at("bytes").get<std::int64_t>();
  return bytes;
}

template <std::size_t n>
std::vector<PublishedCount> counts_of(const Published (&published)[n], const Json& info) {
  std::vector<PublishedCount> out;
  for (const Published& one : published) {
    const std::string split(one.split);
    if (split.empty()) {
      out.push_back({"vocabulary", count_of(info.at("vocabulary"), one.count), one.value});
    } else if (info.at("splits").contains(split)) {
      out.push_back({str(split, ' ', one.count), count_of(info.at("splits").at(split), one.count),
                     one.value});
    }
  }
  return out;
}

}  // namespace

std::vector<PublishedCount> published_counts(Preparation preparation, const Json& info) {
  switch (preparation) {
    case Preparation::kNone:
      break;
    case Preparation::kWikitext103:
      return counts_of(kWikitext103Counts, info);
    case Preparation::kEnwik8:
      return counts_of(kEnwik8Counts, info);
    case Preparation::kText8:
      return counts_of(kText8Counts, info);
  }
  return {};
}

}  // namespace mneme::data
