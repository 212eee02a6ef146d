// The infinity-former's continuous long-term memory as a tier [Martins, Marinho and Martins 2022].
#pragma once

#include <memory>
#include <mutex>

#include "kernels/expectation.hpp"
#include "kernels/finite_rows.hpp"
#include "kernels/histogram.hpp"
#include "kernels/signal.hpp"
#include "mneme/cpp/ops.hpp"
#include "mneme/cpp/tier.hpp"
#include "ridge.hpp"
#include "settings.hpp"

namespace continuous_ltm {

// A signal on [0,1] made of N Gaussian basis functions, one per served layer and lane: coefficients
// [B,N,D]. What is absorbed is regressed onto the basis beside a contracted copy of the old signal,
// so that the past shrinks and is never cut off; every query reads the expected value of the signal
// under a normal density of its own. State bytes do not depend on how much was absorbed.
//
// The graph of a segment runs from its losses through the read into the regression of the rows that
// the same segment absorbed: that trains the gate. The old signal has no gradient.
class ContinuousLtm : public mneme::Tier {
 public:
  static constexpr const char* kId = "org.mneme.continuous_ltm";
  static constexpr const char* kLosses = "kl";
  static constexpr const char* kSummary =
      "the infinity-former's continuous long-term memory (Martins et al. 2022)";
  static constexpr auto kOptions = Settings::kOptions;

  explicit ContinuousLtm(mneme::Setup& s);
  void absorb(mneme::Layer& l, const mneme::Rows& fed) override;
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override;

 private:
  // Lanes that share one product: they absorb equally many rows, and either all or none of them
  // have an empty memory.
  struct Group {
    bool is_first = false;
    int64_t rows = 0;
    std::vector<int64_t> lanes;
  };
  // Where the old signal is sampled, for all lanes.
  struct Samples {
    mneme::Tensor locations;  // [B,M] f64, ascending
  };
  // The attention density of every query and head.
  struct Densities {
    mneme::Tensor mean;      // mu [B,H,T]
    mneme::Tensor variance;  // s2, at least the floor
    mneme::Tensor scores;    // [B,H,T,N], on the plain path
  };

  void declare_parameters(mneme::Setup& s);
  void say_growth() const;
  void warn_of_growth(int64_t length) const;
  void announce(int64_t length) const;
  std::shared_ptr<const UpdateMatrices> matrices_of(int64_t length) const;

  // absorb
  std::vector<Group> groups_of(const mneme::Layer& l, const mneme::Rows& fed,
                               std::vector<int64_t>& absorbed) const;
  mneme::Tensor new_coefficients(mneme::Layer& l, const Group& group, const mneme::Tensor& rows,
                                 const mneme::Tensor& old, const Samples& samples) const;
  mneme::Tensor first_fit(const Group& group, const mneme::Tensor& rows) const;
  void report_lanes(mneme::Layer& l, const char* name, const Group& group,
                    const mneme::Tensor& values) const;
  void report_error(mneme::Layer& l, const Group& group, const mneme::Tensor& rows,
                    const mneme::Tensor& coefficients) const;
  mneme::Tensor gated(mneme::Layer& l, const mneme::Tensor& rows) const;
  mneme::Tensor update(const Group& group, const mneme::Tensor& rows, const mneme::Tensor& old,
                       const mneme::Tensor& locations, mneme::Layer& l) const;
  mneme::Tensor basis_at(const mneme::Tensor& locations, mneme::DType dtype) const;
  Samples sample_locations(mneme::Layer& l, const std::vector<Group>& groups) const;
  void check_finite(mneme::Layer& l, const Group& group, const mneme::Tensor& rows) const;
  mneme::Tensor locations_of(const Group& group) const;
  void publish_write(mneme::Layer& l, const std::vector<Group>& groups,
                     const Samples& samples) const;

  // read
  Densities densities_of(mneme::Layer& l, const mneme::Tensor& q,
                         const mneme::Tensor& coefficients) const;
  mneme::Tensor fast_logits(mneme::Layer& l, const mneme::Tensor& q,
                            const mneme::Tensor& coefficients) const;
  mneme::Tensor centres(mneme::DType dtype) const;  // [1,N]
  mneme::Tensor widths(mneme::DType dtype) const;
  mneme::Tensor basis_expectations(const Densities& densities) const;
  void report_metrics_and_kl(mneme::Layer& l, const Densities& densities,
                             const std::vector<int64_t>& absorbed) const;
  void keep_histogram(mneme::Layer& l, const Densities& densities) const;
  void publish_read(mneme::Layer& l, const Densities& densities, const mneme::Tensor& values) const;

  Settings settings_;
  int64_t segment_;     // T of the run
  double layer_share_;  // 1 / served layers: the host sums metrics over layers, shares are means
  Expectation expectation_;
  Signal signal_;
  Histogram histogram_;
  FiniteRows finite_rows_;
  mneme::KernelId expectation_id_, signal_id_, histogram_id_, finite_rows_id_;
  mneme::Parameter key_, value_, output_, gate_weight_, gate_bias_, mu_, sigma_;
  mneme::Parameter mu_bias_, sigma_bias_;
  mneme::Slot coefficients_;
  mneme::Slot density_histogram_;  // sticky: [B,bins], unnormalised, of the segment's densities
  mneme::Counts absorbed_;  // of a lane: rows since it was last empty; 0 or 1 without reset_tokens
};

// A constant of the instance in f32 or f64; `make` gives the Matrix and is called once per key.
template <typename Make>
mneme::Tensor matrix(const std::string& key, int64_t rows, int64_t columns, mneme::DType dtype,
                     const Make& make) {
  const mneme::Shape shape{rows, columns};
  if (dtype == mneme::DType::kF64)
    return mneme::constant((key + ".f64").c_str(), shape, [&] { return make().values; });
  return mneme::constant((key + ".f32").c_str(), shape, [&] {
    const Matrix& m = make();
    return std::vector<float>(m.values.begin(), m.values.end());
  });
}

// matrix [r,c] times every lane of x [b,c,D]. One lane takes the plain product: a batched one would
// copy.
inline mneme::Tensor apply(const mneme::Tensor& matrix, const mneme::Tensor& x) {
  const int64_t lanes = x.dim(0);
  if (lanes == 1) return mneme::unsqueeze(mneme::matmul(matrix, mneme::squeeze(x, 0)), 0);
  const mneme::Shape shape = matrix.shape();
  return mneme::matmul(mneme::expand(mneme::unsqueeze(matrix, 0), {lanes, shape[0], shape[1]}), x);
}

}  // namespace continuous_ltm
