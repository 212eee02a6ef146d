#include "host/data/tokenizer/folder/folder_tokens.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"

namespace mneme::data {
namespace {

constexpr std::array<const char*, 7> kSpecialNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// A token with the place that names it, and its id where the file gives one.
struct PlacedToken {
  AddedToken token = {};
  std::string place = {};
  std::optional<std::int64_t> id = std::nullopt;
  bool is_object_of_config = false;  // of tokenizer_config.json, not a text
  bool says_normalized = true;       // else it follows from is_special

  void make_special() {
    token.is_special = true;
    if (!says_normalized) token.is_normalized = false;
  }
};

AddedToken special_token(const std::string& content) {
  AddedToken token;
  token.content = content;
  token.is_special = true;
  return token;
}

// {"content": ..., ...}
PlacedToken read_token(const Field& field) {
  PlacedToken out{.place = field.place()};
  AddedToken& token = out.token;
  token.content = field.at("content").text();
  token.is_single_word = field.flag("single_word", false);
  token.takes_left = field.flag("lstrip", false);
  token.takes_right = field.flag("rstrip", false);
  token.is_special = field.flag("special", false);
  token.is_normalized = field.flag("normalized", !token.is_special);
  out.says_normalized = field.find("normalized").has_value();
  return out;
}

bool is_object(const Field& field) { return field.json().is_object(); }

// Files of older versions of transformers hold special tokens as objects, of which
// tokenizer_config.json says what they are: one of these alone decides itself whether it is
// special.
bool says_what_it_is(const Field& field) { return is_object(field) && field.member("__type"); }

// A special token by its text, or an object.
PlacedToken read_special(const Field& field, bool is_of_map) {
  if (!is_object(field)) return {special_token(field.text()), field.place()};
  PlacedToken out = read_token(field);
  out.is_object_of_config = !is_of_map;
  if (is_of_map || !says_what_it_is(field)) out.make_special();
  return out;
}

// --- What the files name ---

// The tokens that the files of a folder name beside the vocabulary.
class FolderTokens {
 public:
  FolderTokens(TokenizerClass type, const FolderSettings& settings,
               const std::optional<Field>& padding)
      : type_(type), settings_(settings) {
    read_extra();
    for (const char* name : kSpecialNames) read_name(name, padding);
    read_other_names();
  }

  std::vector<std::pair<std::string, PlacedToken>> named;  // by "bos_token" and so on
  std::vector<PlacedToken> extra;                          // special tokens without a name
  std::map<std::int64_t, PlacedToken> listed;              // by id

  void list(std::int64_t id, PlacedToken token) {
    token.id = id;
    const auto [place, is_new] = listed.emplace(id, token);
    if (!is_new && place->second.token.content != token.token.content) {
      throw_usage({.where = token.place,
                   .failed = str("two tokens have the id ", id),
                   .expected = "an id of its own for each token",
                   .got = str("\"", token.token.content, "\", and in ", place->second.place, " \"",
                              place->second.token.content, "\"")});
    }
    place->second = std::move(token);
  }

  void read_decoder(const Field& decoder) {
    decoder.require_object_of_any();
    for (const auto& [key, value] : decoder.json().items()) {
      const auto id = integer_of<std::int64_t>(key);
      const Field field = decoder.at(key);
      if (!id) field.fail("the key is no id", "an integer", str("\"", key, "\""));
      list(*id, read_token(field));
    }
  }

  void read_added_tokens(const Field& tokens) {
    std::unordered_set<std::string> special;
    // transformers compares them before it reads the objects of tokenizer_config.json, and most of
    // those that a file calls additional.
    const auto compare = [&](const PlacedToken& each) {
      if (!each.is_object_of_config) special.insert(each.token.content);
    };
    for (const auto& [name, token] : named) {
      if (is_standard(name) && settings_.find(name)) compare(token);
    }
    if (!is_extra_late_) {
      for (const PlacedToken& each : extra) compare(each);
    }
    for (const auto& [content, id] : tokens.json().items()) {
      AddedToken token;
      token.content = content;
      token.is_special = special.contains(content);
      token.is_normalized = !token.is_special;
      const Field field = tokens.at(content);
      list(field.integer(), {std::move(token), field.place()});
    }
  }

