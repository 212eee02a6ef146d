#include "host/weights/name_map.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/value_json.hpp"
#include "host/weights/names.hpp"

namespace mneme::weights {
namespace {

using config::Kind;
using config::Value;
using Scheme = config::PositionScheme;

constexpr const char* kNameText = "an official name";
constexpr config::IntegerRange kShare{1, std::int64_t{1} << 20};
constexpr config::IntegerRange kNumbers{1, std::int64_t{1} << 31};  // of one unused tensor

// What follows "memory.<index>.<plugin>." in a parameter's name; "" when it is no such name.
std::string name_in_tier(const std::string& parameter, const std::string& plugin) {
  constexpr std::string_view kMemory = "memory.";
  if (!parameter.starts_with(kMemory)) return "";
  const std::size_t dot = parameter.find('.', kMemory.size());
  if (dot == std::string::npos) return "";
  const std::string rest = parameter.substr(dot + 1);
  return rest.starts_with(plugin + ".") ? rest.substr(plugin.size() + 1) : "";
}

// True when the options have every value of the conditions.
bool holds(const Value& conditions, const Value& options) {
  return std::ranges::all_of(conditions.members(), [&](const config::Member& condition) {
    const Value* const option = options.find(condition.key);
    return option != nullptr && *option == condition.value;
  });
}

// Reads one file, collecting what is wrong.
class NameMapReader {
 public:
  NameMapReader(const std::filesystem::path& path, NameMap& map)
      : root_(config::parse_toml_file(path)), map_(map) {
    map_.path = path;
    config::Reader reader(root_, problems_);
    if (reader.require("format", "a word for the format")) map_.format = reader.text("format", "");
    if (reader.require("plugin", "the plugin's id")) map_.plugin = reader.text("plugin", "");
    read_positions(reader);
    if (const Value* table = reader.table("unless")) map_.unless = *table;
    if (const Value* table = reader.table("backbone")) read_backbone(*table);
    if (const Value* table = reader.table("memory")) read_memory(*table);
    if (const Value* table = reader.table("unused")) read_unused(*table);
    for (const Value* table : reader.tables("argument")) read_argument(*table);
    reader.finish();
    check_official_names();
    problems_.throw_if_any();
  }

 private:
  // An official name and where the map gives it.
  struct Given {
    std::string official;
    config::Position position;
    std::string path;
  };

  void problem(const Value& value, const std::string& expected) {
    problems_.add(value.position(), value.path(),
                  {.expected = expected, .got = config::describe(value)});
  }

  void read_positions(config::Reader& reader) {
    std::vector<std::string> known;
    for (const Scheme scheme : {Scheme::kRelative, Scheme::kDisentangled, Scheme::kAlibi,
                                Scheme::kLearned, Scheme::kNone}) {
      known.emplace_back(to_word(scheme));
    }
    map_.positions = reader.texts("position");
    for (const std::string& word : map_.positions) {
      if (std::ranges::find(known, word) != known.end()) continue;
      reader.problem("position", {.expected = "words of model.position: " + join(known, ", "),
                                  .got = config::toml_string(word)});
    }
    if (map_.positions.empty()) map_.positions = {std::string(to_word(Scheme::kRelative))};
  }

  // An official name for `ours`: both with a layer's number, or both without.
  void take_name(const Value& value, const std::string& ours, const std::string& official) {
    if (layer_marks(ours) > 1 || layer_marks(official) > 1) {
      problem(value, "names with {layer} once, or without");
    } else if (layer_marks(ours) != layer_marks(official)) {
      problem(value, layer_marks(ours) > 0 ? "a name with {layer}" : "a name without {layer}");
    }
    if (!official.empty()) given_.push_back({official, value.position(), value.path()});
  }

  // Reports official names that are given twice, or that already belong to a parameter of the
  // Transformer-XL.
  void check_official_names() {
    for (std::size_t i = 0; i < given_.size(); ++i) {
      const auto end = given_.begin() + static_cast<std::ptrdiff_t>(i);
      const auto first = std::find_if(given_.begin(), end, [&](const Given& before) {
        return layer_in(given_[i].official, before.official) ||
               layer_in(before.official, given_[i].official) ||
               before.official == given_[i].official;
      });
      if (first != end) name_problem(given_[i], "given before at " + first->position.text());
      check_transformer_xl(given_[i]);
    }
  }

