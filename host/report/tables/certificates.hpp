// The certificates of the runs (mneme certify): the lines of each, and what it is of.
#pragma once

#include <string>

#include "host/report/comparison/comparison.hpp"
#include "host/report/sheet/sheet.hpp"

namespace mneme::report {

// A row for each line, those that fail first; a note for each certificate with its date and
// checksums, and uncertified_note. No rows where no run has one.
[[nodiscard]] Sheet certificates_sheet(const Comparison& comparison);

// Which finished runs have no certificate, and the command that makes one; "" = all have.
[[nodiscard]] std::string uncertified_note(const Comparison& comparison);

}  // namespace mneme::report
