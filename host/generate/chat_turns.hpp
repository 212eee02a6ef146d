// The lines of a chat as tokens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "host/data/dataset.hpp"

namespace mneme::generate {

// A line is continued as it is; where the model was trained on dialogues, lines are the turns of
// <speaker2>, who begins a dialogue, and answers those of <speaker1>.
class ChatTurns {
 public:
  explicit ChatTurns(const data::Dataset& dataset) {
    if (dataset.has_dialogues()) ids_ = data::dialogue_ids(*dataset.vocabulary());
  }

  [[nodiscard]] bool is_dialogue() const { return ids_.has_value(); }
  // The tokens before the first turn, made of the document's ids; dialogues only.
  [[nodiscard]] std::vector<std::int32_t> document(std::vector<std::int32_t> ids) const {
    ids.insert(ids.begin(), ids_->doc);
    ids.push_back(ids_->eos);
    return ids;
  }
  // The tokens of a line, made of its ids.
  [[nodiscard]] std::vector<std::int32_t> turn(std::vector<std::int32_t> ids) const {
    if (!ids_) return ids;
    ids.insert(ids.begin(), ids_->speaker2);
    ids.push_back(ids_->speaker1);
    return ids;
  }
  // True for a mark, which ends an answer and is not part of it.
  [[nodiscard]] bool ends_answer(std::int32_t id) const {
    if (!ids_) return false;
    const std::int32_t marks[] = {ids_->bos,      ids_->eos,      ids_->pad,
                                  ids_->speaker1, ids_->speaker2, ids_->doc};
    return std::ranges::find(marks, id) != std::end(marks);
  }

 private:
  std::optional<data::DialogueIds> ids_;
};

}  // namespace mneme::generate
