#include "host/data/prepare/prepared.hpp"

#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/data/corpus/id_file.hpp"
#include "host/data/prepare/data_json.hpp"
#include "host/data/prepare/shards.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

Json read_info(const fs::path& folder) {
  const fs::path file = folder / "data.json";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored) || !fs::is_regular_file(file, ignored)) {
    refuse_prepared(str("data.prepared: ", folder.string()), "this is no prepared data",
                    "a folder that `mneme data prepare` wrote, with a data.json",
                    !fs::exists(folder, ignored)         ? "no such folder"
                    : !fs::is_directory(folder, ignored) ? "a file"
                                                         : "a folder without data.json");
  }
  Json json = parse_json(read_file(file));
  if (!json.is_object()) {
    refuse_prepared(file.string(), "the prepared file is damaged", "a JSON object", "other text");
  }
  const std::string format = info_text(json, file.string(), "format");
  if (format != kPreparedFormat)
    refuse_prepared(file.string(), "another format", std::string(kPreparedFormat), format);
  const std::int64_t revision = info_count(json, file.string(), "revision");
  if (revision != kPreparedRevision && revision != kShardedRevision) {
    refuse_prepared(file.string(), "another revision of the format",
                    str(kPreparedRevision, " or ", kShardedRevision), str(revision));
  }
  return json;
}

Vocabulary read_vocabulary(const fs::path& folder, const Json& info) {
  const fs::path file = folder / "vocabulary.json";
  check_data_file(file, "data.prepared", "the vocabulary of the prepared data");
  Vocabulary vocabulary = Vocabulary::load(file);
  const std::string where = (folder / "data.json").string();
  const std::string expected = info_text(info_member(info, where, "vocabulary"), where, "sha256");
  if (vocabulary.sha256() != expected) {
    refuse_prepared(file.string(), "the vocabulary is not the one that the data were prepared with",
                    "sha256 " + expected, str("a ", vocabulary.summary()));
  }
  return vocabulary;
}

// A split that is one file.
Corpus read_single_file(const fs::path& folder, const std::string& name, const std::string& where,
                        const Json& entry, int width) {
  const fs::path file = folder / (name + ".safetensors");
  check_data_file(file, "data.prepared", str("the ids of ", name));
  Corpus corpus = read_id_file(file);
  corpus.sha256 = sha256_file(file);
  const std::string expected = info_text(entry, where, "sha256");
  if (corpus.sha256 != expected) {
    refuse_prepared(file.string(), "the prepared file is damaged or was changed",
                    "sha256 " + expected, corpus.sha256);
  }
  check_width(file, corpus.tokens, width);
  return corpus;
}

}  // namespace

PreparedFolder PreparedFolder::open(const fs::path& path) {
  Json info = read_info(path);
  if (!info_member(info, (path / "data.json").string(), "splits").is_object()) {
    refuse_prepared((path / "data.json").string(), "the prepared file is damaged",
                    "splits as an object", info["splits"].dump());
  }
  Vocabulary vocabulary = read_vocabulary(path, info);
  return {path, std::move(info), std::move(vocabulary)};
}

bool PreparedFolder::has(Split split) const { return info_["splits"].contains(to_word(split)); }

Corpus PreparedFolder::corpus(Split split) const {
  const std::string name(to_word(split));
  const std::string where = str((path_ / "data.json").string(), ": ", name);
  const Json& entry = info_member(info_["splits"], where, name);
  const int width = token_width(vocabulary_.size());
  Corpus corpus = entry.contains("shards") ? read_shards({path_, name, where}, entry, width)
                                           : read_single_file(path_, name, where, entry, width);
  corpus.key = str("data.prepared (", name, ")");
  corpus.counts.bytes = info_count(entry, where, "bytes");
  corpus.counts.characters = info_count(entry, where, "characters");
  corpus.counts.lines = info_count(entry, where, "lines");
  corpus.counts.words = info_count(entry, where, "words");
  corpus.counts.unknown = info_count(entry, where, "unknown");
  return corpus;
}

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

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::error_code& code) {
  throw_run({.where = path.string(),
             .failed = str("the folder cannot be written: ", code.message()),
             .hint = "name a place that exists and may be written"});
}

}  // namespace

StagedFolder::StagedFolder(fs::path target) : target_(fs::absolute(target).lexically_normal()) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "folder/"
  std::error_code code;
  const fs::file_status status = fs::symlink_status(target_, code);
  const bool is_empty_folder = fs::is_directory(status) && fs::is_empty(target_, code);
  if (fs::exists(status) && !is_empty_folder) {
    throw_usage({.where = target.string(),
                 .failed = "the place is taken",
                 .expected = "a folder that does not exist yet",
                 .got = fs::is_symlink(status)     ? "a link"  // rename(2) would not follow it
                        : fs::is_directory(status) ? "a folder with files"
                                                   : "a file",
                 .hint = "remove it, or choose another --out"});
  }
  std::error_code made;
  if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), made);
  if (made) fail(target_, made);
  // A killed process leaves its folder, and in a container a later process may have the same id.
  for (int i = 0; path_.empty(); ++i) {
    const std::string suffix = i == 0 ? ".tmp" : str('-', i, ".tmp");
    const std::string name = str('.', target_.filename().string(), '.', ::getpid(), suffix);
    const fs::path staged = target_.parent_path() / name;
    if (fs::create_directory(staged, code)) path_ = staged;
    if (code) fail(target, code);
  }
}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void StagedFolder::commit() {
  sync_folder(path_);
  // rename(2) replaces an empty folder and nothing else.
  if (std::rename(path_.c_str(), target_.c_str()) != 0) {
    fail(target_, {errno, std::generic_category()});
  }
  path_.clear();
  sync_folder(target_.parent_path());
}

}  // namespace mneme::data
