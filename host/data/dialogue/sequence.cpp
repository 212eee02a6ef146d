#include "host/data/dialogue/sequence.hpp"

#include <algorithm>

#include "host/base/error.hpp"

namespace mneme::data {
namespace {

// Puts a sequence together, token by token.
class SequenceWriter {
 public:
  explicit SequenceWriter(DialogueSequence& out) : out_(out) {}

  void set_type(std::int32_t type) { type_ = type; }
  // <doc>, <eos> or a speaker.
  void mark(std::int32_t id) { add(id, false); }
  TokenRange text(const std::vector<std::int32_t>& ids, bool is_utterance) {
    const std::int64_t begin = out_.size();
    for (const std::int32_t id : ids) add(id, is_utterance);
    return {begin, out_.size()};
  }

 private:
  void add(std::int32_t id, bool is_utterance) {
    out_.tokens.push_back(id);
    out_.types.push_back(type_);
    out_.is_utterance.push_back(is_utterance ? 1 : 0);
  }

  DialogueSequence& out_;
  std::int32_t type_ = 0;
};

// The encoder's ids after the checks of make_sequence; `part` names the text in messages.
std::vector<std::int32_t> encode_part(const Dialogue& dialogue, const std::string& part,
                                      const std::string& text, const DialogueIds& ids,
                                      const TextEncoder& encode) {
  std::vector<std::int32_t> tokens = encode(text);
  const std::string failed = str("the ids of ", part);
  if (tokens.empty()) {
    throw_usage({.where = dialogue.where,
                 .failed = failed,
                 .expected = "at least one",
                 .got = "none: the vocabulary has nothing for this text",
                 .hint = "remove the text, or use another vocabulary"});
  }
  for (const std::int32_t id : tokens) {
    if (id < 0 || id >= ids.vocabulary_size) {
      throw_usage({.where = dialogue.where,
                   .failed = failed,
                   .expected = str("ids from 0 to ", ids.vocabulary_size - 1),
                   .got = str(id)});
    }
    if (id == ids.speaker1 || id == ids.speaker2 || id == ids.doc) {
      throw_usage({.where = dialogue.where,
                   .failed = failed,
                   .expected = "none of <speaker1>, <speaker2> and <doc>, which mark turns and "
                               "documents",
                   .got = str(id),
                   .hint = "write the mark otherwise in the text"});
    }
  }
  return tokens;
}

}  // namespace

DialogueSequence make_sequence(const Dialogue& dialogue, const DialogueIds& ids,
                               const TextEncoder& encode, bool has_document) {
  DialogueSequence out;
  SequenceWriter writer(out);
  if (has_document) {
    writer.set_type(ids.doc);
    writer.mark(ids.doc);
    out.document =
        writer.text(encode_part(dialogue, "the document", dialogue.document, ids, encode), false);
    writer.mark(ids.eos);
  }
  for (std::size_t i = 0; i < dialogue.turns.size(); ++i) {
    const std::int32_t speaker = ids.speaker_of(static_cast<std::int64_t>(i));
    writer.set_type(speaker);
    const std::int64_t begin = out.size();
    writer.mark(speaker);
    const TokenRange text = writer.text(encode_part(dialogue, str("turn ", i, " (the first is 0)"),
                                                    dialogue.turns[i].text, ids, encode),
                                        true);
    out.turns.push_back({begin, text.end});
  }
  return out;
}

std::vector<TokenRange> cut_from_end(std::int64_t tokens, std::int64_t length, std::int64_t room) {
  if (length < 1 || room < 0 || room >= length) {
    throw_usage(
        "pieces of dialogues: expected a length of at least 1 and less room than length, "
        "got length ",
        length, " and room ", room);
  }
  std::vector<TokenRange> pieces;
  for (std::int64_t end = tokens; end > 0;) {
    const std::int64_t most = pieces.empty() ? length - room : length;
    const std::int64_t begin = std::max<std::int64_t>(0, end - most);
    pieces.push_back({begin, end});
    end = begin;
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<GenerationInstance> generation_instances(const DialogueSequence& sequence,
                                                     std::int64_t turns_before) {
  if (turns_before < 0) {
    throw_usage("scored turns: expected at least 0 turns before them, got ", turns_before);
  }
  std::vector<GenerationInstance> instances;
  const auto turns = static_cast<std::int64_t>(sequence.turns.size());
  for (std::int64_t turn = turns_before; turn < turns; ++turn) {
    const TokenRange& place = sequence.turns[static_cast<std::size_t>(turn)];
    instances.push_back({turn, {0, place.begin + 1}, {place.begin + 1, place.end}});
  }
  return instances;
}

}  // namespace mneme::data
