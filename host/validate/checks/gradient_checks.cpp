// Checks of gradients, in f64 against differences of the loss.

#include <algorithm>
#include <limits>
#include <optional>

#include "host/memory/stack/tier_outline.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/kink.hpp"
#include "host/validate/rounding.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

using memory::StackState;

constexpr double kMaxError = 1e-5;  // of ||differences||
// A long step shows the curvature of a sharp memory and may cross kinks of the feed-forward's ReLU,
// a short one shows the rounding of a loss that hardly moves: a right gradient agrees with one of
// them.
constexpr double kGradientSteps[] = {1e-4, 1e-5, 1e-6};
// Of a loss that is computed in f32 in part, steps over which it moves by more than it is rounded,
// and what is asked of its gradient, which is rounded as well.
constexpr double kRoundedSteps[] = {1e-2, 1e-3};
constexpr double kMaxRoundedError = 1e-2;
constexpr std::int64_t kDirections = 3;

// A segment of a training whose earlier segments are over.
struct Held {
  StackState state;
  at::Tensor ids;
};

std::vector<Held> held_segments(Session& session, const Subject& subject) {
  const std::int64_t length = segment_length(session);
  const at::Tensor ids = ids_of(subject, session, kSegments);
  std::vector<Held> out;
  StackState state = session.fresh(kLanes);
  for (std::int64_t s = 0; s < kSegments; ++s) {
    if (s == 2) state.reset({0, 1, 0});
    if (s == 0 || s >= 2) out.push_back({state.clone(), segment_of(ids, length, s)});
    static_cast<void>(session.nll(state, segment_of(ids, length, s)));
    state.cut_graph();
  }
  return out;
}

using Loss = std::function<at::Tensor()>;

// Compares and says what differs; a leaf that the loss does not depend on is counted as unreached.
// Where a leaf's values lie on a kink of the loss, it is compared on both sides of them instead, and
// where the loss is rounded to less than f64, to what its digits resolve.
class Comparison {
 public:
  bool holds(const std::string& name, const at::Tensor& leaf, const Loss& loss) {
    const std::optional<double> error = error_of(leaf, loss);
    if (!error) return false;
    if (*error <= kMaxError) return true;
    const double rounding = rounding_of(along(leaf, loss));
    if (error_of(leaf, loss, rounding).value_or(0.0) <= kMaxError) {
      hold_rounded(name, leaf, loss, rounding);
    } else if (!is_kink(along(leaf, loss))) {
      problems_.push_back(str(name, ": off by ", short_text(*error), " of its norm"));
    } else if (const double worst = error_beside(leaf, loss); worst <= kMaxError) {
      on_kinks_.push_back(name);
    } else {
      problems_.push_back(str(name, ": off by ", short_text(worst),
                              " of its norm beside its start values, which lie on a kink"));
    }
    return true;
  }
  [[nodiscard]] Outcome outcome(const std::string& seen) const {
    if (problems_.empty() && rounded_.empty()) return {Grade::kPass, seen + kinks_text(seen)};
    if (problems_.empty()) return {Grade::kWarn, rounded_text()};
    const std::string text = join(problems_, "; ");
    if (interposer().stops_gradients) {
      return {Grade::kWarn,
              text +
                  ": the plugin stops gradients by intent (detach, or weights without gradient), "
                  "so that differences may see more"};
    }
    return {Grade::kFail, text};
  }

