#include "bench/evaluation/layer_stack.hpp"

#include "host/backbone/model.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

std::unique_ptr<run::Runtime> make_runtime(const StackSizes& s) {
  const std::string text =
      str("[model]\nlayers = ", s.layers, "\nheads = ", s.heads, "\nhead_width = ", s.head_width,
          "\nwidth = ", s.width, "\nff = ", s.ff, "\ndropout = 0.0\nposition = \"", s.position,
          "\"\nsame_length = ", s.same_length ? "true" : "false",
          "\n[data]\ntask = \"motif\"\nalphabet = ", kVocabulary,
          "\n[train]\nsteps = 1\nlanes = ", s.lanes, "\nsegment = ", s.segment,
          "\n[eval]\nlanes = ", s.lanes, "\nsegment = ", s.segment, "\n[memory]\nplugins = [\"",
          MNEME_PLUGIN_DIR, "\"]\n", s.memory);
  auto runtime = std::make_unique<run::Runtime>(config::parse_experiment_text(text, "bench.toml"),
                                                run::RuntimeOptions{});
  runtime->model().train(s.trains);
  if (s.same_length) runtime->model().set_context_rows(s.rows);
  return runtime;
}

}  // namespace

std::string cache_of(int64_t rows) {
  return str("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", rows, "\n");
}

LayerStack::LayerStack(const StackSizes& sizes)
    : sizes_(sizes),
      runtime_(make_runtime(sizes)),
      state_(runtime_->stack().new_state(
          sizes.trains ? memory::Phase::kTraining : memory::Phase::kEvaluation, sizes.lanes)),
      to_loss_(at::randn({sizes.lanes, sizes.segment, sizes.width})) {
  for (int64_t rows = 0; rows <= sizes.rows; rows += sizes.segment) step();
}

void LayerStack::step() {
  const at::AutoGradMode grad(sizes_.trains);
  memory::SegmentInput input;
  input.length = sizes_.segment;
  memory::SegmentHooks hooks(runtime_->stack(), state_, input);
  backbone::Batch batch;
  batch.input = at::randint(kVocabulary, {sizes_.lanes, sizes_.segment}, at::kLong);
  const at::Tensor top = runtime_->model().forward(batch, hooks).top;
  if (sizes_.trains) {
    at::Tensor loss = (top * to_loss_).sum();
    if (const at::Tensor others = hooks.total_loss(); others.defined()) loss = loss + others;
    loss.backward();
    for (const optim::TrainableParameter& p : runtime_->parameters()) {
      p.tensor.mutable_grad().reset();
    }
  }
  hooks.commit();
}

}  // namespace mneme::bench
