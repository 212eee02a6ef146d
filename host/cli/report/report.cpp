// mneme report DIR...
#include "host/report/report.hpp"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "host/base/file/checksum.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/report/compared_arms.hpp"
#include "host/cli/streams.hpp"
#include "host/report/bundle.hpp"
#include "host/report/harness/pairs.hpp"
#include "host/report/harness/results.hpp"
#include "host/report/suite/suite_report.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct ReportArguments {
  std::vector<fs::path> folders;
  fs::path out;
  fs::path bundle;
  std::string format = "text";
  JsonArgument json;
  ComparedArms compared;
  std::string metric;   // of samples of lm-evaluation-harness; "" = all
  std::string figures;  // format of pictures; "" = none
  bool is_quiet = false;
};

// Beside a comparison; for run folders in the current folder.
fs::path output_folder(const ReportArguments& arguments) {
  if (!arguments.out.empty()) return arguments.out;
  const bool is_comparison =
      arguments.folders.size() == 1 && fs::exists(arguments.folders.front() / "comparison.json");
  return is_comparison ? arguments.folders.front() / "report" : fs::path("report");
}

std::string printed(const report::Report& report, report::Format format, std::size_t width) {
  if (format == report::Format::kText) return report.text(width);
  if (format == report::Format::kJson) {
    return report::json_text(report.json(), 2) + '\n';
  }
  if (format == report::Format::kMarkdown) return report.markdown();
  if (format == report::Format::kLatex) return report.latex();
  return report::write_sheets(report.sheets, format);
}

// The folder of a suite: its table again, and its files.
int report_suite(const ReportArguments& arguments, report::Format format, const Streams& streams) {
  const fs::path& folder = arguments.folders.front();
  if (arguments.compared.is_given() || !arguments.bundle.empty()) {
    throw_usage(
        "report: the table of a suite compares no arms: expected no --baseline, --pairs, --margin "
        "or --bundle beside ",
        folder.string());
  }
  const fs::path& out = arguments.out.empty() ? folder : arguments.out;
  check_output_folder("--out", out);
  const report::SuiteReport suite =
      read_input([&] { return report::suite_report(folder, report::read_suite_record(folder)); });
  if (!arguments.figures.empty() && suite.figures.empty()) {
    throw_usage("report: expected no --figures beside ", folder.string(),
                ", which has none: a suite has figures where it has two tasks with an accuracy and "
                "two seeds, or where its tasks are points of --capacity or --scale, two of them "
                "with numbers");
  }
  std::optional<report::Drawer> drawer;
  if (!arguments.figures.empty()) drawer = report::find_drawer();
  Outputs outputs;  // files first: a reader of what is printed may end early
  outputs.add([&] {
    suite.write(out);
    if (drawer) report::draw_pictures(*drawer, suite.figure_files(out), arguments.figures);
  });
  outputs.add([&] { arguments.json.write(suite.json(), streams); });
  arguments.json.text(streams) << suite.text(format, streams.out_width) << std::flush;
  outputs.finish();
  return 0;
}

// Two folders of lm-evaluation-harness: one table, which is printed.
int report_harness(const ReportArguments& arguments, report::Format format,
                   const Streams& streams) {
  if (arguments.folders.size() != 2 || !arguments.compared.has_pairs) {
    throw_usage(
        "report: samples of lm-evaluation-harness are compared by two: expected --pairs and two "
        "folders, the baseline first");
  }
  if (!arguments.compared.baseline.empty() || arguments.compared.margin > 0.0 ||
      !arguments.figures.empty() || !arguments.out.empty()) {
    throw_usage(
        "report: samples of lm-evaluation-harness give one table: expected no --baseline, "
        "--margin, --figures or --out; name a --format");
  }
  const report::Sheet sheet = read_input([&] {
    return report::harness_pairs(report::read_harness_results(arguments.folders[0]),
                                 report::read_harness_results(arguments.folders[1]),
                                 arguments.metric);
  });
  const Json json = report::harness_json(sheet);
  Outputs outputs;  // files first: a reader of what is printed may end early
  outputs.add([&] { arguments.json.write(json, streams); });
  arguments.json.text(streams) << (format == report::Format::kJson
                                       ? report::json_text(json, 2) + '\n'
                                       : report::write_sheet(sheet, format, streams.out_width))
                               << std::flush;
  outputs.finish();
  return 0;
}

