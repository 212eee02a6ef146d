#include "host/report/page/resources.hpp"

#include <cstddef>

// The assembler copies the files as they are: a compiler takes minutes for a literal of a megabyte.
// NOLINTNEXTLINE
#define MNEME_RESOURCE(name, file)                                                        \
  __asm__(".section .rodata\n.hidden mneme_" name "\n.global mneme_" name "\nmneme_" name \
          ":\n.incbin \"" file "\"\n.hidden mneme_" name "_end\n.global mneme_" name      \
          "_end\nmneme_" name "_end:\n.byte 0\n.previous\n")

MNEME_RESOURCE("page_css", MNEME_PAGE_STYLE);
MNEME_RESOURCE("page_js", MNEME_PAGE_SCRIPT);
MNEME_RESOURCE("licence", MNEME_VEGA_LICENCE);
MNEME_RESOURCE("vega_js", MNEME_VEGA_SCRIPT);

extern "C" {
extern const char mneme_page_css[];
extern const char mneme_page_css_end[];
extern const char mneme_page_js[];
extern const char mneme_page_js_end[];
extern const char mneme_licence[];
extern const char mneme_licence_end[];
extern const char mneme_vega_js[];
extern const char mneme_vega_js_end[];
}

namespace mneme::report {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view page_style() { return between(mneme_page_css, mneme_page_css_end); }
std::string_view page_script() { return between(mneme_page_js, mneme_page_js_end); }
std::string_view vega_licence() { return between(mneme_licence, mneme_licence_end); }
std::string_view vega_bundle() { return between(mneme_vega_js, mneme_vega_js_end); }

}  // namespace mneme::report
