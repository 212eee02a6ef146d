#include "host/memory/stack/tier_outline.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "host/base/text.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

struct Word {
  std::uint64_t bit;
  const char* text;
};

std::vector<std::string> choices_of(std::uint64_t bits, std::span<const Word> words) {
  std::vector<std::string> out;
  for (const Word& word : words) {
    if ((bits & word.bit) != 0) out.emplace_back(word.text);
  }
  return out;
}

constexpr auto kSites = std::to_array<Word>({{MNEME_SITE_HEADS, "heads"}, {MNEME_SITE_OUT, "out"}});
constexpr auto kBehaviour =
    std::to_array<Word>({{MNEME_TIER_RELEASES, "releases rows"},
                         {MNEME_TIER_RIDERS, "has riders"},
                         {MNEME_TIER_TOKEN_BIAS, "may bias token columns"},
                         {MNEME_TIER_CUT_INVARIANT, "same losses however a text is cut"},
                         {MNEME_TIER_GROUPED_KEYS, "takes grouped keys"},
                         {MNEME_TIER_REPLACES_ATTENTION, "replaces the attention"}});
constexpr auto kAttributes =
    std::to_array<Word>({{MNEME_ATTRIBUTE_POSITION, "position"}, {MNEME_ATTRIBUTE_MASS, "mass"}});
std::vector<std::string> wants_of(const mneme_tier_traits& traits) {
  std::vector<std::string> out;
  for (const plugin::Want& want : plugin::kWants) {
    if ((traits.wants & want.bit) != 0) out.push_back(str(want.hook, ": ", want.input));
  }
  return out;
}

// By MNEME_ABSORB_* and by RowsKind.
constexpr std::array kAbsorbs = {"never", "before reading", "after the segment"};
constexpr std::array kRows = {"layer inputs", "normed rows", "keys and values"};

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
}

std::int64_t copies_of(bool is_model_scope, const Tier& tier) {
  return is_model_scope ? 1 : static_cast<std::int64_t>(tier.served().size());
}

// `held`: its tensor in a fresh state; `rows`: of the context, 0 = the tier declares none.
StateOutline outline_slot(const SlotDecl& decl, const at::Tensor& held, const Tier& tier,
                          std::int64_t rows) {
  StateOutline out{decl.name, decl.is_model_scope, decl.dims, "", std::nullopt};
  out.dtype = tensor::dtype_code_name(tensor::dtype_code_of(held.scalar_type()));
  const std::int64_t copies = copies_of(decl.is_model_scope, tier);
  const auto changing = std::ranges::count(decl.dims, MNEME_ANY);
  if (changing == 0) out.bytes = copies * bytes_of(held);
  if (changing != 1 || rows == 0) return out;
  std::vector<std::int64_t> dims = held.sizes().vec();
  const auto place = std::ranges::find(decl.dims, MNEME_ANY) - decl.dims.begin();
  dims[static_cast<std::size_t>(place)] = decl.is_segment_lifetime ? 0 : rows;
  out.bytes_of_rows = copies * bytes_of(at::empty(dims, held.options().device(at::kMeta)));
  return out;
}

QueueOutline outline_queue(const QueueDecl& decl, const Tier& tier, std::int64_t lanes,
                           const BackboneInfo& backbone) {
  QueueOutline out;
  out.name = decl.name;
  out.is_model_scope = decl.is_model_scope;
  const Rows full = zero_rows(decl, std::max<std::int64_t>(decl.capacity, 0), lanes, backbone);
  out.dims = full.main().sizes().vec();
  out.dims[0] = MNEME_LANES;
  if (decl.capacity == 0) out.dims[1] = MNEME_ANY;
  out.dtype = tensor::dtype_code_name(tensor::dtype_code_of(full.main().scalar_type()));
  if (decl.capacity != 0) out.bytes = copies_of(decl.is_model_scope, tier) * full.bytes();
  out.rows = kRows.at(static_cast<std::size_t>(decl.kind));
  out.attributes = choices_of(decl.attributes, kAttributes);
  out.start_rows = decl.start_rows;
  out.capacity = decl.capacity;
  return out;
}

