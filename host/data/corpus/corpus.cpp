#include "host/data/corpus/corpus.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/data/corpus/id_file.hpp"

namespace mneme::data {
namespace {

std::string names_of(std::span<const NamedText> texts) {
  const std::string others = texts.size() > 1 ? str(" and ", texts.size() - 1, " more") : "";
  return texts.front().source + others;
}

// A mark or heading that never occurs is usually misspelt; each text is then one document.
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
      continue;
    }
    if (text.place(0) != 0) continue;  // the part before it is told
    const std::optional<WideEncoding> wide = find_wide_encoding(text.context());
    if (!wide) continue;
    if (vocabulary.kind() != VocabularyKind::kByte) {
      check_not_wide(text);
      continue;
    }
    log_warning(key, ": ", text.source, ": ", wide->text(),
                ", of which every byte becomes a token; ", wide->hint(), " if it is a text");
  }
}

}  // namespace

std::string Corpus::summary() const {
  std::string text = str(size(), " tokens, ", documents.size(),
                         documents.size() == 1 ? " document" : " documents");
  if (counts.bytes > 0) {
    text += str(", ", counts.words, " words, ", counts.unknown, " of them unknown (",
                format_number(100.0 * counts.unknown_share(), 2), " %)");
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
  corpus.counts = encoded.counts;
  corpus.sha256 = sha256_of(texts);
  return corpus;
}

std::string key_of(Split split) { return str("data.", to_word(split)); }

// --- Token ids that other programs wrote, in safetensors files ---

namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

// An id tensor of any integer type; the bytes need not be aligned.
class IdView {
 public:
  explicit IdView(const TensorView& tensor) : tensor_(tensor) {}

  [[nodiscard]] static bool takes(DType dtype) {
    return dtype == DType::U8 || dtype == DType::U16 || dtype == DType::U32 ||
           dtype == DType::I32 || dtype == DType::I64;
  }
  [[nodiscard]] std::int64_t operator[](std::int64_t index) const {
    switch (tensor_.dtype) {
      case DType::U8:
        return load<std::uint8_t>(index);
      case DType::U16:
        return load<std::uint16_t>(index);
      case DType::U32:
        return load<std::uint32_t>(index);
      case DType::I32:
        return load<std::int32_t>(index);
      default:
        return load<std::int64_t>(index);
    }
  }

 private:
  template <typename T>
  [[nodiscard]] std::int64_t load(std::int64_t index) const {
    T value{};
    std::memcpy(&value, tensor_.data + static_cast<std::size_t>(index) * sizeof value,
                sizeof value);
    return value;
  }

  const TensorView& tensor_;
};

// The ids that are allowed.
struct IdRange {
  std::int64_t least;
  std::int64_t vocabulary_size;      // 0 = any that fits
  bool is_vocabulary_fixed = false;  // it is the trained model's: no key can enlarge it

  [[nodiscard]] std::int64_t most() const {
    return vocabulary_size == 0 ? kMaxId - 1 : vocabulary_size - 1;
  }
  [[nodiscard]] bool contains(std::int64_t id) const { return id >= least && id <= most(); }
  [[nodiscard]] std::string text() const {
    const std::string bounds = str(least, " to ", most());
    return vocabulary_size == 0 ? bounds : str(bounds, " (vocabulary size ", vocabulary_size, ")");
  }
};

// The hint of an error about an id outside the range.
std::string advice(std::int64_t id, const IdRange& range) {
  if (id < range.least) return str("correct the ids: the least one is ", range.least);
  if (id >= kMaxId) return str("correct the ids: no vocabulary has ids beyond ", kMaxId - 1);
  if (range.is_vocabulary_fixed) return "correct the ids: the model's vocabulary is fixed";
  return "set data.vocabulary_size to at least the largest id + 1, or correct the ids";
}

[[noreturn]] void refuse_id(const std::string& where, std::int64_t id, const IdRange& range) {
  throw_usage({.where = where,
               .failed = "a token id out of range",
               .expected = range.text(),
               .got = str(id),
               .hint = advice(id, range)});
}

// "[5]" or "[1, 5]" of element `index`.
std::string place_text(const TensorView& tensor, std::int64_t index) {
  if (tensor.shape.size() == 1) return list_text({index});
  return list_text({index / tensor.shape[1], index % tensor.shape[1]});
}

// The tensor, when it is one of ids and each of them is in range.
const TensorView& checked_ids(const SafetensorsFile& file, std::string_view tensor,
                              const IdRange& range) {
  const TensorView& view = file.at(tensor);
  const std::string where = str(file.path().string(), ": tensor ", tensor);
  if (!IdView::takes(view.dtype)) {
    throw_usage({.where = where,
                 .failed = "it does not hold token ids",
                 .expected = "U8, U16, U32, I32 or I64",
                 .got = std::string(dtype_name(view.dtype))});
  }
  if ((view.shape.size() != 1 && view.shape.size() != 2) || view.elements() == 0) {
    throw_usage({.where = where,
                 .failed = "it does not hold lanes of token ids",
                 .expected = "the shape [n] or [lanes, n] with at least one id",
                 .got = list_text(view.shape)});
  }
  const IdView ids(view);
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    if (!range.contains(ids[i])) refuse_id(str(where, place_text(view, i)), ids[i], range);
  }
  return view;
}