  void check_transformer_xl(const Given& given) {
    if (given.official == kOfficialFrequencies) {
      name_problem(given, "written for every model, as Transformer-XL's");
    }
    const std::string theirs = name_of_official(filled(given.official, "0"));
    if (theirs.empty() || !map_.parts_of(theirs).empty()) return;
    name_problem(given,
                 str("Transformer-XL's of ", theirs, ", to which [backbone] gives no other"));
  }

  void name_problem(const Given& given, const std::string& text) {
    problems_.add(
        given.position, given.path,
        {.failed = str("the official name ", config::toml_string(given.official), " is ", text)});
  }

  void check_parameter(const config::Member& member) {
    const std::vector<std::string> known = parameter_patterns();
    const std::string name = filled(member.key, "0");
    const auto fits = [&](const std::string& pattern) {
      return layer_in(name, pattern).has_value();
    };
    if (std::ranges::any_of(known, fits)) return;
    problems_.add(member.key_position, member.value.path(),
                  {.failed = "no backbone has such a parameter" + did_you_mean(member.key, known),
                   .hint = "`mneme inspect CHECKPOINT` lists a model's parameters"});
  }

  void read_backbone(const Value& table) {
    for (const config::Member& member : table.members()) {
      check_parameter(member);
      std::vector<NamePart> parts;
      if (member.value.kind() == Kind::kString) {
        parts.push_back({.official = member.value.as_string()});
        take_name(member.value, member.key, parts.back().official);
      } else if (member.value.kind() == Kind::kArray && !member.value.items().empty()) {
        for (const Value& item : member.value.items()) read_part(item, member.key, parts);
      } else {
        problem(member.value, "an official name, or a list of { name, rows }");
      }
      map_.backbone.emplace_back(member.key, std::move(parts));
    }
  }

  void read_part(const Value& item, const std::string& ours, std::vector<NamePart>& parts) {
    if (!item.is_table()) {
      problem(item, "a table { name, rows }");
      return;
    }
    config::Reader reader(item, problems_);
    NamePart part;
    if (reader.require("name", kNameText)) part.official = reader.text("name", "");
    part.rows = reader.integer("rows", 1, kShare);
    reader.finish();
    take_name(item, ours, part.official);
    parts.push_back(std::move(part));
  }

  void read_memory(const Value& table) {
    for (const config::Member& member : table.members()) {
      if (member.value.kind() != Kind::kString) {
        problem(member.value, kNameText);
        continue;
      }
      take_name(member.value, member.key, member.value.as_string());
      map_.memory.emplace_back(member.key, member.value.as_string());
    }
  }

  void read_unused(const Value& table) {
    for (const config::Member& member : table.members()) {
      if (!member.value.is_table()) {
        problem(member.value, "a table { shape, value }");
        continue;
      }
      config::Reader reader(member.value, problems_);
      UnusedTensor tensor{.official = member.key, .shape = {}};
      if (reader.require("shape", "a list of extents")) tensor.shape = read_shape(reader);
      tensor.value = reader.real("value", 0.0);
      reader.finish();
      take_name(member.value, member.key, member.key);
      map_.unused_patterns.push_back(std::move(tensor));
    }
  }

  static std::vector<std::int64_t> read_shape(config::Reader& reader) {
    const auto shape = reader.integers("shape", kNumbers).value_or(std::vector<std::int64_t>{});
    std::int64_t numbers = 1;
    for (const std::int64_t extent : shape) {
      numbers *= extent;
      if (numbers <= kNumbers.max) continue;
      reader.problem("shape", {.expected = str("at most ", kNumbers.max, " numbers"),
                               .got = list_text(shape)});
      break;
    }
    return shape;
  }

  void read_argument(const Value& table) {
    config::Reader reader(table, problems_);
    OfficialArgument argument;
    if (reader.require("name", "an argument of the official constructor")) {
      argument.name = reader.text("name", "");
    }
    if (reader.require("value", "its value")) argument.value = scalar(*reader.value("value"));
    if (const Value* when = reader.table("when")) argument.when = *when;
    reader.finish();
    map_.all_arguments.push_back(std::move(argument));
  }

