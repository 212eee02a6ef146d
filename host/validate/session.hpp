// A small model with a memory, run segment by segment: what checks, and tests of the backbone,
// work on; and gradients held to differences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host/backbone/model.hpp"
#include "host/memory/interface/finite_watch.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/host_groups.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::validate {

// How one segment of a session differs from a plain one.
struct SegmentHow {
  std::vector<std::int64_t> valid_count = {};      // [B] tokens that are no padding; empty = all
  std::set<std::string, std::less<>> probes = {};  // wanted ones, by the plugins' names
  backbone::ForwardOptions::Tap* tap = nullptr;
  at::Tensor target = {};  // [B,T] in place of the next ids
  memory::FiniteWatch* watch = nullptr;
  std::function<memory::Rows(const memory::Rows& own)> released = nullptr;  // as SegmentInput
};

// The outputs of the session.
struct SegmentResult {
  at::Tensor nll;   // [B,T], 0 at padding
  at::Tensor top;   // [B,T,D]
  at::Tensor loss;  // [], the mean nll and the memories' auxiliary losses
  at::Tensor aux;   // [], the auxiliary losses alone; undefined when there was none
  std::map<std::string, at::Tensor> probes;   // "<tier>.<plugin>.<layer>.<name>"
  std::map<std::string, at::Tensor> metrics;  // "<tier>.<plugin>.<name>"
};

struct Session {
  using How = SegmentHow;
  using Result = SegmentResult;
  std::unique_ptr<backbone::Model> model;
  plugin::PluginLoader loader;
  memory::Stack stack;

  Session(const config::ModelConfig& config, const backbone::ModelSetup& setup,
          const config::MemoryConfig& memory, plugin::FindGroup find_group);

  [[nodiscard]] memory::StackState fresh(std::int64_t lanes,
                                         memory::Phase phase = memory::Phase::kTraining) const {
    return stack.new_state(phase, lanes);
  }
  // One committed segment of ids [B,T+1].
  Result run(memory::StackState& state, const at::Tensor& ids, const How& how = {});
  at::Tensor nll(memory::StackState& state, const at::Tensor& ids) { return run(state, ids).nll; }
  at::Tensor loss(memory::StackState& state, const at::Tensor& ids) { return run(state, ids).loss; }
  // ids [B,n+1] in segments of these lengths: nll [B,n].
  at::Tensor nll(memory::StackState& state, const at::Tensor& ids,
                 const std::vector<std::int64_t>& lengths);
  // A parameter of the model, or of a tier by the end of its name. Error (kRun) when there is none.
  [[nodiscard]] at::Tensor parameter(const std::string& name) const;
};

// [memory] with these plugin folders; `tiers` is the TOML text of its [[memory.tier]] tables, and
// `settings` are "tier.0.rows=8" and the like.
config::MemoryConfig memory_of(const std::vector<std::string>& folders, const std::string& tiers,
                               const std::vector<std::string>& settings = {});

// Uniform ids below `vocabulary`, [lanes,tokens], from a generator of `seed`.
at::Tensor random_ids(std::uint64_t seed, std::int64_t lanes, std::int64_t tokens,
                      std::int64_t vocabulary);

// Largest absolute difference; infinite values must agree exactly, NaN agrees with nothing.
double largest_difference(const at::Tensor& a, const at::Tensor& b);

// A gradient and what differences say, both along the same directions.
struct GradientComparison {
  double error = 0.0;       // ||gradient - differences||
  double gradient = 0.0;    // ||gradient||; 0 when backward gave none
  double difference = 0.0;  // ||differences||
  double noise = 0.0;       // of them: rounding of the loss, over the step
  [[nodiscard]] bool is_reached() const { return gradient > 1e-8 || difference > 1e-8; }
};

// Compares d loss()/d leaf with central differences of the fourth order, along random directions
// that move all elements of the leaf, or along each element where it has no more. `rounding`: of the
// loss, where it is more than that of f64 (rounding_of).
GradientComparison compare_gradient(at::Tensor leaf, const std::function<at::Tensor()>& loss,
                                    std::int64_t directions, double step, double rounding = 0.0);

// ||gradient - differences|| / ||differences|| of such a comparison. Infinite when the differences
// vanish: nothing was compared.
// Steps are short, so that few places lie near a kink of the feed-forward's ReLU; a leaf that moves
// the loss by little needs longer ones, or the loss's rounding is what is measured.
constexpr double kShortStep = 1e-5;
double gradient_error(at::Tensor leaf, const std::function<at::Tensor()>& loss,
                      std::int64_t directions, double step = kShortStep);

}  // namespace mneme::validate
