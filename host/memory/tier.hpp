// A tier, one configured memory plugin: its options, its instances and what they declared in
// `create`, its parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/base/log.hpp"
#include "host/config/options.hpp"
#include "host/memory/backbone_interface.hpp"
#include "host/memory/declared_ids.hpp"
#include "host/memory/stack.hpp"
#include "host/memory/state/rows.hpp"
#include "host/plugin/loader.hpp"
#include "host/plugin/plugin_options.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {

struct ParameterDecl {
  std::string name;
  bool is_model_scope = false;
  std::vector<int64_t> dims;
  uint32_t init = MNEME_PARAMETER_ZEROS;
  double value = 0.0, mean = 0.0, deviation = 0.0, low = 0.0, high = 0.0;
  double gain = 0.0;   // 0 = 1
  int64_t fan_in = 0;  // 0 = the product of all dims but the first
  double lr_factor = 1.0;
  std::string group;
};

struct SlotDecl {
  std::string name;
  bool is_model_scope = false;
  at::ScalarType dtype = at::kFloat;
  bool is_through = false;
  bool is_segment_lifetime = false;
  bool is_counts = false;  // i64 on the CPU, readable by hooks
  std::vector<int64_t> dims;
  uint32_t revision = 0;
  uint32_t start = MNEME_START_ZEROS;
  std::size_t start_parameter = 0;  // its place among the instance's parameters
  double start_value = 0.0;

  bool has_lanes() const { return !dims.empty() && dims.front() == MNEME_LANES; }
};

struct QueueDecl {
  std::string name;
  bool is_model_scope = false;
  RowsKind kind = RowsKind::kHidden;
  uint32_t attributes = 0;
  uint32_t revision = 0;
  int64_t start_rows = 0;
  int64_t capacity = 0;
  int64_t key_heads = 0;  // of rows of kind kKeyValue
};

struct KernelDecl {
  std::string name;
  mneme_kernel_decl decl;
};

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
           const BackboneInfo& backbone, const std::vector<int64_t>& served, Phase phase,
           const std::string& where);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const plugin::LoadedPlugin& plugin() const { return plugin_; }
  const mneme_plugin& table() const { return *plugin_.table; }
  void* handle() const { return handle_; }
  const mneme_tier_traits& traits() const { return traits_; }
  bool wants(uint64_t bits) const { return (traits_.wants & bits) != 0; }
  // Heads of keys and values as the hooks see them: all heads unless MNEME_TIER_GROUPED_KEYS.
  int64_t key_heads() const { return key_heads_; }
  // Keys or values [B,m,G,d] of the layer, or their weights [G*d,D], with that many heads.
  at::Tensor seen_keys(const at::Tensor& rows) const;
  at::Tensor seen_key_weight(const at::Tensor& weight, int64_t head_width) const;

  DeclaredIds ids;  // of the entries of the four lists
  std::vector<ParameterDecl> parameters;
  std::vector<SlotDecl> slots;
  std::vector<QueueDecl> queues;
  std::vector<KernelDecl> kernels;
  std::vector<LoggedLine> logged;  // during `create`, of every level
  // Constants by key and device, made by hooks.
  mutable std::map<std::pair<std::string, std::string>, at::Tensor> constants;

 private:
  void create(config::OptionMap options, const BackboneInfo& backbone, std::vector<int64_t> served,
              Phase phase);
  void destroy() noexcept;
  void check_traits() const;

  const plugin::LoadedPlugin& plugin_;
  std::string where_;  // "<place in the memory file>: plugin <id>"
  void* handle_ = nullptr;
  mneme_tier_traits traits_{};
  int64_t key_heads_ = 0;
};

// One [[memory.tier]] of the memory file, which may be the [memory] table of an experiment file.
class Tier {
 public:
  Tier(int64_t index, const config::TierConfig& config, const std::vector<std::string>& folders,
       const BackboneInfo& backbone, plugin::PluginLoader& loader);

  const std::shared_ptr<Instance>& shared_instance(Phase phase) const {
    return phase == Phase::kEvaluation && evaluation_ != nullptr ? evaluation_ : training_;
  }
  const Instance& instance(Phase phase) const { return *shared_instance(phase); }
  int64_t index() const { return index_; }
  const std::string& name() const { return name_; }  // "<index>.<plugin id>"
  const config::TierConfig& config() const { return config_; }
  // The options that the plugin publishes, and their values in training.
  const std::vector<config::OptionSpec>& option_specs() const { return option_specs_; }
  const config::OptionMap& options() const { return options_; }
  const std::vector<int64_t>& served() const { return served_; }
  // Index among the served layers, -1 when the layer is not served.
  int64_t served_index(int64_t layer) const;
  double loss_weight(const std::string& loss) const;
  const plugin::LossNames& loss_names() const { return loss_names_; }

  // The tensor of the parameter that is declared at `place`, for a served layer (-1: model scope).
  const at::Tensor& parameter(std::size_t place, int64_t served_index) const;
  void describe_parameters(std::vector<TierParameter>& out) const;
  // Draws the initial values of this tier's parameters that are among `names` (as
  // describe_parameters gives them).
  void draw_parameters(const std::vector<std::string>& names, const BackboneInfo& backbone);

 private:
  void make_parameters(const BackboneInfo& backbone);
  // "memory.<tier>.<layer or "model">.<name>" of a declared parameter's copy.
  std::string parameter_name(const ParameterDecl& decl, std::size_t copy) const;

  int64_t index_;
  config::TierConfig config_;
  std::string where_;
  std::string name_;
  std::vector<config::OptionSpec> option_specs_;
  config::OptionMap options_;
  plugin::LossNames loss_names_;
  std::vector<int64_t> served_;
  std::vector<int64_t> served_index_;
  std::shared_ptr<Instance> training_;
  std::shared_ptr<Instance> evaluation_;             // null when no eval_<option> is given
  std::vector<std::vector<at::Tensor>> parameters_;  // [place][served layer, or 0 for model scope]
};

// --- The declarations of group mneme.state/1, called in `create` ---

mneme_status add_parameter(mneme_setup* setup, const mneme_parameter_decl* decl,
                           mneme_parameter* out, mneme_error* error);
mneme_status add_slot(mneme_setup* setup, const mneme_slot_decl* decl, mneme_slot* out,
                      mneme_error* error);
mneme_status add_queue(mneme_setup* setup, const mneme_queue_decl* decl, mneme_queue* out,
                       mneme_error* error);

}  // namespace mneme::memory
