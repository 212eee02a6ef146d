// The continuous memory against the official infinity-former (tests/golden/continuous_ltm), at the
// level of hooks: the files hold what a layer's memory absorbed and the queries that read it.
//
// Every file of the family is read when the test runs; every setting comes from its metadata.
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "host/base/error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "plugins/continuous_ltm/ridge.hpp"
#include "tests/golden/continuous_ltm/continuous_ltm_case.hpp"
#include "tests/golden/golden.hpp"

namespace mneme {
namespace {

using golden::Comparison;
using golden::ContinuousCase;

const std::set<std::string, std::less<>> kProbes = {
    "memory.coefficients", "memory.gate",      "memory.density.mean", "memory.density.variance",
    "memory.kl",           "memory.scores",    "memory.expectation",  "memory.samples",
    "memory.histogram",    "memory.drawn_bins"};

plugin::PluginLoader& loader() {
  static plugin::PluginLoader instance = memory::make_loader();
  return instance;
}

// The comparisons of one run: the README sets limits by kind of tensor.
struct Comparisons {
  Comparisons(const std::string& title, const ContinuousCase::Limits& limits)
      : memory(title + " memory", limits.memory),
        reads(title + " reads", limits.reads),
        gradients(title + " gradients", limits.gradients) {}
  int64_t count() const { return memory.count() + reads.count() + gradients.count(); }
  Comparison memory, reads, gradients;
};

// One file at one dtype on one path.
class GoldenRun {
 public:
  GoldenRun(const SafetensorsFile& file, const ContinuousCase& golden_case, at::ScalarType dtype,
            const std::string& path, bool with_kl_mean)
      : file_(file),
        case_(golden_case),
        dtype_(dtype),
        is_plain_(path == "plain"),
        with_kl_mean_(with_kl_mean),
        driver_(case_.memory(path, with_kl_mean), case_.backbone(dtype), loader(),
                memory::Phase::kTraining, case_.lanes),
        layer_({}, case_.heads) {
    for (const std::string& name : file.names()) {
      if (!name.starts_with("param.")) continue;
      const std::string official = name.substr(6);
      const torch::NoGradGuard no_grad;
      parameter(official).copy_(golden::from_official(official, read(name)));
    }
    driver_.stack().weights_changed();
  }

  void run(Comparisons& to) {
    for (int64_t s = 0; s < case_.segments(); ++s) segment(s, s + 1 == case_.segments(), to);
  }

 private:
  at::Tensor read(const std::string& name) const {
    return weights::read_tensor(file_, name, at::kDouble);
  }
  // Errors: std::runtime_error for a parameter that the memory does not have.
  at::Tensor parameter(const std::string& official) {
    const std::string ours = golden::continuous_parameter(official);
    for (const memory::TierParameter& candidate : driver_.stack().parameters()) {
      if (!ours.empty() && candidate.name.ends_with(".0." + ours)) return candidate.tensor;
    }
    throw std::runtime_error("no parameter of the memory is the official " + official);
  }
  std::string key(const std::string& name) {
    return str("0.", driver_.stack().identities().at(0).id, ".0.", name);
  }

  void segment(int64_t s, bool is_last, Comparisons& to) {
    const std::string prefix = str("seg", s, ".");
    x_ = read(prefix + "x").to(golden::test_device(), dtype_).requires_grad_(is_last);
    q_ = read(prefix + "q").to(golden::test_device(), dtype_).requires_grad_(is_last);  // [B,H,T,d]
    std::map<std::string, at::Tensor> draws;
    if (file_.contains(prefix + "drawn_bins")) {
      draws[key("bins")] =
          golden::draws_of(read(prefix + "hist_probs"), read(prefix + "drawn_bins"));
    }
    std::map<std::string, at::Tensor> probes;
    memory::SegmentInput input;
    input.length = q_.size(2);
    input.replay_draws = &draws;
    input.wanted_probes = kProbes;
    input.probes = &probes;
    driver_.begin(input);
    const at::Tensor z = absorb_and_read();
    compare(prefix, probes, z, to);
    to.memory.check(prefix + "floored", floored_share(), expected_floored(prefix));
    if (is_last) last(prefix, z, probes[key("memory.kl")], to);
    driver_.commit();
  }