InstanceOutline outline_instance(const Tier& tier, Phase phase, std::int64_t lanes,
                                 BackboneInfo backbone) {
  backbone.device = at::kMeta;  // bytes are counted on shapes, of a memory of any size
  const Instance& instance = tier.instance(phase);
  const mneme_tier_traits& traits = instance.traits();
  InstanceOutline out;
  out.segment = phase == Phase::kEvaluation ? backbone.eval_segment : backbone.train_segment;
  out.lanes = lanes;
  TierState state(tier, phase, lanes, backbone);
  for (std::size_t i = 0; i < instance.slots.size(); ++i) {
    const SlotDecl& decl = instance.slots[i];
    const at::Tensor& held = state.scope(decl.is_model_scope, 0).slots[i];
    out.slots.push_back(outline_slot(decl, held, tier, traits.context_rows));
  }
  for (const QueueDecl& decl : instance.queues)
    out.queues.push_back(outline_queue(decl, tier, lanes, backbone));
  out.absorbs = kAbsorbs.at(traits.absorb);
  out.reads_at = choices_of(traits.sites, kSites);
  out.wants = wants_of(traits);
  out.behaviour = choices_of(traits.flags, kBehaviour);
  out.context_rows = traits.context_rows;
  out.read_rows = traits.read_rows;
  out.max_segment = traits.max_segment;
  out.logged = instance.logged;
  return out;
}

ParameterOutline outline_parameter(const ParameterDecl& decl, const Tier& tier) {
  const std::int64_t numbers =
      std::accumulate(decl.dims.begin(), decl.dims.end(), std::int64_t{1}, std::multiplies<>());
  return {decl.name, decl.is_model_scope, decl.dims,
          copies_of(decl.is_model_scope, tier) * numbers};
}

}  // namespace

std::vector<TierOutline> Stack::outlines(std::int64_t train_lanes, std::int64_t eval_lanes) const {
  std::vector<TierOutline> out;
  for (const auto& tier : tiers_) {
    const Instance& training = tier->instance(Phase::kTraining);
    TierOutline outline;
    outline.name = tier->name();
    outline.place = tier->config().position.text();
    outline.plugin_name = tier->config().plugin;
    outline.plugin = &training.plugin();
    outline.served = tier->served();
    for (const ParameterDecl& decl : training.parameters)
      outline.parameters.push_back(outline_parameter(decl, *tier));
    outline.training = outline_instance(*tier, Phase::kTraining, train_lanes, backbone_);
    if (&tier->instance(Phase::kEvaluation) != &training)
      outline.evaluation = outline_instance(*tier, Phase::kEvaluation, eval_lanes, backbone_);
    out.push_back(std::move(outline));
  }
  return out;
}

namespace {

using Memories = std::vector<std::vector<TierIdentity>>;

bool any_plugin(const Memories& memories, const auto& predicate) {
  return std::ranges::any_of(
      memories, [&](const auto& plugins) { return std::ranges::any_of(plugins, predicate); });
}

std::string label(const TierIdentity& plugin, const Memories& memories) {
  constexpr std::size_t kShown = 8;  // digits of the checksum, as Git shows of a commit
  const bool has_twin = any_plugin(memories, [&](const TierIdentity& other) {
    return other.id == plugin.id && other.version == plugin.version &&
           other.sha256 != plugin.sha256;
  });
  const std::string name = str(plugin.id, '@', plugin.version);
  return has_twin ? str(name, " [", plugin.sha256.substr(0, kShown), ']') : name;
}

}  // namespace

std::vector<std::string> plugin_labels(const Memories& memories) {
  std::vector<std::string> out;
  for (const auto& plugins : memories) {
    std::vector<std::string> parts;
    for (const TierIdentity& plugin : plugins) parts.push_back(label(plugin, memories));
    out.push_back(parts.empty() ? "no tier" : join(parts, " + "));
  }
  return out;
}

bool has_builds(const Memories& memories) {
  return any_plugin(memories, [&](const TierIdentity& plugin) {
    return any_plugin(memories, [&](const TierIdentity& other) {
      return other.id == plugin.id && other.sha256 != plugin.sha256;
    });
  });
}

}  // namespace mneme::memory
