#include "bench/compressive/whole_step.hpp"

#include "host/base/text.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr int64_t kVocabulary = 256;

std::string tier_of(const CompressionSizes& s, StepMemory memory) {
  if (memory == StepMemory::kXlCache) return str("plugin = \"xl_cache\"\nrows = ", 2 * s.segment);
  const char* loss = memory == StepMemory::kCompressive ? "attention" : "none";
  return str("plugin = \"compressive\"\nrows = ", s.segment, "\ncompressed_rows = ", s.segment,
             "\nrate = ", s.rate, "\nloss = \"", loss, "\"");
}

std::unique_ptr<run::Runtime> make_runtime(const CompressionSizes& s, StepMemory memory) {
  const std::string text = str(
      "[model]\nlayers = 2\nheads = ", s.heads, "\nhead_width = ", s.head_width(),
      "\nwidth = ", s.width, "\nff = ", 4 * s.width, "\ndropout = 0.0\n[data]\ntask = \"motif\"\n",
      "alphabet = ", kVocabulary, "\n[train]\nsteps = 1\nlanes = ", s.lanes,
      "\nsegment = ", s.segment, "\n[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
      "\"]\n[[memory.tier]]\n", tier_of(s, memory), "\n");
  return std::make_unique<run::Runtime>(
      config::parse_experiment_text(text, "compression_bench.toml"), run::RuntimeOptions{});
}

}  // namespace

struct WholeStep::Parts {
  std::unique_ptr<run::Runtime> runtime;
  memory::StackState state;
  backbone::Batch batch;
};

WholeStep::WholeStep(const CompressionSizes& sizes, StepMemory memory)
    : parts_(std::make_unique<Parts>()) {
  parts_->runtime = make_runtime(sizes, memory);
  parts_->runtime->model().train(true);
  parts_->state = parts_->runtime->stack().new_state(memory::Phase::kTraining, sizes.lanes);
  parts_->batch.input = at::randint(kVocabulary, {sizes.lanes, sizes.segment}, at::kLong);
  parts_->batch.target = at::randint(kVocabulary, {sizes.lanes, sizes.segment}, at::kLong);
  const int64_t until_full = 2 + sizes.rate;
  for (int64_t i = 0; i < until_full; ++i) step();
}

WholeStep::~WholeStep() = default;

void WholeStep::step() {
  memory::SegmentInput input;
  input.length = parts_->batch.input.size(1);
  memory::SegmentHooks hooks(parts_->runtime->stack(), parts_->state, input);
  at::Tensor loss = parts_->runtime->model().forward(parts_->batch, hooks).nll.mean();
  const at::Tensor extra = hooks.total_loss();
  if (extra.defined()) loss = loss + extra;
  loss.backward();
  hooks.commit();
}

}  // namespace mneme::bench