  at::Tensor absorb_and_read() {
    memory::Rows rows;
    rows.count = x_.size(1);
    rows.hidden = x_;
    memory::LocalAttention local;
    local.q = q_.transpose(1, 2);  // [B,T,H,d]
    const at::Tensor nothing = torch::zeros({case_.lanes, q_.size(2), case_.width},
                                            torch::dtype(dtype_).device(golden::test_device()));
    driver_.hooks().absorb_rows(0, 0, rows, nothing, local, layer_);
    return driver_.hooks().read_out(0, nothing, local, layer_);
  }

  void compare(const std::string& prefix, std::map<std::string, at::Tensor>& probes,
               const at::Tensor& z, Comparisons& to) {
    const auto check = [&](Comparison& comparison, const char* theirs, const char* ours) {
      const std::string name = prefix + theirs;
      if (file_.contains(name)) comparison.check(name, probes[key(ours)], read(name));
    };
    check(to.memory, "gate", "memory.gate");
    check(to.memory, "B", "memory.coefficients");
    if (is_plain_) check(to.memory, "scores", "memory.scores");  // never formed on the fast path
    check(to.memory, "mu", "memory.density.mean");
    check(to.memory, "sigma_sq", "memory.density.variance");
    // Files whose KL term has a part of the means store the paper's term beside it.
    const bool has_both = file_.contains(prefix + "kl_sigma_only");
    check(to.memory, has_both && !with_kl_mean_ ? "kl_sigma_only" : "kl", "memory.kl");
    check(to.memory, "hist_probs", "memory.histogram");
    check(to.memory, "drawn_bins", "memory.drawn_bins");
    check(to.memory, "drawn_positions", "memory.samples");
    check(to.reads, "r", "memory.expectation");
    to.reads.check(prefix + "z", z, read(prefix + "z"));
  }

  at::Tensor floored_share() {
    for (const auto& [name, reported] : driver_.hooks().metrics()) {
      if (name.ends_with(".floored")) return reported.value.view({1});
    }
    return {};
  }
  at::Tensor expected_floored(const std::string& prefix) const {
    const double at_floor = case_.floor * (1 + 1e-6);  // stored as f32
    return read(prefix + "sigma_sq").le(at_floor).to(at::kDouble).mean().view({1});
  }

  // The loss of the last call and its gradients.
  void last(const std::string& prefix, const at::Tensor& z, const at::Tensor& kl, Comparisons& to) {
    at::Tensor loss = (read("loss.weight").to(golden::test_device(), dtype_) * z).sum();
    if (case_.kl_weight != 0.0 && case_.sigma_0 != 0.0) {
      // The auxiliary loss is the mean over lanes, heads and queries (lambda_kl is 1), the file's
      // the sum.
      const at::Tensor mean = driver_.hooks().total_loss();
      ASSERT_TRUE(mean.defined()) << prefix << "no KL term among the losses";
      to.memory.check(prefix + "kl, mean", mean.view({1}), kl.mean().view({1}));
      loss = loss + case_.kl_weight * static_cast<double>(kl.numel()) * mean;
    }
    to.reads.check("loss.value", loss.view({1}), read("loss.value"));
    loss.backward();
    for (const std::string& name : file_.names()) {
      if (!name.starts_with("grad.")) continue;
      const std::string of = name.substr(5);
      const at::Tensor ours = of == "q_last"   ? q_.grad()
                              : of == "x_last" ? x_.grad()
                                               : golden::to_official(of, parameter(of).grad());
      to.gradients.check(name, ours, read(name));
    }
  }

