#include "host/backbone/model.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;

std::map<std::string, at::Tensor> weights_of(const Model& model) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& p : model.parameters()) out[p.name] = p.tensor.detach().clone();
  return out;
}

TEST(Model, InitialWeightsDependOnSeedAndNameAlone) {
  const auto first = weights_of(*make_model(small_config(), small_setup()));
  // More layers, other segments and vocabulary: the parameters that stay keep their values.
  config::ModelConfig c = small_config();
  c.layers = 4;
  ModelSetup s = small_setup();
  s.train_segment = 9;
  const auto more = weights_of(*make_model(c, s));
  for (const auto& [name, tensor] : first) EXPECT_TRUE(tensor.equal(more.at(name))) << name;
  s.seed = 4;
  EXPECT_FALSE(
      weights_of(*make_model(c, s)).at("embedding.0.weight").equal(first.at("embedding.0.weight")));
}

TEST(Model, OfficialInitialisationHasItsMoments) {
  config::ModelConfig c = small_config();
  c.width = c.embedding = 64;
  c.ff = 128;
  c.adaptive = config::AdaptiveConfig{{30}, 2, 64, {}};
  ModelSetup s = small_setup();
  s.vocabulary = 200;
  for (const auto& [name, t] : weights_of(*make_model(c, s))) {
    if (t.numel() < 500) continue;
    const double deviation = name.ends_with("projection") ? 0.01 : 0.02;
    EXPECT_NEAR(t.std().item<double>(), deviation, 0.15 * deviation) << name;
    EXPECT_NEAR(t.mean().item<double>(), 0.0, 0.15 * deviation) << name;
  }
  const auto w = weights_of(*make_model(c, s));
  EXPECT_NEAR(w.at("layers.0.ff.norm.weight").mean().item<double>(), 1.0, 0.01);
  EXPECT_EQ(w.at("layers.0.ff.norm.bias").abs().sum().item<double>(), 0.0);
  EXPECT_EQ(w.at("layers.1.ff.in.bias").abs().sum().item<double>(), 0.0);
}

TEST(Model, ArticleInitialisationHasItsMoments) {
  config::ModelConfig c = small_config();
  c.init = config::Init::kArticle;
  c.untie_position_bias = true;
  c.width = c.embedding = 64;
  c.heads = 8;
  c.head_width = 64;
  const auto w = weights_of(*make_model(c, small_setup()));
  EXPECT_NEAR(w.at("layers.1.attention.content_bias").std().item<double>(), 1.0, 0.15);
  EXPECT_FALSE(w.contains("attention.content_bias"));
  const at::Tensor& qkv = w.at("layers.0.attention.qkv.weight");
  EXPECT_LE(qkv.abs().max().item<double>(), 1.0 / 8.0);
  EXPECT_NEAR(qkv.std().item<double>(), 1.0 / 8.0 / std::sqrt(3.0), 0.005);
  EXPECT_NEAR(w.at("embedding.0.weight").std().item<double>(), 1.0, 0.1);
  EXPECT_TRUE(w.at("layers.0.ff.norm.weight").eq(1.0).all().item<bool>());
}

TEST(Model, NormsAndBiasesDoNotDecay) {
  const auto model = make_model(small_config(), small_setup());
  for (const Parameter& p : model->parameters()) {
    const bool is_flat = p.tensor.dim() == 1 || p.name.ends_with("_bias");
    EXPECT_EQ(p.decays, !is_flat) << p.name;
    EXPECT_TRUE(p.tensor.is_leaf() && p.tensor.requires_grad()) << p.name;
  }
}

TEST(Model, EverySchemeAndNormRunsAndHasGradients) {
  for (const PositionScheme scheme : {PositionScheme::kRelative, PositionScheme::kAlibi,
                                      PositionScheme::kLearned, PositionScheme::kNone}) {
    for (const config::Norm norm : {config::Norm::kPost, config::Norm::kPre}) {
      config::ModelConfig c = small_config();
      c.position = scheme;
      c.norm = norm;
      const auto model = make_model(c, small_setup());
      const Output out = run_plain(*model, c, small_setup(), batch_of(2, 6, 11));
      EXPECT_EQ(out.nll.sizes(), at::IntArrayRef({2, 6}));
      out.nll.mean().backward();
      for (const Parameter& p : model->parameters()) {
        ASSERT_TRUE(p.tensor.grad().defined()) << p.name;
        EXPECT_TRUE(p.tensor.grad().isfinite().all().item<bool>()) << p.name;
      }
    }
  }
}

