#include "host/analyze/measures/utterances.hpp"

#include <algorithm>

#include "host/analyze/measures/attention.hpp"
#include "host/base/error.hpp"

namespace mneme::analyze {

DocumentAttention::DocumentAttention(const data::DialogueIds& marks, std::int64_t stretch)
    : marks_(marks), stretch_(stretch) {
  if (stretch < 1)
    throw_usage("attention to a document: stretch: expected at least 1, got ", stretch);
}

void DocumentAttention::begin(const data::TokenSegment& segment) {
  lanes_.resize(static_cast<std::size_t>(segment.lanes));
  for (std::size_t b = 0; b < lanes_.size(); ++b) {
    Lane& lane = lanes_[b];
    if (segment.reset[b] != 0) lane = Lane{.tokens = lane.tokens, .reading = {}};
    lane.reading.clear();
    for (std::int64_t t = 0; t < segment.valid[b]; ++t) {
      const auto i = b * static_cast<std::size_t>(segment.length) + static_cast<std::size_t>(t);
      read(lane, segment.inputs[i], static_cast<std::int64_t>(b), segment.document[b]);
    }
  }
}

void DocumentAttention::read(Lane& lane, std::int64_t id, std::int64_t number,
                             std::int64_t dialogue) {
  const std::int64_t place = lane.tokens++;
  const bool is_speaker = id == marks_.speaker1 || id == marks_.speaker2;
  if (id == marks_.doc) lane.document_begin = place + 1;
  const bool ends_document =
      lane.document_begin >= 0 && lane.document_end < 0 && (is_speaker || id == marks_.eos);
  if (ends_document) lane.document_end = place;
  if (is_speaker) {
    ++lane.turn;
    if (lane.document_begin >= 0) {
      utterances_.push_back({.utterance = {.lane = number,
                                           .dialogue = dialogue,
                                           .turn = lane.turn,
                                           .document = lane.document_begin,
                                           .begin = place + 1,
                                           .end = place + 1,
                                           .passages = {}},
                             .document_end = lane.document_end,
                             .mass = {}});
    }
  }
  const bool is_text = lane.turn >= 0 && lane.document_begin >= 0 && !is_speaker;
  lane.reading.push_back(-1);
  if (!is_text) return;
  // The lane's newest utterance; those of other lanes may stand behind it.
  for (std::size_t i = utterances_.size(); i-- > 0;) {
    if (utterances_[i].utterance.lane != number) continue;
    utterances_[i].utterance.end = place + 1;
    lane.reading.back() = static_cast<std::int64_t>(i);
    return;
  }
}

void DocumentAttention::add(const LaneView& view) {
  if (view.space.is_empty()) return;
  const Lane& lane = lanes_.at(static_cast<std::size_t>(view.lane));
  for (const std::vector<Density>& head : view.heads) {
    for (std::size_t from = 0; from < head.size();) {
      std::size_t to = from + 1;
      while (to < head.size() && lane.reading.at(to) == lane.reading.at(from)) ++to;
      if (lane.reading.at(from) >= 0) {
        add_to(utterances_[static_cast<std::size_t>(lane.reading[from])],
               std::span(head).subspan(from, to - from), view.space);
      }
      from = to;
    }
  }
}

void DocumentAttention::add_to(Reading& reading, std::span<const Density> densities,
                               const TokenCells& space) const {
  reading.densities += static_cast<std::int64_t>(densities.size());
  for (const auto& [token, mass] : token_masses(densities, space)) {
    const bool is_of_document = token >= reading.utterance.document && token < reading.document_end;
    if (is_of_document) reading.mass[(token - reading.utterance.document) / stretch_] += mass;
  }
}

std::vector<Utterance> DocumentAttention::utterances(std::size_t count) const {
  std::vector<Utterance> out;
  for (const Reading& reading : utterances_) {
    double all = 0.0;
    for (const auto& [passage, mass] : reading.mass) all += mass;
    if (all <= 0.0) continue;
    Utterance one = reading.utterance;
    const std::int64_t length = reading.document_end - one.document;
    for (const auto& [passage, mass] : reading.mass) {
      one.passages.push_back({.from = passage * stretch_,
                              .to = std::min((passage + 1) * stretch_, length),
                              .mass = mass / static_cast<double>(reading.densities),
                              .share = mass / all});
    }
    std::ranges::stable_sort(one.passages, std::ranges::greater{}, &Passage::mass);
    if (one.passages.size() > count) one.passages.resize(count);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace mneme::analyze
