#include "host/eval/protocol.hpp"

#include <nlohmann/json.hpp>

#include "host/base/text.hpp"

namespace mneme::eval {
namespace {

double ratio(std::int64_t tokens, std::int64_t units) {
  return units == 0 ? 0.0 : static_cast<double>(tokens) / static_cast<double>(units);
}

}  // namespace

double Protocol::tokens_per_word() const { return ratio(tokens, words); }
double Protocol::tokens_per_byte() const { return ratio(tokens, bytes); }
double Protocol::tokens_per_character() const { return ratio(tokens, characters); }

Protocol protocol_of(const data::Dataset& dataset, data::Split split,
                     const config::Experiment& experiment) {
  Protocol out;
  out.segment = experiment.eval.segment;
  out.lanes = experiment.eval.lanes;
  const auto corpus = dataset.corpus(split);
  if (const data::Vocabulary* vocabulary = dataset.vocabulary(); vocabulary && !corpus)
    out.unit = data::to_word(vocabulary->kind());
  if (!corpus) return out;
  out.reset = config::to_word(experiment.data.reset);
  out.tokens = corpus->size();
  if (dataset.dialogues(split) == nullptr) {
    out.dropped = out.tokens % out.lanes;
    out.has_blocks = true;
  } else {
    out.reset = config::to_word(config::Reset::kDocument);  // at each dialogue, always
  }
  out.words = corpus->counts.words;
  out.bytes = corpus->counts.bytes;
  out.characters = corpus->counts.characters;
  out.unknown = corpus->counts.unknown;
  if (const data::Vocabulary* vocabulary = dataset.vocabulary()) {
    out.unit = data::to_word(vocabulary->kind());
    out.unknown_id = vocabulary->unknown_id();
    if (vocabulary->adds_eos()) out.eos_id = vocabulary->find(data::kEndOfLine);
  }
  return out;
}

Json to_json(const Protocol& protocol) {
  Json json;
  if (!protocol.unit.empty()) json["unit"] = protocol.unit;
  if (!protocol.reset.empty()) json["reset"] = protocol.reset;
  json["segment"] = protocol.segment;
  json["lanes"] = protocol.lanes;
  json["context_rows"] = protocol.context_rows;
  const auto add = [&](const char* key, std::int64_t count, bool is_known) {
    if (is_known) json[key] = count;
  };
  add("read_rows", protocol.read_rows, protocol.read_rows > 0);
  add("tokens", protocol.tokens, protocol.tokens > 0);
  add("dropped", protocol.dropped, protocol.tokens > 0);
  add("targets", protocol.targets, protocol.targets > 0);
  add("words", protocol.words, protocol.words > 0);
  add("bytes", protocol.bytes, protocol.bytes > 0);
  add("characters", protocol.characters, protocol.characters > 0);
  add("unknown", protocol.unknown, protocol.unknown_id.has_value());
  return json;
}

std::string context_text(const Protocol& protocol) {
  return str(protocol.segment > 0 ? str(protocol.segment, " + ") : std::string(),
             protocol.context_rows,
             protocol.read_rows > 0 ? str(" + ", protocol.read_rows, " read") : std::string());
}

}  // namespace mneme::eval
