#include "host/data/text/words.hpp"

#include "host/data/text/utf8.hpp"

namespace mneme::data {

void for_each_word(const NamedText& named, const std::function<void(std::string_view)>& on_word,
                   const std::function<void()>& on_line_end) {
  const std::string_view text = named.text;
  std::size_t word_begin = 0;
  bool is_in_word = false;
  bool is_line_open = false;
  const auto end_word = [&](std::size_t end) {
    if (is_in_word) on_word(text.substr(word_begin, end - word_begin));
    is_in_word = false;
  };
  for (std::size_t i = 0; i < text.size();) {
    CodePoint point = decode_utf8(text, i);
    if (point.bytes == 0) throw_invalid_utf8(named, i);
    if (is_space(point.value)) {
      end_word(i);
    } else if (!is_in_word) {
      word_begin = i;
      is_in_word = true;
    }
    is_line_open = point.value != U'\n' && point.value != U'\r';
    if (!is_line_open) {
      if (point.value == U'\r' && i + 1 < text.size() && text[i + 1] == '\n') ++point.bytes;
      on_line_end();
    }
    i += point.bytes;
  }
  end_word(text.size());
  if (is_line_open) on_line_end();
}

}  // namespace mneme::data
