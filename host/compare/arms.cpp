#include "host/compare/arms.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/config/keys.hpp"
#include "host/config/options.hpp"
#include "host/data/text/text.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/plugin/plugin_search.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

// The words between commas that stand outside of brackets and quotes.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> words(1);
  int depth = 0;
  char quote = '\0';
  for (const char c : text) {
    if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth == 0) {
      words.emplace_back();
      continue;
    }
    words.back() += c;
  }
  return words;
}

// A key with its table: keys that begin with none of an experiment's tables are those of [memory].
std::string whole_key(const std::string& key) {
  static const std::set<std::string> tables = {"model", "memory", "data",
                                               "train", "eval",   "generate"};
  return tables.contains(key.substr(0, key.find('.'))) ? key : "memory." + key;
}

// A setting of an arm or a sweep, with its whole key. `option` is what was typed before it, and
// `word` the whole argument with its option. Error (kUsage) when it is no key=value, and for an
// option of a tier without the tier.
config::Override parse_setting(std::string_view text, const std::string& option,
                               const std::string& word) {
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos ||
      text.substr(0, equals).find_first_not_of(' ') == std::string_view::npos) {
    throw_usage({.where = word,
                 .expected = "KEY=VALUE, such as tier.0.rows=64",
                 .got = config::toml_string(text)});
  }
  config::Override override = config::parse_override(text);
  static const std::set<std::string> of_memory = {"plugins", "carry", "tier", "memory"};
  if (override.key.find('.') == std::string::npos && !of_memory.contains(override.key)) {
    throw_usage({.where = word,
                 .failed = "no table has the key " + override.key,
                 .expected = "the key with its table",
                 .hint = "an option of the first tier has tier.0. before it, as tier.0.rows, and a "
                         "key of the training train., as train.lr"});
  }
  override.key = whole_key(override.key);
  override.option = option;
  return override;
}

// The option of a tier's plugin, "rows" or "eval_rows"; nullopt = it has no such option.
std::optional<config::OptionSpec> find_option(const config::TierConfig& tier,
                                              const config::MemoryConfig& memory, std::string key,
                                              plugin::PluginLoader& loader) {
  if (key.starts_with("eval_")) key.erase(0, 5);
  const std::string where = tier.position.text();
  const plugin::LoadedPlugin& plugin =
      loader.load(tier.plugin, plugin::folders_to_search(memory.plugins), tier.pin(), where);
  const std::vector<config::OptionSpec> specs = plugin::option_specs(*plugin.table, where);
  const auto found = std::ranges::find(specs, key, &config::OptionSpec::key);
  return found == specs.end() ? std::nullopt : std::optional(*found);
}

// Every [[memory.tier]] may have it.
bool is_host_key(const std::string& key) {
  static const std::set<std::string> of_host = {"layers", "feed", "lr", "weight_decay", "weight"};
  return of_host.contains(key);
}

// The tier whose option a key is, "memory.tier.0.rows"; nullptr = the memory has no such tier.
const config::TierConfig* tier_of_key(const config::Experiment& experiment,
                                      const std::vector<std::string>& parts) {
  const auto& tiers = experiment.memory.tiers;
  if (parts[2].empty() ||
      !std::ranges::all_of(parts[2], [](unsigned char c) { return std::isdigit(c) != 0; })) {
    return nullptr;
  }
  const std::size_t tier = parts[2].size() > 4 ? tiers.size() : std::stoul(parts[2]);
  return tier < tiers.size() ? &tiers[tier] : nullptr;
}

bool is_tier_key(const std::vector<std::string>& parts) {
  return parts.front() == "memory" && parts.size() >= 4 && parts[1] == "tier";
}

// An arm before its experiment has been read with all its settings.
struct Draft {
  ArmRequest request;
  std::string name;
};

// The drafts with one more sweep. Error (kUsage) when none has its key.
std::vector<Draft> expanded(const std::vector<Draft>& drafts, const Sweep& sweep,
                            const fs::path& experiment,
                            const std::vector<config::Override>& overrides,
                            plugin::PluginLoader& loader, bool is_locked) {
  std::vector<Draft> out;
  bool is_known = false;
  for (const Draft& draft : drafts) {
    const config::Experiment one =
        plugin::read_experiment(experiment, overrides, draft.request.memory, is_locked);
    if (!has_key(one, sweep.key, loader)) {
      out.push_back(draft);
      continue;
    }
    is_known = true;
    for (const std::string& value : sweep.values) {
      Draft copy = draft;
      copy.request.overrides.push_back({.key = sweep.key, .value = value, .option = "--sweep "});
      copy.name += name_part(sweep.key, value);
      out.push_back(std::move(copy));
    }
  }
  if (!is_known) {
    throw_usage({.where = "--sweep " + sweep.key,
                 .failed = "no arm has this key",
                 .expected = "an option of a tier of one of the memories, such as tier.0.rows, or "
                             "a key of the experiment",
                 .hint = "mneme plugins describe prints a plugin's options"});
  }
  return out;
}

}  // namespace

