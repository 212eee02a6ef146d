// Where the Unicode data of PCRE2 and utf8proc differ from those that tokenizers are trained with.
#pragma once

#include <span>

namespace mneme::data {

// Code points first .. last of one general category ("Lo").
struct CategoryRange {
  char32_t first;
  char32_t last;
  char category[2];
};

struct CodePointRange {
  char32_t first;
  char32_t last;
};

// What Unicode 15.0, 15.1 and 16.0 assigned, ascending. The regular expressions of PyPI tokenizers
// (Oniguruma 6.9.10) know Unicode 16.0, PCRE2 10.42 knows 14.0.
[[nodiscard]] std::span<const CategoryRange> added_after_unicode_14();

// Code points, ascending, that the normalisation of PyPI tokenizers leaves as they are and does not
// reorder or compose, since its tables are older than they; utf8proc has newer tables.
[[nodiscard]] std::span<const CodePointRange> unknown_to_normalization();

// True when one of the ranges, ascending, contains the code point.
[[nodiscard]] bool contains(std::span<const CodePointRange> ranges, char32_t value);

}  // namespace mneme::data