  const SafetensorsFile& file_;
  const ContinuousCase& case_;
  at::ScalarType dtype_;
  bool is_plain_;
  bool with_kl_mean_;
  memory::HookDriver driver_;
  memory::PlainLayer layer_;
  at::Tensor x_, q_;  // of the segment that runs
};

at::Tensor tensor_of(const continuous_ltm::Matrix& matrix) {
  return torch::tensor(matrix.values, at::kDouble).view({matrix.rows, matrix.columns});
}

// The matrices of the regression, which no hook shows.
void compare_constants(const SafetensorsFile& file, const ContinuousCase& c, Comparison& to) {
  continuous_ltm::BasisGrid grid;
  grid.widths = static_cast<int32_t>(c.widths.size());
  grid.centres = c.basis / grid.widths;
  std::copy(c.widths.begin(), c.widths.end(), grid.width);
  const auto check = [&](const std::string& name, const at::Tensor& ours) {
    if (file.contains(name)) to.check(name, ours, weights::read_tensor(file, name, at::kDouble));
  };
  const int64_t first = c.rows.at(0);
  check(str("const.G_first_", first),
        tensor_of(continuous_ltm::first_matrix(grid, first, c.ridge, c.is_padded)).t());
  const auto update =
      continuous_ltm::update_matrices(grid, c.samples, c.length, c.tau, c.ridge, c.is_padded);
  check("const.G_inf", at::cat({tensor_of(update.past), tensor_of(update.fresh)}, 1).t());
  check("const.Psi_samples", tensor_of(update.sampling));
  std::vector<double> centres, widths;
  for (int64_t n = 0; n < c.basis; ++n) {
    centres.push_back(grid.centre(n / grid.widths));
    widths.push_back(grid.width[n % grid.widths]);
  }
  check("basis.mu", torch::tensor(centres, at::kDouble));
  check("basis.sigma", torch::tensor(widths, at::kDouble));
}

// Compares one file on all paths and dtypes; returns how many tensors.
int64_t compare_file(const SafetensorsFile& file, const std::string& title) {
  const ContinuousCase golden_case(file);
  Comparison constants(title + " constants", 1e-6);
  compare_constants(file, golden_case, constants);
  std::cout << constants.summary() << std::endl;
  int64_t compared = constants.count();
  const bool has_both_terms = file.contains("seg0.kl_sigma_only");
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const char* path : {"fast", "plain"}) {
      for (const bool with_kl_mean : {true, false}) {
        if (!with_kl_mean && !(has_both_terms && golden_case.kl_weight == 0.0)) continue;
        const bool is_f64 = dtype == at::kDouble;
        Comparisons to(
            str(title, is_f64 ? " f64 " : " f32 ", path, with_kl_mean ? "" : ", paper's KL:"),
            is_f64 ? ContinuousCase::Limits{1e-6, 1e-6, 1e-6} : golden_case.f32_limits());
        GoldenRun(file, golden_case, dtype, path, with_kl_mean).run(to);
        for (const Comparison* part : {&to.memory, &to.reads, &to.gradients})
          std::cout << part->summary() << std::endl;
        EXPECT_GT(to.reads.count(), 0) << title;
        compared += to.count();
      }
    }
  }
  return compared;
}

TEST(GoldenContinuousLtm, EveryFileAgreesWithTheOfficialCode) {
  int64_t compared = 0;
  for (const auto& path : golden::files("continuous_ltm")) {
    const std::string title = path.stem().string();
    try {
      const SafetensorsFile file = SafetensorsFile::open(path);
      if (const std::string reason = golden::left_out_of_continuous(file); !reason.empty()) {
        std::cout << title << ": skipped by setting " << reason << std::endl;
        continue;
      }
      compared += compare_file(file, title);
    } catch (const std::exception& error) {
      ADD_FAILURE() << title << ": " << error.what();
    }
  }
  EXPECT_GT(compared, 0) << "no file of the family could be compared";
}

}  // namespace
}  // namespace mneme
