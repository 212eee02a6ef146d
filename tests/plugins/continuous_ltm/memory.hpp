// One continuous memory of one layer, loaded the real way, with random parameters: what the tests
// of the tier run.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"

namespace continuous_ltm_test {

struct Sizes {
  int64_t lanes = 3;
  int64_t width = 6;
  int64_t heads = 2;
  int64_t head_width = 5;
  int64_t segment = 5;
  at::ScalarType dtype = at::kDouble;
  uint64_t seed = 11;       // of the draws
  uint64_t parameters = 1;  // of the parameters' values
};

using Draws = std::map<std::string, at::Tensor>;

// How one segment differs from a plain one.
struct How {
  std::vector<int64_t> valid_count = {};  // of the queries and of the rows that they become
  const Draws* replay = nullptr;
  Draws* record = nullptr;
};

// What one segment showed. Probes by the plugin's own names, losses and metrics by the last part.
struct Seen {
  at::Tensor z;  // [B,T,D]
  std::map<std::string, at::Tensor> probes;
  std::map<std::string, at::Tensor> losses;  // with gradient, before the host's weight
  std::map<std::string, at::Tensor> metrics;

  // Errors: std::out_of_range when the probe was not published.
  const at::Tensor& coefficients() const { return probes.at("memory.coefficients"); }
};

// Standard normal f64, the same for the same seed.
at::Tensor random(at::IntArrayRef shape, uint64_t seed);
// ||a - b|| / ||b||; ||a|| where b is zero. Errors: std::runtime_error for undefined tensors and
// for shapes that differ.
double distance(const at::Tensor& a, const at::Tensor& b);
// A memory that samples evenly, and one that draws its samples.
inline const std::string kLinear =
    "basis = 12\nwidths = [0.02, 0.1, 0.3]\nsamples = 9\nlambda_kl = 0.3\n";
inline const std::string kSticky = kLinear + "sticky = true\nbins = 16\ntau = 0.5\n";
// [[memory.tier]] plugin = "continuous_ltm" with `options` as TOML lines.
mneme::config::MemoryConfig manifest(const std::string& options);
mneme::memory::BackboneInfo backbone(const Sizes& sizes);
mneme::plugin::PluginLoader& loader();

class Memory {
 public:
  Memory(const std::string& options, const Sizes& sizes,
         mneme::memory::Phase phase = mneme::memory::Phase::kTraining);

  mneme::memory::Stack& stack() { return *stack_; }
  mneme::memory::StackState& state() { return state_; }
  // The parameter of that name; a leaf. Errors: std::out_of_range.
  at::Tensor parameter(const std::string& name) const;
  const std::map<std::string, at::Tensor>& parameters() const { return parameters_; }
  void set(const std::string& name, const at::Tensor& value);
  // Whether the layer norms its input, so that memory_input = "normed" differs from "input".
  void use_norm(const at::Tensor& weight, const at::Tensor& bias);

  // One committed segment of a backbone: the waiting rows are absorbed, q [B,T,H,d] reads, x
  // [B,T,D] waits for the next one.
  Seen segment(const at::Tensor& x, const at::Tensor& q, const How& how = {});
  // One segment that absorbs exactly `rows` [B,m,D] before q reads; their graph is kept. Nothing
  // waits afterwards.
  Seen absorb(const at::Tensor& rows, const at::Tensor& q, const How& how = {});
  // The same without committing it.
  Seen try_absorb(const at::Tensor& rows, const at::Tensor& q, const How& how = {});
  // x and q of segment s, the same for every memory of these sizes but for lanes' order.
  at::Tensor x(uint64_t s, int64_t rows = 0) const;
  at::Tensor q(uint64_t s, int64_t queries = 0) const;

 private:
  Seen run(const at::Tensor& rows, bool is_given, const at::Tensor& q, const How& how, bool commit);
  std::string short_name(const std::string& key) const;

  Sizes sizes_;
  std::unique_ptr<mneme::memory::Stack> stack_;
  mneme::memory::StackState state_;
  mneme::memory::PlainLayer layer_;
  std::map<std::string, at::Tensor> parameters_;
};

}  // namespace continuous_ltm_test
