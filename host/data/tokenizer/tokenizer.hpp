// Tokenizers of pretrained models: text to ids and back, equal to PyPI tokenizers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host/data/text/text.hpp"
#include "host/data/tokenizer/tokenizer_files.hpp"

namespace mneme::data {

class Decoder;

struct EncodeOptions {
  // What the post-processor puts around a text, such as <s>.
  bool adds_special = false;
  // Special tokens that are written in the text become their ids; else they are text like any
  // other.
  bool finds_special = true;
};

// A byte-pair tokenizer of a Hugging Face folder. Supported are
//   model: BPE, over bytes or characters, with byte_fallback, ignore_merges, unk_token, fuse_unk;
//   normalizers and pre-tokenizers: normalizer.hpp, pre_tokenizer.hpp; decoders: decoder.hpp;
//   post-processors: TemplateProcessing for one text, BertProcessing, RobertaProcessing, ByteLevel,
//     Sequence;
//   added tokens with all their settings.
// Everything else in a file is refused by name, so that ids are never silently different. Ids are
// those of AutoTokenizer of PyPI transformers 5.24 (folder/) with tokenizers 0.23. Immutable; calls
// from several threads take turns.
class Tokenizer {
 public:
  // Error (kUsage) with file and field for what is not supported or contradicts itself: merges of
  // tokens that the vocabulary lacks, an id that two tokens have, an id that none has, added tokens
  // with other ids than they get.
  explicit Tokenizer(TokenizerFiles files);
  // Of read_tokenizer_files(path).
  [[nodiscard]] static Tokenizer load(const std::filesystem::path& path);
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids are 0 .. size()-1, added tokens included.
  [[nodiscard]] std::int32_t size() const;
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const;
  // The token as the vocabulary writes it ("Ġthe", "<0x0A>"); Error (kUsage) for an id out of
  // range.
  [[nodiscard]] const std::string& token(std::int64_t id) const;
  // The bytes that the token stands for inside a text (" the", "\n"), which may be a part of a
  // character; Error (kUsage) for an id out of range.
  [[nodiscard]] std::string bytes_of(std::int64_t id) const;
  // Whether decode(skips_special) leaves it out; Error (kUsage) for an id out of range.
  [[nodiscard]] bool is_special(std::int64_t id) const;
  // File and key that name the token beside the model's vocabulary; "" for a token of the latter
  // that is not named, and for an id out of range.
  [[nodiscard]] std::string place_of(std::int64_t id) const;
  // The ids that the post-processor puts before a text, such as that of <s>.
  [[nodiscard]] const std::vector<std::int32_t>& beginning() const;

  // The ids of a text. Error (kUsage) with line, column and byte offset where it is not UTF-8, and
  // for a character that needs an unk_token that the vocabulary lacks; Error (kRun) as
  // Pattern::search.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text,
                                                 const EncodeOptions& options = {}) const;
  // Passes the ids in parts, so that they need not be in memory at once, and returns the number of
  // characters that the vocabulary lacks, whether they became <unk> or are left out. Errors name
  // the text's source.
  std::int64_t encode(const NamedText& text, const EncodeOptions& options,
                      const std::function<void(std::span<const std::int32_t>)>& on_ids) const;
  // The text of ids; Error (kUsage) for an id out of range. Bytes that are no UTF-8 become U+FFFD.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids,
                                   bool skips_special = false) const;
  [[nodiscard]] const Decoder& decoder() const;

  // SHA-256 of what decides encode() without adds_special: vocabulary, merges, added tokens,
  // settings of the model, normalizer and pre-tokenizer.
  [[nodiscard]] const std::string& sha256() const;
  // The settings of the files that were passed over, a line each.
  [[nodiscard]] const std::vector<std::string>& notes() const;
  // The files it was read from, with which it can be made again.
  [[nodiscard]] const TokenizerFiles& files() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mneme::data