  // A named token that is listed has the settings of the list, and is special.
  void join_named_and_listed() {
    std::unordered_map<std::string, PlacedToken*> by_content;
    for (auto& [id, token] : listed) by_content[token.token.content] = &token;
    for (auto& [name, token] : named) {
      const auto found = by_content.find(token.token.content);
      if (found == by_content.end()) continue;
      found->second->make_special();
      if (is_standard(name)) token.token = found->second->token;
    }
  }

 private:
  static bool is_standard(const std::string& name) {
    return std::find(kSpecialNames.begin(), kSpecialNames.end(), name) != kSpecialNames.end();
  }

  void read_name(const char* name, const std::optional<Field>& padding) {
    const auto field = settings_.find(name);
    if (field && field->is_null()) return;
    if (field) {
      named.emplace_back(name, read_special(*field, settings_.map().find(name).has_value()));
    } else if (const auto token = default_token(type_, name)) {
      named.emplace_back(name,
                         PlacedToken{special_token(*token),
                                     str("tokenizer_config.json: tokenizer_class (", name, ")")});
    } else if (std::string_view(name) == "pad_token" && padding && type_ != TokenizerClass::kGpt2) {
      if (const auto text = padding->find(name)) {
        named.emplace_back(name, PlacedToken{special_token(text->text()), text->place()});
      }
    }
  }

  void set_name(const std::string& name, PlacedToken token) {
    for (auto& [known, old] : named) {
      if (known != name) continue;
      old = std::move(token);
      return;
    }
    named.emplace_back(name, std::move(token));
  }

  // "image_token" and others that end so, then the members of extra_special_tokens, in the order in
  // which transformers meets them: texts of tokenizer_config.json last.
  void read_other_names() {
    const auto is_other = [](const std::string& key) {
      return key.ends_with("_token") && !is_standard(key);
    };
    for (const auto& [key, value] : settings_.config().in_order.items()) {
      if (!is_other(key) || !says_what_it_is(*settings_.config().find(key))) continue;
      const auto of_map = settings_.map().find(key);
      set_name(key,
               read_special(of_map ? *of_map : *settings_.config().find(key), of_map.has_value()));
    }
    for (const auto& [key, value] : settings_.map().in_order.items()) {
      if (!is_other(key) || !(value.is_string() || value.is_object())) continue;
      set_name(key, read_special(*settings_.map().find(key), true));
    }
    for (const auto& [key, value] : settings_.config().in_order.items()) {
      if (is_other(key) && value.is_string()) {
        set_name(key, read_special(*settings_.config().find(key), false));
      }
    }
    for (const auto& [members, order] : extra_objects_) {
      for (const auto& [key, value] : order.items()) {
        set_name(key, read_special(members.at(key), false));
      }
    }
  }

  // extra_special_tokens. Older versions call them additional_special_tokens, which count where the
  // files give the other key no list.
  void read_extra() {
    const auto of_config = settings_.config().find("extra_special_tokens");
    const auto of_map = settings_.map().find("extra_special_tokens");
    auto older = settings_.find("additional_special_tokens");
    bool is_given = false;
    if (of_config && is_object(*of_config)) {
      extra_objects_.emplace_back(*of_config,
                                  settings_.config().in_order.at("extra_special_tokens"));
    } else if (of_config && !of_config->is_null()) {
      append_extra(*of_config, false);
      is_given = !extra.empty();
    }
    const bool has_object = !extra_objects_.empty() && !of_config->json().empty();
    if (const auto early = settings_.config().find("additional_special_tokens");
        early && !is_given && !has_object) {
      if (!early->is_null()) append_extra(*early, false);
      is_given = true;
    }
    is_given = is_given || (of_config && !is_object(*of_config));
    if (of_map && is_object(*of_map)) {
      extra.clear();
      extra_objects_.emplace_back(*of_map, settings_.map().in_order.at("extra_special_tokens"));
      is_given = false;
    } else if (of_map) {
      if (!of_map->is_null()) append_extra(*of_map, true);
      is_given = true;
    }
    if (is_given || !older || older->is_null()) return;
    is_extra_late_ = true;
    append_extra(*older, false);
  }

  void append_extra(const Field& list, bool is_of_map) {
    for (const Field& each : list.elements()) extra.push_back(read_special(each, is_of_map));
  }

