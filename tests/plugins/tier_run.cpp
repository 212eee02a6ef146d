#include "tests/plugins/tier_run.hpp"

#include <stdexcept>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace tier_test {
namespace {

using mneme::str;

// Names of a tier's probes and state are "<tier>.<plugin>.<place>", the plugin's id with dots.
bool is_of(const std::string& name, int64_t tier, const std::string& place) {
  return name.starts_with(str(tier, ".")) && name.ends_with("." + place);
}

}  // namespace

std::string tier(const std::string& plugin, const std::string& options) {
  return str("[[memory.tier]]\nplugin = \"", plugin, "\"\n", options, "\n");
}

std::string xl_cache(int64_t rows) { return tier("xl_cache", str("rows = ", rows)); }

MemorySession session(const std::string& tiers, const ModelConfig& config,
                      const ModelSetup& setup) {
  return {config, setup, mneme::backbone::memory_of({MNEME_PLUGIN_DIR}, tiers)};
}

at::Tensor Held::lane(int64_t b) const { return rows[b].index({valid[b]}); }

Held held_at(const StackState& state, const std::string& place, int64_t tier) {
  const mneme::memory::NamedState saved = state.save();
  const auto find = [&](int64_t block, const char* field) {
    for (const auto& [name, tensor] : saved.tensors) {
      if (is_of(name, tier, str(place, ".", block, ".", field))) return tensor;
    }
    return at::Tensor();
  };
  std::vector<at::Tensor> rows, valid;
  for (int64_t block = 0;; ++block) {
    const at::Tensor hidden = find(block, "hidden");
    if (!hidden.defined()) break;
    const at::Tensor mask = find(block, "valid");
    rows.push_back(hidden);
    valid.push_back(mask.defined() ? mask
                                   : torch::ones({hidden.size(0), hidden.size(1)}, at::kBool));
  }
  return rows.empty() ? Held{} : Held{at::cat(rows, 1), at::cat(valid, 1)};
}

at::Tensor slot_at(const StackState& state, const std::string& place, int64_t tier) {
  for (const auto& [name, tensor] : state.save().tensors) {
    if (is_of(name, tier, place)) return tensor;
  }
  throw std::out_of_range("no slot " + place);
}

StackState reloaded(const MemorySession& run, const StackState& state, Phase phase,
                    const Edit& edit) {
  mneme::memory::NamedState saved = state.save();
  for (auto& [name, tensor] : saved.tensors) {
    tensor = tensor.clone();
    if (edit) edit(name, tensor);
  }
  return run.stack.restore(phase, state.lanes(), saved);
}

at::Tensor probe(const MemorySession::Result& seen, const std::string& name, int64_t layer,
                 int64_t tier) {
  for (const auto& [key, tensor] : seen.probes) {
    if (is_of(key, tier, str(layer, ".", name))) return tensor;
  }
  throw std::out_of_range("no probe " + name);
}

MemorySession::Result run_segment(MemorySession& run, StackState& state, const at::Tensor& ids,
                                  uint64_t s, const Events& events,
                                  const std::vector<int64_t>& lanes, MemorySession::How how) {
  std::vector<uint8_t> resets;
  for (const int64_t b : lanes) {
    resets.push_back(events.is_reset(b, s) ? 1 : 0);
    if (events.valid) how.valid_count.push_back(events.valid(b, s));
  }
  state.reset(resets);
  return run.run(state, ids.index_select(0, at::tensor(lanes, at::kLong)), how);
}

}  // namespace tier_test
