// Checks of whether a segment can be written down once and run again without its hooks
// (host/tensor/dispatch/trace.hpp), as a GPU does with a recording.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/backbone/open/open_segment.hpp"
#include "host/memory/state/tier_state.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

constexpr std::int64_t kMostUnlike = 24;  // segments in which a state may still change its shapes
constexpr std::int64_t kAlike = 8;        // segments that are written down then

// What a segment is read for.
enum class Use { kTraining, kEvaluation, kGeneration };
constexpr Use kUses[] = {Use::kTraining, Use::kEvaluation, Use::kGeneration};

const char* words_of(Use use) {
  return use == Use::kTraining ? "training" : use == Use::kEvaluation ? "evaluation" : "generation";
}

std::vector<std::pair<std::string, at::Tensor>> tensors_of(const Session& session,
                                                           const StackState& state) {
  return state.save(session.stack.weights_version()).tensors;
}

bool is_counts(const StackState& state, const std::string& name) {
  return std::ranges::any_of(state.tiers(), [&](const memory::TierState& tier) {
    return std::ranges::any_of(tier.instance().slots, [&](const memory::SlotDecl& slot) {
      return slot.is_counts && name.ends_with('.' + slot.name);
    });
  });
}

// What hooks may look at in a state: shapes, and counts. Segments that begin with equal ones are to
// do the same.
std::string key_of(const Session& session, const StackState& state) {
  std::string key;
  for (const auto& [name, tensor] : tensors_of(session, state)) {
    key += str(name, ' ', list_text(tensor.sizes().vec()));
    if (is_counts(state, name)) {
      const at::Tensor counts = tensor.contiguous();
      const auto* const first = counts.const_data_ptr<std::int64_t>();
      key += ' ' + list_text(std::vector<std::int64_t>(first, first + counts.numel()));
    }
    key += '\n';
  }
  return key;
}

// A run whose segments are written down.
class TracedRun {
 public:
  TracedRun(const Subject& subject, Use use)
      : session_(open(subject)),
        use_(use),
        length_(segment_length(*session_)),
        ids_(ids_of(subject, *session_, kMostUnlike + kAlike)),
        state_(session_->fresh(kLanes,
                               use == Use::kTraining ? Phase::kTraining : Phase::kEvaluation)) {}

  [[nodiscard]] std::string key() const { return key_of(*session_, state_); }
  [[nodiscard]] std::int64_t segments() const { return segment_; }

  // The values that the next segment begins with.
  [[nodiscard]] std::vector<at::Tensor> inputs() const {
    std::vector<at::Tensor> out = {segment_of(ids_, length_, segment_)};
    for (const auto& [name, tensor] : tensors_of(*session_, state_)) out.push_back(tensor);
    return out;
  }

  // Reads the next segment; its results, which replay() gives too, go to `results`.
  tensor::Trace next(std::vector<at::Tensor>& results) {
    const tensor::WithoutHostKernels plain;  // a GPU does not have them
    const at::AutoGradMode grad(use_ == Use::kTraining);
    tensor::Trace trace;
    const std::vector<at::Tensor> given = inputs();
    for (const at::Tensor& t : given) trace.add_input(t);
    for (const at::Tensor& t : parameters()) at::Tensor(t).mutable_grad() = at::Tensor();
    {
      const tensor::TraceScope scope(trace);
      results = use_ == Use::kGeneration ? std::vector{read_stepwise(given[0])} : read(given[0]);
    }
    if (use_ == Use::kTraining) {
      for (const at::Tensor& t : parameters()) results.push_back(t.grad());
    }
    for (const auto& [name, tensor] : tensors_of(*session_, state_)) results.push_back(tensor);
    for (const at::Tensor& t : results) trace.add_output(t);
    ++segment_;
    return trace;
  }

