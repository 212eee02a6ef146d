// Shared by tests of trainer and evaluator: small experiments, hand-written streams.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/stream/stream.hpp"
#include "host/run/runtime.hpp"
#include "host/train/trainer.hpp"

namespace mneme::test {

// Two layers of width 16 on the motif task, with dropout: f64, 4 lanes, segments of 6 tokens.
// `overrides` are "key=value"; `memory` is TOML of [[memory.tier]] tables, "" = no memory.
config::Experiment small_experiment(const std::string& memory = "",
                                    const std::vector<std::string>& overrides = {});
// [[memory.tier]] of a plugin; `options` are TOML.
std::string tier(const std::string& plugin, const std::string& options = "");
// The same of plugin xl_cache.
std::string xl_cache(int64_t rows, const std::string& more = "");
// [[memory.tier]] of a test plugin with gradient through its state and a parameter.
std::string infini(const std::string& more = "");

// [[memory.tier]] of a test plugin with trained options (tau = 0.5, widths, unit), a parameter, and
// reports of the segments alone in which it holds something.
std::string fitted(const std::string& more = "");

// Segments given by hand, once; positions and seek as a real stream.
class ListStream final : public data::Stream {
 public:
  explicit ListStream(std::vector<data::TokenSegment> segments) : segments_(std::move(segments)) {}

  bool next(data::TokenSegment& segment) override;
  std::vector<std::int64_t> position() const override { return {next_}; }
  void seek(const std::vector<std::int64_t>& position) override { next_ = position.at(0); }
  std::int64_t segments_per_epoch() const override {
    return static_cast<std::int64_t>(segments_.size());
  }
  std::int64_t targets_per_epoch() const override { return 0; }
  std::vector<data::TokenSegment>& segments() { return segments_; }

 private:
  std::vector<data::TokenSegment> segments_;
  std::int64_t next_ = 0;
};

// A trainer on these segments.
train::TrainerOptions with_stream(std::vector<data::TokenSegment> segments);

// A segment of random ids; row b of `rows` x `length`, next ids as targets.
data::TokenSegment random_segment(std::int64_t lanes, std::int64_t length, std::int64_t vocabulary,
                                  std::uint64_t seed);

// Copies of all parameters, in order.
std::vector<at::Tensor> weights_of(const run::Runtime& runtime);
// True when both have the same bits.
bool is_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b);

}  // namespace mneme::test