// The first token of each document of a tensor of ids: what the file's tensor "documents" says, as
// in prepared folders, or each row's.
std::vector<std::int64_t> documents_of(const SafetensorsFile& file, const TensorView& tokens) {
  std::vector<std::int64_t> documents;
  const TensorView* const view = file.find("documents");
  if (view == nullptr) {
    for (std::int64_t first = 0; first < tokens.elements(); first += tokens.shape.back()) {
      documents.push_back(first);
    }
    return documents;
  }
  const std::string where = str(file.path().string(), ": tensor documents");
  const auto refuse = [&](const std::string& place, const std::string& expected,
                          const std::string& got) {
    throw_usage({.where = where + place,
                 .failed = "it does not hold the first token of each document",
                 .expected = expected,
                 .got = got,
                 .hint = "correct it, or leave the tensor out: each row is then a document"});
  };
  const std::string got = str(dtype_name(view->dtype), ' ', list_text(view->shape));
  if (!IdView::takes(view->dtype) || view->shape.size() != 1 || view->elements() == 0) {
    refuse("", "U8, U16, U32, I32 or I64 of the shape [d]", got);
  }
  if (tokens.shape.size() != 1) {
    refuse("", "ids of the shape [n], in which it counts",
           "ids of the shape " + list_text(tokens.shape));
  }
  const IdView places(*view);
  for (std::int64_t i = 0; i < view->elements(); ++i) {
    const std::int64_t least = i == 0 ? 0 : documents.back() + 1;
    const std::int64_t most = i == 0 ? 0 : tokens.elements() - 1;
    if (places[i] < least || places[i] > most) {
      refuse(place_text(*view, i), i == 0 ? "0" : str("from ", least, " to ", most),
             str(places[i]));
    }
    documents.push_back(places[i]);
  }
  return documents;
}

SafetensorsFile open_ids(const std::filesystem::path& path, const std::string& key) {
  try {
    return SafetensorsFile::open(path);
  } catch (const Error& error) {  // the user's input, so wrong use rather than a failed run
    throw_usage(key, ": ", error.what());
  }
}

}  // namespace

IdRows read_ids(const SafetensorsFile& file, std::string_view tensor, std::int64_t vocabulary_size,
                std::int32_t least) {
  const TensorView& view = checked_ids(
      file, tensor,
      {.least = least, .vocabulary_size = vocabulary_size, .is_vocabulary_fixed = true});
  IdRows rows;
  rows.rows = view.shape.size() == 1 ? 1 : view.shape[0];
  rows.columns = view.shape.back();
  rows.ids.reserve(static_cast<std::size_t>(view.elements()));
  const IdView ids(view);
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    rows.ids.push_back(static_cast<std::int32_t>(ids[i]));
  }
  return rows;
}

Corpus read_id_corpus(const std::filesystem::path& path, const std::string& key,
                      std::int64_t vocabulary_size) {
  check_data_file(path, key, "a safetensors file");
  const auto file = std::make_shared<const SafetensorsFile>(open_ids(path, key));
  const bool has_input = file->contains("input");
  if (has_input == file->contains("tokens")) {
    throw_usage({.where = str(key, ": ", path.string()),
                 .failed = "no token ids",
                 .expected = "one tensor \"input\" or \"tokens\"",
                 .got = has_input ? "both" : "the tensors [" + join(file->names(), ", ") + "]"});
  }
  const TensorView& view = checked_ids(*file, has_input ? "input" : "tokens",
                                       {.least = 0, .vocabulary_size = vocabulary_size});
  Corpus corpus;
  corpus.key = key;
  corpus.files = {path};
  corpus.tokens = {file, view.data, view.elements(), static_cast<int>(dtype_bits(view.dtype) / 8)};
  corpus.documents = documents_of(*file, view);
  corpus.sha256 = sha256_file(path);
  return corpus;
}

}  // namespace mneme::data