 private:
  [[nodiscard]] std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> out;
    for (const backbone::Parameter& p : session_->model->parameters()) out.push_back(p.tensor);
    for (const memory::TierParameter& p : session_->stack.parameters()) out.push_back(p.tensor);
    return out;
  }

  std::vector<at::Tensor> read(const at::Tensor& ids) {
    const SegmentResult result = session_->run(state_, ids);
    if (use_ == Use::kTraining) result.loss.backward();
    return {result.nll.detach(), result.loss.detach()};
  }

  at::Tensor read_stepwise(const at::Tensor& ids) {
    memory::SegmentInput input;
    input.length = 1;
    input.is_open = true;
    memory::SegmentHooks hooks(session_->stack, state_, input);
    backbone::OpenSegment segment(*session_->model, hooks);
    std::vector<at::Tensor> tops;
    for (std::int64_t i = 0; i < length_; ++i) tops.push_back(segment.step(ids.narrow(1, i, 1)));
    segment.close();
    hooks.commit();
    return at::cat(tops, 1);
  }

  std::unique_ptr<Session> session_;
  Use use_;
  std::int64_t length_;
  at::Tensor ids_;
  StackState state_;
  std::int64_t segment_ = 0;
};

// Reads until two segments have begun alike; then further ones until one does not, and gives
// on_segment(trace, inputs, results) of each. Returns how many.
template <typename F>
std::int64_t read_alike(const Subject& subject, Use use, F on_segment) {
  TracedRun run(subject, use);
  std::vector<at::Tensor> results;
  std::string key;
  do {
    key = run.key();
    static_cast<void>(run.next(results));
  } while (run.key() != key && run.segments() < kMostUnlike);
  std::int64_t alike = 0;
  for (; alike < kAlike && run.key() == key; ++alike) {
    const std::vector<at::Tensor> inputs = run.inputs();
    tensor::Trace trace = run.next(results);
    on_segment(alike, trace, inputs, results);
  }
  return alike;
}

// Fewer say nothing.
void need_several(std::int64_t alike, Use use, std::vector<const char*>& without) {
  if (alike < 2) without.push_back(words_of(use));
}
Outcome outcome_of(const std::vector<const char*>& without) {
  if (without.empty()) return {};
  if (without.size() == std::size(kUses))
    throw Skipped("the state's shapes or counts are others in every segment: nothing is repeated");
  std::string uses;
  for (const char* const use : without) uses += str(uses.empty() ? "" : ", ", use);
  return {.text = str("in ", uses, " the state's shapes or counts are others in every segment")};
}

Outcome segments_do_the_same(const Subject& subject) {
  std::vector<const char*> without;
  for (const Use use : kUses) {
    std::optional<tensor::Trace> first;
    const std::int64_t alike = read_alike(
        subject, use, [&](std::int64_t segment, tensor::Trace& trace, const auto&, const auto&) {
          if (!first) {
            first = std::move(trace);
            return;
          }
          const std::string difference = tensor::Trace::difference(*first, trace);
          if (difference.empty()) return;
          throw Failed(str("in ", words_of(use), ", in segment ", segment,
                           " of those that begin with the same shapes and counts, ", difference,
                           ": let hooks depend on shapes, options and counts of slots alone"));
        });
    need_several(alike, use, without);
  }
  return outcome_of(without);
}

Outcome segments_are_run_again(const Subject& subject) {
  std::vector<const char*> without;
  for (const Use use : kUses) {
    std::optional<tensor::Trace> first;
    const std::int64_t alike = read_alike(
        subject, use,
        [&](std::int64_t segment, tensor::Trace& trace, const std::vector<at::Tensor>& inputs,
            const std::vector<at::Tensor>& results) {
          if (!first) {
            first = std::move(trace);
            return;
          }
          const std::vector<at::Tensor> again = first->replay(inputs, segment);
          for (std::size_t i = 0; i < results.size(); ++i) {
            if (!results[i].defined() && !again[i].defined()) continue;
            if (at::equal(results[i].nan_to_num(7.0), again[i].nan_to_num(7.0))) continue;
            throw Failed(str("in ", words_of(use), ", segment ", segment, ": result ", i, " of ",
                             results.size(), " differs by ",
                             short_text(largest_difference(results[i], again[i])),
                             " when the operations of an equal segment are run again without "
                             "hooks: compute with ops and kernels, whose results depend on their "
                             "inputs alone"));
          }
        });
    need_several(alike, use, without);
  }
  return outcome_of(without);
}

}  // namespace

std::vector<Check> replay_checks() {
  return {
      {"replay.trace", "Do segments with equal shapes and counts do the same operations?",
       segments_do_the_same, "runs.values"},
      {"replay.numbers", "Do these operations, run again without hooks, give the same numbers?",
       segments_are_run_again, "replay.trace", "kernels.outputs"},
  };
}

}  // namespace mneme::validate