int run(const ReportArguments& arguments, const Streams& streams) {
  arguments.json.check();
  const report::Format format = report::parse_format(arguments.format);
  if (std::ranges::any_of(arguments.folders, report::has_harness_results))
    return report_harness(arguments, format, streams);
  if (!arguments.metric.empty()) {
    throw_usage(
        "report: --metric is of samples of lm-evaluation-harness: expected --pairs and two "
        "folders with samples_TASK_DATE.jsonl");
  }
  if (arguments.folders.size() == 1 && report::is_suite(arguments.folders.front()))
    return report_suite(arguments, format, streams);
  check_output_folder("--out", output_folder(arguments));
  if (!arguments.bundle.empty()) check_output_file("--bundle", arguments.bundle);
  std::optional<report::Drawer> drawer;
  if (!arguments.figures.empty()) drawer = report::find_drawer();
  const report::Report report =
      read_input([&] { return arguments.compared.report_of(arguments.folders); });
  Outputs outputs;  // files first: a reader of what is printed may end early
  fs::path page;
  const fs::path folder = output_folder(arguments);
  outputs.add([&] {
    page = report.write(folder);
    if (drawer) report::draw_pictures(*drawer, report.figure_files(folder), arguments.figures);
  });
  std::string bundle_line;
  if (!arguments.bundle.empty()) {
    outputs.add([&] {
      report::write_bundle(
          arguments.bundle, arguments.folders,
          {arguments.compared.baseline, arguments.compared.has_pairs, arguments.compared.margin});
      bundle_line = str("the bundle is ", arguments.bundle.string(), ", ",
                        human_bytes(fs::file_size(arguments.bundle)), ", sha256 ",
                        sha256_file(arguments.bundle), '\n');
    });
  }
  outputs.add([&] { arguments.json.write(report.json(), streams); });
  arguments.json.text(streams) << printed(report, format, streams.out_width) << std::flush;
  if (!page.empty() && !arguments.is_quiet) {
    streams.err << "the report is " << page.string() << "; open it in a browser";
    if (!report::has_vega()) streams.err << ". " << report::kWithoutVega;
    streams.err << '\n' << std::flush;
  }
  if (!arguments.is_quiet) streams.err << bundle_line << std::flush;
  outputs.finish();
  return 0;
}

}  // namespace

void add_report(const Command& app) {
  const Command command = app.subcommand(
      "report", "Compare runs by their stored losses, as tables and one HTML page with figures");
  const auto arguments = std::make_shared<ReportArguments>();
  command.option(
      "DIR", arguments->folders, "",
      "The folder of a comparison, or run folders; the first arm is the baseline. With --pairs "
      "also two folders with samples of lm-evaluation-harness",
      {required});
  command.option("--out", arguments->out, "DIR",
                 "Folder for the page, the tables and the figures; default: DIR/report of a "
                 "comparison, report for runs");
  command.option("--format", arguments->format, "FORMAT",
                 "Of what is printed: text, csv, json, markdown or latex",
                 {one_of(report::format_words()), shown});
  command.option(
      "--figures", arguments->figures, "FORMAT",
      "Draw every figure as a picture, too, in the folder figures: svg or pdf; needs vl-convert",
      {one_of(report::picture_formats())});
  command.option("--bundle", arguments->bundle, "FILE",
                 "Also write one archive (tar) with losses, settings, checksums and the report, "
                 "without weights; mneme verify checks it");
  arguments->compared.add(command);
  arguments->json.add(command);
  command.option("--metric", arguments->metric, "METRIC",
                 "Of samples of lm-evaluation-harness, in two folders: compare this one alone; "
                 "default: all that both have",
                 {not_empty("a metric")});
  command.flag("--quiet", arguments->is_quiet, "Do not say where page and bundle are");
  command.examples(
      {"mneme report runs/motif", "mneme report runs/motif --baseline my_memory --pairs",
       "mneme report runs/motif --margin 0.005", "mneme report runs/motif --figures pdf",
       "mneme report --pairs results/cache results/sinks",
       "mneme report runs/motif --bundle motif.tar",
       "mneme report runs/first runs/second --out report --format latex"});
  command.runs(arguments, &run);
}

}  // namespace mneme::cli
