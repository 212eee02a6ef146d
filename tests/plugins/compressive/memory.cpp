#include "tests/plugins/compressive/memory.hpp"

#include "host/base/text.hpp"

namespace compressive_test {

std::string compressive(const std::string& options) {
  return tier_test::tier("compressive", options);
}

ModelConfig model_config() {
  ModelConfig config = mneme::backbone::small_config();
  config.init = mneme::config::Init::kArticle;
  return config;
}

MemorySession session(const std::string& tiers, const ModelConfig& config,
                      const ModelSetup& setup) {
  return tier_test::session(tiers, config, setup);
}

Held held(const StackState& state, const std::string& queue, int64_t layer, int64_t tier) {
  return tier_test::held_at(state, mneme::str(layer, ".", queue), tier);
}

}  // namespace compressive_test
