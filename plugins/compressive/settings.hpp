// The options of a compressive memory, read and checked.
#pragma once

#include <cstdint>

#include "mneme/cpp/options.hpp"
#include "mneme/cpp/setup.hpp"

namespace compressive {

// How evicted rows become fewer [Rae et al. 2019, section 3.2].
enum class Function { kConvolution, kDilated, kMean, kMax, kMostUsed };
// The auxiliary loss that trains the function [Rae et al. 2019, section 3.3].
enum class Loss { kAttention, kAutoencoding, kNone };
// Treatment of rows that do not fill a group of `rate`.
enum class Remainder { kFloor, kPad, kCeil, kCarry };

struct Settings {
  static constexpr double kMaxRows = 1 << 30;
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", mneme::kRequired, 0, kMaxRows,
                     "n_m, rows kept as they are, for each layer and lane; 0 = what is fed is "
                     "compressed at once (behind an xl_cache)")
          .at_evaluation(),
      mneme::integer("compressed_rows", mneme::kRequired, 0, kMaxRows,
                     "n_cm, compressed rows kept; 0 = none")
          .at_evaluation(),
      mneme::integer("rate", 4, 1, 1 << 20, "c, evicted rows that make one compressed row")
          .trained(),
      mneme::choice("function", "conv", "conv|dilated|mean|max|most_used",
                    "how evicted rows are compressed")
          .trained(),
      mneme::choice("loss", "attention", "attention|autoencoding|none",
                    "what trains the function; computed for a function without parameters only "
                    "with report_loss"),
      mneme::choice("loss_norm", "mse", "mse|l2",
                    "the loss is the mean square (as the released peers) or the norm (as printed)"),
      mneme::choice("start", "empty", "empty|zeros",
                    "a fresh lane's memories: empty, or rows of zeros of full length"),
      mneme::choice("remainder", "floor", "floor|pad|ceil|carry",
                    "evicted rows that do not fill a group: floor drops the newest, pad puts zeros "
                    "before the oldest, ceil evicts more, carry leaves them in memory"),
      mneme::choice("store", "input", "input|normed",
                    "what is stored: the layer's input, or that after its norm")
          .trained(),
      mneme::choice("position_bias", "auto", "auto|alibi|none",
                    "a bias on the rows' scores that falls linearly with distance; auto = alibi on "
                    "backbones with learned or no positions"),
      mneme::boolean("bptt", false,
                     "compress inside the next segment's graph, so that its loss trains the "
                     "function"),
      mneme::boolean("report_mass", false,
                     "metrics mass_compressed, mass_memory, mass_segment: where attention goes")
          .at_evaluation(),
      mneme::boolean("report_loss", false,
                     "compute the loss at evaluation too, and where there is nothing to train")
          .at_evaluation());

  // Errors: mneme::Failure naming option and value for what the schema cannot say.
  explicit Settings(const mneme::Setup& s);

  bool has_parameters() const {
    return function == Function::kConvolution || function == Function::kDilated;
  }
  // Without compressed rows there are no groups, and so no remainders: an xl_cache.
  bool compresses() const { return compressed_rows > 0; }
  bool carries() const { return compresses() && remainder == Remainder::kCarry; }
  // Whether rows are ever held as they are.
  bool has_memory() const { return rows > 0 || carries(); }
  // Rows that leave a memory of `held` rows.
  int64_t leaving(int64_t held) const;
  // Compressed rows made of `evicted` rows.
  int64_t made_of(int64_t evicted) const {
    return remainder == Remainder::kPad ? (evicted + rate - 1) / rate : evicted / rate;
  }
  // Most rows that are read: those of both memories and, where rows are carried, these.
  int64_t context_rows() const { return rows + compressed_rows + (carries() ? rate - 1 : 0); }

  int64_t rows;
  int64_t compressed_rows;
  int64_t rate;
  Function function;
  Loss loss;
  bool is_l2;
  bool starts_with_zeros;
  Remainder remainder;
  bool is_normed;
  bool has_position_bias;
  bool is_bptt;
  bool reports_mass;
  bool reports_loss;
};

}  // namespace compressive
