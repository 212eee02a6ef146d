// Files that the build puts into the program, for pages.
#pragma once

#include <string_view>

namespace mneme::report {

[[nodiscard]] std::string_view page_style();    // page.css
[[nodiscard]] std::string_view page_script();   // page.js
[[nodiscard]] std::string_view vega_licence();  // licence.txt
// Vega, Vega-Lite and Vega-Embed as one script without "</script"; "" when the program was built
// without it (host/report/CMakeLists.txt).
[[nodiscard]] std::string_view vega_bundle();

}  // namespace mneme::report
