// The look-ahead memory against the official LaMemo (tests/golden/lamemo).
//
// Every file of the family is read when the test runs; every setting comes from its metadata.
#include <gtest/gtest.h>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/golden/official_run.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {
namespace {

enum Attention { kXl = 0, kLaMemo = 3, kSigned = 31, kOwnContentBias = 32, kFull = 33 };

int64_t attention_of(const SafetensorsFile& file) { return setting(file, "attn_type"); }

std::string left_out(const SafetensorsFile& file) {
  const int64_t type = attention_of(file);
  for (const int64_t known : {kXl, kLaMemo, kSigned, kOwnContentBias, kFull}) {
    if (type == known) return left_out_training(file);
  }
  return str("attn_type = ", type, ": no look-ahead in it, and not studied in the paper");
}

config::ModelConfig model_of(const SafetensorsFile& file) {
  config::ModelConfig model = official_model(file);
  const int64_t type = attention_of(file);
  if (type != kXl && type != kSigned) model.position = config::PositionScheme::kDisentangled;
  return model;
}

config::MemoryConfig memory_of(const SafetensorsFile& file, double epsilon) {
  config::MemoryConfig memory;
  memory.plugins = {MNEME_PLUGIN_DIR};
  memory.tiers.resize(1);
  config::TierConfig& tier = memory.tiers[0];
  tier.plugin = "lamemo";
  tier.options = config::Value::table({}, "memory.tier.0");
  tier.eval_options = config::Value::table({}, "memory.tier.0");
  const auto path = [](const char* key) { return str("memory.tier.0.", key); };
  const auto set = [&](const char* key, bool value) {
    tier.options.set(key, {}, config::Value::boolean(value, {}, path(key)));
  };
  tier.options.set("rows", {}, config::Value::integer(setting(file, "mem_len"), {}, path("rows")));
  tier.options.set("window", {},
                   config::Value::string(file.metadata_at("window"), {}, path("window")));
  tier.options.set("epsilon", {}, config::Value::real(epsilon, {}, path("epsilon")));
  set("interpolation", setting(file, "interpolation"));
  set("lookahead", setting(file, "lookahead"));
  const int64_t type = attention_of(file);
  set("signed_ablation", type == kSigned);
  set("content_bias_ahead", type == kOwnContentBias);
  set("full_mask", type == kFull);
  return memory;
}

class LaMemoRun : public OfficialRun {
 public:
  LaMemoRun(const SafetensorsFile& file, double epsilon, at::ScalarType dtype, memory::Phase phase)
      : OfficialRun(file, model_of(file), memory_of(file, epsilon), dtype, phase),
        looks_ahead_(setting(file, "lookahead")) {}

 private:
  void compare_memory(Comparison& comparison, const std::string& prefix, const Tap& tap,
                      const std::map<std::string, at::Tensor>& probes) override {
    compare(comparison, prefix + "mem_after/emb", saved(state_, "model.embedded"));
    for (int64_t l = 0; l < config_.layers; ++l) {
      const auto name = [&](const char* of) { return str(prefix, of, l); };
      const auto i = static_cast<size_t>(l);
      compare_state(comparison, prefix, l);
      if (file_.contains(name("alpha/"))) {
        compare(comparison, name("alpha/"),
                probes.at(str("0.org.mneme.lamemo.", l, ".memory.alpha")));
      }
      // The memory rows' output of the last layer is not used and not computed.
      if (l + 1 == config_.layers || !file_.contains(name("mem_layer_out/"))) continue;
      ASSERT_LT(i, tap.rider_layer_out.size()) << name("mem_layer_out/");
      compare(comparison, name("mem_attn_out/"), tap.rider_attention_out[i]);
      compare(comparison, name("mem_layer_out/"), tap.rider_layer_out[i]);
    }
  }

  void compare_state(Comparison& comparison, const std::string& prefix, int64_t l) {
    if (!looks_ahead_) {
      compare(comparison, str(prefix, "mem_after/", l), saved(state_, str(l, ".cache")));
      return;
    }
    compare(comparison, str(prefix, "mem_after/context", l), saved(state_, str(l, ".context")));
    compare(comparison, str(prefix, "mem_after/lse", l), saved(state_, str(l, ".lse")));
  }

  // The greedy continuation, one token a segment.
  void finish(Comparison& comparison) override {
    if (phase_ == memory::Phase::kTraining) return;
    for (int64_t s = 0; file_.contains(str("gen", s, "/input")); ++s) {
      const std::string prefix = str("gen", s, "/");
      Tap tap;
      std::map<std::string, at::Tensor> probes;
      const at::Tensor top = forward({ids(prefix + "input"), {}, {}}, tap, probes).top;
      const at::Tensor ours = model_->log_probabilities(top.flatten(0, 1));
      const at::Tensor theirs = at::log_softmax(read(prefix + "logits"), -1);
      comparison.check(prefix + "logits", ours, theirs);
      const std::string next = str("gen", s + 1, "/input");
      if (file_.contains(next)) {
        EXPECT_TRUE(at::equal(ours.argmax(-1, true), ids(next))) << next;
      }
    }
    if (file_.contains("gen_last/mem_after/lse0")) {
      for (int64_t l = 0; l < config_.layers; ++l) compare_state(comparison, "gen_last/", l);
    }
  }

  bool looks_ahead_;
};

Family family(double epsilon, double tolerance) {
  return {"lamemo", left_out,
          [=](const SafetensorsFile&, at::ScalarType dtype) {
            return dtype == at::kDouble ? tolerance : 1e-4;
          },
          [=](const SafetensorsFile& file, at::ScalarType dtype, memory::Phase phase) {
            return std::make_unique<LaMemoRun>(file, epsilon, dtype, phase);
          }};
}

// The released code's epsilon; the independent model has it too.
TEST(GoldenLaMemo, EveryFileAgreesWithTheOfficialCode) { compare_family(family(1e-6, 1e-6)); }

// As recommended: the virtual key, without epsilon.
TEST(GoldenLaMemo, EveryFileAgreesWithoutEpsilon) { compare_family(family(0.0, 1e-5)); }

}  // namespace
}  // namespace mneme::golden
