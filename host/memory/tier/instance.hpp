// An instance: what a plugin's `create` gave, with what it declared.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/log.hpp"
#include "host/config/options.hpp"
#include "host/memory/interface/backbone_interface.hpp"
#include "host/memory/tier/declarations.hpp"
#include "host/memory/tier/declared_ids.hpp"
#include "host/plugin/loader.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

// A line of the log, as the host writes it.
struct LoggedLine {
  LogLevel level = LogLevel::kInfo;
  std::string text;

  friend bool operator==(const LoggedLine&, const LoggedLine&) = default;
};

// One result of the plugin's `create`.
class Instance : public std::enable_shared_from_this<Instance> {
 public:
  // Calls `create`. `where` is the tier's place in the memory file. Errors: Error(kPlugin) with the
  // plugin's own text.
  Instance(const plugin::LoadedPlugin& plugin, config::OptionMap options,
           const BackboneInfo& backbone, const std::vector<std::int64_t>& served, Phase phase,
           const std::string& where);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  [[nodiscard]] const plugin::LoadedPlugin& plugin() const { return plugin_; }
  [[nodiscard]] const mneme_plugin& table() const { return *plugin_.table; }
  [[nodiscard]] void* handle() const { return handle_; }
  [[nodiscard]] const mneme_tier_traits& traits() const { return traits_; }
  [[nodiscard]] bool wants(std::uint64_t bits) const { return (traits_.wants & bits) != 0; }
  [[nodiscard]] bool replaces_attention() const {
    return (traits_.flags & MNEME_TIER_REPLACES_ATTENTION) != 0;
  }
  // What the layers that the tier serves have in place of attention; absent = they have attention.
  [[nodiscard]] std::optional<ReplacedAttention> replaced_attention() const;
  // Width of a head of queries and keys, and of values and results at HEADS: those of the layers,
  // unless the tier replaces their attention and says others.
  [[nodiscard]] std::int64_t key_width() const { return key_width_; }
  [[nodiscard]] std::int64_t value_width() const { return value_width_; }
  // Heads of keys and values as the hooks see them: all heads unless MNEME_TIER_GROUPED_KEYS.
  [[nodiscard]] std::int64_t key_heads() const { return key_heads_; }
  // Keys or values [B,m,G,d] of the layer, or their weights [G*d,D], with that many heads.
  [[nodiscard]] at::Tensor seen_keys(const at::Tensor& rows) const;
  [[nodiscard]] at::Tensor seen_key_weight(const at::Tensor& weight, std::int64_t head_width) const;

  DeclaredIds ids;  // of the entries of the four lists
  std::vector<ParameterDecl> parameters;
  std::vector<SlotDecl> slots;
  std::vector<QueueDecl> queues;
  std::vector<KernelDecl> kernels;
  std::vector<LoggedLine> logged;  // during `create`, of every level
  // Constants by key and device, made by hooks.
  mutable std::map<std::pair<std::string, std::string>, at::Tensor> constants;

 private:
  void create(config::OptionMap options, const BackboneInfo& backbone,
              std::vector<std::int64_t> served, Phase phase);
  void destroy() noexcept;
  void check_traits() const;
  void check_replacement() const;
  [[noreturn]] void refuse(const std::string& failed, const std::string& hint) const;

  const plugin::LoadedPlugin& plugin_;
  std::string where_;  // "<place in the memory file>: plugin <id>"
  void* handle_ = nullptr;
  mneme_tier_traits traits_{};
  std::int64_t key_heads_ = 0, key_width_ = 0, value_width_ = 0;
};

}  // namespace mneme::memory
