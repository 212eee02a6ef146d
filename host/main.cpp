#include <malloc.h>

#include <csignal>

#include "host/base/child_process.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/interrupt.hpp"

namespace {

// A step frees its tensors and the next one allocates the same sizes: memory that is returned to
// the system in between has to be mapped and zeroed again, which took 40 % of an evaluation's time.
// By default glibc returns large blocks.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace

int main(int argc, char** argv) {
  mneme::stop_with_parent();
  mneme::cli::take_stop_signals();
  mneme::cli::report_crashes();
  keep_freed_memory();
  // A starter may ignore it, and this program inherits that: then the ends of the programs that it
  // starts itself would be lost.
  std::signal(SIGCHLD, SIG_DFL);
  // At a limit of the files' size (ulimit -f) write(2) fails with a reason, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  return mneme::cli::main_entry(argc, argv, mneme::cli::standard_streams());
}
