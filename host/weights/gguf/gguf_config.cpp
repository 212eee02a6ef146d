#include "host/weights/gguf/gguf_config.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/json_text.hpp"

namespace mneme::weights {
namespace {

struct Architecture {
  std::string_view name;  // also model_type
  const char* class_name;
};
constexpr std::array<Architecture, 3> kArchitectures = {
    {{"llama", "LlamaForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}}};

// A key of the architecture and that of config.json.
struct KeyName {
  const char* key;
  const char* of_config;
};
constexpr std::array<KeyName, 6> kIntegerKeys = {
    {{"embedding_length", "hidden_size"},
     {"feed_forward_length", "intermediate_size"},
     {"block_count", "num_hidden_layers"},
     {"attention.head_count", "num_attention_heads"},
     {"attention.head_count_kv", "num_key_value_heads"},
     {"context_length", "max_position_embeddings"}}};
constexpr std::array<KeyName, 2> kRealKeys = {
    {{"attention.layer_norm_rms_epsilon", "rms_norm_eps"}, {"rope.freq_base", "rope_theta"}}};
constexpr const char* kArchitectureKey = "general.architecture";

// Reads the keys of an architecture.
class ConfigOfGguf {
 public:
  explicit ConfigOfGguf(const GgufFile& file) : file_(file) {}

  Json read() {
    set_family();
    for (const auto& [key, of_config] : kIntegerKeys) {
      if (const auto value = file_.integer(named(key))) json_[of_config] = *value;
    }
    for (const auto& [key, of_config] : kRealKeys) {
      if (const auto value = file_.real(named(key))) json_[of_config] = *value;
    }
    for (const char* key : {"embedding_length", "feed_forward_length", "block_count",
                            "attention.head_count", "attention.layer_norm_rms_epsilon"}) {
      if (!file_.values().contains(named(key))) {
        file_.refuse(named(key), "the model", "such a key", "none");
      }
    }
    set_head_width();
    if (const auto causal = file_.flag(named("attention.causal"))) json_["is_causal"] = *causal;
    set_scaling();
    add_others();
    return std::move(json_);
  }

 private:
  // The whole name of a key of the architecture, which has been read then.
  std::string named(const char* key) {
    std::string name = str(architecture_, '.', key);
    known_.insert(name);
    return name;
  }

  void set_family() {
    architecture_ = file_.text(kArchitectureKey).value_or("");
    std::vector<std::string> known;
    for (const Architecture& one : kArchitectures) {
      known.emplace_back(one.name);
      if (one.name != architecture_) continue;
      json_["architectures"] = Json::array({one.class_name});
      json_["model_type"] = architecture_;
      json_["hidden_act"] = "silu";
      json_["torch_dtype"] = "float32";
      return;
    }
    file_.refuse(kArchitectureKey, "the architecture is not read", quoted_list(known),
                 str('"', architecture_, '"'));
  }

  void set_head_width() {
    const std::int64_t heads = json_["num_attention_heads"];
    const std::int64_t width = json_["hidden_size"];
    if (heads < 1)
      file_.refuse(named("attention.head_count"), "the heads", "at least 1", str(heads));
    const std::int64_t head = file_.integer(named("attention.key_length")).value_or(width / heads);
    json_["head_dim"] = head;
    for (const char* key : {"attention.value_length", "rope.dimension_count"}) {
      const std::int64_t given = file_.integer(named(key)).value_or(head);
      if (given == head) continue;
      file_.refuse(named(key), "the width of heads", str(head, ", that of keys, all of which turn"),
                   str(given));
    }
  }

  void set_scaling() {
    const std::string key = named("rope.scaling.type");
    const std::optional<double> old = file_.real(named("rope.scale_linear"));
    const std::optional<double> factor = file_.real(named("rope.scaling.factor"));
    const double by = factor.value_or(old.value_or(0.0));
    static_cast<void>(named("rope.scaling.finetuned"));
    const std::string kind = file_.text(key).value_or(by == 0.0 ? "none" : "linear");
    if (kind == "none") return;
    if (kind != "linear" && kind != "yarn") {
      file_.refuse(key, "the rotary scaling is not read", R"("none" | "linear" | "yarn")",
                   str('"', kind, '"'));
    }
    if (by == 0.0 || by == 1.0) return;
    Json scaling = {{"rope_type", kind}, {"factor", by}};
    if (kind == "yarn") set_yarn(by, scaling);
    json_["rope_scaling"] = std::move(scaling);
  }

  void set_yarn(double factor, Json& scaling) {
    if (const auto positions = file_.integer(named("rope.scaling.original_context_length"))) {
      scaling["original_max_position_embeddings"] = *positions;
    }
    for (const auto& [key, of_config] :
         std::array<KeyName, 2>{{{"rope.scaling.yarn_beta_fast", "beta_fast"},
                                 {"rope.scaling.yarn_beta_slow", "beta_slow"}}}) {
      if (const auto value = file_.real(named(key))) scaling[of_config] = *value;
    }
    const double own = file_.real(named("rope.scaling.attn_factor")).value_or(1.0);
    // The format multiplies what config.json has as a whole [Peng et al. 2023, eq. 22].
    if (own != 1.0) scaling["attention_factor"] = own * (0.1 * std::log(factor) + 1.0);
  }

  void add_others() {
    static_cast<void>(named("vocab_size"));  // the embedding says it
    for (const auto& [key, value] : file_.values()) {
      if (!key.starts_with(architecture_ + ".") || known_.contains(key)) continue;
      const std::string text = shown(value);
      const Json own = parse_json(text);
      json_[key] = own.is_number() || own.is_boolean() ? own : Json(text);
    }
  }

  const GgufFile& file_;
  std::string architecture_;
  std::set<std::string> known_;
  Json json_;
};

}  // namespace

Json gguf_config(const GgufFile& file) { return ConfigOfGguf(file).read(); }

void add_rotary_factors(const GgufFile& file, std::span<const float> factors, Json& config) {
  // Every published model has these; the format keeps the factors alone.
  constexpr double kLow = 1.0, kHigh = 4.0, kPositions = 8192.0;
  const double base = config.value("rope_theta", 10000.0);
  const double factor = factors.empty() ? 0.0 : static_cast<double>(std::ranges::max(factors));
  const auto expected = [&](std::size_t i) {
    const double share = static_cast<double>(i) / static_cast<double>(factors.size());
    const double turns = kPositions / (2.0 * std::numbers::pi * std::pow(base, share));
    const double smooth = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
    return 1.0 / ((1.0 - smooth) / factor + smooth);
  };
  constexpr double kTolerance = 1e-4;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    const double own = static_cast<double>(factors[i]);
    if (std::abs(own - expected(i)) <= kTolerance * expected(i)) continue;
    file.refuse("rope_freqs.weight", str("the rotary factors are not those of Llama 3, at ", i),
                format_exact(expected(i)), format_exact(own));
  }
  if (factor == 1.0 || factors.empty()) return;
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", factor},
                            {"low_freq_factor", kLow},
                            {"high_freq_factor", kHigh},
                            {"original_max_position_embeddings", 8192}};
}

}  // namespace mneme::weights
