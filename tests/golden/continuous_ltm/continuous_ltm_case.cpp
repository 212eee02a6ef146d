#include "tests/golden/continuous_ltm/continuous_ltm_case.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {
namespace {

constexpr std::pair<const char*, const char*> kParameters[] = {
    {"proj_key.weight", "key_weight"},    {"proj_value.weight", "value_weight"},
    {"attn_out.weight", "output_weight"}, {"mask_net.weight", "gate_weight"},
    {"mask_net.bias", "gate_bias"},       {"mu.weight", "mu_weight"},
    {"sigma.weight", "sigma_weight"},     {"mu.bias", "mu_bias"},
    {"sigma.bias", "sigma_bias"},
};

Json settings_of(const SafetensorsFile& file) { return Json::parse(file.metadata_at("settings")); }

// One table of options, filled key by key.
class Options {
 public:
  explicit Options(config::Value& table) : table_(table) {}
  void set(const std::string& key, int64_t number) {
    table_.set(key, {}, config::Value::integer(number, {}, path(key)));
  }
  void set(const std::string& key, double number) {
    table_.set(key, {}, config::Value::real(number, {}, path(key)));
  }
  void set(const std::string& key, bool flag) {
    table_.set(key, {}, config::Value::boolean(flag, {}, path(key)));
  }
  void set(const std::string& key, const std::string& text) {
    table_.set(key, {}, config::Value::string(text, {}, path(key)));
  }
  void set(const std::string& key, const std::vector<double>& numbers) {
    config::Value list = config::Value::array({}, path(key));
    for (const double number : numbers)
      list.items().push_back(config::Value::real(number, {}, path(key)));
    table_.set(key, {}, std::move(list));
  }

 private:
  static std::string path(const std::string& key) { return "memory.tier.0." + key; }
  config::Value& table_;
};

}  // namespace

ContinuousCase::ContinuousCase(const SafetensorsFile& file) {
  const Json s = settings_of(file);
  const auto integer = [&](const char* key) { return s.at(key).get<int64_t>(); };
  const auto real = [&](const char* key) { return s.at(key).get<double>(); };
  lanes = integer("B");
  heads = integer("H");
  head_width = integer("d");
  width = s.value("e", heads * head_width);
  basis = integer("N");
  samples = integer("M");
  bins = integer("D");
  length = integer("L");
  rows = Json::parse(file.metadata_at("segments")).get<std::vector<int64_t>>();
  widths = s.at("sigmas").get<std::vector<double>>();
  tau = real("tau");
  ridge = real("ridge");
  sigma_0 = real("sigma0");
  mu_0 = real("mu0");
  floor = s.value("s2_floor", 1e-4);
  is_sticky = s.at("sticky").get<bool>();
  is_padded = s.value("padding", true);
  has_gate = s.value("gate", true);
  has_bias = s.value("affine_bias", false);
  kl_weight = Json::parse(file.metadata_at("kl_weight_in_loss")).get<double>();
}

config::MemoryConfig ContinuousCase::memory(const std::string& path, bool with_kl_mean) const {
  config::MemoryConfig memory;
  memory.plugins = {MNEME_PLUGIN_DIR};
  memory.tiers.resize(1);
  config::TierConfig& tier = memory.tiers[0];
  tier.plugin = "continuous_ltm";
  tier.eval_options = config::Value::table({}, "memory.tier.0");
  tier.options = config::Value::table({}, "memory.tier.0");
  Options options(tier.options);
  options.set("basis", basis);
  options.set("widths", widths);
  options.set("tau", tau);
  options.set("samples", samples);
  options.set("ridge", ridge);
  options.set("padding", is_padded);
  options.set("gate", has_gate);
  options.set("sticky", is_sticky);
  options.set("bins", bins);
  options.set("within_bin", std::string("left"));
  options.set("variance_floor", floor);
  options.set("sigma_0", sigma_0);
  options.set("lambda_kl", 1.0);
  // The official code has the KL term's part of the means only when its mu_0 is not above 0.
  options.set("kl_mean", with_kl_mean && mu_0 <= 0.0);
  options.set("mu_0", mu_0);
  options.set("reset_tokens", int64_t{0});
  options.set("affine_bias", has_bias);
  options.set("path", path);
  return memory;
}

memory::BackboneInfo ContinuousCase::backbone(at::ScalarType dtype) const {
  memory::BackboneInfo info;
  info.layers = 1;
  info.width = width;
  info.heads = heads;
  info.head_width = head_width;
  info.compute_dtype = dtype;
  info.device = test_device();
  info.train_segment = info.eval_segment = length;
  info.seed = 5;
  return info;
}

ContinuousCase::Limits ContinuousCase::f32_limits() const {
  // A basis as narrow as the floor's standard deviation, .01, or narrower magnifies rounding of mu.
  const bool is_ill_conditioned =
      *std::min_element(widths.begin(), widths.end()) < 0.01 || floor < 1e-4;
  return is_ill_conditioned ? Limits{1e-4, 2e-3, 2e-2} : Limits{1e-4, 2e-4, 5e-4};
}

std::string left_out_of_continuous(const SafetensorsFile& file) {
  const Json s = settings_of(file);
  if (s.contains("n_layer"))
    return str("n_layer = ", s.at("n_layer").dump(),
               ": a whole GPT-2, which golden.gpt2_memory compares");
  return "";
}

at::Tensor draws_of(const at::Tensor& probabilities, const at::Tensor& bins) {
  const at::Tensor p = probabilities.to(at::kDouble);
  const at::Tensor share = p / p.sum(1, true);
  const at::Tensor above = share.cumsum(1);
  const at::Tensor index = bins.to(at::kLong);
  if (share.gather(1, index).le(0).any().item<bool>())
    throw_run("a bin without probability was drawn");
  return (above - 0.5 * share).gather(1, index);
}

std::string continuous_parameter(const std::string& official) {
  for (const auto& [theirs, ours] : kParameters) {
    if (official == theirs) return ours;
  }
  return "";
}

at::Tensor from_official(const std::string& official, const at::Tensor& value) {
  return official == "mask_net.weight" ? value.permute({0, 2, 1}).contiguous() : value;
}

at::Tensor to_official(const std::string& official, const at::Tensor& value) {
  return official == "mask_net.weight" && value.defined() ? value.permute({0, 2, 1}) : value;
}

}  // namespace mneme::golden
