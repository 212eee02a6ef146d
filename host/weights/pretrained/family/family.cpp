#include "host/weights/pretrained/family/family.hpp"

#include <algorithm>
#include <map>

#include "host/base/error.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/value_json.hpp"
#include "host/weights/name_map.hpp"
#include "host/weights/pretrained/resources.hpp"

namespace mneme::weights {
namespace {

using config::Kind;
using config::Value;

// Takes over one file; members of tables replace those of the base one by one.
class FamilyReader {
 public:
  FamilyReader(const std::string& name, std::string_view text, Family base)
      : root_(config::parse_toml(text, name)), family_(std::move(base)) {}

  Family read() {
    config::Reader reader(root_, problems_);
    static_cast<void>(reader.text("base", ""));
    family_.model_type = reader.text("model_type", "");
    if (auto words = reader.texts("architectures"); !words.empty()) {
      family_.architectures = std::move(words);
    }
    family_.prefix = reader.text("prefix", family_.prefix);
    family_.is_rotary = reader.boolean("rotary", family_.is_rotary);
    family_.has_local_rotary = reader.boolean("local_rotary", family_.has_local_rotary);
    if (const std::string word =
            reader.choice("window", {"always", "switched", "alternating", "patterned"});
        !word.empty()) {
      family_.window = word;
    }
    const auto read_names = [&](const char* list, std::set<std::string>& into) {
      for (const std::string& key : reader.texts(list)) {
        std::erase_if(family_.keys, [&](const KeyRule& rule) { return rule.key == key; });
        into.insert(key);
      }
    };
    read_names("unused", family_.unused);
    read_names("unread", family_.unread);
    for_each(reader, "model", [&](const config::Member& member) { read_setting(member); });
    for_each(reader, "keys", [&](const config::Member& member) { read_key(member); });
    for_each(reader, "tensors", [&](const config::Member& member) { read_tensor(member); });
    for_each(reader, "constants", [&](const config::Member& member) { read_constant(member); });
    reader.finish();
    problems_.throw_if_any();
    return std::move(family_);
  }

 private:
  template <typename Read>
  void for_each(config::Reader& reader, const char* key, Read read) {
    const Value* const table = reader.table(key);
    if (table == nullptr) return;
    for (const config::Member& member : table->members()) read(member);
  }

  void problem(const Value& value, const std::string& expected) {
    problems_.add(value.position(), value.path(),
                  {.expected = expected, .got = config::describe(value)});
  }

  bool is_table(const Value& value) {
    if (value.is_table()) return true;
    problem(value, "a table");
    return false;
  }

  void read_setting(const config::Member& member) {
    std::erase_if(family_.model, [&](const auto& one) { return one.first == member.key; });
    family_.model.emplace_back(member.key, config::json_of(member.value));
  }

  void read_key(const config::Member& member) {
    std::erase_if(family_.keys, [&](const KeyRule& rule) { return rule.key == member.key; });
    family_.unused.erase(member.key);
    if (!is_table(member.value)) return;
    config::Reader reader(member.value, problems_);
    KeyRule rule{.key = member.key};
    rule.sets = reader.texts("sets");
    rule.also = reader.texts("also");
    if (const Value* value = reader.value("default")) rule.fallback = config::json_of(*value);
    rule.may_be_null = reader.boolean("null", false);
    rule.may_be_absent = reader.boolean("absent", false);
    rule.may_be_empty = reader.boolean("empty", false);
    if (const Value* words = reader.table("words")) {
      for (const config::Member& word : words->members()) {
        if (word.value.kind() != Kind::kString) {
          problem(word.value, "a string");
          continue;
        }
        rule.words.emplace_back(word.key, word.value.as_string());
      }
    }
    if (const Value* only = reader.value("only")) {
      rule.only.emplace();
      if (only->kind() != Kind::kArray) {
        problem(*only, "a list");
      } else {
        for (const Value& value : only->items()) rule.only->push_back(config::json_of(value));
      }
    }
    rule.same_as = reader.text("same_as", "");
    reader.finish();
    family_.keys.push_back(std::move(rule));
  }

  void read_part(const Value& value, std::vector<FamilyPart>& parts) {
    if (value.kind() == Kind::kString) {
      parts.push_back({.name = value.as_string()});
      return;
    }
    if (!is_table(value)) return;
    config::Reader reader(value, problems_);
    FamilyPart part;
    if (reader.require("name", "a tensor's name")) part.name = reader.text("name", "");
    part.rows = reader.choice("rows", {"query", "key", "ff"});
    part.is_transposed = reader.boolean("transposed", false);
    reader.finish();
    parts.push_back(std::move(part));
  }

