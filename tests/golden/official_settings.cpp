#include "tests/golden/official_settings.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {

Json setting(const SafetensorsFile& file, const std::string& key) {
  return Json::parse(file.metadata_at(key));
}

std::string left_out_training(const SafetensorsFile& file) {
  const auto value = [&](const char* key) {
    return file.metadata().contains(key) ? setting(file, key).get<double>() : 0.0;
  };
  if (value("ext_len") > 0)
    return str("ext_len = ", value("ext_len"),
               ": recomputed context is not offered, and the official code caches it with swapped "
               "lengths");
  if (value("sample_softmax") > 0)
    return str("sample_softmax = ", value("sample_softmax"), ": sampled losses are not offered");
  if (value("dropout") > 0 || value("dropatt") > 0)
    return "dropout > 0: its random numbers cannot be reproduced";
  return "";
}

std::string left_out_setting(const SafetensorsFile& file) {
  if (file.metadata().contains("attn_type") && setting(file, "attn_type") != 0)
    return str("attn_type = ", file.metadata_at("attn_type"),
               ": only the official default attention is offered");
  return left_out_training(file);
}

config::ModelConfig official_model(const SafetensorsFile& file) {
  config::ModelConfig c;
  c.layers = setting(file, "n_layer");
  c.heads = setting(file, "n_head");
  c.head_width = setting(file, "d_head");
  c.width = setting(file, "d_model");
  c.ff = setting(file, "d_inner");
  const Json embedding = setting(file, "d_embed");
  c.embedding = embedding.is_null() ? c.width : embedding.get<int64_t>();
  c.dropout = c.attention_dropout = 0.0;
  c.attention_kernel = test_attention();
  c.norm = setting(file, "pre_lnorm").get<bool>() ? config::Norm::kPre : config::Norm::kPost;
  c.tie_embedding = setting(file, "tie_weight");
  c.clamp_distance = std::max<int64_t>(0, setting(file, "clamp_len"));
  c.same_length = setting(file, "same_length");
  config::AdaptiveConfig adaptive;
  adaptive.cutoffs = setting(file, "cutoffs").get<std::vector<int64_t>>();
  adaptive.div = setting(file, "div_val");
  adaptive.embedding = c.embedding;
  for (const Json& tied : setting(file, "tie_projs")) {
    if (adaptive.tie_projection.size() <= adaptive.cutoffs.size()) {
      adaptive.tie_projection.push_back(tied.get<bool>());
    }
  }
  c.adaptive = adaptive;
  return c;
}

config::MemoryConfig segment_cache(int64_t rows) {
  config::MemoryConfig memory;
  if (rows == 0) return memory;
  memory.plugins = {MNEME_PLUGIN_DIR};
  memory.tiers.resize(1);
  config::TierConfig& tier = memory.tiers[0];
  tier.plugin = "xl_cache";
  tier.options = config::Value::table({}, "memory.tier.0");
  tier.options.set("rows", {}, config::Value::integer(rows, {}, "memory.tier.0.rows"));
  tier.eval_options = config::Value::table({}, "memory.tier.0");
  return memory;
}

}  // namespace mneme::golden
