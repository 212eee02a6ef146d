// The parts of a tokenizer beside its model.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/data/tokenizer/field.hpp"
#include "host/data/tokenizer/folder/folder_tokens.hpp"
#include "host/data/tokenizer/pieces/piece_parts.hpp"
#include "host/data/tokenizer/tokenizer_parts.hpp"

namespace mneme::data {
namespace {

// --- Post-processor ---

std::int32_t checked_id(const Field& id, const TokenizerParts& parts) {
  if (id.integer() < 0 || id.integer() >= parts.size()) {
    id.refuse(str("an id from 0 to ", parts.size() - 1));
  }
  return static_cast<std::int32_t>(id.integer());
}

// The id of ["</s>", 2].
std::int32_t id_of_pair(const Field& pair, const TokenizerParts& parts) {
  if (pair.elements().size() != 2) pair.refuse("a token and its id");
  return checked_id(pair.element(1), parts);
}

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
      (has_text ? behind : before).push_back(checked_id(id, parts));
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
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    field.require_object({"type", "cls", "sep", "add_prefix_space", "trim_offsets"});
    parts.prefix.insert(parts.prefix.begin(), id_of_pair(field.at("cls"), parts));
    parts.suffix.push_back(id_of_pair(field.at("sep"), parts));
  } else {
    field.at("type").refuse(quoted_list(
        {"TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel", "Sequence"}));
  }
}

// --- Checksum ---

void add_model(const ModelFields& model, Sha256& digest) {
  const BpeSettings& settings = model.settings;
  const std::int32_t no_unknown = settings.missing_unknown ? -2 : -1;
  digest.update(str("tokenizer ", settings.unknown.value_or(no_unknown), ' ',
                    settings.fuses_unknown, ' ', settings.falls_back_to_bytes, ' ',
                    settings.ignores_merges, '\n'));
  for (const std::string& token : model.tokens) digest.update(str(token.size(), ":", token));
  for (const Merge& merge : model.merges) digest.update(str(merge.left, ' ', merge.right, '\n'));
}

void add_model(const PieceFile& file, Sha256& digest) {
  digest.update(str("pieces ", file.is_unigram, ' ', file.falls_back_to_bytes, ' ',
                    file.removes_extra_spaces, ' ', file.marks_spaces, '\n'));
  for (const Piece& piece : file.pieces) {
    digest.update(str(piece.text.size(), ":", piece.text, static_cast<int>(piece.kind), ' ',
                      format_exact(static_cast<double>(piece.score)), '\n'));
  }
  digest.update(file.charsmap);
}

std::string digest_of(Sha256& digest, const TokenizerParts& parts, const std::string& normalizer,
                      const std::string& pre_tokenizer) {
  for (const AddedToken& token : parts.added) {
    digest.update(str(token.id, ' ', token.content.size(), ":", token.content, token.is_special,
                      token.is_single_word, token.takes_left, token.takes_right,
                      token.is_normalized));
  }
  digest.update(str("normalizer ", normalizer, "\npre_tokenizer ", pre_tokenizer, "\n"));
  if (parts.splits_special) digest.update("splits special\n");
  return digest.hex();
}

std::string dump_of(const FileJson& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? "null" : found->dump();
}

// The text of a token that a file names: "<s>" or {"content": "<s>", ...}.
const std::string& token_text(const Field& field) {
  return field.json().is_object() ? field.at("content").text() : field.text();
}

// add_bos_token of tokenizer_config.json takes the place of what the template puts before a text.
void read_add_bos(TokenizerClass type, const FolderSettings& settings, TokenizerParts& parts) {
  const auto adds = settings.config().find("add_bos_token");
  if (!adds || adds->is_null()) return;
  parts.prefix.clear();
  const auto token = settings.find("bos_token");
  if (!adds->flag() || (token && token->is_null())) return;
  const auto text = token ? token_text(*token) : default_token(type, "bos_token");
  if (!text) return;
  if (const auto id = parts.find(*text)) parts.prefix = {*id};
}

// Whether two pre-tokenizers cut a text alike: trim_offsets only moves places in the text.
bool cut_alike(const FileJson& one, const FileJson& other) {
  const auto without_offsets = [](auto& self, FileJson json) -> FileJson {
    if (json.is_object()) json.erase("trim_offsets");
    if (json.is_structured()) {
      for (FileJson& each : json) each = self(self, std::move(each));
    }
    return json;
  };
  return without_offsets(without_offsets, one) == without_offsets(without_offsets, other);
}

// What the class brings takes the place of what stands in tokenizer.json.
void take_parts_of_class(TokenizerClass type, const FolderSettings& settings, FileJson& json,
                         ModelFields& model) {
  if (type == TokenizerClass::kAsItStands) return;
  ClassParts own = parts_of(type, settings);
  model.settings = {.fuses_unknown = own.falls_back_to_bytes,
                    .falls_back_to_bytes = own.falls_back_to_bytes};
  if (type == TokenizerClass::kGemma) {
    const auto unknown = settings.find("unk_token");
    const std::string token = !unknown             ? *default_token(type, "unk_token")
                              : unknown->is_null() ? "None"  // str() of Python's null
                                                   : token_text(*unknown);
    set_unknown(token,
                unknown ? unknown->place() : "tokenizer_config.json: tokenizer_class (unk_token)",
                model);
  }
  json["normalizer"] = std::move(own.normalizer);
  if (!cut_alike(json["pre_tokenizer"], own.pre_tokenizer)) {
    json["pre_tokenizer"] = std::move(own.pre_tokenizer);
  }
  json["decoder"] = std::move(own.decoder);
}

