#include "host/data/prepare/prepared.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/sha256.hpp"
#include "host/data/id_file.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_prepared(const std::string& where, const std::string& failed,
                         const std::string& expected, const std::string& got) {
  throw_usage({.where = where,
               .failed = failed,
               .expected = expected,
               .got = got,
               .hint = "prepare the data again: mneme data prepare --train FILE --out DIR, with the "
                       "settings of its data.json"});
}

// A member of data.json that must be there.
const Json& member(const Json& json, const std::string& where, const std::string& key) {
  const auto found = json.find(key);
  if (found != json.end()) return *found;
  refuse_prepared(where, "the prepared file is damaged", str("the key \"", key, "\""), "none");
}

std::int64_t count_at(const Json& json, const std::string& where, const std::string& key) {
  const Json& value = member(json, where, key);
  if (value.is_number_integer() && value.get<std::int64_t>() >= 0) {
    return value.get<std::int64_t>();
  }
  refuse_prepared(str(where, ": ", key), "the prepared file is damaged", "a count", value.dump());
}

std::string text_at(const Json& json, const std::string& where, const std::string& key) {
  const Json& value = member(json, where, key);
  if (value.is_string()) return value.get<std::string>();
  refuse_prepared(str(where, ": ", key), "the prepared file is damaged", "a text", value.dump());
}

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
  Json json = Json::parse(read_file(file), nullptr, false);
  if (!json.is_object()) {
    refuse_prepared(file.string(), "the prepared file is damaged", "a JSON object", "other text");
  }
  const std::string format = text_at(json, file.string(), "format");
  if (format != kPreparedFormat)
    refuse_prepared(file.string(), "another format", std::string(kPreparedFormat), format);
  const std::int64_t revision = count_at(json, file.string(), "revision");
  if (revision != kPreparedRevision) {
    refuse_prepared(file.string(), "another revision of the format", str(kPreparedRevision), str(revision));
  }
  return json;
}

Vocabulary read_vocabulary(const fs::path& folder, const Json& info) {
  const fs::path file = folder / "vocabulary.json";
  check_data_file(file, "data.prepared", "the vocabulary of the prepared data");
  Vocabulary vocabulary = Vocabulary::load(file);
  const std::string where = (folder / "data.json").string();
  const std::string expected = text_at(member(info, where, "vocabulary"), where, "sha256");
  if (vocabulary.sha256() != expected) {
    refuse_prepared(file.string(), "the vocabulary is not the one that the data were prepared with",
           "sha256 " + expected, str("a ", vocabulary.summary()));
  }
  return vocabulary;
}

}  // namespace

PreparedFolder PreparedFolder::open(const fs::path& path) {
  Json info = read_info(path);
  if (!member(info, (path / "data.json").string(), "splits").is_object()) {
    refuse_prepared((path / "data.json").string(), "the prepared file is damaged", "splits as an object",
           info["splits"].dump());
  }
  Vocabulary vocabulary = read_vocabulary(path, info);
  return {path, std::move(info), std::move(vocabulary)};
}

bool PreparedFolder::has(Split split) const { return info_["splits"].contains(to_word(split)); }

Corpus PreparedFolder::corpus(Split split) const {
  const std::string name(to_word(split));
  const std::string where = str((path_ / "data.json").string(), ": ", name);
  const Json& entry = member(info_["splits"], where, name);
  const fs::path file = path_ / (name + ".safetensors");
  check_data_file(file, "data.prepared", str("the ids of ", name));
  Corpus corpus = read_id_file(file);
  corpus.key = str("data.prepared (", name, ")");
  corpus.sha256 = sha256_file(file);
  const std::string expected = text_at(entry, where, "sha256");
  if (corpus.sha256 != expected) {
    refuse_prepared(file.string(), "the prepared file is damaged or was changed", "sha256 " + expected,
           corpus.sha256);
  }
  if (corpus.tokens.width() != token_width(vocabulary_.size())) {
    refuse_prepared(file.string(), "the ids do not belong to the vocabulary",
           str(token_width(vocabulary_.size()), " bytes an id"), str(corpus.tokens.width()));
  }
  corpus.bytes = count_at(entry, where, "bytes");
  corpus.characters = count_at(entry, where, "characters");
  corpus.lines = count_at(entry, where, "lines");
  corpus.words = count_at(entry, where, "words");
  corpus.unknown = count_at(entry, where, "unknown");
  return corpus;
}

}  // namespace mneme::data
