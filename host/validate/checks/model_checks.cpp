// Checks in other models: positions, heads, norms, layers, lengths of segments, precisions.

#include <algorithm>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

// One segment of a run, in training with its gradients; fails where a loss is not finite, and names
// the hook of the run, whose segments all have this watch, that made the first such number.
void expect_finite(Session& session, StackState& state, memory::FiniteWatch& watch,
                   const at::Tensor& ids, const std::string& what, SegmentHow how = {}) {
  how.watch = &watch;
  const SegmentResult result = session.run(state, ids, how);
  if (!result.nll.isfinite().all().item<bool>()) {
    const std::string& first = watch.found();
    throw Failed(str(what, ": a loss is not finite",
                     first.empty() ? "" : "; the first thing that is not finite is ", first));
  }
  if (at::GradMode::is_enabled()) result.loss.backward();
}

// A training and an evaluation of a few segments.
void expect_runs(Session& session, const at::Tensor& ids, const std::string& what) {
  const std::int64_t length = segment_length(session);
  for (const Phase phase : kPhases) {
    const at::AutoGradMode grad(phase == Phase::kTraining);
    StackState state = session.fresh(ids.size(0), phase);
    memory::FiniteWatch watch;
    for (std::int64_t s = 0; s < ids.size(1) / length; ++s) {
      expect_finite(session, state, watch, segment_of(ids, length, s), str(what, ": segment ", s));
    }
  }
}

Outcome position_schemes(const Subject& subject) {
  std::vector<std::string> served, refused;
  for (const config::PositionScheme scheme : kSchemes) {
    const std::string word(config::to_word(scheme));
    std::unique_ptr<Session> session;
    try {
      session = open(subject, setting_with(subject, scheme));
    } catch (const Error& error) {
      refused.push_back(word);
      const std::string text = error.what();
      if (text.find(word) == std::string::npos && text.find("position") == std::string::npos) {
        throw Failed(str("under position = \"", word,
                         "\" it is refused without saying that this is "
                         "why: ",
                         text));
      }
      continue;
    }
    expect_runs(*session, ids_of(subject, *session, kSegments), "position = \"" + word + '"');
    served.push_back(word);
  }
  return {Grade::kPass, str("serves ", join(served, ", "),
                            refused.empty() ? "" : "; refuses " + join(refused, ", "))};
}

Outcome grouped_keys(const Subject& subject) {
  Setting setting = small_setting(subject);
  setting.model.backbone = config::Backbone::kDecoder;
  setting.model.heads = 4;
  setting.model.kv_heads = 2;
  const auto session = open(subject, setting);
  expect_runs(*session, ids_of(subject, *session, kSegments), "4 heads, 2 of keys and values");
  return {};
}

Outcome head_widths(const Subject& subject) {
  for (const auto& [heads, width] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 2}, {5, 6}, {2, 32}, {1, 40}, {3, 66}}) {
    Setting setting = small_setting(subject);
    setting.model.heads = heads;
    setting.model.head_width = width;
    const auto session = open(subject, setting);
    expect_runs(*session, ids_of(subject, *session, 3), str(heads, " heads of width ", width));
  }
  return {};
}

Outcome norms(const Subject& subject) {
  for (const config::Norm norm : {config::Norm::kPre, config::Norm::kPost}) {
    for (const config::NormKind kind : {config::NormKind::kLayer, config::NormKind::kRms}) {
      Setting setting = small_setting(subject);
      if (kind == config::NormKind::kRms) setting.model.backbone = config::Backbone::kDecoder;
      setting.model.norm = norm;
      setting.model.norm_kind = kind;
      const auto session = open(subject, setting);
      expect_runs(*session, ids_of(subject, *session, 3),
                  str("norm = \"", config::to_word(norm), "\", \"", config::to_word(kind), '"'));
    }
  }
  return {};
}