void read_switches(const FolderSettings& settings, TokenizerParts& parts) {
  parts.splits_special = settings.flag("split_special_tokens", false);
  for (const std::string& key : settings.unknown_keys()) {
    parts.notes.push_back(key + " is passed over: transformers gives it no meaning");
  }
}

// Reads the parts of the object `json` with the tokens that the folder adds.
TokenizerParts read_object(const TokenizerFiles& files, const std::string& place, FileJson& json,
                           ModelFields model) {
  const FolderSettings settings(files);
  const TokenizerClass type = class_of(files);
  TokenizerParts parts;
  take_parts_of_class(type, settings, json, model);
  const Field root(json, place);
  parts.model = std::make_unique<Bpe>(model.tokens, model.merges, model.settings);
  add_folder_tokens(json, place, type, settings, parts);
  if (const auto field = root.find("normalizer")) parts.normalizer = Normalizer(*field);
  if (const auto field = root.find("pre_tokenizer")) parts.pre_tokenizer = PreTokenizer(*field);
  // GPT-NeoX's class puts nothing around a text, whatever tokenizer.json says.
  const auto around = root.find("post_processor");
  if (around && type != TokenizerClass::kGptNeoX) read_post_processor(*around, parts);
  read_add_bos(type, settings, parts);
  if (const auto field = root.find("decoder")) parts.decoder = Decoder(*field);
  read_switches(settings, parts);
  Sha256 digest;
  add_model(model, digest);
  parts.sha256 =
      digest_of(digest, parts, dump_of(json, "normalizer"), dump_of(json, "pre_tokenizer"));
  return parts;
}

// --- The three forms ---

TokenizerParts read_tokenizer_json(const TokenizerFiles& files) {
  const std::string file = files.place("tokenizer.json");
  FileJson json = parse_file_json(files.texts.at("tokenizer.json"), file);
  const Field root(json, file);
  root.require_object({"version", "truncation", "padding", "added_tokens", "normalizer",
                       "pre_tokenizer", "post_processor", "decoder", "model"});
  if (const auto version = root.find("version"); version && version->text() != "1.0") {
    version->refuse("\"1.0\"");
  }
  TokenizerParts parts = read_object(files, file, json, read_model(root.at("model")));
  // Settings of the last call of the program that wrote the file: transformers sets both aside too.
  for (const char* key : {"truncation", "padding"}) {
    if (const auto field = root.find(key)) {
      parts.notes.push_back(str(file, ": ", key, " is passed over: texts stay whole"));
    }
  }
  return parts;
}

TokenizerParts read_vocab_json(const TokenizerFiles& files) {
  TokenizerFiles with_class = files;
  // Such files were GPT-2's before there were others.
  with_class.texts.emplace("config.json", R"({"model_type": "gpt2"})");
  if (class_of(with_class) == TokenizerClass::kAsItStands) {
    throw_usage({.where = files.place("vocab.json"),
                 .failed = "vocab.json and merges.txt do not say how a text is cut into words",
                 .expected = "tokenizer_class = \"GPT2Tokenizer\" or another that says it in "
                             "tokenizer_config.json",
                 .got = "a class that reads tokenizer.json",
                 .hint = "give the tokenizer.json, which save_pretrained of transformers writes"});
  }
  FileJson json = FileJson::object();
  return read_object(with_class, files.place("vocab.json"), json,
                     read_vocabulary_and_merges(files));
}

TokenizerParts read_tokenizer_model(const TokenizerFiles& files) {
  const std::string name = files.place("tokenizer.model");
  const PieceFile file = read_piece_file(files.texts.at("tokenizer.model"), name);
  const FolderSettings settings(files);
  require_class_of_pieces(files);
  const bool adds_space = settings.flag("add_prefix_space", file.adds_space);
  const bool of_all_parts = settings.flag("legacy", false);
  TokenizerParts parts;
  parts.model = piece_model(file);
  parts.piece_normalizer = std::make_unique<PieceNormalizer>(
      file, name + ": normalizer_spec.precompiled_charsmap", adds_space, of_all_parts);
  const FileJson json = parts_of_pieces(file, adds_space);
  add_folder_tokens(json, name, TokenizerClass::kAsItStands, settings, parts);
  const Field root(json, name);
  if (const auto field = root.find("normalizer")) parts.normalizer = Normalizer(*field);
  parts.decoder = Decoder(root.at("decoder"));
  const auto begin = settings.find("bos_token");
  std::optional<std::int32_t> id = file.begin;
  if (begin && !begin->is_null()) id = parts.find(token_text(*begin));
  const auto adds_begin = settings.config().find("add_bos_token");
  const bool is_begun = !adds_begin || adds_begin->is_null() || adds_begin->flag();
  if (is_begun && id) parts.prefix = {*id};
  read_switches(settings, parts);
  Sha256 digest;
  add_model(file, digest);
  parts.sha256 = digest_of(digest, parts, str(adds_space, of_all_parts), "null");
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

std::string TokenizerParts::normalized(std::string_view text, bool is_at_start) const {
  if (piece_normalizer) return piece_normalizer->normalized(text, is_at_start);
  std::string out(text);
  normalizer.apply(out);
  return out;
}

TokenizerParts read_parts(const TokenizerFiles& files) {
  if (files.has("tokenizer.json")) return read_tokenizer_json(files);
  if (files.has("vocab.json") && files.has("merges.txt")) return read_vocab_json(files);
  if (files.has("tokenizer.model")) return read_tokenizer_model(files);
  throw_usage({.where = files.folder.empty() ? std::string("tokenizer") : files.folder,
               .failed = "there is no tokenizer",
               .expected = "the text of tokenizer.json, of vocab.json and merges.txt, or of "
                           "tokenizer.model",
               .got = str("texts of ", files.texts.size(), " other files")});
}

}  // namespace mneme::data
