#include "host/report/tables/certificates.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>
#include <vector>

#include "host/base/json_text.hpp"
#include "host/report/comparison/hide_folders.hpp"
#include "host/report/comparison/read_run.hpp"

namespace mneme::report {
namespace {

// "5.1e-07"
Cell small_cell(const std::optional<double>& value) {
  if (!value) return {"-", nullptr};
  std::ostringstream text;
  text << std::setprecision(2) << *value;
  return {text.str(), number_or_null(*value)};
}

std::string certified_run(const ArmRun& of) { return str(of.arm.name, " from seed ", of.run.seed); }

// What the certificate is of: everything that has a checksum.
std::string certificate_note(const ArmRun& of, const scores::Certificate& certificate) {
  std::vector<std::string> plugins, checksums;
  for (const auto& [name, sha256] : certificate.plugins) {
    plugins.push_back(str(name, " (sha256 ", sha256.substr(0, 16), ')'));
    checksums.push_back(sha256);
  }
  const bool has_own = checksums == checksums_of(of.run.info);
  const bool is_earlier = certificate.step != of.run.steps;
  return without_folders(str(
      certified_run(of), ": ", certificate.date, ", checkpoint ", certificate.checkpoint,
      " (sha256 ", certificate.checkpoint_sha256.substr(0, 16), "), step ", certificate.step,
      is_earlier ? str(", which is not the last, ", of.run.steps) : "", "; ", certificate.tokens,
      " tokens of ", certificate.text, " (sha256 ", certificate.text_sha256.substr(0, 16),
      ") in segments of ", certificate.segment, ", ", certificate.precision, ", ",
      certificate.machine, plugins.empty() ? "" : "; plugins " + join(plugins, ", "),
      has_own ? "" : "; its plugin files are not those of the training", '.'));
}

}  // namespace

Sheet certificates_sheet(const Comparison& comparison) {
  Sheet out{.key = "certificates",
            .title = "Certificates",
            .headings = {"arm", "seed", "line", "result", "difference", "tolerance", "text"}};
  std::vector<std::vector<Cell>> others;
  for (const ArmRun& of : runs_of(comparison)) {
    if (!of.run.certificate) continue;
    for (const scores::CertificateLine& one : of.run.certificate->lines) {
      (one.fails() ? out.rows : others)
          .push_back({Cell(of.arm.name), Cell(std::to_string(of.run.seed), of.run.seed),
                      Cell(one.name), Cell(std::string(scores::to_word(one.result))),
                      small_cell(one.difference), small_cell(one.tolerance),
                      Cell(without_folders(one.text))});
    }
    out.notes.push_back(certificate_note(of, *of.run.certificate));
  }
  std::ranges::move(others, std::back_inserter(out.rows));
  if (std::string note = uncertified_note(comparison); !note.empty())
    out.notes.push_back(std::move(note));
  return out;
}

std::string uncertified_note(const Comparison& comparison) {
  std::vector<std::string> names;
  bool has_one = false;
  for (const ArmRun& of : runs_of(comparison)) {
    has_one |= of.run.certificate.has_value();
    const bool is_finished = of.run.is_done && !of.run.error;
    if (is_finished && !of.run.certificate) names.push_back(certified_run(of));
  }
  if (names.empty()) return "";
  return str("No certificate: ", has_one ? join(names, ", ") : "all runs",
             ". `mneme certify RUN` makes one.");
}

}  // namespace mneme::report