Outcome some_layers(const Subject& subject) {
  Setting setting = small_setting(subject);
  setting.model.layers = 3;
  for (const char* const layers : {"layers = [1]", "layers = [0, 2]"}) {
    setting.tier_keys = layers;
    try {
      const auto session = open(subject, setting);
      expect_runs(*session, ids_of(subject, *session, 3), layers);
    } catch (const Error& error) {
      const std::string text = error.what();
      if (text.find("every layer") == std::string::npos &&
          text.find("`layers`") == std::string::npos)
        throw;
      return {Grade::kPass, "serves all layers only: " + text};
    }
  }
  return {};
}

// Lanes that end early, each with padding behind its last token, and start afresh with the next
// segment.
Outcome padded_lanes(const Subject& subject) {
  const auto session = open(subject);
  const std::int64_t length = segment_length(*session);
  if (length < 2) throw Skipped("segments have one token");
  const at::Tensor ids = ids_of(subject, *session, 2 * kSegments);
  for (const Phase phase : kPhases) {
    const at::AutoGradMode grad(phase == Phase::kTraining);
    StackState state = session->fresh(kLanes, phase);
    memory::FiniteWatch watch;
    for (std::int64_t s = 0; s < 2 * kSegments; ++s) {
      SegmentHow how;
      if (s % 2 == 1) how.valid_count = {length - 1, length, 1};
      if (s % 2 == 0 && s > 0) state.reset({1, 0, 1});
      expect_finite(*session, state, watch, segment_of(ids, length, s),
                    str("segment ", s, ", with padding"), how);
    }
  }
  return {};
}

// A session whose model was made for segments of `length`; throws Skipped where the tier serves
// only shorter ones.
std::unique_ptr<Session> session_for(const Subject& subject, std::int64_t length) {
  Setting setting = small_setting(subject);
  const auto probe = open(subject, setting);
  const std::int64_t longest = probe->stack.longest_segment(Phase::kTraining);
  if (longest != 0 && longest < length)
    throw Skipped(str("the tier serves segments of at most ", longest, " tokens"));
  setting.setup.train_segment = setting.setup.eval_segment = length;
  return open(subject, setting);
}

void run_lengths(Session& session, const Subject& subject,
                 const std::vector<std::int64_t>& lengths) {
  for (const Phase phase : kPhases) {
    const at::AutoGradMode grad(phase == Phase::kTraining);
    StackState state = session.fresh(kLanes, phase);
    memory::FiniteWatch watch;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const at::Tensor ids = random_ids(subject.seed + s, kLanes, lengths[s] + 1, kVocabulary - 1);
      expect_finite(session, state, watch, ids, str("segment ", s, " of ", lengths[s], " tokens"));
      state.cut_graph();
    }
  }
}

Outcome one_token(const Subject& subject) {
  const auto session = session_for(subject, 1);
  run_lengths(*session, subject, std::vector<std::int64_t>(12, 1));
  return {};
}

Outcome changing_lengths(const Subject& subject) {
  const auto session = session_for(subject, 33);
  run_lengths(*session, subject, {7, 1, 8, 3, 2, 17, 1, 33, 5, 32, 6});
  return {};
}

// Segments longer than the memory has rows.
Outcome long_segments(const Subject& subject) {
  constexpr std::int64_t kMost = 400;
  const std::int64_t rows = open(subject)->stack.context_rows(Phase::kTraining);
  if (rows > kMost) {
    throw Skipped(str("the memory has ", rows,
                      " rows: with smaller sizes (--set) segments longer "
                      "than it are tried"));
  }
  const std::int64_t length = rows + 13;
  const auto session = session_for(subject, length);
  run_lengths(*session, subject, {length, length, 3, length});
  return {};
}

Outcome numbers_of_lanes(const Subject& subject) {
  const auto session = open(subject);
  for (const std::int64_t lanes : {1, 2, 7}) {
    expect_runs(*session, ids_of(subject, *session, 3, 0, lanes), str(lanes, " lanes"));
  }
  return {};
}

