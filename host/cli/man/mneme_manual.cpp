// What mneme(1) says beside the commands.
#include "host/cli/man/man.hpp"

namespace mneme::cli {

const Manual& mneme_manual() {
  static const Manual manual = {
      .summary = "runtime for transformer memory",
      .exit_status =
          {{"0", "The command has done what it was asked for."},
           {"1",
            "The run failed: a file could not be written, a loss is not finite, memory ran out."},
           {"2", "Wrong use, or a configuration or an input file that is wrong."},
           {"3", "A plugin could not be loaded, or one of its functions failed."},
           {"4", "The device that was asked for is not there or failed."},
           {"128 + N",
            "The signal N stopped the command, which saved what it had: 130 after Ctrl-C (SIGINT), "
            "143 "
            "after SIGTERM, 129 after SIGHUP. A command that has nothing to save ends by the "
            "signal "
            "itself, which a shell reports with the same number. eval --watch, generate --chat "
            "between two turns and serve between two requests end with 0: there Ctrl-C is the "
            "end."}},
      .environment = {{"COLUMNS",
                       "Columns that tables and paragraphs take; else the terminal's, else 80."},
                      {"GOMP_SPINCOUNT, OMP_WAIT_POLICY",
                       "How long threads look for work before they sleep. Without either, that is "
                       "short while other "
                       "programs want the cores, and long otherwise."},
                      {"NO_COLOR",
                       "Set and not empty: no colours on the terminal. Into pipes and files there "
                       "are none in any "
                       "case."},
                      {"OMP_NUM_THREADS", "Threads to compute with where --threads is not given."},
                      {"TMPDIR", "Folder for temporary files, instead of /tmp."}},
      .files =
          {{"EXP.toml",
            "An experiment: model, data, training, evaluation. \"mneme config keys\" lists its "
            "keys."},
           {"memory files",
            "TOML files with the table [memory] alone; --memory puts one in place of the "
            "experiment's."},
           {"runs/<name>",
            "The folder of a run: the resolved experiment, versions and checksums, metrics, log, "
            "checkpoints, evaluations."},
           {"../lib/mneme/plugins",
            "The memories that come with the program, seen from its own folder."},
           {"../share/mneme/configs", "Experiments and memory files to begin with."},
           {"../share/doc/mneme",
            "The documentation: docs/training.md, evaluation.md, compare.md, analysis.md, runs.md, "
            "configuration.md and others."}},
      .see_also = "README.md and the folder docs/ of the documentation, see FILES"};
  return manual;
}

}  // namespace mneme::cli