TEST(Model, GradientsAgreeWithFiniteDifferences) {
  for (const config::Norm norm : {config::Norm::kPost, config::Norm::kPre}) {
    config::ModelConfig c = small_config();
    c.norm = norm;
    c.init = config::Init::kArticle;
    c.tie_embedding = false;
    const auto model = make_model(c, small_setup());
    const Batch batch = batch_of(2, 5, 11);
    const auto loss = [&] {
      model->weights_changed();  // differences are taken without gradients, where tables are kept
      return run_plain(*model, c, small_setup(), batch).nll.mean();
    };
    for (const Parameter& p : model->parameters()) expect_gradient(p.name, p.tensor, loss, 2);
  }
}

TEST(Model, GradientsOfDecodersAgreeWithFiniteDifferences) {
  std::vector<NamedConfig> decoders = small_decoders();
  decoders.push_back(small_gemma());
  for (const NamedConfig& one : decoders) {
    SCOPED_TRACE(one.name);
    config::ModelConfig c = one.model;
    c.tie_embedding = c.scale_by_layer || c.logit_softcap > 0.0;
    const auto model = make_model(c, small_setup());
    const Batch batch = batch_of(2, 5, 11);
    const auto loss = [&] { return run_plain(*model, c, small_setup(), batch).nll.mean(); };
    for (const Parameter& p : model->parameters()) expect_gradient(p.name, p.tensor, loss, 2);
  }
}

TEST(Model, Gpt2InitialisationHasItsMoments) {
  config::ModelConfig c = small_decoders()[1].model;
  c.init = config::Init::kGpt2;
  c.layers = 8;
  c.width = c.embedding = 96;
  c.qkv_bias = c.output_bias = true;
  const auto model = make_model(c, small_setup());
  const auto spread = [&](const std::string& name) {
    for (const Parameter& p : model->parameters()) {
      if (p.name == name) return p.tensor.pow(2).mean().sqrt().item<double>();
    }
    ADD_FAILURE() << name;
    return 0.0;
  };
  EXPECT_NEAR(spread("layers.0.attention.qkv.weight"), 0.02, 1e-3);
  EXPECT_NEAR(spread("layers.3.attention.output.weight"), 0.02 / 4.0, 3e-4);
  EXPECT_NEAR(spread("layers.3.ff.out.weight"), 0.02 / 4.0, 3e-4);
  EXPECT_EQ(spread("layers.0.attention.qkv.bias"), 0.0);
  EXPECT_EQ(spread("layers.0.attention.norm.weight"), 1.0);
  EXPECT_EQ(spread("final_norm.weight"), 1.0);
}

TEST(Model, TokensDoNotSeeTheFuture) {
  const auto model = make_model(small_config(), small_setup());
  Batch batch = batch_of(2, 6, 11);
  const at::Tensor before = run_plain(*model, small_config(), small_setup(), batch).nll.detach();
  batch.input = batch.input.clone();
  batch.input.select(1, 4).add_(1).remainder_(11);
  const at::Tensor after = run_plain(*model, small_config(), small_setup(), batch).nll.detach();
  EXPECT_TRUE(after.narrow(1, 0, 4).equal(before.narrow(1, 0, 4)));
  EXPECT_FALSE(after.narrow(1, 4, 2).equal(before.narrow(1, 4, 2)));
}

TEST(Model, LaneEqualsItselfAlone) {
  const auto model = make_model(small_config(), small_setup());
  const Batch both = batch_of(3, 6, 11);
  const at::Tensor nll = run_plain(*model, small_config(), small_setup(), both).nll;
  const Batch alone{both.input.narrow(0, 1, 1), both.target.narrow(0, 1, 1), {}};
  EXPECT_LT(largest_difference(run_plain(*model, small_config(), small_setup(), alone).nll,
                               nll.narrow(0, 1, 1)),
            1e-13);
}

