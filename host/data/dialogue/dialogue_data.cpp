#include "host/data/dialogue/dialogue_data.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"

namespace mneme::data {

namespace {

[[noreturn]] void refuse_without_document(const Dialogue& dialogue) {
  throw_usage({.where = dialogue.where,
               .failed = "the dialogue has no document",
               .expected = "the key \"document\" with a text (CMU_DoG's documents lie in "
                           "documents.jsonl beside the file, or in WikiData)",
               .got = str("the dialogue \"", dialogue.id, "\" without one"),
               .hint = "give it one, or train on the turns alone (data.with_document = false)"});
}

}  // namespace

std::vector<NamedText> texts_of(std::span<const Dialogue> dialogues) {
  std::vector<NamedText> texts;
  for (const Dialogue& dialogue : dialogues) {
    if (!dialogue.document.empty()) texts.push_back({dialogue.where, dialogue.document});
    for (const Turn& turn : dialogue.turns) texts.push_back({dialogue.where, turn.text});
  }
  return texts;
}

DialogueIds dialogue_ids(const Vocabulary& vocabulary) {
  std::array<std::int32_t, kDialogueMarks.size()> found{};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::optional<std::int32_t> id = vocabulary.find(kDialogueMarks[i]);
    if (!id) {
      throw_usage({.where = "the vocabulary",
                   .failed = "it has no marks of dialogues",
                   .expected = join({kDialogueMarks.begin(), kDialogueMarks.end()}, ", "),
                   .got = vocabulary.summary(),
                   .hint = "take the vocabulary of a run with data.task = \"dialogue\""});
    }
    found[i] = *id;
  }
  return {found[0], found[1], found[2], found[3], found[4], found[5], vocabulary.size()};
}

void check_dialogue_path(const std::filesystem::path& path, const std::string& key) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (!is_folder) check_data_file(path, key, "a file or folder of dialogues");
}

std::shared_ptr<const DialogueData> encode_dialogues(std::vector<Dialogue> dialogues,
                                                     const std::filesystem::path& file,
                                                     const std::string& key,
                                                     const Vocabulary& vocabulary,
                                                     bool has_document) {
  if (dialogues.empty()) {
    throw_usage({.where = str(key, ": ", file.string()),
                 .failed = "there are no dialogues",
                 .expected = "at least one dialogue"});
  }
  auto data = std::make_shared<DialogueData>();
  data->ids = dialogue_ids(vocabulary);
  data->dialogues = std::move(dialogues);
  auto corpus = std::make_shared<Corpus>();
  corpus->key = key;
  corpus->files = {file};
  TokenBuffer buffer(token_width(data->ids.vocabulary_size));
  for (const Dialogue& dialogue : data->dialogues) {
    if (has_document && dialogue.document.empty()) refuse_without_document(dialogue);
    const TextEncoder encode = [&](std::string_view text) {
      std::vector<std::int32_t> ids;
      corpus->counts.unknown += vocabulary.encode({dialogue.where, text}, ids).unknown;
      return ids;
    };
    data->sequences.push_back(make_sequence(dialogue, data->ids, encode, has_document));
    corpus->documents.push_back(buffer.count());
    for (const std::int32_t id : data->sequences.back().tokens) buffer.push(id);
  }
  corpus->tokens = buffer.take();
  corpus->sha256 = sha256_of(texts_of(data->dialogues));
  data->corpus = std::move(corpus);
  return data;
}

DialogueStream::DialogueStream(std::shared_ptr<const DialogueData> data,
                               const config::DataConfig& settings, const StreamOptions& options)
    : data_(std::move(data)),
      seed_(settings.seed),
      has_types_(settings.dialogue.has_token_types),
      options_(options) {
  check_stream_options(options_);
  if (options_.is_training && options_.segment < 2) {
    throw_usage({.where = "train.segment",
                 .failed = "a dialogue's last token would be a segment without a target",
                 .expected = "at least 2",
                 .got = str(options_.segment)});
  }
  deal();
  order(0);
}

bool DialogueStream::has_target(const DialogueSequence& sequence, std::int64_t token) const {
  const std::int64_t next = token + 1;
  return next < sequence.size() && (options_.is_training || sequence.is_utterance[at(next)] != 0);
}

