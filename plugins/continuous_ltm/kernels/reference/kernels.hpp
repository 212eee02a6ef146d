// The kernels that compute (all but finite_rows), written as their definitions; slow. Tests compare
// the CPU and CUDA kernels with them. Everything is in double and row-major, and every basis
// function is visited.
#pragma once

#include <cstdint>
#include <vector>

namespace continuous_ltm::reference {

// N functions: centre n / W of N / W places linspace(0, 1), width n % W.
struct Basis {
  int64_t count = 0;           // N
  std::vector<double> widths;  // W of them

  double centre(int64_t n) const;
  double width(int64_t n) const;
};

struct Densities {
  int64_t lanes = 0, heads = 0, queries = 0;
  std::vector<double> mu;        // [B,H,T]
  std::vector<double> variance;  // [B,H,T]
};

// Normal density of `at` under N(mean, variance).
double normal(double at, double mean, double variance);

// values [B,N,H,d] -> context [B,T,H,d] = sum_n N(mu; mu_n, sigma_n^2 + s2) V_n
// [infinity-former, eq. 11; mu and s2 are those of eq. 9 and 10].
std::vector<double> expect(const Basis& basis, const Densities& densities,
                           const std::vector<double>& values, int64_t head_width);

struct ExpectationGradients {
  std::vector<double> mu;        // [B,H,T]
  std::vector<double> variance;  // [B,H,T]
  std::vector<double> values;    // [B,N,H,d]
};

// Derivatives of sum(context * context_grad).
ExpectationGradients expect_backward(const Basis& basis, const Densities& densities,
                                     const std::vector<double>& values, int64_t head_width,
                                     const std::vector<double>& context_grad);

// valid [B,T] -> [B,bins]: mass of the valid queries' normals in each bin, summed over heads
// [infinity-former, eq. 16-17].
std::vector<double> histogram(const Densities& densities, const std::vector<uint8_t>& valid,
                              int64_t bins);

// positions [B,M], coefficients [B,N,D] -> [B,M,D] = sum_n psi_n(position) C_n
// [infinity-former, eq. 4; at the samples of an update, eq. 14].
std::vector<double> signal(const Basis& basis, int64_t lanes, const std::vector<double>& positions,
                           const std::vector<double>& coefficients, int64_t width);

}  // namespace continuous_ltm::reference