TEST(Model, PaddingChangesNothingBeforeIt) {
  const auto model = make_model(small_config(), small_setup());
  Batch batch = batch_of(2, 6, 11);
  const at::Tensor full = run_plain(*model, small_config(), small_setup(), batch).nll.detach();
  batch.valid_count = {6, 4};
  batch.target = batch.target.clone();
  batch.target[1].narrow(0, 4, 2).fill_(-1);
  const Output out = run_plain(*model, small_config(), small_setup(), batch);
  EXPECT_LT(largest_difference(out.nll[0], full[0]), 1e-13);
  EXPECT_LT(largest_difference(out.nll[1].narrow(0, 0, 4), full[1].narrow(0, 0, 4)), 1e-13);
  EXPECT_EQ(out.nll[1].narrow(0, 4, 2).abs().sum().item<double>(), 0.0);
  out.nll.sum().backward();
  for (const Parameter& p : model->parameters())
    EXPECT_TRUE(p.tensor.grad().isfinite().all().item<bool>()) << p.name;
}

TEST(Model, SegmentOfOneTokenAndOddHeadWidthWork) {
  config::ModelConfig c = small_config();
  c.head_width = 41;
  const auto model = make_model(c, small_setup());
  const Output one = run_plain(*model, c, small_setup(), batch_of(2, 1, 11));
  EXPECT_EQ(one.nll.sizes(), at::IntArrayRef({2, 1}));
  one.nll.sum().backward();
  const Batch batch = batch_of(2, 6, 11);
  const Batch first{batch.input.narrow(1, 0, 1), batch.target.narrow(1, 0, 1), {}};
  EXPECT_LT(largest_difference(run_plain(*model, c, small_setup(), batch).nll.narrow(1, 0, 1),
                               run_plain(*model, c, small_setup(), first).nll),
            1e-13);
}

TEST(Model, CorrectIsTheArgMax) {
  config::ModelConfig c = small_config();
  c.init = config::Init::kArticle;
  const auto model = make_model(c, small_setup());
  const Batch batch = batch_of(4, 6, 11);
  ForwardOptions options;
  options.wants_correct = true;
  // The best id's loss is the smallest over all targets.
  at::Tensor best = at::full({4, 6}, 1e9, at::kDouble), best_id = at::zeros({4, 6}, at::kLong);
  for (int64_t id = 0; id < 11; ++id) {
    Batch probe{batch.input, at::full_like(batch.target, id), {}};
    const at::Tensor nll = run_plain(*model, c, small_setup(), probe).nll.detach();
    best_id = at::where(nll < best, id, best_id);
    best = at::minimum(nll, best);
  }
  const Output out = run_plain(*model, c, small_setup(), batch, options);
  EXPECT_TRUE(out.best.equal(best_id));
  EXPECT_TRUE(out.correct.equal(best_id.eq(batch.target)));
  const Batch unasked{batch.input, at::full_like(batch.target, -1), {}};
  EXPECT_TRUE(run_plain(*model, c, small_setup(), unasked, options).best.equal(best_id));
  const Output plain = run_plain(*model, c, small_setup(), batch);
  EXPECT_FALSE(plain.best.defined());
  EXPECT_FALSE(plain.correct.defined());
}

// A lane without tokens, as in an epoch's last batch, does not change the results.
TEST(Model, LanesWithoutTokensChangeNoGradient) {
  const config::ModelConfig c = small_config();
  const auto model = make_model(c, small_setup());
  const auto gradients = [&](const Batch& batch) {
    run_plain(*model, c, small_setup(), batch).nll.sum().backward();
    std::vector<at::Tensor> out;
    for (const Parameter& parameter : model->parameters()) {
      out.push_back(parameter.tensor.grad().clone());
      parameter.tensor.mutable_grad().reset();
    }
    return out;
  };
  Batch batch = batch_of(4, 6, 11);
  const Batch two{batch.input.narrow(0, 0, 2), batch.target.narrow(0, 0, 2), {}};
  batch.input.narrow(0, 2, 2).fill_(0);
  batch.target.narrow(0, 2, 2).fill_(-1);
  batch.valid_count = {6, 6, 0, 0};
  const auto expected = gradients(two);
  const auto got = gradients(batch);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(largest_difference(got[i], expected[i]), 1e-12) << model->parameters()[i].name;
  }
}

