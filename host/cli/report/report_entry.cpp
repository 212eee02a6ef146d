// The program mneme-report: what a reader of a comparison needs, without LibTorch.
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/man/man.hpp"
#include "host/cli/program/program.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

const Manual& report_manual() {
  static const Manual manual = {
      .summary = "reports of compared transformer memories, and their bundles",
      .exit_status = {{"0", "The command has done what it was asked for."},
                      {"1", "A bundle does not verify, or a file could not be written."},
                      {"2", "Wrong use, or an input file that is wrong."}},
      .environment = {{"COLUMNS",
                       "Columns that tables and paragraphs take; else the terminal's, else 80."},
                      {"NO_COLOR",
                       "Set and not empty: no colours on the terminal. Into pipes and files there "
                       "are none in any case."},
                      {"TMPDIR", "Folder for temporary files, instead of /tmp."}},
      .files = {{"bundles",
                 "Archives (tar) with losses, settings, checksums and the report of a comparison, "
                 "without weights."},
                {"runs/<name>", "Folders of comparisons and runs, which mneme writes."}},
      .see_also = "mneme(1), where it is installed"};
  return manual;
}

void add_report_commands(const Command& program) {
  add_report(program);
  add_plan_of_folders(program);
  add_verify(program);
  add_man(program, report_manual());
  program.examples({"mneme verify motif.tar", "mneme report runs/motif --bundle motif.tar"});
}

}  // namespace

int report_entry(int argc, const char* const* argv, const Streams& streams) noexcept {
  try {
    const Program program = {.name = "mneme-report",
                             .version = MNEME_SDK_VERSION,
                             .help =
                                 "Reports of comparisons that mneme made, from their stored "
                                 "losses, plans of larger ones, and "
                                 "bundles verified: without the models, plugins and LibTorch.",
                             .add_commands = &add_report_commands};
    return run_program(program, argc, argv, streams);
  } catch (...) {  // no memory for a few words
    return static_cast<int>(ErrorKind::kRun);
  }
}

}  // namespace mneme::cli
