#include "host/data/corpus.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/file/sha256.hpp"

namespace mneme::data {
namespace {

std::string names_of(std::span<const NamedText> texts) {
  const std::string others = texts.size() > 1 ? str(" and ", texts.size() - 1, " more") : "";
  return texts.front().source + others;
}

// What never begins a document is misspelt, as a rule; the texts are then one document each.
void warn_of_absent_start(std::span<const NamedText> texts, const std::string& key,
                          const DocumentOptions& options) {
  if (options.unit != config::Documents::kHeading && options.unit != config::Documents::kMark) {
    return;
  }
  for (const NamedText& text : texts) {
    if (has_document_start(text.text, options)) return;
  }
  const bool is_mark = options.unit == config::Documents::kMark;
  log_warning(key, ": ", names_of(texts), ": no line is ", document_start(options),
              ", which begins a document: each text is one document; correct ",
              is_mark ? "the mark" : "data.documents", " if there should be more");
}

void warn_of_order_marks(std::span<const NamedText> texts, const std::string& key,
                         const Vocabulary& vocabulary) {
  for (const NamedText& text : texts) {
    if (follows_byte_order_mark(text)) {
      log_warning(key, ": ", text.source,
                  ": the byte order mark at its start is no part of the text and was skipped");
    } else if (vocabulary.kind() == VocabularyKind::kByte && text.place(0) == 0 &&
               begins_as_utf16(text.text)) {
      log_warning(key, ": ", text.source,
                  ": it begins with a mark of UTF-16, of which every byte becomes a token; convert "
                  "the file (iconv -f UTF-16 -t UTF-8) if it is a text");
    }
  }
}

double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double Corpus::characters_per_token() const { return ratio(characters, size()); }
double Corpus::bytes_per_token() const { return ratio(bytes, size()); }
double Corpus::words_per_token() const { return ratio(words, size()); }
double Corpus::unknown_share() const { return ratio(unknown, words); }

std::string Corpus::summary() const {
  std::string text = str(size(), " tokens, ", documents.size(),
                         documents.size() == 1 ? " document" : " documents");
  if (bytes > 0) {
    text += str(", ", words, " words, ", unknown, " of them unknown (",
                format_number(100.0 * unknown_share(), 2), " %)");
  }
  return text;
}

std::string sha256_of(std::span<const NamedText> texts) {
  if (texts.size() == 1) return sha256_hex(texts.front().text);
  Sha256 all;
  for (const NamedText& text : texts) all.update(sha256_hex(text.text) + "\n");
  return all.hex();
}

EncodedTexts encode_texts(std::span<const NamedText> texts, const std::string& key,
                          const Vocabulary& vocabulary, const DocumentOptions& options,
                          TokenSink& sink) {
  EncodedTexts out;
  warn_of_order_marks(texts, key, vocabulary);
  for (const NamedText& text : texts) {
    const std::int64_t before = sink.count();
    NamedText document{text.source, {}, text.context()};
    for_each_document(text.text, options, [&](std::string_view part) {
      document.text = part;
      const std::int64_t first = sink.count();
      out.counts.add(vocabulary.encode(document, sink));
      if (sink.count() > first) out.documents.push_back(first);
    });
    if (sink.count() == before) {
      throw_usage({.where = str(key, ": ", text.source),
                   .failed = "the text holds no token",
                   .expected = str("a text for the ", to_word(vocabulary.kind()), " vocabulary"),
                   .got = str(text.text.size(), " bytes without a word"),
                   .hint = str("name another file in ", key)});
    }
  }
  warn_of_absent_start(texts, key, options);
  sink.flush();
  return out;
}

Corpus encode_corpus(std::vector<std::filesystem::path> files, std::string key,
                     std::span<const NamedText> texts, const Vocabulary& vocabulary,
                     const DocumentOptions& options) {
  TokenBuffer ids(token_width(vocabulary.size()));
  Corpus corpus;
  EncodedTexts encoded = encode_texts(texts, key, vocabulary, options, ids);
  corpus.key = std::move(key);
  corpus.files = std::move(files);
  corpus.tokens = ids.take();
  corpus.documents = std::move(encoded.documents);
  corpus.bytes = encoded.counts.bytes;
  corpus.characters = encoded.counts.characters;
  corpus.lines = encoded.counts.lines;
  corpus.words = encoded.counts.words;
  corpus.unknown = encoded.counts.unknown;
  corpus.sha256 = sha256_of(texts);
  return corpus;
}

Corpus encode_files(const TextFiles& files, const Vocabulary& vocabulary,
                    const DocumentOptions& options) {
  return encode_corpus(files.paths(), files.key(), files.texts(), vocabulary, options);
}

}  // namespace mneme::data
