#include "host/data/corpus.hpp"

#include <cstring>
#include <limits>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/safetensors.hpp"
#include "host/base/sha256.hpp"

namespace mneme::data {
namespace {

constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();

// Throws unless the path is a regular file; `what` says what it should be.
void check_file(const std::filesystem::path& path, const std::string& key, std::string_view what) {
  const auto refuse = [&](const std::string& got, const std::string& hint) {
    throw_usage({.where = str(key, ": ", path.string()),
                 .failed = "the data cannot be read",
                 .expected = std::string(what),
                 .got = got,
                 .hint = hint});
  };
  std::error_code failure;
  const std::filesystem::file_status status = std::filesystem::status(path, failure);
  if (path.empty()) refuse("no path", str("set ", key));
  if (!std::filesystem::exists(status)) {
    refuse("no such file", str("correct ", key, "; a relative path starts at the experiment file"));
  }
  if (std::filesystem::is_directory(status)) refuse("a folder", str("name one file in ", key));
  if (!std::filesystem::is_regular_file(status)) {
    refuse("something that is no regular file", str("copy it into a file and name that in ", key));
  }
}

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Digest of one text, or of the texts' digests.
std::string digest_of(const std::vector<NamedText>& texts) {
  if (texts.size() == 1) return sha256_hex(texts.front().text);
  Sha256 all;
  for (const NamedText& text : texts) all.update(sha256_hex(text.text) + "\n");
  return all.hex();
}

// Element `index` of a tensor of 32- or 64-bit integers; the bytes need not be aligned.
std::int64_t element(const TensorView& tensor, std::int64_t index) {
  const auto at = static_cast<std::size_t>(index);
  if (tensor.dtype == DType::I64) {
    std::int64_t value = 0;
    std::memcpy(&value, tensor.data + at * sizeof value, sizeof value);
    return value;
  }
  std::int32_t value = 0;
  std::memcpy(&value, tensor.data + at * sizeof value, sizeof value);
  return value;
}

// The ids that are allowed.
struct IdRange {
  std::int64_t least;
  std::int64_t vocabulary_size;  // 0 = any that fits