TEST(Model, DropoutIsOffInEvaluationAndRepeatableInTraining) {
  config::ModelConfig c = small_config();
  c.dropout = 0.3;
  c.attention_dropout = 0.3;
  const auto model = make_model(c, small_setup());
  config::ModelConfig none = small_config();
  const auto plain = make_model(none, small_setup());
  const Batch batch = batch_of(2, 6, 11);
  const auto loss = [&](Model& m) { return run_plain(m, c, small_setup(), batch).nll.detach(); };
  model->train(false);
  EXPECT_TRUE(loss(*model).equal(loss(*plain)));
  model->train(true);
  EXPECT_EQ(model->noise_position(), 0u);
  const at::Tensor first = loss(*model), second = loss(*model);
  EXPECT_FALSE(first.equal(second));
  EXPECT_EQ(model->noise_position(), 2u);
  model->seek_noise(1);
  EXPECT_TRUE(loss(*model).equal(second));
}

TEST(Model, NoTargetsGiveNoLoss) {
  const auto model = make_model(small_config(), small_setup());
  Batch batch = batch_of(2, 6, 11);
  batch.target = at::Tensor();
  const Output out = run_plain(*model, small_config(), small_setup(), batch);
  EXPECT_FALSE(out.nll.defined());
  EXPECT_EQ(out.top.sizes(), at::IntArrayRef({2, 6, 12}));
}

TEST(Model, TapsSeeEveryLayer) {
  const auto model = make_model(small_config(), small_setup());
  ForwardOptions::Tap tap;
  ForwardOptions options;
  options.tap = &tap;
  const Output out = run_plain(*model, small_config(), small_setup(), batch_of(2, 6, 11), options);
  ASSERT_EQ(tap.layer_out.size(), 2u);
  ASSERT_EQ(tap.attention_out.size(), 2u);
  EXPECT_TRUE(tap.layer_out[1].equal(out.top));
  EXPECT_EQ(tap.embedded.sizes(), at::IntArrayRef({2, 6, 12}));
}

TEST(Model, Bf16ComputesNearF32WithF32Losses) {
  config::ModelConfig c = small_config();
  c.init = config::Init::kArticle;
  ModelSetup s = small_setup();
  s.dtype = at::kFloat;
  const auto exact = make_model(c, s);
  s.bf16_autocast = true;
  const auto low = make_model(c, s);
  EXPECT_EQ(low->info().compute_dtype, at::kBFloat16);
  const Batch batch = batch_of(4, 6, 11);
  const Output out = run_plain(*low, c, s, batch);
  EXPECT_EQ(out.nll.scalar_type(), at::kFloat);
  EXPECT_EQ(out.top.scalar_type(), at::kFloat);
  s.bf16_autocast = false;
  const at::Tensor expected = run_plain(*exact, c, s, batch).nll.detach();
  EXPECT_LT(((out.nll.detach() - expected).norm() / expected.norm()).item<double>(), 0.05);
  out.nll.mean().backward();
  for (const Parameter& p : low->parameters()) {
    EXPECT_EQ(p.tensor.scalar_type(), at::kFloat) << p.name;
    EXPECT_TRUE(p.tensor.grad().isfinite().all().item<bool>()) << p.name;
  }
}

TEST(Model, EvaluationKeepsPositionTablesUntilWeightsChange) {
  const auto model = make_model(small_config(), small_setup());
  const Batch longer = batch_of(2, 6, 11), shorter = batch_of(2, 3, 11);
  const auto loss = [&](const Batch& batch) {
    return run_plain(*model, small_config(), small_setup(), batch).nll.detach();
  };
  model->train(false);
  const at::Tensor expected = loss(shorter);
  {
    const at::NoGradGuard no_grad;
    loss(longer);
    EXPECT_LT(largest_difference(loss(shorter), expected), 1e-13);
    for (const Parameter& p : model->parameters()) {
      if (p.name.ends_with("attention.position.weight")) at::Tensor(p.tensor).mul_(20.0);
    }
    model->weights_changed();
    const at::Tensor changed = loss(shorter);
    EXPECT_GT(largest_difference(changed, expected), 1e-6);
    const at::AutoGradMode grad(true);
    EXPECT_LT(largest_difference(changed, loss(shorter)), 1e-13);
  }
}

