// The dialogues of a split as tokens, and the stream that reads them piece by piece.
// docs/dialogue.md, "The sequence".
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/data/dialogue/dialogue.hpp"
#include "host/data/dialogue/sequence.hpp"
#include "host/data/stream/stream.hpp"
#include "host/data/vocabulary/vocabulary.hpp"

namespace mneme::data {

// Immutable after it is made.
struct DialogueData {
  DialogueIds ids;
  std::vector<Dialogue> dialogues;
  // By dialogue.
  std::vector<DialogueSequence> sequences;
  // The sequences one after another, a document for each. Of their texts unknown words alone are
  // counted.
  std::shared_ptr<const Corpus> corpus;
};

// The documents and turns of dialogues, borrowed from them: what a vocabulary is built from.
[[nodiscard]] std::vector<NamedText> texts_of(std::span<const Dialogue> dialogues);

// The marks' ids in a vocabulary that has all of them (Vocabulary::with_marks): behind GPT-2's
// 50,257 ids they are 50257 to 50262. Error (kUsage) for one that lacks a mark.
[[nodiscard]] DialogueIds dialogue_ids(const Vocabulary& vocabulary);

// Error (kUsage) naming the key and the path unless there is a file or a folder.
void check_dialogue_path(const std::filesystem::path& path, const std::string& key);

// `key` is the key of the experiment file that names the file; `vocabulary` has the marks. Errors
// as make_sequence and Vocabulary::encode; Error (kUsage) for a dialogue without the document that
// `has_document` wants.
[[nodiscard]] std::shared_ptr<const DialogueData> encode_dialogues(
    std::vector<Dialogue> dialogues, const std::filesystem::path& file, const std::string& key,
    const Vocabulary& vocabulary, bool has_document);

// --- Segments of dialogues ---

// Each lane has dialogues of its own and reads them one after another, from an empty memory each
// (data.reset does not change that), in pieces of a segment's length. One lane cuts them from the
// end, as published (cut_from_end); several from the beginning, because a lane may be padded only
// where it ends (TokenSegment), and first pieces of other lengths would be padded. The target of a
// token is the next one of its dialogue: in training any, in evaluation those of the turns' texts
// only; the last token has none. Lanes that have read all their dialogues have valid 0 until the
// others have, which ends the epoch.
//
// Dialogues are dealt to lanes in the order of the file, each to the lane that has the fewest
// pieces so far. Training takes those of a lane in an order that is drawn anew for each epoch from
// data.seed and options.seed; evaluation takes them as they are numbered.
// TokenSegment::document is a dialogue's number, `offset` counts from the beginning of its
// sequence.
class DialogueStream final : public CountedStream {
 public:
  // `settings`: data.dialogue and data.seed. Errors (kUsage) as check_stream_options.
  DialogueStream(std::shared_ptr<const DialogueData> data, const config::DataConfig& settings,
                 const StreamOptions& options);

  bool next(TokenSegment& segment) override;
  [[nodiscard]] std::int64_t segments_per_epoch() const override { return segments_; }
  [[nodiscard]] std::int64_t targets_per_epoch() const override { return targets_; }

 private:
  // A piece of a dialogue.
  struct Piece {
    std::int64_t dialogue = 0;
    TokenRange tokens;
  };

  void deal();
  [[nodiscard]] std::vector<TokenRange> cut(std::int64_t tokens) const;
  // Puts the pieces of every lane in the order of an epoch.
  void order(std::int64_t epoch);
  [[nodiscard]] bool has_target(const DialogueSequence& sequence, std::int64_t token) const;
  void fill(std::int64_t lane, const Piece& piece, TokenSegment& segment) const;
  [[nodiscard]] std::vector<PositionField> position_fields() const override;

  std::shared_ptr<const DialogueData> data_;
  std::uint64_t seed_;
  bool has_types_;
  StreamOptions options_;
  std::vector<std::vector<std::int64_t>> dialogues_;  // of each lane
  std::vector<std::vector<Piece>> pieces_;            // of each lane, in the order of epoch_
  std::int64_t epoch_ = -1;                           // of pieces_
  std::int64_t segments_ = 0;
  std::int64_t targets_ = 0;
};

}  // namespace mneme::data
