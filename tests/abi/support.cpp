#include "tests/abi/support.hpp"

#include "host/base/random.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

plugin::PluginLoader& test_loader() {
  static plugin::PluginLoader loader = memory::make_loader();
  return loader;
}

BackboneInfo test_backbone(int64_t bptt_segments) {
  BackboneInfo info;
  info.layers = 2;
  info.width = kWidth;
  info.heads = kHeads;
  info.head_width = kHeadWidth;
  info.compute_dtype = at::kDouble;
  info.train_segment = 5;
  info.eval_segment = 5;
  info.bptt_segments = bptt_segments;
  info.seed = 11;
  return info;
}

config::MemoryConfig manifest_text(const std::string& tiers) {
  const std::string text = "[memory]\nplugins = [\"" MNEME_TEST_PLUGIN_DIR "\"]\n" + tiers +
                           "\n[model]\nlayers = 2\nwidth = 6\nheads = 2\nhead_width = "
                           "4\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n";
  return config::parse_experiment_text(text, "test.toml", "/").memory;
}

config::MemoryConfig manifest(const std::string& name, const std::string& options) {
  return manifest_text("[[memory.tier]]\nplugin = \"test_" + name + "\"\n" + options);
}

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor out = torch::empty(shape, at::kDouble);
  Random draws(seed, {"test"});
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<double>()[i] = draws.normal();
  return out;
}

PlainLayer test_layer(uint64_t seed) {
  const auto weight = [&](int64_t rows, int64_t columns, uint64_t part) {
    return (0.6 * random({rows, columns}, seed * 16 + part)).requires_grad_(true);
  };
  const int64_t inner = kHeads * kHeadWidth;
  return PlainLayer({weight(inner, kWidth, 0),
                     weight(inner, kWidth, 1),
                     weight(inner, kWidth, 2),
                     weight(kWidth, inner, 3),
                     {},
                     {}},
                    kHeads);
}

LayerPass pass_layer(HookDriver& driver, PlainLayer& layer, const at::Tensor& x, int64_t index) {
  SegmentHooks& hooks = driver.hooks();
  hooks.absorb_before(index, x, layer);
  const LayerContext context = hooks.context(index, x, layer);
  LayerPass pass;
  LocalAttention& local = pass.local;
  local.q = layer.project(Projector::kQuery, x, true);
  local.k = layer.project(Projector::kKey, x, true);
  local.v = layer.project(Projector::kValue, x, true);
  AttentionCall call;
  call.q = local.q;
  call.k = local.k;
  call.v = local.v;
  const AttentionResult result = layer.attention(call);
  local.z = result.z;
  local.lse = result.lse;
  pass.merged = hooks.read_heads(index, local, layer);
  pass.projected =
      hooks.read_out(index, layer.project(Projector::kOutput, pass.merged, true), local, layer);
  hooks.absorb_after(index, x, local, layer);
  return pass;
}

at::Tensor step(Stack& stack, StackState& state, PlainLayer& layer, const at::Tensor& x) {
  SegmentHooks hooks(stack, state, {.length = x.size(1)});
  hooks.absorb_before(0, x, layer);
  const LayerContext context = hooks.context(0, x, layer);
  std::vector<at::Tensor> seen = {torch::zeros({1}, at::kDouble)};
  for (const ContextBlock& block : context.blocks) {
    const at::Tensor rows =
        block.rows.valid.defined()
            ? block.rows.hidden.masked_fill(block.rows.valid.logical_not().unsqueeze(-1), 0)
            : block.rows.hidden;
    seen.push_back(rows.sum({1}).flatten());
  }
  LocalAttention local;
  local.q = local.k = local.v = local.z = layer.project(Projector::kKey, x, true);
  local.lse = torch::zeros({x.size(0), kHeads, x.size(1)}, at::kDouble);
  const at::Tensor projected = hooks.read_out(0, x, local, layer);
  hooks.absorb_after(0, x, local, layer);
  hooks.finish(x, {x, x}, {}, {});
  hooks.commit();
  seen.push_back(projected.flatten());
  return at::cat(seen).detach();
}

}  // namespace mneme::memory