bool has_key(const config::Experiment& experiment, const std::string& key,
             plugin::PluginLoader& loader) {
  const std::vector<std::string> parts = config::split_key(key);
  if (!is_tier_key(parts)) return true;
  const config::TierConfig* const tier = tier_of_key(experiment, parts);
  return tier != nullptr &&
         (is_host_key(parts[3]) || find_option(*tier, experiment.memory, parts[3], loader));
}

std::string type_of_key(const config::Experiment& experiment, const std::string& key,
                        plugin::PluginLoader& loader) {
  std::vector<std::string> parts = config::split_key(key);
  if (is_tier_key(parts) && parts.size() == 4 && !is_host_key(parts[3])) {
    const config::TierConfig* const tier = tier_of_key(experiment, parts);
    const auto option =
        tier == nullptr ? std::nullopt : find_option(*tier, experiment.memory, parts[3], loader);
    return option ? config::option_expectation(*option) : "";
  }
  const std::string name = parts.back();
  parts.pop_back();
  std::erase_if(parts, [](const std::string& part) {  // places in lists of tables
    return part.find_first_not_of("0123456789") == std::string::npos;
  });
  const std::string path = join(parts, ".");
  for (const config::TableInfo& table : config::experiment_keys()) {
    if (table.path() != path) continue;
    const auto found = std::ranges::find(table.keys, name, &config::KeyInfo::key);
    if (found != table.keys.end()) return found->type;
  }
  return "";
}

std::string name_part(const std::string& key, const std::string& value) {
  return str(',', key.substr(key.rfind('.') + 1), '=', value);
}

ArmRequest parse_arm(const std::string& word) {
  std::error_code ignored;
  const std::vector<std::string> parts = split_values(word);
  if (parts.size() == 1 || fs::exists(word, ignored)) return {.memory = word};
  ArmRequest request{.memory = parts.front()};
  for (std::size_t i = 1; i < parts.size(); ++i) {
    request.overrides.push_back(
        parse_setting(parts[i], str("--memory ", parts.front(), ','), "--memory " + word));
  }
  return request;
}

Sweep parse_sweep(std::string_view word, const std::string& option) {
  const config::Override override = parse_setting(word, option + ' ', str(option, ' ', word));
  Sweep sweep{.key = override.key, .values = split_values(override.value)};
  std::set<std::string> seen;
  for (const std::string& value : sweep.values) {
    if (!value.empty() && seen.insert(value).second) continue;
    throw_usage({.where = str(option, ' ', word),
                 .failed = value.empty() ? "a value is missing"
                                         : str("the value ", value, " stands there twice"),
                 .expected = "KEY=VALUE,VALUE,..."});
  }
  return sweep;
}

std::vector<ArmSetup> read_arms(const fs::path& experiment, const std::vector<ArmRequest>& memories,
                                const std::vector<config::Override>& overrides,
                                const std::vector<Sweep>& sweeps, plugin::PluginLoader& loader,
                                bool is_locked) {
  if (memories.empty()) throw_usage("compare: expected at least one --memory FILE, got none");
  std::vector<Draft> drafts;
  for (const ArmRequest& request : memories) {
    Draft draft{.request = request, .name = request.name};
    if (draft.name.empty()) {
      draft.name = as_utf8(request.memory.stem().native());
      for (const config::Override& override : request.overrides)
        draft.name += name_part(override.key, override.value);
    }
    drafts.push_back(std::move(draft));
  }
  for (const Sweep& sweep : sweeps)
    drafts = expanded(drafts, sweep, experiment, overrides, loader, is_locked);
  std::vector<std::string> names;
  for (const Draft& draft : drafts) names.push_back(draft.name);
  names = distinct_names(names);
  std::vector<ArmSetup> arms;
  for (std::size_t i = 0; i < drafts.size(); ++i) {
    const ArmRequest& request = drafts[i].request;
    std::vector<config::Override> all = overrides;
    all.insert(all.end(), request.overrides.begin(), request.overrides.end());
    ArmSetup arm{.name = names[i],
                 .file = request.memory,
                 .settings = {},
                 .experiment = plugin::read_experiment(experiment, all, request.memory, is_locked)};
    for (const config::Override& override : request.overrides)
      arm.settings.push_back(str(override.key, '=', override.value));
    arms.push_back(std::move(arm));
  }
  return arms;
}

std::string folder_name(const std::string& arm) {
  std::string name;
  for (std::size_t i = 0; i < arm.size();) {
    const CodePoint point = decode_utf8(arm, i);
    const char c = arm[i];
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                          std::string_view("._-+=,#").find(c) != std::string_view::npos;
    if (point.bytes > 1) {
      name += arm.substr(i, point.bytes);
    } else {
      name += point.bytes == 1 && is_plain ? c : '_';
    }
    i += std::max<std::size_t>(point.bytes, 1);
  }
  constexpr std::size_t kMaxBytes = 120;  // a file name has room for 255, with what is added
  std::size_t end = std::min(name.size(), kMaxBytes);
  while (end < name.size() && end > 0 && is_continuation(name[end])) --end;
  name.resize(end);
  return name.starts_with('.') ? "_" + name.substr(1) : name;
}

}  // namespace mneme::compare