  TokenizerClass type_;
  const FolderSettings& settings_;
  std::vector<std::pair<Field, const Json&>> extra_objects_;
  bool is_extra_late_ = false;  // found after the tokens of added_tokens.json were read
};

// --- Adding ---

// Adds tokens one after the other, as PyPI tokenizers does.
class TokenAdder {
 public:
  explicit TokenAdder(TokenizerParts& parts) : parts_(parts), next_(parts.size()) {}

  // Gives the token the id that it has in the model, or the next one, which must be its own. One
  // that was added before gets the new settings, and stays special.
  void add(PlacedToken placed) {
    AddedToken& token = placed.token;
    if (token.content.empty()) return;
    const auto known = places_.find(token.content);
    const std::optional<std::int32_t> in_model = parts_.model->find(token.content);
    token.id = known != places_.end() ? parts_.added[known->second].id : in_model.value_or(next_);
    if (placed.id && *placed.id != token.id) {
      const bool is_there = in_model || known != places_.end();
      throw_usage(
          {.where = placed.place,
           .failed = str("the added token \"", token.content, "\" has another id than it gets"),
           .expected = str(token.id, in_model   ? ", its id in model.vocab"
                                     : is_there ? ", the id that it has already"
                                                : ", the next behind the vocabulary and the tokens "
                                                  "before it"),
           .got = str(*placed.id),
           .hint = "ids must have no holes"});
    }
    token.place = placed.place;
    if (known != places_.end()) {
      AddedToken& old = parts_.added[known->second];
      token.is_special = token.is_special || old.is_special;
      token.place = old.place;
      old = std::move(token);
      return;
    }
    if (!in_model) ++next_;
    places_[token.content] = parts_.added.size();
    parts_.added.push_back(std::move(token));
  }

  [[nodiscard]] bool has(const std::string& content) const { return places_.contains(content); }

 private:
  TokenizerParts& parts_;
  std::int32_t next_;
  std::unordered_map<std::string, std::size_t> places_;  // in parts_.added
};

// The member "added_tokens" of tokenizer.json.
std::vector<PlacedToken> read_file_tokens(const Field& list) {
  std::vector<PlacedToken> out;
  for (const Field& field : list.elements()) {
    field.require_object(
        {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    PlacedToken token = read_token(field);
    token.id = field.at("id").integer();
    if (token.token.content.empty()) field.refuse("a token of at least one character");
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

void add_folder_tokens(const FileJson& file, const std::string& place, TokenizerClass type,
                       const FolderSettings& settings, TokenizerParts& parts) {
  const Field root(file, place);
  FolderTokens tokens(type, settings, root.find("padding"));
  std::vector<PlacedToken> of_file;
  if (const auto list = root.find("added_tokens")) of_file = read_file_tokens(*list);
  TokenAdder adder(parts);
  // A class that brings its own parts starts without these tokens.
  if (type == TokenizerClass::kAsItStands) {
    for (const PlacedToken& token : of_file) adder.add(token);
  }
  const auto decoder = settings.config().find("added_tokens_decoder");
  if (decoder && !decoder->is_null()) {
    tokens.read_decoder(*decoder);
  } else {
    if (const auto added = settings.added_tokens()) tokens.read_added_tokens(*added);
    for (const PlacedToken& token : of_file) tokens.list(*token.id, token);
  }
  tokens.join_named_and_listed();
  for (const auto& [id, token] : tokens.listed) adder.add(token);
  std::vector<PlacedToken> more;
  for (const auto& [name, token] : tokens.named) {
    if (adder.has(token.token.content)) continue;
    more.push_back(token);
    more.back().make_special();
  }
  for (const PlacedToken& token : tokens.extra) {
    if (!adder.has(token.token.content)) more.push_back(token);
  }
  for (const PlacedToken& token : more) adder.add(token);
  if (type != TokenizerClass::kQwen2) return;
  // This class adds its special tokens once more, without their settings.
  for (const auto& [name, token] : tokens.named) {
    adder.add({special_token(token.token.content), token.place});
  }
  for (const PlacedToken& token : tokens.extra) {
    adder.add({special_token(token.token.content), token.place});
  }
}

}  // namespace mneme::data
