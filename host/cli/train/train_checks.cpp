// The checks of a run's memory before and after its training.
#include <exception>

#include "host/base/log.hpp"
#include "host/checks/memory_checks.hpp"
#include "host/cli/train/train.hpp"
#include "host/train/windows.hpp"

namespace mneme::cli {
namespace {

void warn(const scores::MemoryChecks& checks) {
  for (const std::string& line : scores::warnings(checks)) log_warning("the run: ", line);
}

// A folder that cannot be written, on a full disk for example, does not cost the training.
void keep(const std::filesystem::path& folder, const scores::RunChecks& checks) {
  try {
    scores::write_run_checks(folder, checks);
  } catch (const std::exception& error) {
    log_warning("the checks of the memory are not kept: ", error.what());
  }
}

}  // namespace

void check_before(train::Trainer& trainer, const std::filesystem::path& folder) {
  for (const std::string& line : train::window_warnings(trainer.runtime())) {
    log_warning("the run: ", line);
  }
  scores::RunChecks stored = scores::read_run_checks(folder);
  if (!stored.before) {
    stored.before = checks::check_untrained(trainer.experiment());
    keep(folder, stored);
  }
  warn(*stored.before);
}

void check_after(train::Trainer& trainer, const std::filesystem::path& folder) {
  scores::RunChecks stored = scores::read_run_checks(folder);
  if (stored.after && stored.after->step == trainer.step()) return;
  trainer.with_averages(
      [&] { stored.after = checks::check_trained(trainer.runtime(), trainer.step()); });
  warn(*stored.after);
  keep(folder, stored);
}

}  // namespace mneme::cli
