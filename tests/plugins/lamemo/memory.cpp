#include "tests/plugins/lamemo/memory.hpp"

#include "host/base/text.hpp"

namespace lamemo_test {

std::string lamemo(const std::string& options) { return tier_test::tier("lamemo", options); }

ModelConfig model_config(Norm norm) {
  ModelConfig config = relative_config(norm);
  config.position = mneme::config::PositionScheme::kDisentangled;
  return config;
}

ModelConfig relative_config(Norm norm) {
  ModelConfig config = mneme::backbone::small_config();
  config.layers = 3;
  config.norm = norm;
  config.init = mneme::config::Init::kArticle;
  return config;
}

at::Tensor context_of(const StackState& state, int64_t layer) {
  return tier_test::slot_at(state, mneme::str(layer, ".context"));
}

at::Tensor lse_of(const StackState& state, int64_t layer) {
  return tier_test::slot_at(state, mneme::str(layer, ".lse"));
}

}  // namespace lamemo_test
