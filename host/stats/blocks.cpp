#include "host/stats/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/stats/distributions.hpp"

namespace mneme::stats {
namespace {

constexpr std::size_t kFewestBlocks = 10;  // for a length to be tried at all
constexpr std::size_t kFewBlocks = 20;     // below, a warning
constexpr double kTestLevel = 0.95;

struct Level {
  std::size_t length = 0;
  LagOne lag;
};

void check_lanes(std::span<const std::vector<double>> lanes) {
  if (lanes.empty()) {
    throw_run({.where = "blocks of a stream",
               .failed = "nothing to cut",
               .expected = "at least one lane of differences",
               .got = "none"});
  }
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].empty()) {
      throw_run({.where = str("blocks of a stream, lane ", lane),
                 .failed = "nothing to cut",
                 .expected = "at least one target",
                 .got = "none"});
    }
    for (std::size_t i = 0; i < lanes[lane].size(); ++i) {
      if (!std::isfinite(lanes[lane][i])) {
        throw_run({.where = str("blocks of a stream, lane ", lane, ", target ", i),
                   .failed = "difference of losses",
                   .expected = "a finite number",
                   .got = str(lanes[lane][i])});
      }
    }
  }
}

std::vector<double> block_means(std::span<const std::vector<double>> lanes,
                                std::span<const Block> blocks) {
  std::vector<double> means = block_sums(lanes, blocks);
  for (std::size_t i = 0; i < means.size(); ++i) {
    means[i] /= static_cast<double>(blocks[i].end - blocks[i].begin);
  }
  return means;
}

}  // namespace

std::vector<Block> cut_blocks(std::span<const std::size_t> lane_targets, std::size_t length) {
  if (length == 0) {
    throw_usage({.failed = "length of blocks", .expected = "above 0", .got = "0"});
  }
  std::vector<Block> blocks;
  for (std::size_t lane = 0; lane < lane_targets.size(); ++lane) {
    const std::size_t targets = lane_targets[lane];
    for (std::size_t begin = 0; begin < targets;) {
      const std::size_t rest = targets - begin;
      // Twice the rest of less than half a block is less than a block.
      const std::size_t size = rest < length || 2 * (rest - length) < length ? rest : length;
      blocks.push_back({lane, begin, begin + size});
      begin += size;
    }
  }
  return blocks;
}

std::vector<double> block_sums(std::span<const std::vector<double>> lanes,
                               std::span<const Block> blocks) {
  std::vector<double> sums;
  sums.reserve(blocks.size());
  for (const Block& block : blocks) {
    double sum = 0;
    for (std::size_t i = block.begin; i < block.end; ++i) sum += lanes[block.lane][i];
    sums.push_back(sum);
  }
  return sums;
}

std::vector<double> block_targets(std::span<const Block> blocks) {
  std::vector<double> targets;
  targets.reserve(blocks.size());
  for (const Block& block : blocks) {
    targets.push_back(static_cast<double>(block.end - block.begin));
  }
  return targets;
}

LagOne lag_one(std::span<const double> means, std::span<const Block> blocks) {
  const auto count = static_cast<double>(means.size());
  double mean = 0;
  for (const double value : means) mean += value / count;
  double squares = 0;
  double products = 0;
  LagOne lag;
  for (std::size_t i = 0; i < means.size(); ++i) {
    squares += (means[i] - mean) * (means[i] - mean);
    if (i > 0 && blocks[i].lane == blocks[i - 1].lane) {
      products += (means[i] - mean) * (means[i - 1] - mean);
      ++lag.pairs;
    }
  }
  if (lag.pairs == 0 || squares == 0) return lag;
  const double value = products / static_cast<double>(lag.pairs) / (squares / count) + 1 / count;
  lag.autocorrelation = std::clamp(value, -1.0, 1.0);
  return lag;
}

Blocks choose_blocks(std::span<const std::vector<double>> lanes) {
  check_lanes(lanes);
  std::vector<std::size_t> lane_targets;
  std::size_t shortest = lanes[0].size();
  for (const auto& lane : lanes) {
    lane_targets.push_back(lane.size());
    shortest = std::min(shortest, lane.size());
  }
  std::vector<Level> levels;
  for (std::size_t length = 1; length <= shortest; length *= 2) {
    const std::vector<Block> blocks = cut_blocks(lane_targets, length);
    if (blocks.size() < kFewestBlocks && !levels.empty()) break;
    levels.push_back({length, lag_one(block_means(lanes, blocks), blocks)});
  }
  std::size_t accepted = levels.size();
  double sum = 0;
  for (std::size_t i = levels.size(); i-- > 0;) {
    const LagOne& lag = levels[i].lag;
    sum += static_cast<double>(lag.pairs) * lag.autocorrelation * lag.autocorrelation;
    const auto degrees = static_cast<double>(levels.size() - i);
    if (sum <= chi_squared_quantile(kTestLevel, degrees)) accepted = i;
  }
  Blocks result;
  result.is_uncorrelated = accepted < levels.size();
  const Level& taken = levels[std::min(accepted + 1, levels.size() - 1)];
  result.length = taken.length;
  result.autocorrelation = taken.lag.autocorrelation;
  result.band = normal_quantile(0.5 + kTestLevel / 2) /
                std::sqrt(static_cast<double>(std::max<std::size_t>(taken.lag.pairs, 1)));
  result.blocks = cut_blocks(lane_targets, taken.length);
  if (!result.is_uncorrelated) {
    result.warnings.push_back(str(
        "differences are correlated over more than ", taken.length,
        " targets, the greatest length of blocks that could be tried: intervals are too narrow"));
  }
  if (result.blocks.size() < kFewBlocks) {
    const bool are_equal = std::ranges::all_of(
        result.blocks, [&](const Block& block) { return block.end - block.begin == taken.length; });
    result.warnings.push_back(str("only ", result.blocks.size(), " blocks of ",
                                  are_equal ? "" : "about ", taken.length,
                                  " targets: evaluate on a longer text, intervals are rough"));
  }
  return result;
}

}  // namespace mneme::stats
