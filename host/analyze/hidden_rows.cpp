#include "host/analyze/hidden_rows.hpp"

#include <algorithm>

#include "host/base/error.hpp"
#include "host/eval/batch.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {
namespace {

void check_layer(std::int64_t layer, std::int64_t layers) {
  if (layer >= 0 && layer < layers) return;
  throw_usage({.where = "hidden rows",
               .failed = "the model has no such layer",
               .expected = str("0 to ", layers - 1),
               .got = str(layer)});
}

// One segment's inputs of the layer, [valid, D].
at::Tensor run_segment(run::Runtime& runtime, memory::StackState& state,
                       const data::Segment& segment, std::int64_t layer) {
  const backbone::Batch batch =
      eval::make_batch(segment, runtime.model().vocabulary(), runtime.device());
  if (segment.reset[0] != 0) state.reset(segment.reset);
  memory::SegmentInput input;
  input.length = segment.length;
  input.valid_count = batch.valid_count;
  memory::SegmentRun run(runtime.stack(), state, input);
  backbone::ForwardOptions::Tap tap;
  backbone::ForwardOptions forward;
  forward.tap = &tap;
  runtime.model().forward(batch, run, forward);
  run.commit();
  const at::Tensor x =
      layer == 0 ? tap.embedded : tap.layer_out.at(static_cast<std::size_t>(layer - 1));
  return x.select(0, 0).narrow(0, 0, segment.valid[0]).to(at::kCPU, at::kDouble);
}

}  // namespace

at::Tensor hidden_rows(run::Runtime& runtime, data::Split split, std::int64_t layer,
                       std::int64_t count) {
  check_layer(layer, runtime.model().info().layers);
  const at::NoGradGuard no_grad;
  data::StreamOptions options{.lanes = 1, .segment = runtime.experiment().eval.segment};
  options.epochs = runtime.dataset()->is_endless() ? 0 : 1;
  const auto stream = runtime.dataset()->make_stream(split, options);
  runtime.model().train(false);
  backbone::set_context_window(runtime.model(),
                               runtime.stack().context_rows(memory::Phase::kEvaluation));
  memory::StackState state = runtime.stack().new_state(memory::Phase::kEvaluation, 1);
  std::vector<at::Tensor> rows;
  std::int64_t found = 0;
  data::Segment segment;
  while (found < count && stream->next(segment)) {
    rows.push_back(run_segment(runtime, state, segment, layer));
    found += rows.back().size(0);
  }
  if (found < count) {
    throw_usage({.where = str("hidden rows of the ", data::to_word(split), " split"),
                 .failed = "the text is too short",
                 .expected = str("at least ", count, " tokens"),
                 .got = str(found),
                 .hint = "ask for shorter segments or fewer updates"});
  }
  return at::cat(rows).narrow(0, 0, count).contiguous();
}

}  // namespace mneme::analyze
