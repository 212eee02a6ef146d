// Which parts of a dialogue's document each utterance attends to.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "host/analyze/trace.hpp"
#include "host/data/dialogue/sequence.hpp"

namespace mneme::analyze {

// Consecutive tokens of a document and the attention that an utterance gave them.
struct Passage {
  std::int64_t from = 0;  // tokens of the document before it
  std::int64_t to = 0;    // one past its last token
  double mass = 0.0;      // of the densities in the tokens' cells; mean over tokens, layers, heads
  double share = 0.0;     // of what the whole document got
};

// A turn's text.
struct Utterance {
  std::int64_t lane = 0;
  std::int64_t dialogue = 0;        // number of the split
  std::int64_t turn = 0;            // from 0
  std::int64_t document = 0;        // first token of the document's text, in the lane's history
  std::int64_t begin = 0, end = 0;  // its tokens there, without the mark
  std::vector<Passage> passages;    // largest mass first
};

// Follows the queries of every turn through a memory that is a signal (TokenCells): the mass of
// their densities in the cells of the document's tokens.
class DocumentAttention {
 public:
  // Passages have `stretch` tokens, the last of a document maybe fewer. Error (kUsage) for less
  // than 1.
  DocumentAttention(const data::DialogueIds& marks, std::int64_t stretch);

  // A segment's tokens; call add() with its views afterwards.
  void begin(const data::TokenSegment& segment);
  void add(const LaneView& view);

  // Utterances that attended to something of their document, in the order in which they were read,
  // each with the `count` passages of the largest mass.
  [[nodiscard]] std::vector<Utterance> utterances(std::size_t count) const;
  [[nodiscard]] bool is_empty() const { return utterances_.empty(); }

 private:
  // A document's or turn's tokens in a lane.
  struct Reading {
    Utterance utterance;  // without passages
    std::int64_t document_end = 0;
    std::map<std::int64_t, double> mass;  // by passage
    std::int64_t densities = 0;           // that were added
  };
  struct Lane {
    std::int64_t tokens = 0;           // read so far
    std::int64_t turn = -1;            // -1 = none yet
    std::int64_t document_begin = -1;  // of the text; -1 = no document
    std::int64_t document_end = -1;    // -1 = it continues
    // Of each token of this segment the place of its reading in utterances_; -1 = no turn's text.
    std::vector<std::int64_t> reading;
  };
  // Densities of one utterance's tokens.
  void add_to(Reading& reading, std::span<const Density> densities, const TokenCells& space) const;
  void read(Lane& lane, std::int64_t id, std::int64_t number, std::int64_t dialogue);

  data::DialogueIds marks_;
  std::int64_t stretch_;
  std::vector<Lane> lanes_;
  std::vector<Reading> utterances_;
};

}  // namespace mneme::analyze
