// Low-rank updates of the attention's projections: W + alpha / r B A.
#include <gtest/gtest.h>

#include <map>

#include "host/backbone/model.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/memory_session.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

constexpr double kMergedSame = 1e-12;

config::ModelConfig updated(config::ModelConfig config) {
  config.lora_rank = 2;
  config.lora_alpha = 6.0;
  return config;
}

std::map<std::string, at::Tensor> by_name(const Model& model) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& one : model.parameters()) out.emplace(one.name, one.tensor.detach());
  return out;
}

// Gives B of every update random numbers.
void draw_updates(Model& model) {
  uint64_t seed = 50;
  for (const auto& [name, tensor] : by_name(model)) {
    if (!name.ends_with(".update.b")) continue;
    at::Tensor values = tensor;
    values.copy_(at::rand(tensor.sizes(), at::detail::createCPUGenerator(seed++), tensor.options())
                     .sub(0.5));
  }
  model.weights_changed();
}

// Puts W + factor B A of `from` into a model without updates.
void merge(const Model& from, Model& into, double factor) {
  const auto source = by_name(from);
  for (auto [name, tensor] : by_name(into)) {
    tensor.copy_(source.at(name));
    const std::string update = name.substr(0, name.rfind('.')) + ".update.";
    if (!name.ends_with(".weight") || !source.contains(update + "a")) continue;
    tensor.add_(factor * at::mm(source.at(update + "b"), source.at(update + "a")));
  }
  into.weights_changed();
}

config::MemoryConfig cache_of_five() {
  return memory_of({MNEME_PLUGIN_DIR}, "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 5\n");
}

std::vector<NamedConfig> all_models() {
  std::vector<NamedConfig> out = small_decoders();
  out.push_back({"xl", small_config()});
  return out;
}

TEST(LowRank, BeginAsNothing) {
  for (const NamedConfig& one : all_models()) {
    SCOPED_TRACE(one.name);
    const auto plain = make_model(one.model, small_setup());
    const auto with = make_model(updated(one.model), small_setup());
    const auto ours = by_name(*with);
    EXPECT_EQ(ours.size(), by_name(*plain).size() + 4 * 2);  // two layers, two projections
    for (const auto& [name, tensor] : by_name(*plain)) EXPECT_TRUE(ours.at(name).equal(tensor));
    const Batch batch = batch_of(2, 6, 11);
    EXPECT_TRUE(run_plain(*with, updated(one.model), small_setup(), batch)
                    .nll.equal(run_plain(*plain, one.model, small_setup(), batch).nll));
  }
}

// Over several segments with a cache, whose kept projections must be those of the sums.
TEST(LowRank, EqualMergedWeights) {
  for (const NamedConfig& one : all_models()) {
    SCOPED_TRACE(one.name);
    MemorySession with(updated(one.model), small_setup(), cache_of_five());
    MemorySession merged(one.model, small_setup(), cache_of_five());
    const at::NoGradGuard no_grad;
    for (const bool is_training : {false, true}) {
      for (MemorySession* session : {&with, &merged}) session->model->train(is_training);
      draw_updates(*with.model);
      merge(*with.model, *merged.model, 3.0);
      memory::StackState a = with.fresh(2, memory::Phase::kEvaluation);
      memory::StackState b = merged.fresh(2, memory::Phase::kEvaluation);
      for (uint64_t s = 0; s < 3; ++s) {
        const at::Tensor ids = random_ids(90 + s, 2, 7, 11);
        EXPECT_LT(largest_difference(with.nll(a, ids), merged.nll(b, ids)), kMergedSame) << s;
      }
    }
  }
}

TEST(LowRank, GradientsAgreeWithFiniteDifferences) {
  for (const NamedConfig& one : all_models()) {
    SCOPED_TRACE(one.name);
    const config::ModelConfig config = updated(one.model);
    const auto model = make_model(config, small_setup());
    {
      const at::NoGradGuard no_grad;
      draw_updates(*model);
    }
    const Batch batch = batch_of(2, 5, 11);
    const auto loss = [&] {
      model->weights_changed();
      return run_plain(*model, config, small_setup(), batch).nll.mean();
    };
    for (const Parameter& p : model->parameters()) {
      if (p.name.find("attention") != std::string::npos) {
        expect_gradient(p.name, p.tensor, loss, 3);
      }
    }
  }
}

// Sums are kept while nothing is trained, and made anew when weights change.
TEST(LowRank, FollowTheirWeights) {
  const config::ModelConfig config = updated(small_decoders()[1].model);
  const auto model = make_model(config, small_setup());
  const at::NoGradGuard no_grad;
  const Batch batch = batch_of(1, 5, 11);
  const at::Tensor before = run_plain(*model, config, small_setup(), batch).nll;
  draw_updates(*model);
  EXPECT_FALSE(run_plain(*model, config, small_setup(), batch).nll.equal(before));
}

// A sum without a graph is not used where one is wanted, nor one with a graph after its pass.
TEST(LowRank, AreMadeAnewForAGraphAndAfterIt) {
  const config::ModelConfig config = updated(small_decoders()[1].model);
  const auto model = make_model(config, small_setup());
  const Batch batch = batch_of(1, 5, 11);
  const auto nll = [&] { return run_plain(*model, config, small_setup(), batch).nll; };
  const at::Tensor update = by_name(*model).at("layers.0.attention.qkv.update.b");
  at::Tensor before;
  {
    const at::NoGradGuard no_grad;
    draw_updates(*model);
    before = nll();
  }
  const at::Tensor loss = nll();
  EXPECT_LT(largest_difference(loss.detach(), before), 1e-12);  // without a graph by the kernel
  loss.sum().backward();
  for (const Parameter& one : model->parameters()) {
    if (!is_low_rank_update(one.name)) continue;
    EXPECT_TRUE(one.tensor.grad().defined()) << one.name;
  }
  {
    const at::NoGradGuard no_grad;
    at::Tensor values = update;
    values.mul_(2.0);
    model->weights_changed();
    EXPECT_FALSE(nll().equal(before));
    values.div_(2.0);
    model->weights_changed();
    EXPECT_TRUE(nll().equal(before));
  }
}

}  // namespace
}  // namespace mneme::backbone
