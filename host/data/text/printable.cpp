#include "host/data/text/printable.hpp"

#include "host/base/utf8.hpp"

namespace mneme::data {

std::string printable(std::string_view text) { return mneme::printable(text); }

}  // namespace mneme::data
