// The parts of a tokenizer beside its model.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/tokenizer_parts.hpp"

namespace mneme::data {
namespace {

AddedToken read_added_token(const Field& field) {
  AddedToken token;
  token.content = field.at("content").text();
  token.is_single_word = field.flag("single_word", false);
  token.takes_left = field.flag("lstrip", false);
  token.takes_right = field.flag("rstrip", false);
  token.is_special = field.flag("special", false);
  token.is_normalized = field.flag("normalized", !token.is_special);
  return token;
}

// Adds tokens one after the other.
class TokenAdder {
 public:
  explicit TokenAdder(TokenizerParts& parts) : parts_(parts), next_(parts.size()) {}

  // Gives the token the id that it has in the model, or the next one, which must be `id`.
  void add(AddedToken token, const Field& field, std::int64_t id) {
    if (token.content.empty()) field.refuse("a token of at least one character");
    const std::optional<std::int32_t> in_model = parts_.model->find(token.content);
    token.id = in_model.value_or(next_);
    if (!seen_.insert(token.content).second) {
      field.fail("a token is added twice", "each token once", token.content);
    }
    if (id != token.id) {
      field.fail(
          str("the added token \"", token.content, "\" has another id than it gets"),
          str(token.id, in_model ? ", its id in model.vocab"
                                 : ", the next behind the vocabulary and the tokens before it"),
          str(id), "ids must have no holes");
    }
    if (!in_model) ++next_;
    parts_.added.push_back(std::move(token));
  }