  [[nodiscard]] std::int64_t most() const {
    return vocabulary_size == 0 ? kMaxId - 1 : vocabulary_size - 1;
  }
  [[nodiscard]] bool contains(std::int64_t id) const { return id >= least && id <= most(); }
  [[nodiscard]] std::string text() const {
    const std::string bounds = str(least, " to ", most());
    return vocabulary_size == 0 ? bounds : str(bounds, " (vocabulary size ", vocabulary_size, ")");
  }
};

[[noreturn]] void refuse_id(const std::string& where, std::int64_t id, const IdRange& range) {
  throw_usage(
      {.where = where,
       .failed = "a token id out of range",
       .expected = range.text(),
       .got = str(id),
       .hint = "set data.vocabulary_size to at least the largest id + 1, or correct the ids"});
}

// "[5]" or "[1, 5]" of element `index`.
std::string place_text(const TensorView& tensor, std::int64_t index) {
  if (tensor.shape.size() == 1) return list_text({index});
  return list_text({index / tensor.shape[1], index % tensor.shape[1]});
}

}  // namespace

double Corpus::characters_per_token() const {
  return tokens.empty() ? 0.0 : static_cast<double>(characters) / static_cast<double>(size());
}

double Corpus::bytes_per_token() const {
  return tokens.empty() ? 0.0 : static_cast<double>(bytes) / static_cast<double>(size());
}

TextFiles::TextFiles(std::vector<std::filesystem::path> paths, std::string key)
    : paths_(std::move(paths)), key_(std::move(key)) {
  if (paths_.empty()) {
    throw_usage({.where = key_,
                 .failed = "there is no text to read",
                 .expected = "the path of a text file",
                 .got = "none",
                 .hint = str("set ", key_)});
  }
  for (const std::filesystem::path& path : paths_) {
    check_file(path, key_, "a text file");
    maps_.emplace_back(path);
    texts_.push_back({path.string(), text_of(maps_.back())});
    if (texts_.back().text.empty()) {
      throw_usage({.where = str(key_, ": ", path.string()),
                   .failed = "the file is empty",
                   .expected = "a text",
                   .got = "0 bytes",
                   .hint = str("name another file in ", key_)});
    }
  }
}

Corpus encode_files(const TextFiles& files, const Vocabulary& vocabulary) {
  Corpus corpus;
  corpus.key = files.key();
  corpus.files = files.paths();
  for (const NamedText& text : files.texts()) {
    corpus.documents.push_back(corpus.size());
    const EncodeCounts counts = vocabulary.encode(text, corpus.tokens);
    if (counts.tokens == 0) {
      throw_usage({.where = str(files.key(), ": ", text.source),
                   .failed = "the text holds no token",
                   .expected = str("a text for the ", to_word(vocabulary.kind()), " vocabulary"),
                   .got = str(text.text.size(), " bytes without a word"),
                   .hint = str("name another file in ", files.key())});
    }
    corpus.bytes += static_cast<std::int64_t>(text.text.size());
    corpus.characters += counts.characters;
    corpus.lines += counts.lines;
    corpus.unknown += counts.unknown;
  }
  corpus.sha256 = digest_of(files.texts());
  return corpus;
}

IdRows read_ids(const SafetensorsFile& file, std::string_view tensor, std::int64_t vocabulary_size,
                std::int32_t least) {
  const TensorView& view = file.at(tensor);
  const std::string where = str(file.path().string(), ": tensor ", tensor);
  if (view.dtype != DType::I32 && view.dtype != DType::I64) {
    throw_usage({.where = where,
                 .failed = "it does not hold token ids",
                 .expected = "I32 or I64",
                 .got = std::string(dtype_name(view.dtype))});
  }
  if ((view.shape.size() != 1 && view.shape.size() != 2) || view.elements() == 0) {
    throw_usage({.where = where,
                 .failed = "it does not hold lanes of token ids",
                 .expected = "the shape [n] or [lanes, n] with at least one id",
                 .got = list_text(view.shape)});
  }
  IdRows rows;
  rows.rows = view.shape.size() == 1 ? 1 : view.shape[0];
  rows.columns = view.shape.back();
  rows.ids.reserve(static_cast<std::size_t>(view.elements()));
  const IdRange range{least, vocabulary_size};
  for (std::int64_t i = 0; i < view.elements(); ++i) {
    const std::int64_t id = element(view, i);
    if (!range.contains(id)) refuse_id(str(where, place_text(view, i)), id, range);
    rows.ids.push_back(static_cast<std::int32_t>(id));
  }
  return rows;
}

Corpus read_id_corpus(const std::filesystem::path& path, const std::string& key,
                      std::int64_t vocabulary_size) {
  check_file(path, key, "a safetensors file");
  const SafetensorsFile file = [&] {
    try {
      return SafetensorsFile::open(path);
    } catch (const Error& error) {  // the user's input, so wrong use rather than a failed run
      throw Error(ErrorKind::kUsage, str(key, ": ", error.what()));
    }
  }();
  const bool has_input = file.contains("input");
  if (has_input == file.contains("tokens")) {
    throw_usage({.where = str(key, ": ", path.string()),
                 .failed = "no token ids",
                 .expected = "one tensor \"input\" or \"tokens\"",
                 .got = has_input ? "both" : "the tensors [" + join(file.names(), ", ") + "]"});
  }
  IdRows rows = read_ids(file, has_input ? "input" : "tokens", vocabulary_size);
  Corpus corpus;
  corpus.key = key;
  corpus.files = {path};
  corpus.tokens = std::move(rows.ids);
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    corpus.documents.push_back(row * rows.columns);
  }
  corpus.sha256 = sha256_file(path);
  return corpus;
}

}  // namespace mneme::data