  Json scalar(const Value& value) {
    Json json = config::json_of(value);
    if (!json.is_structured()) return json;
    problem(value, "a number, a boolean or a string");
    return nullptr;
  }

  Value root_;
  NameMap& map_;
  config::Problems problems_;
  std::vector<Given> given_;
};

}  // namespace

NameMap NameMap::read(const std::filesystem::path& path) {
  NameMap map;
  try {
    const NameMapReader reader(path, map);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) throw;
    throw_usage(error.what());
  }
  return map;
}

std::optional<NameMap> NameMap::beside(const std::filesystem::path& library) {
  const std::filesystem::path path =
      library.parent_path() / str(library.stem().string(), ".names.toml");
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return read(path);
}

bool NameMap::excludes(const Value& options) const {
  return !unless.members().empty() && holds(unless, options);
}

std::vector<NamePart> NameMap::parts_of(const std::string& parameter) const {
  for (const auto& [pattern, parts] : backbone) {
    const std::optional<std::string> layer = layer_in(parameter, pattern);
    if (!layer) continue;
    std::vector<NamePart> out = parts;
    for (NamePart& part : out) part.official = filled(part.official, *layer);
    return out;
  }
  return {};
}

std::string NameMap::name_of_tier_parameter(const std::string& parameter) const {
  const std::string name = name_in_tier(parameter, plugin);
  for (const auto& [pattern, official] : memory) {
    const std::optional<std::string> layer = layer_in(name, pattern);
    if (layer) return filled(official, *layer);
  }
  return "";
}

std::vector<UnusedTensor> NameMap::unused(std::int64_t layers) const {
  std::vector<UnusedTensor> out;
  for (const UnusedTensor& tensor : unused_patterns) {
    const bool has_layer = layer_marks(tensor.official) > 0;
    for (std::int64_t l = 0; l < (has_layer ? layers : 1); ++l) {
      out.push_back(tensor);
      out.back().official = filled(tensor.official, std::to_string(l));
    }
  }
  return out;
}

std::map<std::string, Json> NameMap::arguments(const config::Value& options) const {
  std::map<std::string, Json> out;
  for (const OfficialArgument& argument : all_arguments) {
    if (holds(argument.when, options)) out[argument.name] = argument.value;
  }
  return out;
}

bool NameMap::has_own(const std::string& official) const {
  const auto fits = [&](const std::string& pattern) {
    return layer_in(official, pattern).has_value();
  };
  for (const auto& [ours, parts] : backbone) {
    if (std::ranges::any_of(parts, fits, &NamePart::official)) return true;
  }
  return std::ranges::any_of(memory, [&](const auto& entry) { return fits(entry.second); }) ||
         std::ranges::any_of(unused_patterns, fits, &UnusedTensor::official);
}

int layer_marks(std::string_view name) {
  int marks = 0;
  for (std::size_t at = name.find(kLayerMark); at != std::string_view::npos;
       at = name.find(kLayerMark, at + kLayerMark.size())) {
    ++marks;
  }
  return marks;
}

std::string filled(std::string_view pattern, std::string_view layer) {
  const std::size_t at = pattern.find(kLayerMark);
  if (at == pattern.npos) return std::string(pattern);
  return str(pattern.substr(0, at), layer, pattern.substr(at + kLayerMark.size()));
}

std::optional<std::string> layer_in(std::string_view name, std::string_view pattern) {
  const std::size_t at = pattern.find(kLayerMark);
  if (at == pattern.npos) return name == pattern ? std::optional<std::string>("") : std::nullopt;
  const std::string_view tail = pattern.substr(at + kLayerMark.size());
  if (name.size() <= at + tail.size() || !name.starts_with(pattern.substr(0, at)) ||
      !name.ends_with(tail)) {
    return std::nullopt;
  }
  const std::string_view number = name.substr(at, name.size() - at - tail.size());
  if (number.find_first_not_of("0123456789") != number.npos) return std::nullopt;
  return std::string(number);
}

}  // namespace mneme::weights