 private:
  // The least error over the steps, as a share; nothing where the loss does not depend on the leaf.
  // What `rounding` of the loss explains is no error.
  static std::optional<double> error_of(const at::Tensor& leaf, const Loss& loss,
                                        double rounding = 0.0) {
    double least = std::numeric_limits<double>::infinity();
    for (const double step : kGradientSteps) {
      const GradientComparison got = compare_gradient(leaf, loss, kDirections, step, rounding);
      if (!got.is_reached()) return {};
      const double error = std::max(0.0, got.error - got.noise);
      least = std::min(least, error / std::max(got.difference, got.gradient));
      if (least <= kMaxError) break;
    }
    return least;
  }
  static void move(at::Tensor leaf, const at::Tensor& values) {
    const at::NoGradGuard no_grad;
    leaf.copy_(values);
  }
  // The loss along one direction. The leaf keeps its values.
  static std::function<double(double)> along(const at::Tensor& leaf, const Loss& loss) {
    const at::Tensor start = leaf.detach().clone();
    const at::Tensor direction = beside(at::zeros_like(start), 1.0);
    return [=](double offset) {
      move(leaf, start + offset * direction / direction.norm());
      const double value = loss().item<double>();
      move(leaf, start);
      return value;
    };
  }
  void hold_rounded(const std::string& name, const at::Tensor& leaf, const Loss& loss,
                    double rounding) {
    struct {
      double error, noise;  // of the norm
    } best{std::numeric_limits<double>::infinity(), 0.0};
    for (const double step : kRoundedSteps) {
      const GradientComparison got = compare_gradient(leaf, loss, kDirections, step, rounding);
      const double norm = std::max(got.difference, got.gradient);
      const double error = std::max(0.0, got.error - got.noise) / norm, noise = got.noise / norm;
      if (error + noise < best.error + best.noise) best = {error, noise};
    }
    if (best.error > kMaxRoundedError) {
      problems_.push_back(str(name, ": off by ", short_text(best.error),
                              " of its norm, besides the rounding of the loss"));
      return;
    }
    rounded_.push_back(name);
    resolved_ = std::max({resolved_, best.noise, kMaxRoundedError});
  }
  static double error_beside(const at::Tensor& leaf, const Loss& loss) {
    const at::Tensor start = leaf.detach().clone();
    double worst = 0.0;
    for (const double side : kSides) {
      move(leaf, beside(start, side));
      worst = std::max(worst, error_of(leaf, loss).value_or(0.0));
    }
    move(leaf, start);
    return worst;
  }
  [[nodiscard]] std::string kinks_text(const std::string& seen) const {
    if (on_kinks_.empty()) return "";
    return str(seen.empty() ? "" : "; ", "the start values of ", join(on_kinks_, ", "),
               " lie on a kink: compared on both sides of it");
  }
  [[nodiscard]] std::string rounded_text() const {
    return str(
        "the loss has fewer digits than f64, as where a hook or a kernel computes in f32: the "
        "gradients of ",
        join(rounded_, ", "), " agree within ", short_text(resolved_),
        " of their norm, and no smaller error is seen (python.dtype names the line of a hook "
        "in Python)");
  }

  std::vector<std::string> problems_, on_kinks_, rounded_;
  double resolved_ = 0.0;
};

Outcome gradients_of_parameters(const Subject& subject) {
  const auto session = open(subject);
  if (session->stack.parameters().empty()) throw Skipped("the memory has no parameters");
  const std::vector<Held> held = held_segments(*session, subject);
  const auto sum_of = [&](bool is_aux) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const Held& one : held) {
      StackState state = one.state.clone();
      const SegmentResult result = session->run(state, one.ids);
      if (!is_aux) sum = sum + result.nll.mean();
      if (is_aux && result.aux.defined()) sum = sum + result.aux.to(at::kDouble);
    }
    return sum;
  };
  Comparison comparison;
  std::int64_t reached = 0;
  for (const memory::TierParameter& parameter : session->stack.parameters()) {
    if (comparison.holds(parameter.name, parameter.tensor, [&] { return sum_of(false); }) ||
        comparison.holds(parameter.name, parameter.tensor, [&] { return sum_of(true); })) {
      ++reached;
    }
  }
  return comparison.outcome(
      str(reached, " of ", session->stack.parameters().size(), " parameters compared"));
}

// Weights of the backbone that reach the memory of every layer; a layer whose attention a tier replaces
// may have no projection.
std::vector<std::string> weights_before_memory(const Session& session) {
  std::vector<std::string> out = {"embedding.0.weight"};
  for (const backbone::Parameter& parameter : session.model->parameters()) {
    if (parameter.name.ends_with(".attention.qkv.weight")) out.push_back(parameter.name);
  }
  return out;
}

Outcome gradients_of_the_backbone(const Subject& subject) {
  const auto session = open(subject);
  const std::vector<Held> held = held_segments(*session, subject);
  const auto loss = [&] {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (const Held& one : held) {
      StackState state = one.state.clone();
      sum = sum + session->nll(state, one.ids).mean();
    }
    return sum;
  };
  Comparison comparison;
  // What reaches the memory of both layers, and what its results pass.
  std::vector<std::string> names = weights_before_memory(*session);
  names.emplace_back("layers.0.ff.in.weight");
  for (const std::string& name : names) comparison.holds(name, session->parameter(name), loss);
  return comparison.outcome("");
}

