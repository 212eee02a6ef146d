#include "host/config/memory.hpp"

#include <algorithm>
#include <tuple>

#include "host/base/text.hpp"
#include "host/config/options.hpp"
#include "host/config/words.hpp"

namespace mneme::config {
namespace {

constexpr std::string_view kEvalPrefix = "eval_";

void read_layers(Reader& reader, TierConfig& tier) {
  auto layers =
      reader.integers({"layers", "indices of the layers that it serves", "all"}, kNotNegative);
  if (!layers) return;
  std::sort(layers->begin(), layers->end());
  if (layers->empty()) {
    reader.problem("layers", {.expected = "at least one layer",
                              .got = "an empty list",
                              .hint = reader.removal("layers") + " to serve every layer"});
  }
  const auto twin = std::adjacent_find(layers->begin(), layers->end());
  if (twin != layers->end()) {
    reader.problem("layers", {.failed = str("layer ", *twin, " is listed twice")});
  }
  tier.layers = std::move(layers);
}

void read_sha256(Reader& reader, TierConfig& tier) {
  tier.sha256 =
      reader.text({"sha256", "checksum that the plugin's file must have", "not pinned"}, "");
  for (char& c : tier.sha256) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  const bool is_hex = tier.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (reader.has("sha256") && (tier.sha256.size() != 64 || !is_hex)) {
    reader.problem(
        "sha256", {.expected = "64 hexadecimal digits",
                   .got = str(toml_string(tier.sha256), " (", tier.sha256.size(), " characters)")});
  }
}

void read_weights(Reader& reader, TierConfig& tier) {
  const Value* table = reader.table({"weight",
                                     "weight.<loss>: factor of an auxiliary loss of the plugin; "
                                     "mneme plugins describe NAME names them",
                                     "1 each"});
  if (table == nullptr) return;
  tier.weight_table = *table;
  Reader weights = reader.inner(*table);
  for (const Member& member : table->members()) {
    tier.weights[member.key] = weights.real(member.key, 1.0, {});
  }
}

// Everything that is not the host's is an option of the plugin.
void split_options(Reader& reader, TierConfig& tier) {
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

TierConfig read_tier(Reader reader) {
  const Value& table = reader.self();
  TierConfig tier;
  tier.position = table.position();
  if (reader.require("plugin", "the name of a plugin, such as plugin = \"name\"")) {
    tier.plugin = reader.text({"plugin", "file name or id of the plugin"}, "");
    const Value* value = table.find("plugin");
    if (value->kind() == Kind::kString && tier.plugin.empty()) {
      reader.problem("plugin", {.expected = "the name of a plugin", .got = "an empty string"});
    }
  }
  read_layers(reader, tier);
  tier.feed =
      reader.choice({"feed",
                     "what it absorbs: released = what the nearest earlier tier lets go, the "
                     "segment's rows if none does; segment = always the segment's rows"},
                    tier.feed, kFeedWords);
  read_sha256(reader, tier);
  tier.lr =
      reader.optional_real({"lr", "learning rate of its parameters", "train.lr"}, {.min = 0.0});
  tier.weight_decay = reader.optional_real(
      {"weight_decay", "of its parameters", "train.weight_decay"}, {.min = 0.0});
  read_weights(reader, tier);
  split_options(reader, tier);
  return tier;
}

}  // namespace

MemoryConfig read_memory(Reader reader) {
  MemoryConfig memory;
  memory.plugins = reader.paths(
      {"plugins", "folders that are searched for plugins, in order", "those of the program"});
  memory.carry = reader.choice(
      {"carry", "at a swap, state and parameters that do not fit: refuse, or reset to fresh ones"},
      memory.carry, kCarryWords);
  for (const Value* tier : reader.tables({"tier", "the memories, nearest first"})) {
    memory.tiers.push_back(read_tier(reader.inner(*tier)));
  }
  const Value* folders = reader.value("plugins");
  const bool is_list = folders != nullptr && folders->kind() == Kind::kArray;
  if (!memory.tiers.empty() && is_list && folders->items().empty()) {
    reader.problem("plugins",
                   {.expected = "at least one folder",
                    .got = "an empty list",
                    .hint = reader.removal("plugins") + " for the plugins of the program itself"});
  }
  reader.finish();
  return memory;
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
