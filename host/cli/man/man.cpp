// mneme man
#include "host/cli/man/man.hpp"

#include <memory>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

struct ManArguments {
  Command program;
};

int print_man_page(const ManArguments& arguments, const Streams& streams) {
  streams.out << man_page(arguments.program.definition(), str("mneme ", MNEME_SDK_VERSION));
  return 0;
}

}  // namespace

void add_man(const Command& app) {
  const Command command =
      app.subcommand("man", "Print the manual page mneme(1), which an installation has");
  command.examples({"mneme man | man -l -", "mneme man > /usr/local/share/man/man1/mneme.1"});
  command.runs(std::make_shared<ManArguments>(ManArguments{app}), &print_man_page);
}

}  // namespace mneme::cli
