#include "host/weights/pretrained/family/family_config.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "host/base/error.hpp"
#include "host/config/toml/schema.hpp"
#include "host/config/toml/value_json.hpp"
#include "host/weights/pretrained/family/rotary_keys.hpp"
#include "host/weights/pretrained/family/window_keys.hpp"

namespace mneme::weights {
namespace {

constexpr const char* kVocabularySize = "data.vocabulary_size";
constexpr std::int64_t kMaxValue = 1'048'576;  // of sizes, as an experiment file has it

std::string toml_text(const Json& value) {
  if (value.is_string()) return config::toml_string(value.get<std::string>());
  return value.is_number_float() ? format_exact(value.get<double>()) : value.dump();
}

// The model that keys of [model] describe, with our defaults for the others.
config::ModelConfig model_of(const Settings& settings) {
  std::vector<config::Override> overrides;
  for (const auto& [key, value] : settings) overrides.push_back({.key = key, .value = value});
  // A task without files stands in for the data, which do not matter here.
  return config::parse_experiment_text("[data]\ntask = \"motif\"\n[train]\nsteps = 1\n", "model",
                                       ".", overrides)
      .model;
}

// The lines of an error of model_of, which name options that no user gave: "--set model.width:
// ...".
std::string without_options(std::string text) {
  constexpr std::string_view kOption = "--set ";
  for (std::size_t at = text.find(kOption); at != std::string::npos; at = text.find(kOption)) {
    text.erase(at, kOption.size());
  }
  return text;
}

// True when a value of config.json is of the kind of a rule's.
bool is_of_kind(const KeyRule& rule, const Json& value) {
  const std::string_view kind = rule.kind();
  if (kind == "a string") return value.is_string();
  if (kind == "a boolean") return value.is_boolean();
  if (kind == "a number") return value.is_number();
  return value.is_number_integer();
}

std::string expected_text(const KeyRule& rule) {
  std::vector<std::string> options;
  if (!rule.words.empty()) {
    for (const auto& [word, ours] : rule.words) options.push_back(Json(word).dump());
  } else if (rule.only) {
    for (const Json& value : *rule.only) options.push_back(value.dump());
  } else {
    options.emplace_back(rule.kind());
  }
  if (rule.may_be_null) options.emplace_back("null");
  return join(options, " or ");
}

// The two names of "rope_scaling.factor"; the first one is empty for a key of the file itself.
std::pair<std::string, std::string> object_and_key(const Json& config, const std::string& key) {
  const std::size_t dot = config.contains(key) ? key.npos : key.find('.');
  if (dot == key.npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

class ConfigReader {
 public:
  ConfigReader(const Family& family, const Json& config, const IgnoredKeys& ignored)
      : family_(family), config_(without_keys(config, ignored)), ignored_(ignored) {}

  FolderModel read(const std::string& source) {
    for (const auto& [key, value] : family_.model) set("model." + key, value);
    for (const KeyRule& rule : family_.keys) read_key(rule);
    if (!is_ignored("sliding_window")) {
      windows_ = read_windows(family_, config_, problems_);
      if (!windows_.empty()) set("model.window", windows_);
    }
    if (family_.is_rotary) read_positions();
    look_at_other_keys();
    if (problems_.empty()) make_model();
    if (problems_.empty()) return std::move(out_);
    std::string options;
    for (const std::string& key : unknown_) options += str(" --ignore ", shell_word(key));
    if (!out_.passed_over.empty()) {
      problems_.push_back(str("(passed over: ", join(out_.passed_over, ", "), ')'));
    }
    throw_run(
        {.where = source,
         .failed = str("the model cannot be read:\n  ", join(problems_, "\n  "), "\n"),
         .hint = str("docs/weights.md, \"Hugging Face folders\", lists what can; keys that do not "
                     "matter are passed over with",
                     options.empty() ? " --ignore KEY" : options)});
  }

 private:
  [[nodiscard]] bool is_ignored(const std::string& key) const {
    return std::ranges::find(ignored_, key) != ignored_.end();
  }

  void problem(const std::string& key, const std::string& got, const std::string& expected) {
    problems_.push_back(str(key, ": expected ", expected, ", got ", got));
  }

  void set(const std::string& key, const Json& value) {
    std::erase_if(settings_, [&](const auto& one) { return one.first == key; });
    settings_.emplace_back(key, toml_text(value));
  }

  // The value under any of the key's spellings; several must agree.
  const Json* find(const KeyRule& rule) {
    const auto first = config_.find(rule.key);
    const Json* found = first == config_.end() ? nullptr : &*first;
    for (const std::string& key : rule.also) {
      const auto other = config_.find(key);
      if (other == config_.end()) continue;
      if (found != nullptr && *found != *other) {
        problem(key, other->dump(), str(found->dump(), " as in ", rule.key));
      }
      if (found == nullptr) found = &*other;
    }
    return found;
  }

  void read_key(const KeyRule& rule) {
    if (rule.sets.empty() && is_ignored(rule.key)) return;
    const Json* const given = find(rule);
    const bool is_absent = given == nullptr;
    const bool is_null = !is_absent && (given->is_null() || (rule.may_be_empty && given->empty()));
    if (is_null && rule.may_be_null) return;
    if (is_absent && rule.fallback.is_null()) {
      if (!rule.may_be_null && !rule.may_be_absent) {
        problems_.push_back(str(rule.key, ": missing: expected ", expected_text(rule)));
      }
      return;
    }
    take(rule, is_absent ? rule.fallback : *given, is_absent);
  }

  void take(const KeyRule& rule, const Json& value, bool is_absent) {
    const std::string got =
        is_absent ? str("no such key, which means ", value.dump()) : value.dump();
    if (!is_supported(rule, value)) return problem(rule.key, got, expected_text(rule));
    Json ours = value;
    for (const auto& [word, our_word] : rule.words) {
      if (value == Json(word)) ours = our_word;
    }
    if (rule.kind() == "an integer" && !rule.sets.empty() &&
        (value.get<std::int64_t>() < 1 || value.get<std::int64_t>() > kMaxValue)) {
      return problem(rule.key, got, str("an integer in [1, ", kMaxValue, "]"));
    }
    if (rule.kind() == "a number") ours = value.get<double>();
    for (const std::string& key : rule.sets) {
      if (key == kVocabularySize) {
        out_.vocabulary = value.get<std::int64_t>();
      } else {
        set(key, ours);
      }
    }
    if (!rule.same_as.empty()) compare(rule, value);
  }

  static bool is_supported(const KeyRule& rule, const Json& value) {
    if (rule.only) {
      return std::ranges::any_of(*rule.only, [&](const Json& one) { return one == value; });
    }
    if (!rule.words.empty()) {
      return std::ranges::any_of(rule.words,
                                 [&](const auto& one) { return value == Json(one.first); });
    }
    return is_of_kind(rule, value);
  }

  void compare(const KeyRule& rule, const Json& value) {
    const KeyRule* const other = family_.find_key(rule.same_as);
    const Json* const theirs = other == nullptr ? nullptr : find(*other);
    const Json& expected = theirs != nullptr ? *theirs : other->fallback;
    if (value == expected) return;
    out_.warnings.push_back(str(rule.key, " = ", value.dump(), " is not used: training takes ",
                                rule.same_as, " = ", expected.dump()));
  }

  void read_positions() {
    const auto read = family_.has_local_rotary ? read_local_rotary : read_rotary;
    const config::RotaryConfig rotary = read(config_, problems_, out_.passed_over);
    set("model.position", "rotary");
    set("model.rotary.scaling", std::string(config::to_word(rotary.scaling)));
    set("model.rotary.base", rotary.base);
    set("model.rotary.factor", rotary.factor);
    set("model.rotary.original_positions", rotary.original_positions);
    set("model.rotary.low_factor", rotary.low_factor);
    set("model.rotary.high_factor", rotary.high_factor);
    set("model.rotary.beta_fast", rotary.beta_fast);
    set("model.rotary.beta_slow", rotary.beta_slow);
    set("model.rotary.attention_factor", rotary.attention_factor);
    if (!rotary.truncate) set("model.rotary.truncate", false);
    if (is_ignored("sliding_window") && rotary.local_base > 0.0) {
      problem("sliding_window", "--ignore sliding_window",
              "the key: layers with a window turn by a base of their own, rope_local_base_freq");
    }
    if (!windows_.empty() && rotary.local_base > 0.0) {
      set("model.rotary.local_base", rotary.local_base);
    }
    if (rotary.scaling != config::RotaryScaling::kDynamic) return;
    out_.warnings.push_back(
        str("rotary positions of the kind \"dynamic\" are the plain ones in contexts "
            "of at most ",
            rotary.original_positions, " tokens; longer contexts are refused"));
  }

  void look_at_other_keys() {
    std::vector<std::string> known(family_.unused.begin(), family_.unused.end());
    for (const KeyRule& rule : family_.keys) known.push_back(rule.key);
    for (const auto& [key, value] : config_.items()) {
      if (family_.unused.contains(key) || family_.find_key(key) != nullptr) continue;
      const bool is_unread = family_.unread.contains(key);
      if (is_window_key(family_, key) || (is_unread && value.is_null()) ||
          (family_.is_rotary && is_rotary_key(key, family_.has_local_rotary)))
        continue;
      if (is_unread || is_idle(key, value)) {
        out_.passed_over.push_back(key);
        continue;
      }
      unknown_.push_back(key);
      problems_.push_back(str(key, ": ", value.dump(), ": no key of the family \"",
                              family_.model_type, "\" that is understood",
                              did_you_mean(key, known)));
    }
  }

  // Settings that do not go together, such as heads that do not divide the width.
  void make_model() {
    try {
      out_.model = model_of(settings_);
    } catch (const Error& error) {
      std::istringstream lines(without_options(error.what()));
      for (std::string line; std::getline(lines, line);)
        problems_.push_back(family_.in_its_words(line));
    }
  }

  const Family& family_;
  Json config_;  // without the ignored keys
  const IgnoredKeys& ignored_;
  Settings settings_;
  std::vector<std::int64_t> windows_;
  FolderModel out_;
  std::vector<std::string> problems_;
  std::vector<std::string> unknown_;  // keys
};

}  // namespace

bool has_key(const Json& config, const std::string& key) {
  const auto [object, inner] = object_and_key(config, key);
  if (object.empty()) return config.contains(inner);
  const auto found = config.find(object);
  return found != config.end() && found->is_object() && found->contains(inner);
}

Json without_keys(Json config, const IgnoredKeys& ignored) {
  for (const std::string& each : ignored) {
    if (!has_key(config, each)) continue;
    const auto [object, key] = object_and_key(config, each);
    (object.empty() ? config : config.at(object)).erase(key);
  }
  return config;
}

FolderModel read_config(const Family& family, const Json& config, const std::string& source,
                        const IgnoredKeys& ignored) {
  return ConfigReader(family, config, ignored).read(source);
}

const Family& family_of(const Json& config, const std::string& source) {
  const auto found = config.find("model_type");
  const bool is_word = found != config.end() && found->is_string();
  const Family* const family = is_word ? find_family(found->get<std::string>()) : nullptr;
  if (family == nullptr) {
    throw_run({.where = str(source, ": model_type"),
               .failed = "the family is not known",
               .expected = family_list(),
               .got = found == config.end() ? "no such key" : found->dump()});
  }
  const auto named = config.find("architectures");
  if (named == config.end() || named->is_null()) return *family;
  const Json all = named->is_array() ? *named : Json::array({*named});
  const bool fits = std::ranges::all_of(all, [&](const Json& one) {
    return std::ranges::any_of(family->architectures,
                               [&](const std::string& word) { return one == Json(word); });
  });
  if (!fits) {
    throw_run({.where = str(source, ": architectures"),
               .failed = "only language models are read",
               .expected = join(family->architectures, " or "),
               .got = named->dump()});
  }
  return *family;
}

// --- The way back ---

namespace {

// A TOML text as JSON.
Json setting_value(const std::string& text) {
  const config::Value root = config::parse_toml("value = " + text, "setting");
  const Json json = config::json_of(*root.find("value"));
  return json.is_structured() ? Json(text) : json;
}

// The leaves of a table, by their keys.
void add_settings(const config::Value& table, const std::string& prefix, Settings& out) {
  for (const config::Member& member : table.members()) {
    const std::string key = str(prefix, '.', member.key);
    if (member.value.is_table()) {
      add_settings(member.value, key, out);
    } else {
      out.emplace_back(key, member.value.toml());
    }
  }
}

constexpr const char* kNothing = "nothing";

std::string setting_text(const Settings& settings, const std::string& key) {
  const auto found = std::ranges::find(settings, key, &std::pair<std::string, std::string>::first);
  return found == settings.end() ? kNothing : found->second;
}

// A key that no setting decides: where the absent key would mean what is not supported, and where
// another key's value stands for it.
void write_fixed(const KeyRule& rule, Json& out) {
  if (!rule.same_as.empty() && out.contains(rule.same_as)) out[rule.key] = out.at(rule.same_as);
  if (!rule.only || rule.fallback.is_null()) return;
  const bool is_supported = std::ranges::find(*rule.only, rule.fallback) != rule.only->end();
  if (!is_supported) out[rule.key] = nullptr;
}

}  // namespace

Settings settings_of(const config::ModelConfig& model) {
  config::Experiment experiment;
  experiment.model = model;
  experiment.data.task = config::Task::kMotif;
  experiment.train.steps = 1;
  const config::Value root = config::parse_toml(config::to_toml(experiment), "experiment");
  Settings out;
  if (const config::Value* const table = root.find("model")) add_settings(*table, "model", out);
  // As many as heads, and as wide as heads, are 0 for us; families say the number.
  for (auto& [key, value] : out) {
    if (key == "model.kv_heads") value = str(model.key_heads());
  }
  if (model.score_width == 0) out.emplace_back("model.score_width", str(model.head_width));
  return out;
}

bool is_free_setting(const std::string& key) {
  constexpr std::array kFree = {
      "model.dropout",         "model.attention_dropout", "model.init",
      "model.memory_position", "model.clamp_distance",    "model.same_length",
      "model.lora_rank",       "model.lora_alpha",        "model.attention_kernel",
      "model.row_kernels"};
  return std::ranges::any_of(kFree, [&](const char* free) { return key == free; });
}

std::vector<std::string> differing_settings(const config::ModelConfig& expected,
                                            const config::ModelConfig& got) {
  const Settings theirs = settings_of(expected), ours = settings_of(got);
  std::vector<std::string> lines;
  const auto compare = [&](const std::string& key) {
    const std::string a = setting_text(theirs, key), b = setting_text(ours, key);
    // The backbone's name only says which defaults held.
    if (a == b || is_free_setting(key) || key == "model.backbone") return;
    lines.push_back(str(key, ": expected ", a, ", got ", b));
  };
  for (const auto& [key, value] : theirs) compare(key);
  for (const auto& [key, value] : ours) {
    if (setting_text(theirs, key) == kNothing) compare(key);
  }
  return lines;
}

Json write_config(const Family& family, const config::ModelConfig& model, std::int64_t vocabulary) {
  Settings ours = settings_of(model);
  ours.emplace_back(kVocabularySize, str(vocabulary));
  Json out;
  out["architectures"] = Json::array({family.architectures.front()});
  out["model_type"] = family.model_type;
  for (const KeyRule& rule : family.keys) {
    if (rule.sets.empty()) {
      write_fixed(rule, out);
      continue;
    }
    const std::string text = setting_text(ours, rule.sets.front());
    if (text == kNothing) {  // differing_settings says so
      if (rule.may_be_null && !rule.fallback.is_null()) out[rule.key] = nullptr;
      continue;
    }
    Json value = setting_value(text);
    const auto word = std::ranges::find_if(
        rule.words, [&](const auto& one) { return value == Json(one.second); });
    if (word != rule.words.end()) {
      value = word->first;
    } else if (!rule.words.empty()) {
      value = rule.words.front().first;
    }
    out[rule.key] = value;
  }
  if (family.is_rotary) write_rotary(model.rotary, family.has_local_rotary, out);
  write_windows(family, model, out);
  const std::vector<std::string> problems =
      differing_settings(read_config(family, out, "config.json").model, model);
  if (problems.empty()) return out;
  throw_usage({.where = "--family " + family.model_type,
               .failed = str("the family has no such model:\n  ", join(problems, "\n  "), "\n"),
               .hint = "name another family: " + family_list()});
}

}  // namespace mneme::weights
