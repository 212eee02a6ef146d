#include "host/analyze/memory_analyses.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {

MemoryAnalysis::MemoryAnalysis(const AnalysisOptions& options)
    : attention(options.bins),
      share_by_age(options.stretch),
      share_after_updates(options.first_write, options.updates) {}

std::set<std::string, std::less<>> MemoryAnalysis::wanted_probes() {
  std::set<std::string, std::less<>> all = Trace::wanted_probes();
  all.merge(AlphaByPlace::wanted_probes());
  all.merge(MassByRegion::wanted_probes());
  return all;
}

void MemoryAnalysis::add(const data::TokenSegment& segment, const std::vector<double>& nll,
                         const std::map<std::string, at::Tensor>& probes) {
  losses.add(segment, nll);
  if (gains) gains->begin(segment, nll);
  if (documents) documents->begin(segment);
  alpha.add(probes);
  regions.add(probes);
  trace.follow(segment, probes, [&](const LaneView& view) {
    has_signal = true;
    attention.add(view);
    tokens.add(view);
    share_by_age.add(view);
    share_after_updates.add(view);
    if (gains) gains->add(view);
    if (documents) documents->add(view);
  });
}

namespace {

void check_layer(std::int64_t layer, std::int64_t layers) {
  if (layer >= 0 && layer < layers) return;
  throw_usage({.where = "hidden rows",
               .failed = "the model has no such layer",
               .expected = str("0 to ", layers - 1),
               .got = str(layer)});
}

// One segment's inputs of the layer, [valid, D].
at::Tensor layer_input(run::Runtime& runtime, memory::StackState& state,
                       const data::TokenSegment& segment, std::int64_t layer) {
  backbone::ForwardOptions::Tap tap;
  eval::SegmentOptions with;
  with.forward.tap = &tap;
  eval::run_segment(runtime.model(), runtime.stack(), state, segment, std::move(with));
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
  runtime.model().set_context_rows(runtime.stack().context_rows(memory::Phase::kEvaluation));
  memory::StackState state = runtime.stack().new_state(memory::Phase::kEvaluation, 1);
  std::vector<at::Tensor> rows;
  std::int64_t found = 0;
  data::TokenSegment segment;
  while (found < count && stream->next(segment)) {
    rows.push_back(layer_input(runtime, state, segment, layer));
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

std::string TokenText::of(std::int64_t id) const {
  return vocabulary_ == nullptr ? str(id) : printable(vocabulary_->symbol(id));
}

}  // namespace mneme::analyze
