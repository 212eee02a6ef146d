// Texts to ids and back.
#include "host/base/error.hpp"
#include "host/data/text/utf8.hpp"
#include "host/data/text/vocabulary.hpp"
#include "host/data/text/words.hpp"

namespace mneme::data {
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
  switch (kind_) {
    case VocabularyKind::kByte:
      return encode_bytes(text, sink);
    case VocabularyKind::kChar:
      return encode_characters(text, sink);
    case VocabularyKind::kWord:
      break;
  }
  return encode_words(text, sink);
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

EncodeCounts Vocabulary::encode_bytes(const NamedText& text, TokenSink& sink) const {
  EncodeCounts counts;
  const std::int64_t before = sink.count();
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
  counts.tokens = counts.characters = counts.bytes = sink.count() - before;
  counts.words = count_words(text.text);
  return counts;
}

EncodeCounts Vocabulary::encode_characters(const NamedText& text, TokenSink& sink) const {
  EncodeCounts counts;
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
    ++counts.tokens;
    i += bytes;
  }
  counts.characters = counts.tokens;
  counts.bytes = static_cast<std::int64_t>(text.text.size());
  counts.words = count_words(text.text);
  return counts;
}

EncodeCounts Vocabulary::encode_words(const NamedText& text, TokenSink& sink) const {
  EncodeCounts counts;
  const std::int64_t before = sink.count();
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
  counts.tokens = sink.count() - before;
  counts.bytes = static_cast<std::int64_t>(text.text.size());
  counts.characters = count_characters(text.text);
  return counts;
}

std::string Vocabulary::decode(std::span<const std::int32_t> ids) const {
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

}  // namespace mneme::data
