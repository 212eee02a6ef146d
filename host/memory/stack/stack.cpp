#include "host/memory/stack/stack.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "host/base/error.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/plugin/loader.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// The first layer that both tiers serve; -1 = none.
std::int64_t common_layer(const Tier& a, const Tier& b) {
  for (const std::int64_t layer : a.served()) {
    if (b.served_index(layer) >= 0) return layer;
  }
  return -1;
}

// What the tier needs of the attention of its layers, for people; "" = nothing.
std::string use_of_attention(const Tier& tier) {
  constexpr std::uint64_t kOfAttention =
      MNEME_WANT_ABSORB_Z | MNEME_WANT_ABSORB_LSE | MNEME_WANT_ABSORB_Q | MNEME_WANT_ABSORB_K |
      MNEME_WANT_ABSORB_V | MNEME_WANT_ABSORB_MASS | MNEME_WANT_ABSORB_CONTEXT_KV |
      MNEME_WANT_READ_Q | MNEME_WANT_READ_K | MNEME_WANT_READ_V | MNEME_WANT_READ_Z |
      MNEME_WANT_READ_LSE;
  for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
    const Instance& instance = tier.instance(phase);
    if (instance.table().context != nullptr) return "gives context";
    if ((instance.traits().sites & MNEME_SITE_HEADS) != 0)
      return "reads at MNEME_SITE_HEADS, as memories do that merge by LSE,";
    for (const plugin::Want& want : plugin::kWants) {
      if (instance.wants(want.bit & kOfAttention))
        return str("wants ", want.input, " of the attention in ", want.hook);
    }
  }
  return "";
}

// Refuses `other` beside `tier`, which replaces the attention of its layers.
void check_beside(const Tier& tier, const Tier& other, const std::string& where) {
  const auto refuse = [&](const std::string& failed, const std::string& hint) {
    throw_usage(ErrorText{.where = where, .failed = failed, .hint = hint});
  };
  const Instance& instance = other.instance(Phase::kTraining);
  if ((instance.traits().flags & MNEME_TIER_RIDERS) != 0)
    refuse(str("the riders of tier ", other.name(),
               " pass through the attention of every layer; tier ", tier.name(),
               " replaces that of layer ", tier.served().front()),
           "use one of the two");
  const std::int64_t layer = common_layer(tier, other);
  if (layer < 0) return;
  if (instance.replaces_attention())
    refuse(str("tiers ", tier.name(), " and ", other.name(),
               " both replace the attention of layer ", layer),
           "give the tiers `layers` that do not overlap");
  const std::string use = use_of_attention(other);
  if (!use.empty())
    refuse(str("tier ", other.name(), ' ', use, " in layer ", layer, ", whose attention tier ",
               tier.name(), " replaces"),
           "give the tiers `layers` that do not overlap");
}

// Refuses tiers that cannot be combined, or that cannot serve segments of this length. Errors:
// Error(kUsage).
void check_together(const config::MemoryConfig& memory, const BackboneInfo& backbone,
                    const std::vector<std::unique_ptr<Tier>>& tiers) {
  int riders = 0;
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    const mneme_tier_traits& traits = tiers[i]->instance(Phase::kTraining).traits();
    if ((traits.flags & MNEME_TIER_RIDERS) != 0 && ++riders > 1) {
      throw_usage(ErrorText{.where = memory.tiers[i].position.text(),
                            .failed = "two tiers put riders into the layer stack",
                            .hint = "use one memory with riders (look-ahead) at a time"});
    }
    const std::int64_t longest = std::max(backbone.train_segment, backbone.eval_segment);
    if (traits.max_segment > 0 && longest > traits.max_segment) {
      throw_usage(
          ErrorText{.where = memory.tiers[i].position.text(),
                    .failed = str("plugin ", tiers[i]->instance(Phase::kTraining).plugin().note.id,
                                  " serves segments of at most ", traits.max_segment, " tokens"),
                    .got = str(longest),
                    .hint = "lower train.segment or eval.segment"});
    }
    if (!tiers[i]->instance(Phase::kTraining).replaces_attention()) continue;
    for (std::size_t j = 0; j < tiers.size(); ++j) {
      if (j != i) check_beside(*tiers[i], *tiers[j], memory.tiers[j].position.text());
    }
  }
}

}  // namespace

Stack::Stack(const config::MemoryConfig& memory, const BackboneInfo& backbone,
             plugin::PluginLoader& loader)
    : backbone_(backbone) {
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  for (std::size_t i = 0; i < memory.tiers.size(); ++i) {
    tiers_.push_back(std::make_unique<Tier>(static_cast<std::int64_t>(i), memory.tiers[i], folders,
                                            backbone_, loader));
    tiers_.back()->describe_parameters(parameters_);
  }
  check_together(memory, backbone_, tiers_);
}

Stack::~Stack() = default;

namespace {

std::map<std::string, std::string> defaults_of(const Tier& tier) {
  std::map<std::string, std::string> out;
  for (const config::OptionSpec& spec : tier.option_specs()) {
    const bool is_given = tier.config().options.find(spec.key) != nullptr;
    if (!is_given && spec.default_value) out[spec.key] = config::option_text(*spec.default_value);
  }
  return out;
}

}  // namespace

