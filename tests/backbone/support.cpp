#include "tests/backbone/support.hpp"

#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

config::ModelConfig small_config() {
  config::ModelConfig c;
  c.layers = 2;
  c.heads = 3;
  c.head_width = 5;
  c.width = 12;
  c.ff = 16;
  c.embedding = 12;
  c.dropout = 0.0;
  c.attention_dropout = 0.0;
  return c;
}

std::vector<NamedConfig> small_decoders() {
  config::ModelConfig c = small_config();
  c.norm = config::Norm::kPre;
  c.embedding_scale = config::EmbeddingScale::kNone;
  c.init = config::Init::kArticle;
  c.final_norm = true;
  c.softmax_bias = false;
  config::ModelConfig gpt2 = c;
  gpt2.backbone = config::Backbone::kGpt2;
  gpt2.position = config::PositionScheme::kLearned;
  gpt2.feed_forward = config::FeedForward::kGeluTanh;
  gpt2.qkv_bias = gpt2.output_bias = gpt2.scale_by_layer = true;
  config::ModelConfig llama = c;
  llama.backbone = config::Backbone::kDecoder;
  llama.position = config::PositionScheme::kRotary;
  llama.rotary.base = 20.0;
  llama.heads = 4;
  llama.kv_heads = 2;
  llama.head_width = 6;
  llama.norm_kind = config::NormKind::kRms;
  llama.feed_forward = config::FeedForward::kSwiglu;
  llama.ff_bias = false;
  config::ModelConfig qwen2 = llama;
  qwen2.qkv_bias = true;
  config::ModelConfig qwen3 = llama;
  qwen3.qk_norm = true;
  qwen3.kv_heads = 1;
  qwen3.feed_forward = config::FeedForward::kRelu2;  // no Qwen has these two
  qwen3.value_residual = true;
  return {{"gpt2", gpt2}, {"llama", llama}, {"qwen2", qwen2}, {"qwen3", qwen3}};
}

NamedConfig small_gemma() {
  config::ModelConfig c = small_decoders().at(1).model;
  c.norm = config::Norm::kSandwich;
  c.norm_unit_offset = c.qk_norm = true;
  c.feed_forward = config::FeedForward::kGeglu;
  c.embedding_scale = config::EmbeddingScale::kSqrt;
  c.score_width = 5;
  c.attention_softcap = 1.5;
  c.logit_softcap = 2.0;
  c.window = {3, 0};
  c.rotary.local_base = 7.0;
  return {"gemma", c};
}

ModelSetup small_setup() {
  ModelSetup s;
  s.vocabulary = 11;
  s.train_segment = s.eval_segment = 6;
  s.dtype = at::kDouble;
  s.seed = 3;
  return s;
}

Batch batch_of(int64_t lanes, int64_t tokens, int64_t vocabulary, uint64_t seed) {
  const at::Tensor ids = random_ids(seed, lanes, tokens + 1, vocabulary);
  return {ids.narrow(1, 0, tokens).contiguous(), ids.narrow(1, 1, tokens).contiguous(), {}};
}

Output run_plain(Model& model, const config::ModelConfig& config, const ModelSetup& setup,
                 const Batch& batch, const ForwardOptions& options) {
  plugin::PluginLoader loader = memory::make_loader();
  memory::Stack stack(config::MemoryConfig{}, backbone_info(config, setup), loader);
  memory::StackState state = stack.new_state(memory::Phase::kTraining, batch.input.size(0));
  eval::SegmentOptions with;
  with.forward = options;
  return eval::run_segment(model, stack, state, batch, std::move(with));
}

std::map<std::string, at::Tensor> results_of(const config::ModelConfig& config, bool recomputes,
                                             bool is_bf16) {
  ModelSetup setup = small_setup();
  setup.recomputes = recomputes;
  if (is_bf16) {
    setup.dtype = at::kFloat;
    setup.bf16_autocast = true;
  }
  const auto model = make_model(config, setup);
  model->train(true);
  ForwardOptions::Tap tap;
  const at::Tensor first = run_plain(*model, config, setup, batch_of(2, 6, 11, 1)).nll;
  const at::Tensor second =
      run_plain(*model, config, setup, batch_of(2, 6, 11, 2), {.tap = &tap}).nll;
  at::Tensor loss = first.mean() + second.mean();
  loss.backward();
  std::map<std::string, at::Tensor> out{{"loss", loss.detach()}};
  for (std::size_t l = 0; l < tap.layer_out.size(); ++l) {
    out.emplace("attention of layer " + std::to_string(l), tap.attention_out[l]);
    out.emplace("layer " + std::to_string(l), tap.layer_out[l]);
  }
  for (const Parameter& p : model->parameters()) {
    if (p.tensor.grad().defined()) out.emplace(p.name, p.tensor.grad());
  }
  model->train(false);
  const at::NoGradGuard no_grad;
  out.emplace("evaluation", run_plain(*model, config, setup, batch_of(2, 6, 11, 3)).nll);
  return out;
}

at::Tensor random_tensor(uint64_t seed, at::IntArrayRef shape) {
  Random random(seed, {"test tensor"});
  at::Tensor out = at::empty(shape, at::kDouble);
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<double>()[i] = random.normal();
  return out;
}

void expect_gradient(const std::string& name, at::Tensor input,
                     const std::function<at::Tensor()>& loss, int samples) {
  constexpr double kStep = 1e-5;
  input.mutable_grad().reset();
  loss().backward();
  ASSERT_TRUE(input.grad().defined()) << name;
  const at::Tensor grad = input.grad().contiguous().view(-1).clone();
  Random random(17, {"places"});
  const at::NoGradGuard no_grad;
  for (int s = 0; s < samples; ++s) {
    const int64_t place = random.between(0, input.numel() - 1);
    double* value = input.mutable_data_ptr<double>() + place;
    const double before = *value;
    *value = before + kStep;
    const double high = loss().item<double>();
    *value = before - kStep;
    const double low = loss().item<double>();
    *value = before;
    const double expected = (high - low) / (2.0 * kStep);
    EXPECT_NEAR(grad[place].item<double>(), expected, 1e-7 * (1.0 + std::abs(expected)))
        << name << " at element " << place;
  }
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  EXPECT_EQ(a.sizes(), b.sizes());
  const at::Tensor same = a.to(at::kDouble).eq(b.to(at::kDouble));
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().masked_fill(same, 0.0).max().item<double>();
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace mneme::backbone
