#include "host/data/vocabulary/vocabulary.hpp"

#include <nlohmann/json.hpp>
#include <set>
#include <unordered_set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/hex.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/text/text.hpp"
#include "host/data/tokenizer/tokenizer.hpp"

namespace mneme::data {

Vocabulary::Vocabulary(VocabularyKind kind, std::vector<std::string> symbols)
    : kind_(kind), symbols_(std::move(symbols)) {
  index_symbols();
}

Vocabulary::Vocabulary(VocabularyKind kind, std::vector<Counted> symbols) : kind_(kind) {
  for (Counted& each : symbols) {
    symbols_.push_back(std::move(each.symbol));
    counts_.push_back(each.count);
  }
  index_symbols();
}

void Vocabulary::index_symbols() {
  byte_ids_.fill(-1);
  ids_.reserve(symbols_.size());
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    ids_.emplace(symbols_[i], id);
    if (symbols_[i].size() == 1) byte_ids_[static_cast<unsigned char>(symbols_[i][0])] = id;
  }
}

std::optional<std::int32_t> Vocabulary::find(std::string_view symbol) const {
  if (tokenizer_) {
    if (const auto id = tokenizer_->id_of(symbol)) return id;
  }
  const auto found = ids_.find(symbol);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int32_t> Vocabulary::unknown_id() const {
  return kind_ == VocabularyKind::kWord || tokenizer_ ? find(kUnknown) : std::nullopt;
}

const std::string& Vocabulary::symbol(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    throw_usage(
        {.where = str("token id ", id),
         .failed = "it names no symbol",
         .expected = str("0 to ", size() - 1, ", the ", to_word(kind_), " vocabulary's ids"),
         .got = str(id)});
  }
  return symbols_[static_cast<std::size_t>(id)];
}

std::string Vocabulary::sha256() const {
  if (tokenizer_ && marks_ == 0) return tokenizer_->sha256();
  Sha256 digest;
  if (tokenizer_) digest.update(tokenizer_->sha256());
  digest.update(
      str(to_word(kind_), adds_eos_ ? " eos" : "", drops_newlines_ ? " no newline" : "", "\n"));
  for (const std::string& symbol : symbols_) digest.update(str(symbol.size(), ":", symbol));
  return digest.hex();
}

std::string Vocabulary::summary() const {
  return str(to_word(kind_), " vocabulary of ", size(), " symbols, sha256 ", sha256().substr(0, 12),
             "...");
}

// --- Texts to ids and back ---

namespace {

// Collects the ids of short texts.
class VectorSink final : public TokenSink {
 public:
  explicit VectorSink(std::vector<std::int32_t>& ids) : ids_(ids) {}

 private:
  void write(std::span<const std::int32_t> ids) override {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  std::vector<std::int32_t>& ids_;
};

}  // namespace

void EncodeCounts::add(const EncodeCounts& other) {
  tokens += other.tokens;
  lines += other.lines;
  words += other.words;
  unknown += other.unknown;
  bytes += other.bytes;
  characters += other.characters;
}

EncodeCounts Vocabulary::encode(const NamedText& text, TokenSink& sink) const {
  const std::int64_t before = sink.count();
  EncodeCounts counts;
  switch (kind_) {
    case VocabularyKind::kByte:
      encode_bytes(text, sink, counts);
      break;
    case VocabularyKind::kChar:
      encode_characters(text, sink, counts);
      break;
    case VocabularyKind::kTokenizer:
      encode_pretrained(text, sink, counts);
      break;
    case VocabularyKind::kWord:
      encode_words(text, sink, counts);
      break;
  }
  counts.tokens = sink.count() - before;
  const bool is_byte = kind_ == VocabularyKind::kByte;  // whose newlines may be left out
  counts.bytes = is_byte ? counts.tokens : static_cast<std::int64_t>(text.text.size());
  counts.characters = is_byte ? counts.tokens : count_characters(text.text);
  if (kind_ != VocabularyKind::kWord) counts.words = count_words(text.text);
  return counts;
}

EncodeCounts Vocabulary::encode(const NamedText& text, std::vector<std::int32_t>& ids) const {
  VectorSink sink(ids);
  const EncodeCounts counts = encode(text, sink);
  sink.flush();
  return counts;
}

void Vocabulary::refuse_symbol(const NamedText& text, std::size_t offset, std::size_t bytes) const {
  const bool is_byte = kind_ == VocabularyKind::kByte;
  const std::string_view symbol = text.text.substr(offset, bytes);
  throw_usage({.where = position_text(text, offset),
               .failed = is_byte ? "a byte that the vocabulary's text does not have"
                                 : "a character that the training text does not have",
               .expected = str("one of its ", size(), is_byte ? " bytes" : " characters"),
               .got = is_byte ? str(static_cast<int>(static_cast<unsigned char>(symbol[0])))
                              : str("\"", symbol, "\""),
               .hint = "add it to data.train, remove it here, or set data.vocabulary = "
                       "\"byte\", which takes any text"});
}

void Vocabulary::encode_bytes(const NamedText& text, TokenSink& sink, EncodeCounts& counts) const {
  for (std::size_t i = 0; i < text.text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text.text[i]);
    if (byte == '\n') {
      ++counts.lines;
      if (drops_newlines_) continue;
    }
    const std::int32_t id = byte_ids_[byte];
    if (id < 0) refuse_symbol(text, i, 1);
    sink.push(id);
  }
}