Outcome gradients_through_state(const Subject& subject) {
  Setting setting = small_setting(subject);
  setting.setup.bptt_segments = 2;
  const auto session = open(subject, setting);
  if (!interposer().keeps_graph)
    throw Skipped(
        "no slot keeps its gradient (MNEME_GRADIENT_THROUGH, in Python gradient=\"through\")");
  if (interposer().keeps_values) {
    throw Skipped(
        "queues or other slots carry values without gradient, which differences would see");
  }
  bool is_fed_by_x = true;
  for (const memory::TierOutline& tier : session->stack.outlines(1, 1)) {
    if (tier.training.absorbs == "before reading") {
      throw Skipped(
          "rows that wait for the next segment carry values without gradient, which "
          "differences would see");
    }
    if (tier.training.absorbs == "after the segment" &&
        std::ranges::find(tier.training.wants, "absorb: x") == tier.training.wants.end()) {
      is_fed_by_x = false;
    }
  }
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, 2);
  // The loss of the second segment alone: whatever reaches the first came through the state.
  const auto loss = [&] {
    StackState state = session->fresh(kLanes);
    static_cast<void>(session->nll(state, segment_of(ids, length, 0)));
    return session->nll(state, segment_of(ids, length, 1)).mean();
  };
  Comparison comparison;
  if (is_fed_by_x) {
    for (const std::string& name : weights_before_memory(*session))
      comparison.holds(name, session->parameter(name), loss);
  }
  // Rows that are absorbed carry values without gradient. No row depends on the last layer.
  const std::string last = str('.', setting.model.layers - 1, '.');
  bool is_compared = is_fed_by_x;
  for (const memory::TierParameter& parameter : session->stack.parameters()) {
    if (is_fed_by_x || parameter.name.starts_with(str("memory.", parameter.tier, last)))
      is_compared |= comparison.holds(parameter.name, parameter.tensor, loss);
  }
  if (!is_compared) {
    throw Skipped(
        "the last layer has no parameter of the memory, and in lower ones rows carry values "
        "without gradient, which differences would see");
  }
  return comparison.outcome("");
}

// Adds up the gradients of a training over these segments, and names the memory's parameters that
// have none.
std::vector<std::string> unreached_by(Session& session, const at::Tensor& ids,
                                      std::int64_t segments) {
  StackState state = session.fresh(kLanes);
  at::Tensor loss;
  for (std::int64_t s = 0; s < segments; ++s) {
    const at::Tensor one = session.loss(state, segment_of(ids, segment_length(session), s));
    loss = loss.defined() ? loss + one : one;
    if (!state.is_graph_boundary()) continue;
    loss.backward();
    loss = at::Tensor();
  }
  std::vector<std::string> out;
  for (const memory::TierParameter& parameter : session.stack.parameters()) {
    const at::Tensor grad = parameter.tensor.grad();
    if (!grad.defined() || grad.abs().max().item<double>() == 0.0) out.push_back(parameter.name);
  }
  return out;
}

void update_parameters(Session& session) {
  constexpr double kFarthest = 0.01, kLeast = 1e-300;  // kLeast: a gradient of zeros moves nothing
  const at::NoGradGuard no_grad;
  for (const memory::TierParameter& parameter : session.stack.parameters()) {
    const at::Tensor grad = parameter.tensor.grad();
    if (grad.defined())
      at::Tensor(parameter.tensor).sub_(grad / grad.abs().max().clamp_min(kLeast), kFarthest);
  }
  session.stack.weights_changed();
}

// Every parameter gets a gradient from some segment of a training.
Outcome parameters_are_reached(const Subject& subject) {
  Setting setting = small_setting(subject);
  setting.setup.bptt_segments = 2;
  const auto session = open(subject, setting);
  if (session->stack.parameters().empty()) throw Skipped("the memory has no parameters");
  const std::int64_t segments = 4 * kSegments;
  const at::Tensor ids = ids_of(subject, *session, segments);
  std::vector<std::string> unreached = unreached_by(*session, ids, segments);
  // A weight that begins at zero, as that of a memory which begins closed, hides those that it
  // multiplies until it is updated.
  if (!unreached.empty()) {
    update_parameters(*session);
    unreached = unreached_by(*session, ids, segments);
  }
  if (unreached.empty()) return {};
  return {
      Grade::kFail,
      str("no loss of ", segments, " segments trains ", join(unreached, ", "),
          ": read what it computes, in the segment in which it was computed or through a slot of "
          "MNEME_GRADIENT_THROUGH (in Python gradient=\"through\")")};
}

}  // namespace

std::vector<Check> gradient_checks() {
  return {
      {"gradients.backbone", "Are the backbone's gradients right?", gradients_of_the_backbone,
       "runs.by_turns", "kernels.partial"},
      {"gradients.parameters", "Are the gradients of the memory's parameters right?",
       gradients_of_parameters, "gradients.backbone"},
      {"gradients.state", "Are gradients through the state right?", gradients_through_state,
       "gradients.parameters"},
      {"gradients.reach", "Is every parameter trained?", parameters_are_reached,
       "gradients.parameters"},
  };
}

}  // namespace mneme::validate
