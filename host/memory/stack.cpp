#include "host/memory/stack.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <sstream>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/memory/tier.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

template <typename T>
std::string list_of(const std::vector<T>& values) {
  std::vector<std::string> parts;
  for (const T& value : values) parts.push_back(str(static_cast<uint64_t>(value)));
  return join(parts, ",");
}

const std::string& metadata_at(const StackState::Saved& saved, const std::string& key) {
  const auto found = saved.metadata.find(key);
  if (found == saved.metadata.end())
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved state lacks \"", key, "\""),
                          .hint = "the checkpoint was written by another program or cut short"});
  return found->second;
}

template <typename T>
T parse_count(const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || !std::in_range<T>(value))
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved \"", key, "\" holds something else"),
                          .expected = "counts",
                          .got = str('"', text, '"'),
                          .hint = "the checkpoint is damaged: use an older one"});
  return static_cast<T>(value);
}

// The lanes' counts "3,0,5".
template <typename T>
std::vector<T> lanes_at(const StackState::Saved& saved, const std::string& key, int64_t lanes) {
  std::vector<T> out;
  std::istringstream in(metadata_at(saved, key));
  for (std::string part; std::getline(in, part, ',');) out.push_back(parse_count<T>(key, part));
  if (static_cast<int64_t>(out.size()) != lanes)
    throw_usage(ErrorText{.where = "memory state",
                          .failed = str("the saved \"", key, "\" has another number of lanes"),
                          .expected = str(lanes),
                          .got = str(out.size()),
                          .hint = "the checkpoint is damaged: use an older one"});
  return out;
}

// "<plugin id> slot:revision ... queue:revision": equal when a saved state may be restored.
std::string state_signature(const Tier& tier, Phase phase) {
  const Instance& instance = tier.instance(phase);
  std::vector<std::string> parts = {instance.plugin().note.id};
  for (const SlotDecl& slot : instance.slots) parts.push_back(str(slot.name, ":", slot.revision));
  for (const QueueDecl& queue : instance.queues)
    parts.push_back(str(queue.name, ":", queue.revision));
  return join(parts, " ");
}

constexpr const char* kRestoreHint =
    "resume with the experiment and plugins that wrote the checkpoint";

[[noreturn]] void refuse_state(const std::string& failed, const std::string& expected,
                               const std::string& got) {
  throw_usage(ErrorText{.where = "memory state",
                        .failed = failed,
                        .expected = expected,
                        .got = got,
                        .hint = kRestoreHint});
}

}  // namespace

StackState::Saved StackState::save() const {
  Saved saved;
  saved.metadata["lanes"] = str(lanes_);
  saved.metadata["segments"] = str(segments_);
  saved.metadata["previous_length"] = str(previous_length_);
  saved.metadata["reset"] = list_of(reset_);
  saved.metadata["streams"] = list_of(streams_);
  saved.metadata["tokens"] = list_of(tokens_);
  for (const auto& tier : tiers_) {
    const std::string& name = tier->tier().name();
    saved.metadata["tier." + name] = state_signature(tier->tier(), phase_);
    const config::Value options =
        plugin::trained_options(tier->tier().option_specs(), tier->tier().options());
    if (!options.members().empty())
      saved.metadata[plugin::kSavedOptions + name] = plugin::to_text(options);
    tier->save(name, saved.tensors);
  }
  return saved;
}

namespace {

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
    const int64_t longest = std::max(backbone.train_segment, backbone.eval_segment);
    if (traits.max_segment > 0 && longest > traits.max_segment) {
      throw_usage(
          ErrorText{.where = memory.tiers[i].position.text(),
                    .failed = str("plugin ", tiers[i]->instance(Phase::kTraining).plugin().note.id,
                                  " serves segments of at most ", traits.max_segment, " tokens"),
                    .got = str(longest),
                    .hint = "lower train.segment or eval.segment"});
    }
  }
}

}  // namespace

Stack::Stack(const config::MemoryConfig& memory, const BackboneInfo& backbone,
             plugin::PluginLoader& loader)
    : backbone_(backbone) {
  const std::vector<std::string> folders = plugin::folders_to_search(memory.plugins);
  for (std::size_t i = 0; i < memory.tiers.size(); ++i) {
    tiers_.push_back(std::make_unique<Tier>(static_cast<int64_t>(i), memory.tiers[i], folders,
                                            backbone_, loader));
    tiers_.back()->describe_parameters(parameters_);
  }
  check_together(memory, backbone_, tiers_);
}

Stack::~Stack() = default;

std::vector<TierIdentity> Stack::identities() const {
  std::vector<TierIdentity> out;
  for (const auto& tier : tiers_) {
    const plugin::LoadedPlugin& plugin = tier->instance(Phase::kTraining).plugin();
    out.push_back({plugin.note.id, plugin.note.version, plugin.path, plugin.sha256,
                   plugin.note.compiler, plugin.note.commit,
                   (plugin.note.flags & MNEME_NOTE_DIRTY) != 0});
  }
  return out;
}