TEST(Model, WindowLimitsWhatTokensSee) {
  config::ModelConfig c = small_config();
  c.same_length = true;
  c.layers = 1;
  const auto model = make_model(c, small_setup());
  EXPECT_NE(error_of([&] {
              model->set_context_rows(0);
            }).find("model.same_length: there is no window to keep"),
            std::string::npos);
  Batch batch = batch_of(1, 6, 11);
  EXPECT_NE(error_of([&] {
              run_plain(*model, c, small_setup(), batch);
            }).find("model.same_length: the window is not known"),
            std::string::npos);
  model->set_context_rows(2);
  const at::Tensor before = run_plain(*model, c, small_setup(), batch).nll.detach();
  batch.input = batch.input.clone();
  batch.input.select(1, 0).add_(1).remainder_(11);
  const at::Tensor after = run_plain(*model, c, small_setup(), batch).nll.detach();
  EXPECT_FALSE(after.narrow(1, 0, 2).equal(before.narrow(1, 0, 2)));
  EXPECT_LT(largest_difference(after.narrow(1, 2, 4), before.narrow(1, 2, 4)), 1e-14);
}

// Layers pass on what their windows reach: the last one sees the places 0 .. 2 of the first one's
// output, each of which has seen a place more.
TEST(Model, WindowsOfLayersLimitWhatTokensSee) {
  config::ModelConfig c = small_config();
  const auto changed_by_the_first = [&](std::vector<std::int64_t> window) {
    c.window = std::move(window);
    const auto model = make_model(c, small_setup());
    Batch batch = batch_of(1, 6, 11);
    const at::Tensor before = run_plain(*model, c, small_setup(), batch).nll.detach();
    batch.input = batch.input.clone();
    batch.input.select(1, 0).add_(1).remainder_(11);
    const at::Tensor after = run_plain(*model, c, small_setup(), batch).nll.detach();
    return (after - before).abs().gt(1e-14).sum().item<std::int64_t>();
  };
  EXPECT_EQ(changed_by_the_first({1}), 1);
  EXPECT_EQ(changed_by_the_first({2, 3}), 4);
  EXPECT_EQ(changed_by_the_first({3, 1}), 3);
  EXPECT_EQ(changed_by_the_first({1, 0}), 6);
  EXPECT_EQ(changed_by_the_first({}), 6);
}

TEST(Model, RefusesSettingsThatDoNotGoTogether) {
  const auto refused = [](auto change) {
    config::ModelConfig c = small_config();
    ModelSetup s = small_setup();
    change(c, s);
    return error_of([&] { make_model(c, s); });
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refused([](auto& c, auto&) { c.memory_position = config::MemoryPosition::kFixed; }),
         "model.memory_position: rows have no turn to fix with model.position = \"relative\": "
         "expected position = \"rotary\"");
  expect(refused([](auto& c, auto&) { c.width = c.embedding = 13; }),
         "model.width: expected an even number with position = \"relative\"");
  expect(refused([](auto& c, auto&) {
           c.position = PositionScheme::kNone;
           c.clamp_distance = 4;
         }),
         "model.clamp_distance: there are no distances to clamp with model.position = \"none\"");
  expect(refused([](auto& c, auto&) {
           c.position = PositionScheme::kAlibi;
           c.untie_position_bias = true;
         }),
         "model.untie_position_bias: there are no position biases with model.position = \"alibi\"");
  expect(refused([](auto&, auto& s) { s.vocabulary = 0; }), "data: the vocabulary has 0 ids");
  expect(refused([](auto&, auto& s) { s.bf16_autocast = true; }),
         "train.precision: bf16 needs parameters in f32");
  expect(refused([](auto&, auto& s) { s.dtype = at::kHalf; }),
         "train.precision: parameters in f16");
  expect(refused([](auto& c, auto& s) {
           c.position = PositionScheme::kLearned;
           s.train_segment = s.eval_segment = 0;
         }),
         "model.position = \"learned\": the longest segment is not known");
  expect(
      refused([](auto& c, auto&) {
        c.position = PositionScheme::kLearned;
        c.positions = 5;
      }),
      "train.segment = 6: the segment is longer than the table of learned positions: expected at "
      "most model.positions, 5");
}

TEST(Model, RefusesSegmentsBeyondLearnedPositions) {
  config::ModelConfig c = small_config();
  c.position = PositionScheme::kLearned;
  const auto model = make_model(c, small_setup());
  const std::string message =
      error_of([&] { run_plain(*model, c, small_setup(), batch_of(1, 7, 11)); });
  EXPECT_NE(message.find("model.position = \"learned\": the segment is longer than the learned "
                         "positions: expected at most 6 tokens, got 7"),
            std::string::npos)
      << message;
}

}  // namespace
}  // namespace mneme::backbone