std::vector<TokenRange> DialogueStream::cut(std::int64_t tokens) const {
  if (options_.lanes == 1) return cut_from_end(tokens, options_.segment);
  std::vector<TokenRange> pieces;
  for (std::int64_t begin = 0; begin < tokens; begin += options_.segment) {
    pieces.push_back({begin, std::min(begin + options_.segment, tokens)});
  }
  return pieces;
}

void DialogueStream::deal() {
  dialogues_.resize(at(options_.lanes));
  std::vector<std::int64_t> load(at(options_.lanes), 0);
  for (std::size_t i = 0; i < data_->sequences.size(); ++i) {
    const DialogueSequence& sequence = data_->sequences[i];
    const auto lane = std::ranges::min_element(load) - load.begin();
    dialogues_[at(lane)].push_back(static_cast<std::int64_t>(i));
    load[at(lane)] += (sequence.size() + options_.segment - 1) / options_.segment;
    for (std::int64_t t = 0; t < sequence.size(); ++t) targets_ += has_target(sequence, t) ? 1 : 0;
  }
  segments_ = *std::ranges::max_element(load);
}

void DialogueStream::order(std::int64_t epoch) {
  if (epoch_ == epoch) return;
  pieces_.assign(at(options_.lanes), {});
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    std::vector<std::int64_t> order = dialogues_[at(b)];
    if (options_.is_training) {
      Random random(seed_, {"dialogues.order", options_.seed, static_cast<std::uint64_t>(epoch),
                            static_cast<std::uint64_t>(b)});
      random.shuffle(std::span(order));
    }
    for (const std::int64_t dialogue : order) {
      const DialogueSequence& sequence = data_->sequences[at(dialogue)];
      for (const TokenRange& tokens : cut(sequence.size())) {
        pieces_[at(b)].push_back({dialogue, tokens});
      }
    }
  }
  epoch_ = epoch;
}

bool DialogueStream::next(TokenSegment& segment) {
  if (options_.max_segments != 0 && index_ >= options_.max_segments) return false;
  if (options_.epochs != 0 && index_ >= options_.epochs * segments_) return false;
  order(index_ / segments_);
  const auto place = at(index_ % segments_);
  std::int64_t longest = 1;
  for (const std::vector<Piece>& lane : pieces_) {
    if (place < lane.size()) longest = std::max(longest, lane[place].tokens.size());
  }
  segment.prepare(options_.lanes, longest, /*has_source=*/false);
  if (has_types_) segment.types.assign(segment.inputs.size(), data_->ids.doc);
  segment.epoch = epoch_;
  segment.index = index_++;
  for (std::int64_t b = 0; b < options_.lanes; ++b) {
    const std::vector<Piece>& lane = pieces_[at(b)];
    if (place < lane.size()) {
      fill(b, lane[place], segment);
    } else {
      segment.reset[at(b)] = 1;
    }
  }
  return true;
}

void DialogueStream::fill(std::int64_t lane, const Piece& piece, TokenSegment& segment) const {
  const DialogueSequence& sequence = data_->sequences[at(piece.dialogue)];
  const std::int64_t first = lane * segment.length;
  for (std::int64_t t = piece.tokens.begin; t < piece.tokens.end; ++t) {
    const std::size_t place = at(first + t - piece.tokens.begin);
    segment.inputs[place] = sequence.tokens[at(t)];
    if (has_target(sequence, t)) segment.targets[place] = sequence.tokens[at(t + 1)];
    if (has_types_) segment.types[place] = sequence.types[at(t)];
  }
  segment.valid[at(lane)] = piece.tokens.size();
  segment.reset[at(lane)] = piece.tokens.begin == 0 ? 1 : 0;
  segment.document[at(lane)] = piece.dialogue;
  segment.offset[at(lane)] = piece.tokens.begin;
}

std::vector<PositionField> DialogueStream::position_fields() const {
  return {{"lanes", options_.lanes},
          {"segment", options_.segment},
          {"dialogues", static_cast<std::int64_t>(data_->sequences.size())},
          {"tokens", data_->corpus->size()}};
}

}  // namespace mneme::data
