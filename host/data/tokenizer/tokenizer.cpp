#include "host/data/tokenizer/tokenizer.hpp"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "host/base/error.hpp"
#include "host/data/tokenizer/tokenizer_parts.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kIdsPassedAtOnce = std::size_t{1} << 16;

[[noreturn]] void refuse_alike(const AddedToken& first, const AddedToken& second) {
  throw_usage(
      {.where = second.place,
       .failed = "two added tokens are the same text once it is normalised",
       .expected = "tokens that differ",
       .got = str("\"", second.content, "\", and in ", first.place, " \"", first.content, "\""),
       .hint = "PyPI tokenizers takes one of them by chance; take one out of the file"});
}

}  // namespace

struct Tokenizer::Parts : TokenizerParts {
  explicit Parts(TokenizerFiles from) : TokenizerParts(read_parts(from)), files(std::move(from)) {
    std::vector<std::pair<std::string, AddedToken>> raw;
    std::vector<std::pair<std::string, AddedToken>> normal;
    special_tokens.assign(static_cast<std::size_t>(size()), false);
    count = size();
    std::unordered_map<std::string, const AddedToken*> by_text;
    for (const AddedToken& token : added) {
      std::string text = token.content;
      if (token.is_normalized) {
        normalizer.apply(text);
        const auto [other, is_new] = by_text.emplace(text, &token);
        if (!is_new) refuse_alike(*other->second, token);
      }
      added_texts[token.id] = text;
      (token.is_normalized ? normal : raw).emplace_back(std::move(text), token);
      special_tokens[static_cast<std::size_t>(token.id)] = token.is_special;
    }
    raw_finder = TokenFinder(std::move(raw));
    normalized_finder = TokenFinder(std::move(normal));
  }

  TokenizerFiles files;
  std::int32_t count = 0;
  TokenFinder raw_finder;         // added tokens in the text as it is
  TokenFinder normalized_finder;  // and in the normalised text
  std::vector<bool> special_tokens;
  std::unordered_map<std::int32_t, std::string> added_texts;  // as they stand in a normalised text
  std::mutex mutex;                                           // of the model's cache
};

Tokenizer::Tokenizer(TokenizerFiles files) : parts_(std::make_unique<Parts>(std::move(files))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return Tokenizer(read_tokenizer_files(path));
}

std::int32_t Tokenizer::size() const { return parts_->count; }
const std::vector<std::int32_t>& Tokenizer::beginning() const { return parts_->prefix; }
const Decoder& Tokenizer::decoder() const { return parts_->decoder; }
const std::string& Tokenizer::sha256() const { return parts_->sha256; }
const std::vector<std::string>& Tokenizer::notes() const { return parts_->notes; }
const TokenizerFiles& Tokenizer::files() const { return parts_->files; }

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  return parts_->find(token);
}

const std::string& Tokenizer::token(std::int64_t id) const {
  if (id < 0 || id >= size()) {
    throw_usage({.where = str("token id ", id),
                 .failed = "it names no token",
                 .expected = str("0 to ", size() - 1, ", the tokenizer's ids"),
                 .got = str(id)});
  }
  const auto place = static_cast<std::int32_t>(id);
  const auto added = parts_->added_texts.find(place);
  return added != parts_->added_texts.end() ? added->second : parts_->model->token(place);
}

std::string Tokenizer::bytes_of(std::int64_t id) const {
  return parts_->decoder.bytes_inside(token(id));
}

bool Tokenizer::is_special(std::int64_t id) const {
  static_cast<void>(token(id));
  return parts_->special_tokens[static_cast<std::size_t>(id)];
}

std::string Tokenizer::place_of(std::int64_t id) const {
  const auto found = std::ranges::find(parts_->added, id, &AddedToken::id);
  return found == parts_->added.end() ? "" : found->place;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                            const EncodeOptions& options) const {
  std::vector<std::int32_t> ids;
  encode({"text", text}, options, [&](std::span<const std::int32_t> part) {
    ids.insert(ids.end(), part.begin(), part.end());
  });
  return ids;
}

std::int64_t Tokenizer::encode(
    const NamedText& text, const EncodeOptions& options,
    const std::function<void(std::span<const std::int32_t>)>& on_ids) const {
  check_utf8(text);
  Parts& parts = *parts_;
  const std::lock_guard<std::mutex> lock(parts.mutex);
  const bool finds_special = options.finds_special && !parts.splits_special;
  std::vector<std::int32_t> ids;
  std::int64_t unknown = 0;
  const auto pass = [&] {
    if (!ids.empty()) on_ids(ids);
    ids.clear();
  };
  const PreTokenizer::OnWord on_word = [&](std::string_view word) {
    unknown += parts.model->encode(word, ids);
    if (ids.size() >= kIdsPassedAtOnce) pass();
  };
  const auto encode_raw = [&](std::string_view raw, bool is_at_start) {
    std::string changed;
    if (!parts.normalizer.is_empty() || parts.piece_normalizer) {
      changed = parts.normalized(raw, is_at_start);
      raw = changed;
    }
    parts.normalized_finder.for_each_part(
        raw, finds_special, [&](std::size_t begin, std::size_t end, const AddedToken* token) {
          if (token != nullptr) return ids.push_back(token->id);
          parts.pre_tokenizer.for_each_word(raw.substr(begin, end - begin),
                                            is_at_start && begin == 0, on_word);
        });
  };
  if (options.adds_special) ids = parts.prefix;
  parts.raw_finder.for_each_part(text.text, finds_special,
                                 [&](std::size_t begin, std::size_t end, const AddedToken* token) {
                                   if (token != nullptr) return ids.push_back(token->id);
                                   encode_raw(text.text.substr(begin, end - begin), begin == 0);
                                 });
  if (options.adds_special) ids.insert(ids.end(), parts.suffix.begin(), parts.suffix.end());
  pass();
  return unknown;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skips_special) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int32_t id : ids) {
    const std::string& each = token(id);
    if (!skips_special || !parts_->special_tokens[static_cast<std::size_t>(id)]) {
      tokens.push_back(each);
    }
  }
  return parts_->decoder.decode(std::move(tokens));
}

}  // namespace mneme::data
