#include "host/data/tokenizer/decoder.hpp"

#include <type_traits>
#include <utility>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/data/tokenizer/words/byte_alphabet.hpp"
#include "host/data/tokenizer/words/normalizer.hpp"
#include "host/data/tokenizer/words/pre_tokenizer.hpp"

namespace mneme::data {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

int hexadecimal_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// How many bytes at the start of `bytes`, of which the first begins no valid character, are the
// longest beginning of one, at least 1; and whether more bytes could complete it.
struct Subpart {
  std::size_t bytes = 1;
  bool is_open = false;
};

Subpart maximal_subpart(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  std::size_t length = 0;
  if (first >= 0xC2 && first <= 0xDF) length = 2;
  if (first >= 0xE0 && first <= 0xEF) length = 3;
  if (first >= 0xF0 && first <= 0xF4) length = 4;
  if (length == 0) return {1, false};
  if (bytes.size() == 1) return {1, true};
  const unsigned char least = first == 0xE0 ? 0xA0 : (first == 0xF0 ? 0x90 : 0x80);
  const unsigned char most = first == 0xED ? 0x9F : (first == 0xF4 ? 0x8F : 0xBF);
  if (at(1) < least || at(1) > most) return {1, false};
  std::size_t i = 2;
  while (i < length && i < bytes.size() && at(i) >= 0x80 && at(i) <= 0xBF) ++i;
  return {i, i == bytes.size() && i < length};
}

std::string take(std::string& bytes, bool keeps_open) {
  std::string text;
  std::size_t i = 0;
  while (i < bytes.size()) {
    const std::size_t valid = decode_utf8(bytes, i).bytes;
    if (valid > 0) {
      text.append(bytes, i, valid);
      i += valid;
      continue;
    }
    const Subpart part = maximal_subpart(std::string_view(bytes).substr(i));
    if (part.is_open && keeps_open) break;
    text += kReplacementCharacter;
    i += part.bytes;
  }
  bytes.erase(0, i);
  return text;
}

std::vector<std::string> decode_bytes(const std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    std::size_t i = 0;
    while (i < bytes.size() && decode_utf8(bytes, i).bytes > 0) i += decode_utf8(bytes, i).bytes;
    if (i == bytes.size()) {
      out.push_back(bytes);
    } else {
      // One for each byte, valid parts of the run included, as PyPI tokenizers do.
      for (std::size_t k = 0; k < bytes.size(); ++k) out.emplace_back(kReplacementCharacter);
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const int byte = byte_of_token(token); byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    out.push_back(token);
  }
  flush();
  return out;
}

std::vector<std::string> apply_step(const DecoderStep& step, std::vector<std::string> tokens) {
  return std::visit(
      [&](const auto& each) -> std::vector<std::string> {
        using Step = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<Step, ByteLevelStep>) {
          std::string bytes;
          for (const std::string& token : tokens) bytes += bytes_of_token(token);
          return {take_all(bytes)};
        } else if constexpr (std::is_same_v<Step, ByteFallbackStep>) {
          return decode_bytes(tokens);
        } else if constexpr (std::is_same_v<Step, FuseStep>) {
          return {join(tokens, "")};
        } else {
          for (std::size_t i = 0; i < tokens.size(); ++i) {
            if constexpr (std::is_same_v<Step, ReplaceStep>) {
              tokens[i] = each.pattern.replace(tokens[i], each.content);
            } else if constexpr (std::is_same_v<Step, StripStep>) {
              tokens[i] = stripped(tokens[i], each);
            } else {
              tokens[i] = without_metaspace(tokens[i], each, i == 0);
            }
          }
          return std::move(tokens);
        }
      },
      step);
}

std::size_t step_count(const Field& field) {
  const std::int64_t count = field.integer();
  if (count < 0) field.refuse("a count of at least 0");
  return static_cast<std::size_t>(count);
}

}  // namespace

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const int low = hexadecimal_value(token[4]);
  if (token[3] == '+') return low;  // as the number parser of PyPI tokenizers takes it
  const int high = hexadecimal_value(token[3]);
  return low < 0 || high < 0 ? -1 : 16 * high + low;
}

std::string bytes_of_token(std::string_view token) {
  auto bytes = bytes_of_characters(token);
  return bytes ? std::move(*bytes) : std::string(token);
}

std::string without_metaspace(std::string_view token, const MetaspaceStep& step, bool is_first) {
  std::string out;
  for (std::size_t i = 0; i < token.size();) {
    if (token.substr(i).starts_with(step.replacement)) {
      if (!is_first || !step.drops_first) out += ' ';
      i += step.replacement.size();
    } else {
      out += token[i++];
    }
  }
  return out;
}

std::string stripped(std::string_view token, const StripStep& step) {
  for (std::size_t i = 0; i < step.first && token.starts_with(step.character); ++i) {
    token.remove_prefix(step.character.size());
  }
  for (std::size_t i = 0; i < step.last && token.ends_with(step.character); ++i) {
    token.remove_suffix(step.character.size());
  }
  return std::string(token);
}

std::string take_complete(std::string& bytes) { return take(bytes, true); }
std::string take_all(std::string& bytes) { return take(bytes, false); }

Decoder::Decoder(const Field& field) : is_empty_(false) { add(field); }

void Decoder::add(const Field& field) {
  const std::string& type = field.type();
  if (type == "Sequence") {
    field.require_object({"type", "decoders"});
    for (const Field& each : field.at("decoders").elements()) add(each);
  } else if (type == "ByteLevel") {
    field.require_object({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    steps_.emplace_back(ByteLevelStep{});
  } else if (type == "ByteFallback") {
    field.require_object({"type"});
    steps_.emplace_back(ByteFallbackStep{});
  } else if (type == "Fuse") {
    field.require_object({"type"});
    steps_.emplace_back(FuseStep{});
  } else if (type == "Replace") {
    field.require_object({"type", "pattern", "content"});
    add_growth(growth_, field);
    steps_.emplace_back(ReplaceStep{read_pattern(field.at("pattern")), field.at("content").text()});
  } else if (type == "Strip") {
    field.require_object({"type", "content", "start", "stop"});
    steps_.emplace_back(StripStep{field.at("content").character(), step_count(field.at("start")),
                                  step_count(field.at("stop"))});
  } else if (type == "Metaspace") {
    field.require_object(
        {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"});
    steps_.emplace_back(MetaspaceStep{field.at("replacement").character(),
                                      read_prepend_scheme(field) != PrependScheme::kNever});
  } else {
    field.at("type").refuse(quoted_list(
        {"ByteLevel", "ByteFallback", "Fuse", "Replace", "Strip", "Metaspace", "Sequence"}));
  }
}

std::string Decoder::bytes_inside(std::string token) const {
  for (const DecoderStep& step : steps_) {
    if (std::holds_alternative<ByteLevelStep>(step)) return bytes_of_token(token);
    if (std::holds_alternative<FuseStep>(step)) return token;
    if (std::holds_alternative<ByteFallbackStep>(step)) {
      const int byte = byte_of_token(token);
      if (byte >= 0) return {static_cast<char>(byte)};
    }
    if (const auto* replace = std::get_if<ReplaceStep>(&step)) {
      token = replace->pattern.replace(token, replace->content);
    }
    if (const auto* spaces = std::get_if<MetaspaceStep>(&step)) {
      token = without_metaspace(token, *spaces, false);
    }
  }
  return token;
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  if (is_empty_) return join(tokens, " ");
  for (const DecoderStep& step : steps_) tokens = apply_step(step, std::move(tokens));
  return join(tokens, "");
}

}  // namespace mneme::data
