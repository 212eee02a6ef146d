#include "host/data/tokenizer/folder/folder_settings.hpp"

#include <algorithm>
#include <iterator>

#include "host/base/json_text.hpp"

namespace mneme::data {
namespace {

// Keys with which transformers would make another tokenizer than this program can.
struct RefusedKey {
  std::string_view key;
  std::string_view expected;
};
constexpr RefusedKey kRefused[] = {
    {"_json_padding", "no such key"},
    {"_json_truncation", "no such key"},
    {"init_inputs", "an empty list"},
    {"merges", "merges in tokenizer.json or merges.txt"},
    {"model_specific_special_tokens", "such tokens in extra_special_tokens"},
    {"post_processor", "a post-processor in tokenizer.json"},
    {"tokenizer_object", "no such key"},
    {"tokenizer_padding", "a padding in tokenizer.json"},
    {"tokenizer_truncation", "a truncation in tokenizer.json"},
    {"trust_remote_code", "false or no such key"},
    {"vocab", "a vocabulary in tokenizer.json or vocab.json"},
};

// What the keys do to ids is written where they are read.
constexpr std::string_view kRead[] = {"add_bos_token",
                                      "add_eos_token",
                                      "add_prefix_space",
                                      "added_tokens_decoder",
                                      "auto_map",
                                      "additional_special_tokens",
                                      "extra_special_tokens",
                                      "fast_tokenizer_files",
                                      "fix_mistral_regex",
                                      "init_inputs",
                                      "legacy",
                                      "split_special_tokens",
                                      "tokenizer_class"};

// Keys that no id depends on.
constexpr std::string_view kWithoutInfluence[] = {
    "_commit_hash",
    "backend",
    "bos_token_id",
    "chat_control_tokens",
    "chat_template",
    "clean_up_tokenization_spaces",
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    "device_map",
    "eos_token_id",
    "errors",
    "files_loaded",
    "is_local",
    "local_files_only",
    "max_len",
    "max_length",
    "merges_file",
    "model_input_names",
    "model_max_length",
    "name_or_path",
    "pad_to_multiple_of",
    "pad_token_id",
    "pad_token_type_id",
    "padding",
    "padding_side",
    "processor_class",
    "response_schema",
    "response_template",
    "return_token_type_ids",
    "slow_tokenizer_class",
    "sp_model_kwargs",
    "spaces_between_special_tokens",
    "special_tokens_map_file",
    "stride",
    "tokenizer_file",
    "tokenizer_type",
    "transformers_version",
    "trim_offsets",
    "truncation",
    "truncation_side",
    "truncation_strategy",
    "unk_token_id",
    "use_default_system_prompt",
    "use_fast",
    "verbose",
    "vocab_file"};

}  // namespace

void FolderSettings::Part::read(const TokenizerFiles& files, const char* name) {
  if (!files.has(name)) return;
  has = true;
  place = files.place(name);
  const std::string text = json_of_python(files.texts.at(name));
  json = parse_file_json(text, place);
  Field(json, place).require_object_of_any();
  in_order = parse_json(text);
}

std::optional<Field> FolderSettings::Part::find(const std::string& key) const {
  return has ? Field(json, place).member(key) : std::nullopt;
}

FolderSettings::FolderSettings(const TokenizerFiles& files) {
  config_.read(files, "tokenizer_config.json");
  if (const auto decoder = config_.find("added_tokens_decoder"); !decoder || decoder->is_null()) {
    map_.read(files, "special_tokens_map.json");
    added_.read(files, "added_tokens.json");
  }
  refuse_unsupported();
}

std::optional<Field> FolderSettings::find(const std::string& key) const {
  if (auto field = map_.find(key)) return field;
  return config_.find(key);
}

bool FolderSettings::flag(const std::string& key, bool otherwise) const {
  const auto field = find(key);
  return !field || field->is_null() ? otherwise : field->flag();
}

std::optional<Field> FolderSettings::added_tokens() const {
  if (!added_.has) return std::nullopt;
  return Field(added_.json, added_.place);
}

void FolderSettings::refuse_unsupported() const {
  for (const RefusedKey& refused : kRefused) {
    const auto field = find(std::string(refused.key));
    if (!field || field->is_null() || field->json() == false) continue;
    if (field->json().empty() && !field->json().is_object()) continue;
    field->refuse(std::string(refused.expected), "take the key out of the file");
  }
  for (const char* key : {"tokenizer_file", "vocab_file", "merges_file"}) {
    const auto field = map_.find(key);
    if (field && !field->is_null()) field->refuse("no such key", "take the key out of the file");
  }
  if (const auto map = config_.find("auto_map"); map && !map->is_null()) {
    if (map->json().is_array() || map->member("AutoTokenizer")) {
      map->refuse("no code of its own for the tokenizer",
                  "whether transformers runs it depends on trust_remote_code; take the key out of "
                  "the file to read tokenizer.json without it");
    }
  }
  if (const auto list = config_.find("fast_tokenizer_files"); list && !list->is_null()) {
    for (const Field& name : list->elements()) {
      if (name.text() == "tokenizer.json") continue;
      name.refuse("\"tokenizer.json\" alone",
                  "versions of transformers read different files; keep the right one as "
                  "tokenizer.json and take the key out");
    }
  }
  if (const auto fix = find("fix_mistral_regex"); fix && !fix->is_null() && fix->flag()) {
    fix->refuse("false or no such key",
                "versions of transformers cut a text differently for it; write the pattern into "
                "tokenizer.json and take the key out");
  }
  if (const auto split = find("split_special_tokens"); split && !split->is_null()) {
    static_cast<void>(split->flag());
  }
}

std::vector<std::string> FolderSettings::unknown_keys() const {
  std::vector<std::string> out;
  for (const Part* part : {&config_, &map_}) {
    for (const auto& [key, value] : part->in_order.items()) {
      const bool is_known =
          key.ends_with("_token") || std::ranges::find(kRead, key) != std::end(kRead) ||
          std::ranges::find(kWithoutInfluence, key) != std::end(kWithoutInfluence) ||
          std::ranges::find(kRefused, key, &RefusedKey::key) != std::end(kRefused);
      if (!is_known) out.push_back(str(part->place, ": ", key));
    }
  }
  return out;
}

}  // namespace mneme::data
