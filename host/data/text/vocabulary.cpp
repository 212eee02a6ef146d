#include "host/data/text/vocabulary.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/sha256.hpp"

namespace mneme::data {

std::string_view to_word(VocabularyKind kind) {
  switch (kind) {
    case VocabularyKind::kByte:
      return "byte";
    case VocabularyKind::kChar:
      return "char";
    case VocabularyKind::kWord:
      return "word";
  }
  return "?";
}

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
  const auto found = ids_.find(symbol);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int32_t> Vocabulary::unknown_id() const {
  return kind_ == VocabularyKind::kWord ? find(kUnknown) : std::nullopt;
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
  Sha256 digest;
  digest.update(
      str(to_word(kind_), adds_eos_ ? " eos" : "", drops_newlines_ ? " no newline" : "", "\n"));
  for (const std::string& symbol : symbols_) digest.update(str(symbol.size(), ":", symbol));
  return digest.hex();
}

std::string Vocabulary::summary() const {
  return str(to_word(kind_), " vocabulary of ", size(), " symbols, sha256 ", sha256().substr(0, 12),
             "...");
}

}  // namespace mneme::data
