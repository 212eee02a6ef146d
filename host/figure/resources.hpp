// Files that the build puts into the program, for figures and pages.
#pragma once

#include <string_view>

namespace mneme::figure {

[[nodiscard]] std::string_view theme_text();   // theme.json
[[nodiscard]] std::string_view page_style();   // page.css
[[nodiscard]] std::string_view page_script();  // page.js
// Vega, Vega-Lite and Vega-Embed as one script without "</script"; "" when the program was built
// without it (CMakeLists.txt of this folder).
[[nodiscard]] std::string_view vega_bundle();
[[nodiscard]] std::string_view vega_licence();  // licence.txt: of what vega_bundle() holds

}  // namespace mneme::figure