  void read_tensor(const config::Member& member) {
    std::erase_if(family_.tensors,
                  [&](const FamilyTensor& one) { return one.parameter == member.key; });
    FamilyTensor tensor{.parameter = member.key, .parts = {}};
    if (member.value.kind() == Kind::kArray) {
      for (const Value& value : member.value.items()) read_part(value, tensor.parts);
    } else {
      read_part(member.value, tensor.parts);
    }
    for (const FamilyPart& part : tensor.parts) {
      if (layer_marks(part.name) != layer_marks(member.key)) {
        problem(member.value, "{layer} as often as in the parameter's name");
      }
    }
    family_.tensors.push_back(std::move(tensor));
  }

  void read_constant(const config::Member& member) {
    const bool is_known =
        member.value.kind() == Kind::kString &&
        (member.value.as_string() == "causal_mask" || member.value.as_string() == "kept");
    if (!is_known) return problem(member.value, "\"causal_mask\" | \"kept\"");
    std::erase_if(family_.constants,
                  [&](const FamilyConstant& one) { return one.name == member.key; });
    family_.constants.push_back({member.key, member.value.as_string()});
  }

  Value root_;
  config::Problems problems_;
  Family family_;
};

std::string_view text_of(const std::string& name) {
  for (const auto& [file, text] : family_texts()) {
    if (file == name) return text;
  }
  throw_usage("the family \"", name, "\" is named as a base: there is no such file");
}

}  // namespace

std::string_view KeyRule::kind() const {
  if (!words.empty()) return "a string";
  const Json& example = fallback.is_null() && only && !only->empty() ? only->front() : fallback;
  if (example.is_string()) return "a string";
  if (example.is_boolean()) return "a boolean";
  return example.is_number_float() ? "a number" : "an integer";
}

const KeyRule* Family::find_key(std::string_view key) const {
  const auto found = std::ranges::find_if(keys, [&](const KeyRule& rule) {
    return rule.key == key || std::ranges::find(rule.also, key) != rule.also.end();
  });
  return found == keys.end() ? nullptr : &*found;
}

std::vector<FamilyPart> Family::parts_of(const std::string& parameter) const {
  for (const FamilyTensor& tensor : tensors) {
    const std::optional<std::string> layer = layer_in(parameter, tensor.parameter);
    if (!layer) continue;
    std::vector<FamilyPart> parts = tensor.parts;
    for (FamilyPart& part : parts) part.name = filled(part.name, *layer);
    return parts;
  }
  return {};
}

std::string Family::constant_kind(const std::string& name) const {
  for (const FamilyConstant& constant : constants) {
    if (layer_in(name, constant.name)) return constant.kind;
  }
  return "";
}

std::string Family::in_its_words(std::string_view line) const {
  constexpr std::string_view kModel = "model.", kBackbone = "model.backbone: ";
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz_.0123456789";
  if (line.starts_with(kBackbone)) line.remove_prefix(kBackbone.size());
  std::string out;
  for (std::size_t i = 0; i < line.size();) {
    const std::size_t end = std::min(line.find_first_not_of(kLetters, i), line.size());
    std::string word(line.substr(i, end - i));
    const std::string key = word.starts_with(kModel) ? word : str(kModel, word);
    for (const KeyRule& rule : keys) {
      if (!rule.sets.empty() && rule.sets.front() == key) word = rule.key;
    }
    out += word;
    i = end;
    if (i < line.size()) out += line[i++];
  }
  return out;
}

bool is_idle(std::string_view key, const Json& value) {
  if (key.starts_with('_') || value == Json(false)) return true;
  return value.is_number() ? value == 0 : value == Json("") || value.empty();
}

Family parse_family(const std::string& name, std::string_view text) {
  const Value root = config::parse_toml(text, name);
  const Value* const base = root.find("base");
  Family family;
  if (base != nullptr && base->kind() == Kind::kString) {
    family = parse_family(base->as_string(), text_of(base->as_string()));
  }
  return FamilyReader(name, text, std::move(family)).read();
}

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = [] {
    std::map<std::string, Family> by_type;
    for (const auto& [name, text] : family_texts()) {
      Family family = parse_family(std::string(name), text);
      if (!family.model_type.empty()) by_type.emplace(family.model_type, std::move(family));
    }
    std::vector<Family> out;
    for (auto& [type, family] : by_type) out.push_back(std::move(family));
    return out;
  }();
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(families(), model_type, &Family::model_type);
  return found == families().end() ? nullptr : &*found;
}

std::string family_list() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.push_back(family.model_type);
  return join(names, ", ");
}

}  // namespace mneme::weights
