// Blocks of a stream without documents: units for a paired comparison that are long enough for
// neighbouring ones to be uncorrelated.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mneme::stats {

// Consecutive targets of one lane: `begin` <= number < `end`.
struct Block {
  std::size_t lane = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct Blocks {
  std::size_t length = 0;     // targets of a block; the last of a lane has length / 2 to 1.5 length
  std::vector<Block> blocks;  // every target of every lane is in one block, in order
  double autocorrelation = 0;    // between the mean differences of neighbouring blocks, in (-1, 1)
  double band = 0;               // bounds its absolute value in 95 of 100 uncorrelated series
  bool is_uncorrelated = false;  // the test below accepts this length
  std::vector<std::string> warnings;  // sentences for the reader of the result
};

// Chooses the length of blocks from the differences of losses, arm minus baseline, of each target
// of each lane in order (nats; the mean over seeds, where there are several).
//
// Lengths 1, 2, 4, ... are tried [Flyvbjerg and Petersen 1989]. A length is accepted where the
// lag-1 autocorrelations r of it and of all greater lengths together agree with 0: the sum of n r^2
// over them, n the number of neighbouring pairs, is at most the 95 % quantile of chi squared with
// one degree of freedom for each of these lengths [Jonsson 2018]. Twice the smallest accepted
// length is taken, because correlation that the test cannot see yet is halved thereby. A lane's end
// ends a block. Lengths go up to the shortest lane, and as long as at least 10 blocks remain. Where
// no length is accepted, the greatest is taken and a warning given; so it is where fewer than 20
// blocks remain.
//
// Throws a run error where there is no lane, a lane without targets, or a number that is not
// finite.
[[nodiscard]] Blocks choose_blocks(std::span<const std::vector<double>> lanes);

// Cuts lanes of these many targets into blocks of `length` (> 0) targets. A rest of less than half
// a block joins the block before it.
[[nodiscard]] std::vector<Block> cut_blocks(std::span<const std::size_t> lane_targets,
                                            std::size_t length);

// Sums of the values of each block: rows of PairedDifferences (paired.hpp).
[[nodiscard]] std::vector<double> block_sums(std::span<const std::vector<double>> lanes,
                                             std::span<const Block> blocks);

// Numbers of targets of each block.
[[nodiscard]] std::vector<double> block_targets(std::span<const Block> blocks);

// Lag-1 autocorrelation of the blocks' mean differences about the mean of all blocks, over pairs of
// neighbours in one lane: (sum of products / number of pairs) / (sum of squares / number of blocks)
// + 1 / number of blocks, the last to correct the bias of a mean that is estimated. 0 without pairs
// or where all means are equal.
struct LagOne {
  double autocorrelation = 0;
  std::size_t pairs = 0;
};
[[nodiscard]] LagOne lag_one(std::span<const double> means, std::span<const Block> blocks);

}  // namespace mneme::stats