 private:
  TokenizerParts& parts_;
  std::int32_t next_;
  std::unordered_set<std::string> seen_;
};

void read_added_tokens(const Field& list, TokenizerParts& parts) {
  TokenAdder adder(parts);
  for (const Field& field : list.elements()) {
    field.require_object(
        {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    adder.add(read_added_token(field), field, field.at("id").integer());
  }
}

// --- Post-processor ---

// Puts the ids of a TemplateProcessing around those that are there.
void read_template(const Field& field, TokenizerParts& parts) {
  field.require_object({"type", "single", "pair", "special_tokens"});
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> behind;
  bool has_text = false;
  for (const Field& piece : field.at("single").elements()) {
    piece.require_object({"SpecialToken", "Sequence"});
    if (const auto sequence = piece.find("Sequence")) {
      if (has_text || sequence->at("id").text() != "A") {
        sequence->refuse("the text \"A\", once");
      }
      has_text = true;
      continue;
    }
    const Field name = piece.at("SpecialToken").at("id");
    for (const Field& id : field.at("special_tokens").at(name.text()).at("ids").elements()) {
      if (id.integer() < 0 || id.integer() >= parts.size()) {
        id.refuse(str("an id from 0 to ", parts.size() - 1));
      }
      (has_text ? behind : before).push_back(static_cast<std::int32_t>(id.integer()));
    }
  }
  if (!has_text) field.at("single").refuse("a template that has the text \"A\"");
  parts.prefix.insert(parts.prefix.begin(), before.begin(), before.end());
  parts.suffix.insert(parts.suffix.end(), behind.begin(), behind.end());
}

void read_post_processor(const Field& field, TokenizerParts& parts) {
  const std::string& type = field.type();
  if (type == "Sequence") {
    field.require_object({"type", "processors"});
    for (const Field& each : field.at("processors").elements()) read_post_processor(each, parts);
  } else if (type == "TemplateProcessing") {
    read_template(field, parts);
  } else if (type == "ByteLevel") {
    field.require_object({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else {
    field.at("type").refuse(quoted_list({"TemplateProcessing", "ByteLevel", "Sequence"}));
  }
}

// --- Checksum ---

std::string digest_of(const ModelFields& model, const TokenizerParts& parts,
                      const std::string& normalizer, const std::string& pre_tokenizer) {
  Sha256 digest;
  const BpeSettings& settings = model.settings;
  digest.update(str("tokenizer ", settings.unknown.value_or(-1), ' ', settings.fuses_unknown, ' ',
                    settings.falls_back_to_bytes, ' ', settings.ignores_merges, '\n'));
  for (const std::string& token : model.tokens) digest.update(str(token.size(), ":", token));
  for (const Merge& merge : model.merges) digest.update(str(merge.left, ' ', merge.right, '\n'));
  for (const AddedToken& token : parts.added) {
    digest.update(str(token.id, ' ', token.content.size(), ":", token.content, token.is_special,
                      token.is_single_word, token.takes_left, token.takes_right,
                      token.is_normalized));
  }
  digest.update(str("normalizer ", normalizer, "\npre_tokenizer ", pre_tokenizer, "\n"));
  return digest.hex();
}

std::string dump_of(const FileJson& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? "null" : found->dump();
}

// --- The two forms ---

TokenizerParts read_tokenizer_json(const TokenizerFiles& files) {
  const std::string file = files.place("tokenizer.json");
  const FileJson json = parse_file_json(files.texts.at("tokenizer.json"), file);
  const Field root(json, file);
  root.require_object({"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const auto version = root.find("version"); version && version->text() != "1.0") {
    version->refuse("\"1.0\"");
  }
  TokenizerParts parts;
  // Settings of the last call of the program that wrote the file: transformers sets both aside too.
  for (const char* key : {"truncation", "padding"}) {
    if (const auto field = root.find(key)) {
      parts.notes.push_back(str(file, ": ", key, " is passed over: texts stay whole"));
    }
  }
  ModelFields model = read_model(root.at("model"));
  parts.model = std::make_unique<Bpe>(model.tokens, model.merges, model.settings);
  parts.special.unknown = model.settings.unknown;
  if (const auto added = root.find("added_tokens")) read_added_tokens(*added, parts);
  if (const auto field = root.find("normalizer")) parts.normalizer = Normalizer(*field);
  if (const auto field = root.find("pre_tokenizer")) parts.pre_tokenizer = PreTokenizer(*field);
  if (const auto field = root.find("post_processor")) read_post_processor(*field, parts);
  if (const auto field = root.find("decoder")) parts.decoder = Decoder(*field);
  parts.sha256 =
      digest_of(model, parts, dump_of(json, "normalizer"), dump_of(json, "pre_tokenizer"));
  return parts;
}

// The text of a token that a file names: "<s>" or {"content": "<s>", ...}.
const std::string& token_text(const Field& field) {
  return field.json().is_object() ? field.at("content").text() : field.text();
}

// The tokens that the files beside vocab.json add or call special.
void read_tokens_beside(const TokenizerFiles& files, TokenizerParts& parts) {
  if (files.has("added_tokens.json")) {
    const std::string file = files.place("added_tokens.json");
    const FileJson json = parse_file_json(files.texts.at("added_tokens.json"), file);
    const Field root(json, file);
    root.require_object_of_any();
    std::vector<std::pair<std::int64_t, std::string>> tokens;
    for (const auto& [content, id] : json.items()) {
      tokens.emplace_back(root.at(content).integer(), content);
    }
    std::sort(tokens.begin(), tokens.end());
    TokenAdder adder(parts);
    for (const auto& [id, content] : tokens) {
      AddedToken token;
      token.content = content;
      adder.add(std::move(token), root.at(content), id);
    }
  }
  const auto call_special = [&](const Field& field) {
    const std::string& content = token_text(field);
    for (AddedToken& token : parts.added) {
      if (token.content != content) continue;
      token.is_special = true;
      return;
    }
    const auto id = parts.model->find(content);
    if (!id) field.refuse("a token of vocab.json or added_tokens.json");
    AddedToken token;
    token.id = *id;
    token.content = content;
    token.is_special = true;
    parts.added.push_back(std::move(token));
  };
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (!files.has(name)) continue;
    const std::string file = files.place(name);
    const FileJson json = parse_file_json(files.texts.at(name), file);
    const Field root(json, file);
    for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token"}) {
      if (const auto field = root.find(key)) call_special(*field);
    }
    if (const auto list = root.find("additional_special_tokens")) {
      for (const Field& each : list->elements()) call_special(each);
    }
  }
}

TokenizerParts read_vocab_json(const TokenizerFiles& files) {
  bool adds_prefix_space = false;
  if (files.has("tokenizer_config.json")) {
    const std::string file = files.place("tokenizer_config.json");
    const FileJson json = parse_file_json(files.texts.at("tokenizer_config.json"), file);
    const Field root(json, file);
    const auto type = root.find("tokenizer_class");
    if (type && type->text() != "GPT2Tokenizer" && type->text() != "GPT2TokenizerFast") {
      type->refuse("\"GPT2Tokenizer\"",
                   "vocab.json and merges.txt do not say how a text is cut into words; give "
                   "the tokenizer.json, which save_pretrained of transformers writes");
    }
    adds_prefix_space = root.flag("add_prefix_space", false);
  }
  TokenizerParts parts;
  ModelFields model = read_vocabulary_and_merges(files);
  parts.model = std::make_unique<Bpe>(model.tokens, model.merges, model.settings);
  read_tokens_beside(files, parts);
  constexpr std::string_view kEndOfText = "<|endoftext|>";
  const auto end = parts.model->find(kEndOfText);
  if (end && parts.added.empty()) {
    AddedToken token;
    token.id = *end;
    token.content = kEndOfText;
    token.is_special = true;
    parts.added.push_back(std::move(token));
  }
  parts.pre_tokenizer = PreTokenizer::gpt2(adds_prefix_space);
  parts.decoder = Decoder::gpt2();
  parts.sha256 = digest_of(model, parts, "null", str("gpt2 ", adds_prefix_space));
  return parts;
}

}  // namespace

std::optional<std::int32_t> TokenizerParts::find(std::string_view token) const {
  if (const auto id = model->find(token)) return id;
  for (const AddedToken& each : added) {
    if (each.content == token) return each.id;
  }
  return std::nullopt;
}

std::int32_t TokenizerParts::size() const {
  std::int32_t size = model->size();
  for (const AddedToken& each : added) size = std::max(size, each.id + 1);
  return size;
}

void read_special_ids(const TokenizerFiles& files, TokenizerParts& parts) {
  struct Use {
    const char* token;
    const char* id;
    std::optional<std::int32_t>& slot;
  };
  const std::array<Use, 4> uses = {Use{"bos_token", "bos_token_id", parts.special.beginning},
                                   Use{"eos_token", "eos_token_id", parts.special.end},
                                   Use{"unk_token", "unk_token_id", parts.special.unknown},
                                   Use{"pad_token", "pad_token_id", parts.special.padding}};
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    if (!files.has(name)) continue;
    const std::string file = files.place(name);
    const FileJson json = parse_file_json(files.texts.at(name), file);
    const Field root(json, file);
    for (const Use& use : uses) {
      if (const auto field = root.find(use.token); field && !use.slot) {
        use.slot = parts.find(token_text(*field));
        if (!use.slot) field->refuse("a token of the tokenizer");
      }
      auto field = root.find(use.id);
      if (!field || use.slot) continue;
      if (field->json().is_array() && !field->json().empty()) field = field->element(0);
      const std::int64_t id = field->integer();
      if (id < 0 || id >= parts.size()) field->refuse(str("an id from 0 to ", parts.size() - 1));
      use.slot = static_cast<std::int32_t>(id);
    }
  }
}

namespace {

// add_bos_token of tokenizer_config.json takes the place of what the template puts before a text.
void read_add_bos(const TokenizerFiles& files, TokenizerParts& parts) {
  if (!files.has("tokenizer_config.json")) return;
  const std::string file = files.place("tokenizer_config.json");
  const FileJson json = parse_file_json(files.texts.at("tokenizer_config.json"), file);
  const auto adds = Field(json, file).find("add_bos_token");
  if (!adds) return;
  parts.prefix.clear();
  if (adds->flag() && parts.special.beginning) parts.prefix = {*parts.special.beginning};
}

}  // namespace

TokenizerParts read_parts(const TokenizerFiles& files) {
  if (!files.has("tokenizer.json") && !(files.has("vocab.json") && files.has("merges.txt"))) {
    throw_usage({.where = files.folder.empty() ? std::string("tokenizer") : files.folder,
                 .failed = "there is no tokenizer",
                 .expected = "the text of tokenizer.json, or of vocab.json and merges.txt",
                 .got = str("texts of ", files.texts.size(), " other files")});
  }
  TokenizerParts parts =
      files.has("tokenizer.json") ? read_tokenizer_json(files) : read_vocab_json(files);
  read_special_ids(files, parts);
  read_add_bos(files, parts);
  return parts;
}

}  // namespace mneme::data