void Vocabulary::encode_characters(const NamedText& text, TokenSink& sink,
                                   EncodeCounts& counts) const {
  for (std::size_t i = 0; i < text.text.size();) {
    const std::size_t bytes = decode_utf8(text.text, i).bytes;
    if (bytes == 0) throw_invalid_utf8(text, i);
    std::int32_t id = -1;
    if (bytes == 1) {
      id = byte_ids_[static_cast<unsigned char>(text.text[i])];
    } else {
      id = find(text.text.substr(i, bytes)).value_or(-1);
    }
    if (id < 0) refuse_symbol(text, i, bytes);
    sink.push(id);
    if (text.text[i] == '\n') ++counts.lines;
    i += bytes;
  }
}

void Vocabulary::encode_words(const NamedText& text, TokenSink& sink, EncodeCounts& counts) const {
  const std::int32_t unknown = ids_.find(kUnknown)->second;
  const std::int32_t end_of_line = adds_eos_ ? ids_.find(kEndOfLine)->second : -1;
  for_each_word(
      text,
      [&](std::string_view word) {
        const auto id = find(word);
        if (!id) ++counts.unknown;
        if (id != end_of_line) ++counts.words;
        sink.push(id.value_or(unknown));
      },
      [&] {
        ++counts.lines;
        if (adds_eos_) sink.push(end_of_line);
      });
}

std::string Vocabulary::decode(std::span<const std::int32_t> ids) const {
  if (tokenizer_) return marks_ == 0 ? tokenizer_->decode(ids) : decode_with_marks(ids);
  std::string text;
  bool is_line_start = true;
  for (const std::int32_t id : ids) {
    const std::string& piece = symbol(id);
    if (kind_ != VocabularyKind::kWord) {
      text += piece;
    } else if (adds_eos_ && piece == kEndOfLine) {
      text += '\n';
      is_line_start = true;
    } else {
      if (!is_line_start) text += ' ';
      text += piece;
      is_line_start = false;
    }
  }
  return text;
}

// --- A vocabulary as a JSON file ---

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
  const std::string expected = "\"byte\", \"char\", \"word\" or \"tokenizer\"";
  const Json& kind = member(json, source, "kind", expected);
  if (kind.is_string()) {
    if (const auto found = find_word<VocabularyKind>(kind.get<std::string>())) return *found;
  }
  refuse_vocabulary(source, "kind", expected, kind.dump());
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
    refuse_vocabulary(source, "symbols", "an array of strings",
                      list.is_array() ? "[]" : list.type_name());
  }
  std::vector<std::string> symbols;
  symbols.reserve(list.size());  // so that what was seen stays where it is
  std::unordered_set<std::string_view> seen;
  seen.reserve(list.size());
  for (const Json& item : list) {
    symbols.push_back(symbol_of(item, symbols.size(), kind, source));
    if (!seen.insert(symbols.back()).second) {
      refuse_vocabulary(source, str("symbols[", symbols.size() - 1, "]"),
                        "a symbol not given before", item.dump());
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
  const auto own = std::span(symbols_).first(symbols_.size() - static_cast<std::size_t>(marks_));
  if (drops_newlines_) {
    for (const std::string& symbol : own) {
      json["bytes"].push_back(static_cast<int>(static_cast<unsigned char>(symbol[0])));
    }
  }
  for (const std::string& mark : std::span(symbols_).subspan(own.size())) {
    json["marks"].push_back(mark);
  }
  if (tokenizer_) {
    for (const auto& [name, text] : tokenizer_->files().texts) {
      // JSON holds texts alone; tokenizer.model is binary.
      json["files"][name] = is_utf8(text) ? Json(text) : Json{{"hex", hex_of(text)}};
    }
    return json;
  }
  if (kind_ != VocabularyKind::kByte) json["symbols"] = std::vector(own.begin(), own.end());
  if (!counts_.empty()) {
    json["counts"] =
        std::vector(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(own.size()));
  }
  return json;
}

void Vocabulary::save(const std::filesystem::path& path) const {
  write_file_atomic(path, to_json().dump(1) + "\n");
}

Vocabulary Vocabulary::load(const std::filesystem::path& path) {
  const Json json = parse_json(read_file(path));
  if (json.is_discarded())
    refuse_vocabulary(path.string(), "", "a JSON file", "text that is not JSON");
  return from_json(json, path.string());
}

Vocabulary Vocabulary::from_json(const Json& json, const std::string& source) {
  if (!json.is_object()) refuse_vocabulary(source, "", "a JSON object", json.type_name());
  const Json& format = member(json, source, "format", str("\"", kFormat, "\""));
  if (format != kFormat)
    refuse_vocabulary(source, "format", str("\"", kFormat, "\""), format.dump());
  const Json& revision = member(json, source, "revision", str(kRevision));
  if (revision != kRevision) refuse_vocabulary(source, "revision", str(kRevision), revision.dump());
  return read_marks(read_symbols(json, source), json, source);
}

Vocabulary Vocabulary::read_symbols(const Json& json, const std::string& source) {
  const VocabularyKind kind = kind_of(json, source);
  if (kind == VocabularyKind::kByte) return read_bytes(json, source);
  if (kind == VocabularyKind::kTokenizer) {
    return read_tokenizer(member(json, source, "files", "texts of a tokenizer's files by name"),
                          source);
  }
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
  if (!list->is_array() || list->empty())
    refuse_vocabulary(source, "bytes", expected, list->dump());
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
    refuse_vocabulary(
        source, "counts", expected,
        list->is_array() ? str(list->size(), " in all") : std::string(list->type_name()));
  }
  for (const Json& item : *list) {
    const std::int64_t count = item.is_number_integer() ? item.get<std::int64_t>() : -1;
    if (count < 0)
      refuse_vocabulary(source, str("counts[", counts_.size(), "]"), expected, item.dump());
    counts_.push_back(count);
  }
}

}  // namespace mneme::data
