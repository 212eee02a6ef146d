// A vocabulary as a JSON file.
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/data/text/utf8.hpp"
#include "host/data/text/vocabulary.hpp"

namespace mneme::data {
namespace {

constexpr std::string_view kFormat = "mneme.vocabulary";
constexpr std::int64_t kRevision = 1;

[[noreturn]] void refuse_vocabulary(const std::string& source, const std::string& key,
                         const std::string& expected, const std::string& got) {
  throw_usage({.where = key.empty() ? source : str(source, ": ", key),
               .failed = "not a vocabulary of this program",
               .expected = expected,
               .got = got,
               .hint =
                   "take vocabulary.json from a run folder, or from one that `mneme data prepare` "
                   "wrote"});
}

// The member of that key, or an error naming it.
const Json& member(const Json& json, const std::string& source, const char* key,
                   const std::string& expected) {
  const auto found = json.find(key);
  if (found == json.end()) refuse_vocabulary(source, key, expected, "no such key");
  return *found;
}

VocabularyKind kind_of(const Json& json, const std::string& source) {
  const Json& kind = member(json, source, "kind", "\"byte\", \"char\" or \"word\"");
  for (const VocabularyKind each :
       {VocabularyKind::kByte, VocabularyKind::kChar, VocabularyKind::kWord}) {
    if (kind == to_word(each)) return each;
  }
  refuse_vocabulary(source, "kind", "\"byte\", \"char\" or \"word\"", kind.dump());
}

// One symbol, checked for its kind.
std::string symbol_of(const Json& item, std::size_t place, VocabularyKind kind,
                      const std::string& source) {
  const std::string key = str("symbols[", place, "]");
  if (!item.is_string()) refuse_vocabulary(source, key, "a string", item.dump());
  auto text = item.get<std::string>();
  if (text.empty()) refuse_vocabulary(source, key, "a string of at least one character", "\"\"");
  if (kind == VocabularyKind::kChar && decode_utf8(text, 0).bytes != text.size()) {
    refuse_vocabulary(source, key, "one character", item.dump());
  }
  return text;
}

std::vector<std::string> symbols_of(const Json& json, VocabularyKind kind,
                                    const std::string& source) {
  const Json& list = member(json, source, "symbols", "an array of strings");
  if (!list.is_array() || list.empty()) {
    refuse_vocabulary(source, "symbols", "an array of strings", list.is_array() ? "[]" : list.type_name());
  }
  std::vector<std::string> symbols;
  std::set<std::string> seen;
  for (const Json& item : list) {
    symbols.push_back(symbol_of(item, symbols.size(), kind, source));
    if (!seen.insert(symbols.back()).second) {
      refuse_vocabulary(source, str("symbols[", symbols.size() - 1, "]"), "a symbol not given before",
             item.dump());
    }
  }
  return symbols;
}

}  // namespace

Json Vocabulary::to_json() const {
  Json json;
  json["format"] = kFormat;
  json["revision"] = kRevision;
  json["kind"] = to_word(kind_);
  if (kind_ == VocabularyKind::kWord) json["add_eos"] = adds_eos_;
  if (drops_newlines_) {
    for (const std::string& symbol : symbols_) {
      json["bytes"].push_back(static_cast<int>(static_cast<unsigned char>(symbol[0])));
    }
  }
  if (kind_ != VocabularyKind::kByte) json["symbols"] = symbols_;
  if (!counts_.empty()) json["counts"] = counts_;
  return json;
}

void Vocabulary::save(const std::filesystem::path& path) const {
  write_file_atomic(path, to_json().dump(1) + "\n");
}

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  const Json json = Json::parse(read_file(path), nullptr, false);
  if (json.is_discarded()) refuse_vocabulary(path.string(), "", "a JSON file", "text that is not JSON");
  return from_json(json, path.string());
}

Vocabulary Vocabulary::from_json(const Json& json, const std::string& source) {
  if (!json.is_object()) refuse_vocabulary(source, "", "a JSON object", json.type_name());
  const Json& format = member(json, source, "format", str("\"", kFormat, "\""));
  if (format != kFormat) refuse_vocabulary(source, "format", str("\"", kFormat, "\""), format.dump());
  const Json& revision = member(json, source, "revision", str(kRevision));
  if (revision != kRevision) refuse_vocabulary(source, "revision", str(kRevision), revision.dump());

  const VocabularyKind kind = kind_of(json, source);
  if (kind == VocabularyKind::kByte) return read_bytes(json, source);
  bool adds_eos = false;
  if (kind == VocabularyKind::kWord) {
    const Json& flag = member(json, source, "add_eos", "true or false");
    if (!flag.is_boolean()) refuse_vocabulary(source, "add_eos", "true or false", flag.dump());
    adds_eos = flag.get<bool>();
  }
  Vocabulary vocabulary(kind, symbols_of(json, kind, source));
  vocabulary.adds_eos_ = adds_eos;
  if (kind == VocabularyKind::kWord && !vocabulary.find(kUnknown)) {
    refuse_vocabulary(source, "symbols", str("\"", kUnknown, "\" among them"), "none");
  }
  if (adds_eos && !vocabulary.find(kEndOfLine)) {
    refuse_vocabulary(source, "symbols", str("\"", kEndOfLine, "\" among them"), "none");
  }
  vocabulary.read_counts(json, source);
  return vocabulary;
}

Vocabulary Vocabulary::read_bytes(const Json& json, const std::string& source) {
  const auto list = json.find("bytes");
  if (list == json.end()) return bytes();
  const std::string expected = "different integers from 0 to 255 without 10, the newline";
  if (!list->is_array() || list->empty()) refuse_vocabulary(source, "bytes", expected, list->dump());
  std::vector<std::string> symbols;
  std::set<std::int64_t> seen = {'\n'};
  for (const Json& item : *list) {
    const std::int64_t byte = item.is_number_integer() ? item.get<std::int64_t>() : -1;
    if (byte < 0 || byte > 255 || !seen.insert(byte).second) {
      refuse_vocabulary(source, str("bytes[", symbols.size(), "]"), expected, item.dump());
    }
    symbols.emplace_back(1, static_cast<char>(byte));
  }
  Vocabulary vocabulary(VocabularyKind::kByte, std::move(symbols));
  vocabulary.drops_newlines_ = true;
  vocabulary.read_counts(json, source);
  return vocabulary;
}

void Vocabulary::read_counts(const Json& json, const std::string& source) {
  const auto list = json.find("counts");
  if (list == json.end()) return;
  const std::string expected = str("one count of at least 0 a symbol, ", size(), " in all");
  if (!list->is_array() || list->size() != symbols_.size()) {
    refuse_vocabulary(source, "counts", expected,
           list->is_array() ? str(list->size(), " in all") : std::string(list->type_name()));
  }
  for (const Json& item : *list) {
    const std::int64_t count = item.is_number_integer() ? item.get<std::int64_t>() : -1;
    if (count < 0) refuse_vocabulary(source, str("counts[", counts_.size(), "]"), expected, item.dump());
    counts_.push_back(count);
  }
}

}  // namespace mneme::data