// The losses of an evaluation with the memory, or with none.
at::Tensor evaluated(const Subject& subject, bool has_memory, at::ScalarType dtype, bool is_bf16) {
  Setting setting = small_setting(subject);
  setting.setup.dtype = dtype;
  setting.setup.bf16_autocast = is_bf16;
  const auto session = has_memory
                           ? open(subject, setting)
                           : std::make_unique<Session>(setting.model, setting.setup,
                                                       config::MemoryConfig{}, interposed_group);
  const at::Tensor ids = random_ids(subject.seed, kLanes, 6 * kSegments + 1, kVocabulary - 1);
  const at::NoGradGuard no_grad;
  StackState state = session->fresh(kLanes, Phase::kEvaluation);
  return losses_of(*session, state, ids).to(at::kDouble);
}

// Rounding is the backbone's too: a memory may add as much again as the model without it has.
Outcome precision(const Subject& subject, bool is_bf16, double least) {
  const auto error_of = [&](bool has_memory) {
    return largest_difference(evaluated(subject, has_memory, at::kFloat, is_bf16),
                              evaluated(subject, has_memory, at::kDouble, false));
  };
  const double without = error_of(false), with = error_of(true);
  const std::string text = str("losses differ from those in f64 by at most ", short_text(with),
                               ", ", short_text(without), " without a memory");
  return {with <= std::max(least, 4 * without) ? Grade::kPass : Grade::kFail, text};
}

Outcome in_f32(const Subject& subject) { return precision(subject, false, 1e-3); }

Outcome in_bf16(const Subject& subject) {
  Setting setting = small_setting(subject);
  setting.setup.dtype = at::kFloat;
  setting.setup.bf16_autocast = true;
  const auto session = open(subject, setting);
  expect_runs(*session, ids_of(subject, *session, kSegments), "precision = \"bf16\"");
  return precision(subject, true, 0.1);
}

// Large and vanishing rows, and a text of one token.
Outcome extreme_numbers(const Subject& subject) {
  for (const double scale : {1e4, 1e-4, 0.0}) {
    Setting setting = small_setting(subject);
    setting.setup.dtype = at::kFloat;
    setting.model.tie_embedding = false;
    const auto session = open(subject, setting);
    {
      const at::NoGradGuard no_grad;
      session->parameter("embedding.0.weight").mul_(scale);
    }
    expect_runs(*session, ids_of(subject, *session, kSegments), str("embeddings times ", scale));
    expect_runs(*session, at::full_like(ids_of(subject, *session, kSegments), 3),
                str("one token again and again, embeddings times ", scale));
  }
  return {};
}

}  // namespace

std::vector<Check> model_checks() {
  return {
      {"model.positions", "Which position schemes does it serve, and does it say so of others?",
       position_schemes},
      {"model.grouped_keys", "Does it work where heads share keys and values?", grouped_keys},
      {"model.heads", "Does it work with one head, odd numbers of heads, odd widths?", head_widths},
      {"model.norms", "Does it work with norms before and after, of both kinds?", norms},
      {"model.layers", "Does it work in some of the layers?", some_layers},
      {"segments.one_token", "Does it work with segments of one token?", one_token},
      {"segments.lengths", "Does it work with segments of changing length?", changing_lengths,
       "segments.one_token"},
      {"segments.long", "Does it work with segments longer than the memory?", long_segments,
       "segments.lengths"},
      {"segments.lanes", "Does it work with other numbers of lanes?", numbers_of_lanes},
      {"segments.padding", "Does it work with lanes that end early?", padded_lanes},
  };
}

std::vector<Check> precision_checks() {
  return {
      {"precision.f32", "Are its numbers in f32 those in f64?", in_f32, "kernels.f32",
       "kernels.outputs"},
      {"precision.bf16", "Are its numbers in bf16 near those in f64?", in_bf16, "precision.f32"},
      {"precision.extremes", "Is everything finite for large, tiny and constant rows?",
       extreme_numbers, "precision.f32"},
  };
}

}  // namespace mneme::validate
