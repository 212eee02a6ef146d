// The options of a continuous memory, read and checked.
#pragma once

#include <cstdint>

#include "basis_grid.hpp"
#include "mneme/cpp/options.hpp"
#include "mneme/cpp/setup.hpp"

namespace continuous_ltm {

// The position of a sticky sample within the bin that was drawn.
enum class WithinBin { kLeft, kUniform };

struct Settings {
  static constexpr double kMaxFunctions = 1 << 16;
  static constexpr double kMaxTokens = 9e15;
  static constexpr auto kOptions = mneme::options(
      mneme::integer("basis", mneme::kRequired, 1, kMaxFunctions,
                     "N, Gaussian basis functions; a multiple of the number of widths")
          .trained(),
      mneme::reals("widths", "[0.01, 0.05]", 1e-6, 10.0,
                   "widths of the functions, in units of the whole memory")
          .trained(),
      mneme::real("tau", 0.75, 1e-3, 0.999,
                  "share of the memory that the past is contracted to at each update")
          .trained(),
      mneme::integer("samples", 0, 0, kMaxFunctions,
                     "M, samples of the old signal at each update; 0 = basis"),
      mneme::real("ridge", 1.0, 1e-9, 1e9, "lambda, the penalty of the regression"),
      mneme::boolean("padding", true, "regress towards zero outside of the memory"),
      mneme::boolean("gate", true, "weigh the rows by a convolution and a sigmoid"),
      mneme::boolean("sticky", false, "sample the past where the last segment attended, not evenly")
          .at_evaluation(),
      mneme::integer("bins", 128, 1, kMaxFunctions, "bins of the histogram of attention"),
      mneme::choice("within_bin", "left", "left|uniform", "where in a drawn bin to sample")
          .at_evaluation(),
      mneme::real("variance_floor", 1e-4, 1e-12, 1.0, "least variance of an attention density"),
      mneme::real("sigma_0", 0.05, 0.0, 10.0,
                  "standard deviation that the KL term pulls to; 0 = no KL term"),
      mneme::real("lambda_kl", 1e-6, 0.0, 1e6, "weight of the KL term in the loss"),
      mneme::boolean("kl_mean", false,
                     "the KL term also pulls the means to mu_0, as the released GPT-2 runs do"),
      mneme::real("mu_0", -1.0, -10.0, 10.0, "where kl_mean pulls to"),
      mneme::integer("reset_tokens", 0, 0, kMaxTokens,
                     "empty the memory once it has taken in so many tokens; 0 = never")
          .at_evaluation(),
      mneme::choice("memory_input", "input", "input|normed",
                    "what is stored: the layer's input, or that after its norm"),
      mneme::boolean("affine_bias", false, "biases in the maps to mean and variance"),
      mneme::boolean("report_error", false,
                     "metric regression_error: how far the signal is from the rows just stored")
          .at_evaluation(),
      mneme::choice("path", "fast", "fast|plain",
                    "plain forms every score and expectation, as the definition does")
          .at_evaluation());

  // Errors: mneme::Failure naming option and value for what the schema cannot say.
  explicit Settings(const mneme::Setup& s);

  int64_t basis;   // N
  BasisGrid grid;  // of the basis
  double tau;
  int64_t samples;  // M
  double ridge;
  bool is_padded;
  bool has_gate;
  bool is_sticky;
  int64_t bins;
  WithinBin within_bin;
  double variance_floor;
  double sigma_0;  // 0 = no KL term
  double lambda_kl;
  bool has_kl_mean;
  double mu_0;
  int64_t reset_tokens;  // 0 = never
  bool is_normed;        // rows pass the layer's norm before they are stored
  bool has_affine_bias;
  bool reports_error;
  bool is_plain;
};

}  // namespace continuous_ltm
