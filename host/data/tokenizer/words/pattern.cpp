#include "host/data/tokenizer/words/pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"
#include "host/data/tokenizer/words/pattern_syntax.hpp"

namespace mneme::data {
namespace {

// Room of compiled code for backtracking. The interpreter that takes over where this is not enough
// backtracks on the heap.
constexpr std::size_t kJitStackBytes = std::size_t{4} << 20;
constexpr std::uint32_t kHeapKibibytes = 512 * 1024;

// What a thread needs to search, whatever the pattern. The offsets of the whole match are enough.
struct Scratch {
  Scratch()
      : match(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(std::size_t{32} << 10, kJitStackBytes, nullptr)) {
    if (match == nullptr || context == nullptr) throw_run("PCRE2: no memory for a search");
    pcre2_set_heap_limit(context, kHeapKibibytes);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Scratch() {
    pcre2_match_data_free(match);
    pcre2_match_context_free(context);
    if (stack != nullptr) pcre2_jit_stack_free(stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  pcre2_match_data* match;
  pcre2_match_context* context;
  pcre2_jit_stack* stack;
};

Scratch& scratch() {
  thread_local Scratch scratch;
  return scratch;
}

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Steps that a search may take. A run of white space is read once for each length that it is tried
// with, so the bound grows with the text.
std::uint32_t step_limit(std::size_t bytes) {
  constexpr std::size_t kLeast = 10'000'000;
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(std::max(kLeast, 16 * bytes), 0xFFFF'FFFFU));
}

}  // namespace

struct Pattern::Code {
  explicit Code(pcre2_code* compiled) : code(compiled) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  pcre2_code* code;
  std::string expression;
};

Pattern::Pattern(std::shared_ptr<const Code> code, std::string place)
    : code_(std::move(code)), place_(std::move(place)) {}

Pattern Pattern::native(const std::string& expression, std::string place) {
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw_run(place, ": PCRE2: no memory to compile an expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  std::size_t offset = 0;
  pcre2_code* compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, context.get());
  if (compiled == nullptr) {
    throw_usage({.where = place,
                 .failed = str("PCRE2 refuses the regular expression: ", pcre2_message(error)),
                 .got = expression});
  }
  auto code = std::make_shared<Code>(compiled);
  code->expression = expression;
  // Without a compiler for this processor, or where memory cannot be made executable, PCRE2
  // interprets the expression.
  static_cast<void>(pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE));
  return {std::move(code), std::move(place)};
}

Pattern Pattern::expression(std::string_view expression, std::string place) {
  if (expression.empty()) {
    throw_usage({.where = place, .failed = "an empty regular expression", .expected = "a pattern"});
  }
  const std::string translated = to_pcre2(expression, place);
  return native(translated, std::move(place));
}

Pattern Pattern::literal(std::string_view text, std::string place) {
  if (text.empty()) {
    throw_usage({.where = place, .failed = "an empty pattern", .expected = "a text to look for"});
  }
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_word = byte >= 0x80 || (byte >= '0' && byte <= '9') ||
                         (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
    if (!is_word) escaped += '\\';
    escaped += c;
  }
  return native(escaped, std::move(place));
}

std::optional<PatternPart> Pattern::run(std::string_view text, std::size_t from,
                                        bool is_anchored) const {
  Scratch& with = scratch();
  pcre2_set_match_limit(with.context, step_limit(text.size()));
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options, with.match, with.context);
  };
  const std::uint32_t options = PCRE2_NO_UTF_CHECK | (is_anchored ? PCRE2_ANCHORED : 0U);
  int result = match(options);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(options | PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0) {
    throw_run({.where = place_,
               .failed = str("the pattern could not be matched: ", pcre2_message(result)),
               .got = str(text.size(), " bytes, from byte ", from, " with ", code_->expression),
               .hint = "such a pattern needs more steps than a text of this length allows; cut the "
                       "text into shorter parts, or take another tokenizer"});
  }
  const std::size_t* offsets = pcre2_get_ovector_pointer(with.match);
  return PatternPart{offsets[0], offsets[1], true};
}

bool Pattern::matches_start(std::string_view text) const { return run(text, 0, true).has_value(); }

std::string Pattern::replace(std::string_view text, std::string_view content) const {
  std::string out;
  PatternParts parts(*this, text);
  for (PatternPart part; parts.next(part);) {
    out += part.is_match ? content : text.substr(part.begin, part.end - part.begin);
  }
  return out;
}

std::optional<PatternPart> PatternParts::next_match() {
  while (from_ <= text_.size()) {
    const auto match = pattern_.search(text_, from_);
    if (!match) break;
    if (match->begin != match->end || last_end_ != match->end) {
      from_ = match->end;
      last_end_ = match->end;
      return match;
    }
    if (from_ == text_.size()) break;
    from_ += decode_utf8(text_, from_).bytes;
  }
  is_done_ = true;
  return std::nullopt;
}

bool PatternParts::next(PatternPart& part) {
  if (!match_ && !is_done_) match_ = next_match();
  const std::size_t end = match_ ? match_->begin : text_.size();
  if (behind_ < end) {
    part = {behind_, end, false};
    behind_ = end;
    return true;
  }
  if (!match_) return false;
  part = *match_;
  behind_ = part.end;
  match_.reset();
  return true;
}

}  // namespace mneme::data
