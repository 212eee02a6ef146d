#include "host/eval/protocol.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

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
  if (!corpus) return out;
  out.reset = config::to_word(experiment.data.reset);
  out.tokens = corpus->size();
  out.dropped = out.tokens % out.lanes;
  out.words = corpus->words;
  out.bytes = corpus->bytes;
  out.characters = corpus->characters;
  out.unknown = corpus->unknown;
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

namespace {

void check_ids(const data::TokenSegment& segment, const std::vector<std::int64_t>& ids,
               const char* what, std::int64_t least, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= least && ids[i] < vocabulary) continue;
    const auto place = static_cast<std::int64_t>(i);
    throw_run({.where = str("segment ", segment.index, ", lane ", place / segment.length,
                            ", position ", place % segment.length),
               .failed = str("the ", what, " id is outside the model's vocabulary"),
               .expected = str(least, " .. ", vocabulary - 1),
               .got = str(ids[i]),
               .hint = "use the data and the vocabulary that the model was built for"});
  }
}

at::Tensor to_tensor(const std::vector<std::int64_t>& ids, const data::TokenSegment& segment,
                     at::Device device) {
  at::Tensor out = torch::empty({segment.lanes, segment.length}, at::kLong);
  std::copy(ids.begin(), ids.end(), out.mutable_data_ptr<std::int64_t>());
  return out.to(device);
}

}  // namespace

backbone::Batch make_batch(const data::TokenSegment& segment, std::int64_t vocabulary,
                           at::Device device) {
  check_ids(segment, segment.inputs, "input", 0, vocabulary);
  check_ids(segment, segment.targets, "target", data::kNoTarget, vocabulary);
  backbone::Batch batch;
  batch.input = to_tensor(segment.inputs, segment, device);
  batch.target = to_tensor(segment.targets, segment, device);
  const bool is_padded = std::any_of(segment.valid.begin(), segment.valid.end(),
                                     [&](std::int64_t n) { return n != segment.length; });
  if (is_padded) batch.valid_count = segment.valid;
  return batch;
}

namespace {

using memory::first_bad_lane;

// In the order of computation.
std::string bad_output(const backbone::Output& out, const backbone::ForwardOptions::Tap& tap) {
  const auto where = [](const std::string& what, std::int64_t lane) {
    return str(what, ", lane ", lane);
  };
  if (const auto lane = first_bad_lane(tap.embedded); lane >= 0) {
    return where("the embedding", lane);
  }
  for (std::size_t l = 0; l < tap.layer_out.size(); ++l) {
    if (const auto lane = first_bad_lane(tap.attention_out[l]); lane >= 0) {
      return where(str("layer ", l, " (from 0), output of the attention block"), lane);
    }
    if (const auto lane = first_bad_lane(tap.layer_out[l]); lane >= 0) {
      return where(str("layer ", l, " (from 0), output of the feed-forward block"), lane);
    }
  }
  if (const auto lane = first_bad_lane(out.nll); lane >= 0) return where("the softmax", lane);
  return "";
}

std::string bad_loss(const memory::SegmentRun& run) {
  for (const auto& [name, loss] : run.losses()) {
    if (first_bad_lane(loss.value) >= 0) return str("the auxiliary loss ", name);
  }
  return "";
}

}  // namespace

NotFinite find_in_state(const memory::StackState& state) {
  for (const auto& [name, tensor] : state.save().tensors) {
    if (first_bad_lane(tensor, memory::Holds::kInfinite) >= 0) {
      return {str("the memory's state ", name, ", written by an earlier segment"), true};
    }
  }
  return {};
}

NotFinite find_not_finite(backbone::Model& model, const backbone::Batch& batch,
                          memory::SegmentRun& run, const memory::FiniteWatch& watch) {
  backbone::ForwardOptions::Tap tap;
  backbone::ForwardOptions options;
  options.tap = &tap;
  const backbone::Output out = model.forward(batch, run, options);
  if (!watch.found().empty()) return {watch.found(), true};
  std::string found = bad_output(out, tap);
  return {found.empty() ? bad_loss(run) : found};
}

}  // namespace mneme::eval
