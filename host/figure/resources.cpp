#include "host/figure/resources.hpp"

#include <cstddef>

// The assembler copies the files as they are: a compiler takes minutes for a literal of a megabyte.
// NOLINTNEXTLINE
#define MNEME_RESOURCE(name, file)                                                      \
  __asm__(".section .rodata\n.hidden mneme_figure_" name "\n.global mneme_figure_" name \
          "\nmneme_figure_" name ":\n.incbin \"" file "\"\n.hidden mneme_figure_" name  \
          "_end\n.global mneme_figure_" name "_end\nmneme_figure_" name                 \
          "_end:\n.byte 0\n.previous\n")

MNEME_RESOURCE("theme", MNEME_FIGURE_THEME);
MNEME_RESOURCE("css", MNEME_FIGURE_STYLE);
MNEME_RESOURCE("js", MNEME_FIGURE_SCRIPT);
MNEME_RESOURCE("licence", MNEME_FIGURE_LICENCE);
MNEME_RESOURCE("vega", MNEME_FIGURE_VEGA);

extern "C" {
extern const char mneme_figure_theme[];
extern const char mneme_figure_theme_end[];
extern const char mneme_figure_css[];
extern const char mneme_figure_css_end[];
extern const char mneme_figure_js[];
extern const char mneme_figure_js_end[];
extern const char mneme_figure_licence[];
extern const char mneme_figure_licence_end[];
extern const char mneme_figure_vega[];
extern const char mneme_figure_vega_end[];
}

namespace mneme::figure {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

}  // namespace

std::string_view theme_text() { return between(mneme_figure_theme, mneme_figure_theme_end); }
std::string_view page_style() { return between(mneme_figure_css, mneme_figure_css_end); }
std::string_view page_script() { return between(mneme_figure_js, mneme_figure_js_end); }
std::string_view vega_licence() { return between(mneme_figure_licence, mneme_figure_licence_end); }
std::string_view vega_bundle() { return between(mneme_figure_vega, mneme_figure_vega_end); }

}  // namespace mneme::figure
