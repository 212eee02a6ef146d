// The fields of [memory] and [[memory.tier]], and what must hold between them and [model].
#include <algorithm>
#include <tuple>
#include <utility>

#include "host/base/text.hpp"
#include "host/config/memory_file.hpp"
#include "host/config/options.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

constexpr std::string_view kEvalPrefix = "eval_";

void check_layers(Reader& reader, std::vector<std::int64_t>& layers) {
  std::ranges::sort(layers);
  if (layers.empty()) {
    reader.problem("layers", {.expected = "at least one layer",
                              .got = "an empty list",
                              .hint = reader.removal("layers") + " to serve every layer"});
  }
  const auto twin = std::ranges::adjacent_find(layers);
  if (twin != layers.end()) {
    reader.problem("layers", {.failed = str("layer ", *twin, " is listed twice")});
  }
}

// Writes it as lower-case digits.
void check_sha256(Reader& reader, std::string& sha256) {
  for (char& c : sha256) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_hex = sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  const Value* const written = reader.value("sha256");
  if (written != nullptr && written->kind() == Kind::kString && (sha256.size() != 64 || !is_hex)) {
    reader.problem("sha256",
                   {.expected = "64 hexadecimal digits",
                    .got = str(toml_string(sha256), " (", sha256.size(), " characters)")});
  }
}

void list_weights(Fields& keys, TierConfig& tier) {
  if (!keys.is_reading()) {
    for (const auto& [name, weight] : tier.weights) {
      keys.write("weight." + toml_key(name), format_exact(weight));
    }
    return;
  }
  keys.table(
      {"weight",
       "weight.<loss>: factor of an auxiliary loss of the plugin; mneme plugins describe NAME "
       "names them",
       "1 each"},
      [&](Fields& table) {
        Reader& weights = table.reader();
        tier.weight_table = weights.self();
        for (const Member& member : tier.weight_table.members()) {
          tier.weights[member.key] = weights.real(member.key, 1.0, {});
        }
      });
}

// Everything that is not the host's is an option of the plugin.
void read_options(Reader& reader, TierConfig& tier) {
  const Value& self = reader.self();
  tier.options = Value::table(self.position(), self.path());
  tier.eval_options = Value::table(self.position(), self.path());
  for (Member& member : reader.take_rest()) {
    if (member.key.starts_with(kEvalPrefix)) {
      tier.eval_options.set(member.key.substr(kEvalPrefix.size()), member.key_position,
                            std::move(member.value));
    } else {
      tier.options.set(member.key, member.key_position, std::move(member.value));
    }
  }
}

void write_options(Fields& keys, const TierConfig& tier) {
  for (const Member& member : tier.options.members()) {
    keys.write(toml_key(member.key), member.value.toml());
  }
  for (const Member& member : tier.eval_options.members()) {
    keys.write(toml_key(std::string(kEvalPrefix) + member.key), member.value.toml());
  }
}

void list_tier(Fields& keys, TierConfig& tier) {
  if (keys.require("plugin", "the name of a plugin, such as plugin = \"name\"")) {
    keys.field({"plugin", "file name or id of the plugin, or the path of a memory in Python"},
               tier.plugin);
    if (keys.is_reading() && is_python_memory(tier.plugin))
      tier.plugin = keys.reader().path("plugin").string();
    if (keys.is_reading() && keys.reader().value("plugin")->kind() == Kind::kString &&
        tier.plugin.empty()) {
      keys.reader().problem("plugin",
                            {.expected = "the name of a plugin", .got = "an empty string"});
    }
  }
  std::vector<std::int64_t> layers = tier.layers.value_or(std::vector<std::int64_t>{});
  if (keys.field({"layers",
                  "indices of the layers that it serves; a layer's attention is replaced by one "
                  "tier at most",
                  "all"},
                 layers, kNotNegative)) {
    check_layers(keys.reader(), layers);
    tier.layers = std::move(layers);
  }
  keys.field(
      {"feed",
       "what it absorbs: released = what the nearest earlier tier lets go, the segment's rows "
       "if none does; segment = always the segment's rows"},
      tier.feed);
  keys.field({"sha256", "checksum that the plugin's file must have", "not pinned"}, tier.sha256);
  if (keys.is_reading()) check_sha256(keys.reader(), tier.sha256);
  keys.field({"lr", "learning rate of its parameters", "train.lr"}, tier.lr, kFromZero);
  keys.field({"weight_decay", "of its parameters", "train.weight_decay"}, tier.weight_decay,
             kFromZero);
  list_weights(keys, tier);
  if (keys.is_reading()) {
    tier.position = keys.reader().self().position();
    read_options(keys.reader(), tier);
  } else {
    write_options(keys, tier);
  }
}

// A tier's keys without the line [[memory.tier]] above them: with the plugin, its options.
void refuse_tier_keys(Reader& reader) {
  if (!reader.has("plugin")) return;
  for (const Member& member : reader.take_rest()) {
    reader.problem(member.key,
                   {.failed = "unknown key here",
                    .expected = "it in [[memory.tier]]",
                    .hint = member.key == "plugin" ? "write a line [[memory.tier]] above it" : ""});
  }
}

}  // namespace

void list_memory(Fields& keys, MemoryConfig& memory) {
  keys.field({"plugins", "folders that are searched for plugins, in order, and no others",
              "those of the program"},
             memory.plugins);
  keys.field(
      {"carry",
       "at a swap, state and parameters that do not fit: refuse, or reset to initial values"},
      memory.carry);
  keys.tables({"tier", "the memories, nearest first"}, memory.tiers, list_tier);
  if (!keys.is_reading()) return;
  Reader& reader = keys.reader();
  const Value* folders = reader.value("plugins");
  const bool is_list = folders != nullptr && folders->kind() == Kind::kArray;
  if (!memory.tiers.empty() && is_list && folders->items().empty()) {
    reader.problem("plugins",
                   {.expected = "at least one folder",
                    .got = "an empty list",
                    .hint = reader.removal("plugins") + " for the plugins of the program itself"});
  }
  refuse_tier_keys(reader);
  keys.finish();
}

void check_together(const ModelConfig& model, const MemoryConfig& memory,
                    const Position& model_position, Problems& problems) {
  if (model.same_length && memory.tiers.empty()) {
    problems.add(model_position, "model.same_length",
                 {.failed = "the window would be empty: there is no memory tier",
                  .expected = "a [[memory.tier]] that declares a context capacity",
                  .got = "none",
                  .hint = "add a tier, or set same_length = false"});
  }
  for (std::size_t i = 0; i < memory.tiers.size(); ++i) {
    const TierConfig& tier = memory.tiers[i];
    if (!tier.layers || tier.layers->empty() || tier.layers->back() < model.layers) continue;
    problems.add(
        tier.position, str("memory.tier.", i, ".layers"),
        {.expected = str("layers from 0 to ", model.layers - 1), .got = str(tier.layers->back())});
  }
}

bool operator==(const TierConfig& a, const TierConfig& b) {
  const auto fields = [](const TierConfig& tier) {
    return std::tie(tier.plugin, tier.layers, tier.feed, tier.sha256, tier.lr, tier.weight_decay,
                    tier.weights, tier.options, tier.eval_options);
  };
  return fields(a) == fields(b);
}

const std::vector<std::string>& host_tier_keys() {
  static const std::vector<std::string> keys = {"plugin", "layers",       "feed",  "sha256",
                                                "lr",     "weight_decay", "weight"};
  return keys;
}

}  // namespace mneme::config
