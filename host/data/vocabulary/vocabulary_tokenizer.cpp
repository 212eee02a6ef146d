// Vocabularies that are the tokenizer of a pretrained model.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/hex.hpp"
#include "host/base/log.hpp"
#include "host/data/text/text.hpp"
#include "host/data/text/text_files.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

// True for a file that Vocabulary::save() wrote: its first member is its format.
bool is_saved_vocabulary(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) == 0) return false;
  const MappedFile file(path);
  const auto bytes = file.bytes().first(std::min<std::size_t>(file.bytes().size(), 64));
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return start.find("mneme.vocabulary") != start.npos;
}

}  // namespace

Vocabulary Vocabulary::pretrained(std::shared_ptr<const Tokenizer> tokenizer) {
  std::vector<std::string> symbols;
  symbols.reserve(static_cast<std::size_t>(tokenizer->size()));
  for (std::int32_t id = 0; id < tokenizer->size(); ++id) {
    symbols.push_back(tokenizer->bytes_of(id));
  }
  Vocabulary vocabulary(VocabularyKind::kTokenizer, std::vector<std::string>());
  vocabulary.symbols_ = std::move(symbols);
  vocabulary.tokenizer_ = std::move(tokenizer);
  return vocabulary;
}

Vocabulary Vocabulary::read_tokenizer(const Json& files, const std::string& source) {
  TokenizerFiles texts;
  texts.folder = source;
  texts.is_in_file = true;
  const auto refuse = [&](const std::string& got) {
    throw_usage({.where = str(source, ": files"),
                 .failed = "not a vocabulary of this program",
                 .expected = "the texts of a tokenizer's files by name",
                 .got = got,
                 .hint = "take vocabulary.json from a run folder, or from one that `mneme data "
                         "prepare` wrote"});
  };
  for (const auto& [name, text] : files.items()) {
    const bool is_binary =
        text.is_object() && text.size() == 1 && text.contains("hex") && text.at("hex").is_string();
    if (!files.is_object() || !(text.is_string() || is_binary)) {
      refuse(std::string(text.type_name()));
    }
    if (!is_binary) {
      texts.texts[name] = text.get<std::string>();
      continue;
    }
    std::optional<std::string> bytes = bytes_of_hex(text.at("hex").get_ref<const std::string&>());
    if (!bytes) refuse(str(name, " in other than hexadecimal digits"));
    texts.texts[name] = std::move(*bytes);
  }
  return pretrained(std::make_shared<const Tokenizer>(std::move(texts)));
}

void Vocabulary::encode_pretrained(const NamedText& text, TokenSink& sink,
                                   EncodeCounts& counts) const {
  counts.unknown = tokenizer_->encode(text, {}, [&](std::span<const std::int32_t> ids) {
    for (const std::int32_t id : ids) sink.push(id);
  });
  counts.lines = std::count(text.text.begin(), text.text.end(), '\n');
}

Vocabulary load_vocabulary(const fs::path& path, VocabularyKind kind, const std::string& key) {
  if (kind == VocabularyKind::kTokenizer && !is_saved_vocabulary(path)) {
    auto tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(path));
    for (const std::string& note : tokenizer->notes()) log_warning(note);
    return Vocabulary::pretrained(std::move(tokenizer));
  }
  check_data_file(path, key, "a vocabulary.json");
  return Vocabulary::load(path);
}

}  // namespace mneme::data
