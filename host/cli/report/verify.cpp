// mneme verify FILE
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "host/report/bundle.hpp"

namespace mneme::cli {
namespace {

struct VerifyArguments {
  std::filesystem::path file;
  JsonArgument json;
};

int run_verify(const VerifyArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const report::Verification result =
      read_input([&] { return report::verify_bundle(arguments.file); });
  arguments.json.text(streams) << fit_lines(result.text(), streams.out_width) << std::flush;
  arguments.json.write(result.json(), streams);
  return result.findings.empty() ? 0 : static_cast<int>(ErrorKind::kRun);
}

}  // namespace

void add_verify(const Command& app) {
  const Command command = app.subcommand("verify",
                                         "Compute the report of a bundle anew from its losses and "
                                         "compare; exit status 1 if they differ");
  const auto arguments = std::make_shared<VerifyArguments>();
  command.option("FILE", arguments->file, "", "A bundle that `mneme report --bundle` wrote",
                 {required});
  arguments->json.add(command);
  command.examples({"mneme verify motif.tar", "mneme verify motif.tar --json -"});
  command.runs(arguments, &run_verify);
}

}  // namespace mneme::cli