std::vector<TierIdentity> Stack::identities() const {
  std::vector<TierIdentity> out;
  for (const auto& tier : tiers_) {
    const plugin::LoadedPlugin& plugin = tier->instance(Phase::kTraining).plugin();
    out.push_back({plugin.note.id, plugin.note.version, plugin.path, plugin.sha256,
                   plugin.note.compiler, plugin.note.commit,
                   (plugin.note.flags & MNEME_NOTE_DIRTY) != 0, plugin.python, defaults_of(*tier)});
  }
  return out;
}

void Stack::draw_parameters(const std::vector<std::string>& names) {
  for (const auto& tier : tiers_) tier->draw_parameters(names, backbone_);
}

const Tier* Stack::replacing_tier(std::int64_t layer) const {
  for (const auto& tier : tiers_) {
    if (tier->instance(Phase::kTraining).replaces_attention() && tier->served_index(layer) >= 0)
      return tier.get();
  }
  return nullptr;
}

ReplacedLayers Stack::replaced_layers() const {
  ReplacedLayers out;
  for (const auto& tier : tiers_) {
    const auto replaced = tier->instance(Phase::kTraining).replaced_attention();
    if (!replaced) continue;
    for (const std::int64_t layer : tier->served()) out[layer] = *replaced;
  }
  return out;
}

std::int64_t Stack::context_rows(Phase phase) const {
  return std::accumulate(tiers_.begin(), tiers_.end(), std::int64_t{0},
                         [&](std::int64_t sum, const auto& tier) {
                           return sum + tier->instance(phase).traits().context_rows;
                         });
}

std::int64_t Stack::rider_rows(Phase phase) const {
  std::int64_t rows = 0;
  for (const auto& tier : tiers_) {
    const mneme_tier_traits& traits = tier->instance(phase).traits();
    if ((traits.flags & MNEME_TIER_RIDERS) != 0) rows += traits.context_rows;
  }
  return rows;
}

std::int64_t Stack::cache_rows(Phase phase) const {
  if (tiers_.size() != 1) return 0;
  const Instance& instance = tiers_.front()->instance(phase);
  if (!instance.slots.empty() || instance.queues.size() != 1) return 0;
  const std::int64_t rows = instance.queues.front().capacity;
  return rows > 0 && rows == instance.traits().context_rows ? rows : 0;
}

void refuse_documents(const std::string& tier, const std::string& why) {
  throw_usage(ErrorText{
      .where = str("tier ", tier),
      .failed = str("tokens may not see other documents (data.reset = \"mask\"), but ", why),
      .expected = "a memory whose context is rows of tokens, such as a cache",
      .hint = "data.reset = \"document\" empties any memory where a document begins"});
}

void Stack::require_documents() const {
  for (const auto& tier : tiers_) {
    for (const Phase phase : {Phase::kTraining, Phase::kEvaluation}) {
      const Instance& instance = tier->instance(phase);
      if (instance.table().read != nullptr) {
        refuse_documents(tier->name(), "its results are made of rows of all documents");
      }
      if ((instance.traits().flags & MNEME_TIER_RIDERS) != 0) {
        refuse_documents(tier->name(), "its riders attend to rows of all documents");
      }
    }
  }
}

std::int64_t Stack::longest_segment(Phase phase) const {
  std::int64_t longest = 0;
  for (const auto& tier : tiers_) {
    const std::int64_t own = tier->instance(phase).traits().max_segment;
    if (own > 0) longest = longest == 0 ? own : std::min(longest, own);
  }
  return longest;
}

plugin::TierOptions Stack::trained_options() const {
  plugin::TierOptions out;
  for (const auto& tier : tiers_) {
    out[tier->name()] = plugin::trained_options(tier->option_specs(), tier->options());
  }
  return out;
}

std::vector<plugin::OptionChange> Stack::changed_options(const plugin::TierOptions& trained) const {
  std::vector<plugin::OptionChange> out;
  for (const auto& tier : tiers_) {
    const auto found = trained.find(tier->name());
    if (found == trained.end()) continue;
    const std::vector<plugin::OptionChange> changes =
        plugin::changed_options(tier->name(), tier->option_specs(), found->second, tier->options());
    out.insert(out.end(), changes.begin(), changes.end());
  }
  return out;
}

bool Stack::has_losses() const {
  return std::ranges::any_of(
      tiers_, [](const auto& tier) { return !tier->loss_names() || !tier->loss_names()->empty(); });
}

std::vector<std::string> Stack::slots_without_lanes() const {
  std::vector<std::string> out;
  for (const auto& tier : tiers_) {
    for (const SlotDecl& slot : tier->instance(Phase::kTraining).slots) {
      if (!slot.has_lanes() && !slot.is_segment_lifetime)
        out.push_back(str(tier->name(), '.', slot.name));
    }
  }
  return out;
}

std::vector<TierState> Stack::new_states(Phase phase, std::int64_t lanes) const {
  std::vector<TierState> states;
  for (const auto& tier : tiers_) states.emplace_back(*tier, phase, lanes, backbone_);
  return states;
}

StackState Stack::new_state(Phase phase, std::int64_t lanes) const {
  if (lanes < 1) throw_usage("a run needs at least one lane, got ", lanes);
  const auto count = static_cast<std::size_t>(lanes);
  RunCounters counters{.phase = phase, .lanes = lanes};
  counters.reset.assign(count, 1);
  counters.tokens.assign(count, 0);
  counters.streams.resize(count);
  std::iota(counters.streams.begin(), counters.streams.end(), std::uint64_t{0});
  return {std::move(counters), new_states(phase, lanes)};
}

}  // namespace mneme::memory
