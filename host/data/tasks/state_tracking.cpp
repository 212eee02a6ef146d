// Task state_tracking: in which state is an automaton after each token of a random word?
//
// The word problem [Liu et al. 2023; Merrill, Petty and Sabharwal 2024; Grazzi et al. 2025]. A
// sequence has n = data.length symbols x_1 .. x_n, and at each of them the state after it is asked
// for: s_t = s_{t-1} x_t. The state is a label, not the next token. So a model reads no state that
// it has not worked out itself.
//   P = n, A = 1 (the last state)
//   cyclic      x_t uniform of 0 .. m-1 with m = data.states, s_t = x_1 + .. + x_t mod m; V = m
//   s3, a5, s5  x_t uniform of the permutations (of the even ones), s_t their product; V = 6, 60,
//               120. Element e is the e-th permutation in lexicographic order; the product a b takes
//               point i to a(b(i)).
//   brackets    x_t = 0 opens, 1 closes; s_t is the depth, 0 .. D with D = data.states - 1, with id
//               2 + depth. A bracket opens at depth 0, closes at depth D, and does one or the other
//               with probability 1/2 elsewhere. V = 2 + data.states
//
// The symbols of a group are uniform and independent. A product of which one factor is not known is
// uniform, whatever the others are: accuracy is 1 / V at best. Depths have no such law.
// The source of a question is place 0, because a state depends on all symbols before it.
// Slice "length": n.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {
namespace {

using config::Automaton;
using config::TrackingConfig;

using Permutation = std::vector<std::int64_t>;

bool is_even(const Permutation& one) {
  std::int64_t inversions = 0;
  for (auto end = one.begin(); end != one.end(); ++end) {
    inversions += std::count_if(one.begin(), end, [&](std::int64_t other) { return other > *end; });
  }
  return inversions % 2 == 0;
}

// A group of permutations; element 0 is the identity.
class PermutationGroup {
 public:
  PermutationGroup(std::int64_t points, bool has_odd_ones) {
    Permutation one(at(points));
    std::iota(one.begin(), one.end(), 0);
    std::vector<Permutation> elements;  // in lexicographic order
    do {
      if (has_odd_ones || is_even(one)) elements.push_back(one);
    } while (std::next_permutation(one.begin(), one.end()));
    size_ = static_cast<std::int64_t>(elements.size());
    Permutation product(at(points));
    for (const Permutation& a : elements) {
      for (const Permutation& b : elements) {
        for (std::size_t i = 0; i < b.size(); ++i) product[i] = a[at(b[i])];
        products_.push_back(std::ranges::lower_bound(elements, product) - elements.begin());
      }
    }
  }
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t product(std::int64_t a, std::int64_t b) const {
    return products_[at(a * size_ + b)];
  }

 private:
  std::int64_t size_ = 0;
  std::vector<std::int64_t> products_;  // [size, size]
};

const PermutationGroup& group_of(Automaton automaton) {
  static const PermutationGroup kS3(3, true);
  static const PermutationGroup kA5(5, false);
  static const PermutationGroup kS5(5, true);
  if (automaton == Automaton::kS3) return kS3;
  return automaton == Automaton::kA5 ? kA5 : kS5;
}

// A symbol that may come in a state.
std::int64_t draw_symbol(const TrackingConfig& tracking, std::int64_t state, Random& random) {
  switch (tracking.automaton) {
    case Automaton::kCyclic:
      return random.between(0, tracking.states - 1);
    case Automaton::kBrackets:
      if (state == 0) return 0;
      return state == tracking.states - 1 ? 1 : random.between(0, 1);
    default:
      return random.between(0, group_of(tracking.automaton).size() - 1);
  }
}

std::int64_t next_state(const TrackingConfig& tracking, std::int64_t state, std::int64_t symbol) {
  switch (tracking.automaton) {
    case Automaton::kCyclic:
      return (state + symbol) % tracking.states;
    case Automaton::kBrackets:
      return symbol == 0 ? state + 1 : state - 1;
    default:
      return group_of(tracking.automaton).product(state, symbol);
  }
}

// The id of state 0.
std::int64_t first_state(const TrackingConfig& tracking) {
  return tracking.automaton == Automaton::kBrackets ? 2 : 0;
}

AnswerShape state_tracking_shape(const config::DataConfig& data) {
  const TrackingConfig& tracking = data.tracking;
  const bool has_states = config::has_states_key(tracking.automaton);
  const std::int64_t states = has_states ? tracking.states : group_of(tracking.automaton).size();
  AnswerShape shape{.vocabulary = first_state(tracking) + states,
                    .prompt = data.sequences.length,
                    .answer = 1,
                    .words = {{"automaton", config::to_word(tracking.automaton),
                               static_cast<std::int64_t>(tracking.automaton)}},
                    .questions = data.sequences.length,
                    .first_question = 1};
  if (has_states) shape.sizes.emplace_back("states", states);
  return shape;
}

AnswerSequence draw_state_tracking(const config::DataConfig& data, Random& random) {
  AnswerSequence out;
  std::int64_t state = 0;
  for (std::int64_t place = 1; place <= data.sequences.length; ++place) {
    out.ids.push_back(draw_symbol(data.tracking, state, random));
    state = next_state(data.tracking, state, out.ids.back());
    out.questions.push_back(
        {.place = place, .source = 0, .target = first_state(data.tracking) + state});
  }
  out.ids.push_back(out.questions.back().target);
  out.slices["length"] = str(data.sequences.length);
  return out;
}

}  // namespace

AnswerKind state_tracking_kind() { return {state_tracking_shape, draw_state_tracking}; }

}  // namespace mneme::data
