#include "host/data/tokenizer/words/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"
#include "host/data/tokenizer/words/unicode_tables.hpp"

namespace mneme::data {
namespace {

utf8proc_option_t options_of(UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  if (form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc) options |= UTF8PROC_COMPOSE;
  if (form == UnicodeForm::kNfd || form == UnicodeForm::kNfkd) options |= UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

void append_normalized(std::string& out, std::string_view text, UnicodeForm form) {
  if (text.empty()) return;
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  if (bytes < 0) {
    throw_run("a text could not be normalised: ", utf8proc_errmsg(bytes), ", ", text.size(),
              " bytes");
  }
  out.append(reinterpret_cast<const char*>(result), static_cast<std::size_t>(bytes));
}

// utf8proc drops U+11A7 behind a Hangul syllable: it is the base of the trailing consonants'
// numbers [Unicode 3.12] and none of them, so it composes with nothing, as no mark passes it
// either.
constexpr char32_t kTrailingBase = 0x11A7;

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

}  // namespace

std::string normalized(std::string_view text, UnicodeForm form) {
  std::string out;
  out.reserve(text.size());
  // ASCII characters stay, and compose only with what follows them, so that a run of others can be
  // normalised with the one before it. A character that the older tables do not know, and U+11A7,
  // neither composes nor lets marks pass it.
  std::size_t begin = 0;  // everything before is in `out`
  for (std::size_t i = 0; i < text.size();) {
    if (is_ascii(text[i])) {
      ++i;
      continue;
    }
    const std::size_t first = i > begin ? i - 1 : i;
    out += text.substr(begin, first - begin);
    begin = first;
    while (i < text.size() && !is_ascii(text[i])) {
      const CodePoint point = decode_utf8(text, i);
      if (point.value == kTrailingBase || contains(unknown_to_normalization(), point.value)) {
        append_normalized(out, text.substr(begin, i - begin), form);
        out += text.substr(i, point.bytes);
        begin = i + point.bytes;
      }
      i += point.bytes;
    }
    append_normalized(out, text.substr(begin, i - begin), form);
    begin = i;
  }
  out += text.substr(begin);
  return out;
}

Pattern read_pattern(const Field& field) {
  field.require_object({"String", "Regex"});
  if (const auto text = field.find("String")) return Pattern::literal(text->text(), text->place());
  const Field expression = field.at("Regex");
  return Pattern::expression(expression.text(), expression.place());
}

void add_growth(double& growth, const Field& field) {
  constexpr double kMostGrowth = 1000.0;
  const auto literal = field.at("pattern").find("String");
  const auto content = static_cast<double>(field.at("content").text().size());
  // An expression may match nothing, and that before every character.
  growth *= std::max(
      1.0, literal ? content / static_cast<double>(std::max<std::size_t>(1, literal->text().size()))
                   : content + 1.0);
  if (growth <= kMostGrowth) return;
  field.refuse(str("replacements that make a text at most ", kMostGrowth, " times as long"));
}

Normalizer::Normalizer(const Field& field) { add(field); }

void Normalizer::add(const Field& field) {
  const std::string& type = field.type();
  if (type == "Sequence") {
    field.require_object({"type", "normalizers"});
    for (const Field& each : field.at("normalizers").elements()) add(each);
  } else if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    field.require_object({"type"});
    const bool is_compatible = type[2] == 'K';
    const bool is_composed = type.back() == 'C';
    steps_.emplace_back(is_composed ? (is_compatible ? UnicodeForm::kNfkc : UnicodeForm::kNfc)
                                    : (is_compatible ? UnicodeForm::kNfkd : UnicodeForm::kNfd));
  } else if (type == "Prepend") {
    field.require_object({"type", "prepend"});
    steps_.emplace_back(Prepend{field.at("prepend").text()});
  } else if (type == "Replace") {
    field.require_object({"type", "pattern", "content"});
    add_growth(growth_, field);
    steps_.emplace_back(Replace{read_pattern(field.at("pattern")), field.at("content").text()});
  } else {
    field.at("type").refuse(
        quoted_list({"NFC", "NFD", "NFKC", "NFKD", "Prepend", "Replace", "Sequence"}));
  }
}

void Normalizer::apply(std::string& text) const {
  for (const auto& step : steps_) {
    if (text.empty()) return;
    if (const auto* form = std::get_if<UnicodeForm>(&step)) {
      text = normalized(text, *form);
    } else if (const auto* prepend = std::get_if<Prepend>(&step)) {
      text.insert(0, prepend->text);
    } else {
      const auto& replace = std::get<Replace>(step);
      text = replace.pattern.replace(text, replace.content);
    }
  }
}

}  // namespace mneme::data
