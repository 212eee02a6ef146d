#include "host/data/tokenizer/streaming_decoder.hpp"

#include <type_traits>
#include <utility>
#include <variant>

#include "host/data/tokenizer/decoder.hpp"

namespace mneme::data {

// One step of the decoder and what it has seen.
struct StreamingDecoder::Stage {
  const DecoderStep* step = nullptr;
  bool sees_one_token = false;  // an earlier step made all tokens one
  bool is_first = true;         // no token has come yet
  std::size_t stripped = 0;     // of the one token
  bool strips = true;           // nothing but stripped characters has come
  std::string bytes;            // of a character that is not complete

  std::vector<std::string> decode(std::vector<std::string> tokens, bool is_end);
  void decode_fallback(const std::string& token, std::vector<std::string>& out);
  [[nodiscard]] std::string strip_start(std::string token, const StripStep& strip);
};

void StreamingDecoder::Stage::decode_fallback(const std::string& token,
                                              std::vector<std::string>& out) {
  if (const int byte = byte_of_token(token); byte >= 0) {
    bytes += static_cast<char>(byte);
    if (std::string text = take_complete(bytes); !text.empty()) out.push_back(std::move(text));
    return;
  }
  if (!bytes.empty()) out.push_back(take_all(bytes));
  out.push_back(token);
}

std::string StreamingDecoder::Stage::strip_start(std::string token, const StripStep& strip) {
  while (strips && !token.empty()) {
    strips = stripped < strip.first && token.starts_with(strip.character);
    if (!strips) break;
    token.erase(0, strip.character.size());
    ++stripped;
  }
  return token;
}

std::vector<std::string> StreamingDecoder::Stage::decode(std::vector<std::string> tokens,
                                                         bool is_end) {
  std::vector<std::string> out;
  for (const std::string& token : tokens) {
    std::visit(
        [&](const auto& each) {
          using Step = std::decay_t<decltype(each)>;
          if constexpr (std::is_same_v<Step, ByteLevelStep>) {
            bytes += bytes_of_token(token);
            out.push_back(take_complete(bytes));
          } else if constexpr (std::is_same_v<Step, ByteFallbackStep>) {
            decode_fallback(token, out);
          } else if constexpr (std::is_same_v<Step, FuseStep>) {
            out.push_back(token);
          } else if constexpr (std::is_same_v<Step, ReplaceStep>) {
            out.push_back(each.pattern.replace(token, each.content));
          } else if constexpr (std::is_same_v<Step, StripStep>) {
            out.push_back(sees_one_token ? strip_start(token, each)
                                         : mneme::data::stripped(token, each));
          } else {
            out.push_back(without_metaspace(token, each, is_first));
          }
        },
        *step);
    is_first = false;
  }
  if (is_end && !bytes.empty()) out.push_back(take_all(bytes));
  return out;
}

StreamingDecoder::StreamingDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skips_special)
    : tokenizer_(std::move(tokenizer)), skips_special_(skips_special) {
  begin();
}
StreamingDecoder::~StreamingDecoder() = default;
StreamingDecoder::StreamingDecoder(StreamingDecoder&&) noexcept = default;
StreamingDecoder& StreamingDecoder::operator=(StreamingDecoder&&) noexcept = default;

void StreamingDecoder::begin() {
  is_first_ = true;
  waits_for_end_ = false;
  ids_.clear();
  stages_.clear();
  bool is_fused = false;     // one token
  bool is_cut_anew = false;  // not the tokens that decode() passes on here
  for (const DecoderStep& step : tokenizer_->decoder().steps()) {
    Stage stage;
    stage.step = &step;
    stage.sees_one_token = is_fused;
    const auto* strip = std::get_if<StripStep>(&step);
    const bool sees_ends = strip != nullptr && (!is_fused || strip->last > 0);
    const bool sees_token = std::holds_alternative<ReplaceStep>(step) || sees_ends ||
                            std::holds_alternative<MetaspaceStep>(step) ||
                            std::holds_alternative<ByteLevelStep>(step) ||
                            std::holds_alternative<ByteFallbackStep>(step);
    waits_for_end_ = waits_for_end_ || (is_cut_anew && sees_token);
    const bool is_bytes = std::holds_alternative<ByteLevelStep>(step);
    const bool fuses = is_bytes || std::holds_alternative<FuseStep>(step);
    is_fused = is_fused || fuses;
    is_cut_anew = is_cut_anew || fuses || std::holds_alternative<ByteFallbackStep>(step);
    stages_.push_back(std::move(stage));
  }
}

std::string StreamingDecoder::pass(std::vector<std::string> tokens, bool is_end) {
  for (Stage& stage : stages_) tokens = stage.decode(std::move(tokens), is_end);
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

std::string StreamingDecoder::push(std::int32_t id) {
  const std::string& token = tokenizer_->token(id);
  if (skips_special_ && tokenizer_->is_special(id)) return "";
  if (waits_for_end_) {
    ids_.push_back(id);
    return "";
  }
  const bool is_first = std::exchange(is_first_, false);
  if (tokenizer_->decoder().is_empty()) return is_first ? token : " " + token;
  return pass({token}, false);
}

std::string StreamingDecoder::finish() {
  std::string text = waits_for_end_ ? tokenizer_->decode(ids_, skips_special_) : pass({}, true);
  begin();
  return text;
}

}  // namespace mneme::data
