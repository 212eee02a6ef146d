#include "bench/compressive/plugin_compression.hpp"

#include <map>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

config::MemoryConfig manifest(const CompressionSizes& s) {
  const std::string text = str(
      "[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\"]\n[[memory.tier]]\nplugin = \"compressive\"",
      "\nrows = ", s.segment, "\ncompressed_rows = ", s.segment, "\nrate = ", s.rate,
      "\n[model]\nlayers = 1\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n");
  return config::parse_experiment_text(text, "compression_bench.toml", "/").memory;
}

memory::BackboneInfo backbone(const CompressionSizes& s) {
  memory::BackboneInfo info;
  info.layers = 1;
  info.width = s.width;
  info.heads = s.heads;
  info.head_width = s.head_width();
  info.position = "relative";
  info.compute_dtype = s.dtype;
  info.train_segment = info.eval_segment = s.segment;
  return info;
}

memory::Rows rows_of(const at::Tensor& hidden) {
  memory::Rows rows;
  rows.count = hidden.size(1);
  rows.hidden = hidden;
  return rows;
}

}  // namespace

PluginCompression::PluginCompression(const CompressionSizes& sizes,
                                     const CompressionWeights& weights, const CompressionInputs& in)
    : sizes_(sizes),
      driver_(manifest(sizes), backbone(sizes), loader_, memory::Phase::kTraining, sizes.lanes),
      layer_({in.query, in.key, in.value, {}, {}, {}}, sizes.heads) {
  const at::NoGradGuard no_grad;
  for (const memory::TierParameter& p : driver_.stack().parameters()) {
    if (p.name.ends_with(".weight")) weight_ = p.tensor;
    if (p.name.ends_with(".bias")) bias_ = p.tensor;
  }
  if (!weight_.defined() || !bias_.defined() || driver_.stack().parameters().size() != 2)
    throw_run("compressive declares other parameters than weight and bias");
  weight_.copy_(weights.weight.transpose(1, 2));
  bias_.copy_(weights.bias);
  memory::LocalAttention local;
  local.q = in.q;
  driver_.begin({.length = sizes.segment});
  driver_.hooks().absorb_rows(0, 0, rows_of(in.old), in.old, local, layer_);
  driver_.commit();
}

Compressed PluginCompression::step(const CompressionInputs& in, bool wants_rows) {
  std::map<std::string, at::Tensor> probes;
  memory::SegmentInput input{.length = sizes_.segment};
  if (wants_rows) {
    input.wanted_probes = {"memory.compressed"};
    input.probes = &probes;
  }
  driver_.begin(input);
  const memory::LayerContext context = driver_.hooks().context(0, in.hidden, layer_);
  memory::LocalAttention local;
  local.q = in.q;
  local.context_k = {in.old_k};
  local.context_v = {in.old_v};
  driver_.hooks().absorb_rows(0, 0, rows_of(in.hidden), in.hidden, local, layer_);
  Compressed out;
  out.loss = driver_.hooks().total_loss();
  for (const auto& [name, value] : probes) out.rows = value;
  return out;
}

}  // namespace mneme::bench