void Stack::draw_parameters(const std::vector<std::string>& names) {
  for (const auto& tier : tiers_) tier->draw_parameters(names, backbone_);
}

int64_t Stack::context_rows(Phase phase) const {
  return std::accumulate(tiers_.begin(), tiers_.end(), int64_t{0},
                         [&](int64_t sum, const auto& tier) {
                           return sum + tier->instance(phase).traits().context_rows;
                         });
}

int64_t Stack::rider_rows(Phase phase) const {
  int64_t rows = 0;
  for (const auto& tier : tiers_) {
    const mneme_tier_traits& traits = tier->instance(phase).traits();
    if ((traits.flags & MNEME_TIER_RIDERS) != 0) rows += traits.context_rows;
  }
  return rows;
}

int64_t Stack::longest_segment(Phase phase) const {
  int64_t longest = 0;
  for (const auto& tier : tiers_) {
    const int64_t own = tier->instance(phase).traits().max_segment;
    if (own > 0) longest = longest == 0 ? own : std::min(longest, own);
  }
  return longest;
}

std::vector<std::pair<std::string, at::Tensor>> Stack::save_projections(
    const StackState& state) const {
  std::vector<std::pair<std::string, at::Tensor>> out;
  for (const auto& tier : state.tiers_)
    tier->save_projections(tier->tier().name(), weights_version_, out);
  return out;
}

void Stack::restore_projections(StackState& state, const StackState::Saved& saved) const {
  const std::map<std::string, at::Tensor> by_name(saved.tensors.begin(), saved.tensors.end());
  for (const auto& tier : state.tiers_) {
    tier->restore_projections(tier->tier().name(), weights_version_, [&](const std::string& name) {
      const auto at = by_name.find(name);
      return at == by_name.end() ? at::Tensor() : at->second;
    });
  }
}

StackState Stack::new_state(Phase phase, int64_t lanes) const {
  if (lanes < 1) throw_usage("a run needs at least one lane, got ", lanes);
  StackState state;
  state.phase_ = phase;
  state.lanes_ = lanes;
  state.reset_.assign(static_cast<std::size_t>(lanes), 1);
  state.streams_.resize(static_cast<std::size_t>(lanes));
  state.tokens_.assign(static_cast<std::size_t>(lanes), 0);
  std::iota(state.streams_.begin(), state.streams_.end(), uint64_t{0});
  for (const auto& tier : tiers_)
    state.tiers_.push_back(std::make_unique<TierState>(*tier, phase, lanes, backbone_));
  return state;
}

StackState Stack::restore_counters(Phase phase, int64_t lanes,
                                   const StackState::Saved& saved) const {
  if (metadata_at(saved, "lanes") != str(lanes))
    refuse_state("another number of lanes", str(lanes), metadata_at(saved, "lanes"));
  StackState state = new_state(phase, lanes);
  state.segments_ = parse_count<int64_t>("segments", metadata_at(saved, "segments"));
  state.previous_length_ =
      parse_count<int64_t>("previous_length", metadata_at(saved, "previous_length"));
  state.reset_ = lanes_at<uint8_t>(saved, "reset", lanes);
  state.streams_ = lanes_at<uint64_t>(saved, "streams", lanes);
  state.tokens_ = lanes_at<int64_t>(saved, "tokens", lanes);
  return state;
}

StackState Stack::restore(Phase phase, int64_t lanes, const StackState::Saved& saved) const {
  StackState state = restore_counters(phase, lanes, saved);
  const std::vector<plugin::OptionChange> changes = changed_options(saved);
  if (!changes.empty()) plugin::throw_changed_options("memory state", changes, kRestoreHint);
  std::map<std::string, at::Tensor> by_name(saved.tensors.begin(), saved.tensors.end());
  for (const auto& tier : state.tiers_) {
    const std::string key = "tier." + tier->tier().name();
    const auto found = saved.metadata.find(key);
    const std::string expected = state_signature(tier->tier(), phase);
    if (found == saved.metadata.end())
      refuse_state("the saved state has no tier of this name", tier->tier().name(), "none");
    if (found->second != expected)
      refuse_state(str("tier ", tier->tier().name(),
                       ": the saved state has other slots, queues or revisions"),
                   expected, found->second);
    tier->restore(tier->tier().name(), [&](const std::string& name) {
      const auto at = by_name.find(name);
      return at == by_name.end() ? at::Tensor() : at->second;
    });
  }
  return state;
}

int64_t LayerContext::rows() const {
  return std::accumulate(
      blocks.begin(), blocks.end(), int64_t{0},
      [](int64_t sum, const ContextBlock& block) { return sum + block.rows.count; });
}

}  // namespace mneme::memory
