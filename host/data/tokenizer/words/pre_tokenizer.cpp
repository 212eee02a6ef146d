#include "host/data/tokenizer/words/pre_tokenizer.hpp"

#include <algorithm>
#include <utility>

#include "host/base/text.hpp"
#include "host/data/tokenizer/words/byte_alphabet.hpp"
#include "host/data/tokenizer/words/normalizer.hpp"
#include "host/data/tokenizer/words/pattern_syntax.hpp"

namespace mneme::data {
namespace {

// [GPT-2, encoder.py], as PyPI tokenizers' ByteLevel has it built in.
constexpr std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

// Digits of Unicode 17.0, which Digits knows and regular expressions do not.
constexpr std::string_view kLatestDigits = "\\x{11DE0}-\\x{11DE9}\\x{16FF4}-\\x{16FF6}";

SplitBehavior read_behavior(const Field& field) {
  const std::string& word = field.text();
  if (word == "Isolated") return SplitBehavior::kIsolated;
  if (word == "Removed") return SplitBehavior::kRemoved;
  if (word == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (word == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (word == "Contiguous") return SplitBehavior::kContiguous;
  field.refuse(
      quoted_list({"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"}));
}

// Joins the parts of a text, given in order, as the behaviour says; `join` makes the first part
// include the second.
template <typename Parts, typename Join>
std::vector<PatternPart> joined(const Parts& parts, bool joins_equal, const Join& join) {
  std::vector<PatternPart> out;
  bool was_match = false;
  for (const PatternPart& part : parts) {
    const bool is_joined = joins_equal ? part.is_match == was_match : part.is_match && !was_match;
    if (is_joined && !out.empty()) {
      join(out.back(), part);
    } else {
      out.push_back(part);
    }
    was_match = part.is_match;
  }
  return out;
}

std::vector<PatternPart> joined(std::vector<PatternPart> parts, SplitBehavior behavior) {
  const auto extend = [](PatternPart& first, const PatternPart& second) { first.end = second.end; };
  if (behavior == SplitBehavior::kContiguous) return joined(parts, true, extend);
  if (behavior == SplitBehavior::kMergedWithPrevious) return joined(parts, false, extend);
  std::reverse(parts.begin(), parts.end());
  parts = joined(parts, false,
                 [](PatternPart& first, const PatternPart& second) { first.begin = second.begin; });
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

PrependScheme read_prepend_scheme(const Field& field) {
  const bool adds = field.flag("add_prefix_space", true);
  const auto scheme = field.find("prepend_scheme");
  if (!scheme) return adds ? PrependScheme::kAlways : PrependScheme::kNever;
  const std::string& word = scheme->text();
  if (word == "never") return PrependScheme::kNever;
  if (word != "always" && word != "first") {
    scheme->refuse(quoted_list({"always", "first", "never"}));
  }
  if (!adds) scheme->refuse("\"never\", since add_prefix_space is false");
  return word == "always" ? PrependScheme::kAlways : PrependScheme::kFirst;
}

PreTokenizer::PreTokenizer(const Field& field) { add(field); }

void PreTokenizer::add(const Field& field) {
  const std::string& type = field.type();
  if (type == "Sequence") {
    field.require_object({"type", "pretokenizers"});
    for (const Field& each : field.at("pretokenizers").elements()) add(each);
  } else if (type == "ByteLevel") {
    // trim_offsets moves the places of tokens in the text, not their ids.
    field.require_object({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    ByteLevel step{field.at("add_prefix_space").flag(), std::nullopt};
    if (field.flag("use_regex", true)) {
      step.split.emplace(Split{Pattern::expression(kGpt2Pattern, field.place())});
    }
    steps_.emplace_back(std::move(step));
  } else if (type == "Split") {
    add_split(field);
  } else if (type == "Digits") {
    field.require_object({"type", "individual_digits"});
    const std::string digit = str("[", property_class("N"), kLatestDigits, "]");
    const bool is_individual = field.at("individual_digits").flag();
    steps_.emplace_back(Split{Pattern::native(is_individual ? digit : digit + "+", field.place())});
  } else if (type == "Metaspace") {
    add_metaspace(field);
  } else {
    field.at("type").refuse(quoted_list({"ByteLevel", "Split", "Digits", "Metaspace", "Sequence"}));
  }
}

void PreTokenizer::add_split(const Field& field) {
  field.require_object({"type", "pattern", "behavior", "invert"});
  steps_.emplace_back(Split{read_pattern(field.at("pattern")), read_behavior(field.at("behavior")),
                            field.at("invert").flag()});
}

void PreTokenizer::add_metaspace(const Field& field) {
  field.require_object(
      {"type", "replacement", "prepend_scheme", "add_prefix_space", "split", "str_rep"});
  Metaspace step{field.at("replacement").character(), read_prepend_scheme(field), std::nullopt};
  if (field.flag("split", true)) {
    step.split.emplace(Split{Pattern::literal(step.replacement, field.place()),
                             SplitBehavior::kMergedWithNext, false});
  }
  steps_.emplace_back(std::move(step));
}

template <typename OnPiece>
void PreTokenizer::cut(const Split& split, std::string_view text, bool is_at_start,
                       const OnPiece& on_piece) {
  const auto pass = [&](const PatternPart& part) {
    if (part.end == part.begin) return;
    on_piece(text.substr(part.begin, part.end - part.begin), is_at_start && part.begin == 0);
  };
  PatternParts parts(split.pattern, text);
  const bool removes = split.behavior == SplitBehavior::kRemoved;
  if (removes || split.behavior == SplitBehavior::kIsolated) {
    for (PatternPart part; parts.next(part);) {
      if (!removes || part.is_match == split.is_inverted) pass(part);
    }
    return;
  }
  std::vector<PatternPart> all;
  for (PatternPart part; parts.next(part);) {
    all.push_back({part.begin, part.end, part.is_match != split.is_inverted});
  }
  for (const PatternPart& part : joined(std::move(all), split.behavior)) pass(part);
}

void PreTokenizer::for_each_word(std::string_view text, bool is_at_start,
                                 const OnWord& on_word) const {
  if (!text.empty()) run(0, text, is_at_start, on_word);
}

void PreTokenizer::run(std::size_t step, std::string_view text, bool is_at_start,
                       const OnWord& on_word) const {
  if (step == steps_.size()) return on_word(text);
  const auto pass = [&](std::string_view piece, bool is_piece_at_start) {
    run(step + 1, piece, is_piece_at_start, on_word);
  };
  if (const auto* split = std::get_if<Split>(&steps_[step])) {
    return cut(*split, text, is_at_start, pass);
  }
  if (const auto* bytes = std::get_if<ByteLevel>(&steps_[step])) {
    std::string prefixed;
    if (bytes->adds_prefix_space && !text.starts_with(' ')) {
      prefixed = str(" ", text);
      text = prefixed;
    }
    std::string characters;
    const auto write = [&](std::string_view piece, bool is_piece_at_start) {
      characters.clear();
      append_as_characters(characters, piece);
      pass(characters, is_piece_at_start);
    };
    if (!bytes->split) return write(text, is_at_start);
    return cut(*bytes->split, text, is_at_start, write);
  }
  const auto& spaces = std::get<Metaspace>(steps_[step]);
  std::string replaced;
  for (const char& c : text) {
    replaced += c == ' ' ? std::string_view(spaces.replacement) : std::string_view(&c, 1);
  }
  const bool prepends = spaces.scheme == PrependScheme::kAlways ||
                        (spaces.scheme == PrependScheme::kFirst && is_at_start);
  if (prepends && !replaced.starts_with(spaces.replacement)) {
    replaced.insert(0, spaces.replacement);
  }
  if (!spaces.split) return pass(replaced, is_at_start);
  cut(*spaces.split, replaced, is_at_start, pass);
}

}  // namespace mneme::data
