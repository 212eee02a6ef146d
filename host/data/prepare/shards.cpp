#include "host/data/prepare/shards.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/data/prepare/data_json.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShardDigits = 4;  // of a shard's number, so that names sort as the shards

std::string shard_name(const std::string& split, std::size_t number) {
  const std::string digits = str(number);
  return str(split, '-', std::string(kShardDigits - digits.size(), '0'), digits, ".safetensors");
}

}  // namespace

SplitWriter::SplitWriter(fs::path folder, std::string split, std::int64_t vocabulary_size,
                         std::int64_t shard_tokens, std::function<void(std::int64_t)> on_write)
    : folder_(std::move(folder)),
      split_(std::move(split)),
      vocabulary_size_(vocabulary_size),
      shard_tokens_(shard_tokens),
      on_write_(std::move(on_write)) {
  open();
}

void SplitWriter::open() {
  names_.push_back(shard_tokens_ == 0 ? split_ + ".safetensors"
                                      : shard_name(split_, names_.size() + 1));
  file_.emplace(folder_ / names_.back(), vocabulary_size_, [this](std::int64_t ids) {
    if (on_write_) on_write_(finished_ + ids);
  });
}

void SplitWriter::next_shard() {
  if (names_.size() == kMaxShards) {
    throw_usage({.where = "--shard-tokens",
                 .failed = str("the ids of ", split_, " need more than ", kMaxShards, " files"),
                 .expected = "more tokens a file",
                 .got = str(shard_tokens_)});
  }
  finished_ += file_->count();
  file_->finish();
  open();
  if (on_write_) on_write_(finished_);  // a file of few ids is written without a call
}

void SplitWriter::write(std::span<const std::int32_t> ids) {
  if (shard_tokens_ == 0) return file_->append(ids);
  while (!ids.empty()) {
    if (file_->count() == shard_tokens_) next_shard();
    const auto room = static_cast<std::size_t>(shard_tokens_ - file_->count());
    const std::size_t taken = std::min(room, ids.size());
    file_->append(ids.first(taken));
    ids = ids.subspan(taken);
  }
}

Json SplitWriter::finish(const std::vector<std::int64_t>& documents) {
  flush();
  file_->finish(documents);
  Json json;
  if (shard_tokens_ == 0) {
    json["file"] = names_.front();
    json["sha256"] = sha256_file(folder_ / names_.front());
    return json;
  }
  std::vector<TokenArray> parts;
  for (const std::string& name : names_) {
    parts.push_back(open_id_file(folder_ / name).tokens);
    json["shards"].push_back(
        {{"file", name}, {"tokens", parts.back().size()}, {"sha256", sha256_file(folder_ / name)}});
  }
  json["sha256"] = id_file_sha256(TokenArray(std::move(parts)), documents);
  return json;
}

// --- Reading ---

namespace {

// A shard as data.json lists it.
struct Shard {
  fs::path path;
  std::string name;  // "shard 2 of 3 of train"
  std::int64_t tokens = 0;
  std::string sha256;
};

[[noreturn]] void refuse_shard(const Shard& shard, const std::string& expected,
                               const std::string& got) {
  throw_usage({.where = shard.path.string(),
               .failed = str(shard.name, " is damaged or belongs to another preparation"),
               .expected = expected,
               .got = got,
               .hint = "put this folder's own shard in its place, or prepare the data again"});
}

Shard read_entry(const SplitPlace& place, const Json& list, std::size_t index) {
  const std::string where = str(place.where, ": shards[", index, "]");
  const std::string file = info_text(list[index], where, "file");
  if (file.find('/') != std::string::npos) {
    refuse_prepared(str(where, ": file"), "the prepared file is damaged",
                    "the name of a file of the folder", file);
  }
  return {.path = place.folder / file,
          .name = str("shard ", index + 1, " of ", list.size(), " of ", place.split),
          .tokens = info_count(list[index], where, "tokens"),
          .sha256 = info_text(list[index], where, "sha256")};
}

// The shards, when their tokens add up to the split's.
std::vector<Shard> list_shards(const SplitPlace& place, const Json& entry) {
  const Json& list = info_member(entry, place.where, "shards");
  if (!list.is_array() || list.empty()) {
    refuse_prepared(str(place.where, ": shards"), "the prepared file is damaged", "a list of files",
                    list.dump());
  }
  const std::int64_t tokens = info_count(entry, place.where, "tokens");
  std::int64_t missing = tokens;  // not listed yet
  const auto refuse_sum = [&](const std::string& got) {
    refuse_prepared(str(place.where, ": shards"), "the tokens of the shards do not add up",
                    str(tokens, ", the tokens of the split"), got);
  };
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < list.size(); ++i) {
    shards.push_back(read_entry(place, list, i));
    if (shards.back().tokens > missing) refuse_sum("more");  // first: a sum could overflow
    missing -= shards.back().tokens;
  }
  if (missing > 0) refuse_sum(str(tokens - missing));
  return shards;
}

IdFile open_shard(const Shard& shard, int width) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(shard.path, ignored))) {
    throw_usage({.where = str("data.prepared: ", shard.path.string()),
                 .failed = "a part of the data is missing",
                 .expected = shard.name,
                 .got = "no such file",
                 .hint = "put it there, or a symbolic link to where it lies"});
  }
  check_data_file(shard.path, "data.prepared", shard.name);
  IdFile file = open_id_file(shard.path);
  check_width(shard.path, file.tokens, width);
  if (file.tokens.size() != shard.tokens) {
    refuse_shard(shard, str(shard.tokens, " ids, as data.json says"), str(file.tokens.size()));
  }
  return file;
}

// Says which file has changed since the checksum `expected` of the split was made.
[[noreturn]] void refuse_content(const SplitPlace& place, const std::vector<Shard>& shards,
                                 const std::string& expected, const std::string& got) {
  for (const Shard& shard : shards) {
    const std::string sha256 = sha256_file(shard.path);
    if (sha256 != shard.sha256) refuse_shard(shard, "sha256 " + shard.sha256, sha256);
  }
  refuse_prepared(str(place.where, ": sha256"), "the checksum is not that of the shards",
                  "sha256 " + got, expected);
}

}  // namespace

Corpus read_shards(const SplitPlace& place, const Json& entry, int width) {
  const std::vector<Shard> shards = list_shards(place, entry);
  const std::string expected = info_text(entry, place.where, "sha256");
  std::vector<TokenArray> parts;
  IdFile last;
  for (const Shard& shard : shards) {
    last = open_shard(shard, width);
    parts.push_back(last.tokens);
  }
  Corpus corpus;
  corpus.files = {place.folder / "data.json"};  // which lists the shards
  corpus.tokens = TokenArray(std::move(parts));
  corpus.documents = read_documents(last, corpus.size());
  corpus.sha256 = id_file_sha256(corpus.tokens, corpus.documents);
  if (corpus.sha256 != expected) refuse_content(place, shards, expected, corpus.sha256);
  return corpus;
}

}  // namespace mneme::data
