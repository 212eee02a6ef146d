// mneme analyze regression
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/analyze/measures/regression.hpp"
#include "host/analyze/memory_analyses.hpp"
#include "host/analyze/report/run_reports.hpp"
#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/analyze/analyze.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/display.hpp"
#include "host/cli/machine_arguments.hpp"
#include "host/cli/streams.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kSmooth = 0.95;  // coefficient of the AR(1) rows

struct RegressionArguments {
  std::vector<fs::path> memory;
  std::string option = "basis";
  std::string values;  // TOML values with commas between them; "" = as the file has it
  std::vector<std::int64_t> rows = {512};
  std::vector<std::string> sources = {"white", "ar1"};
  fs::path run;
  std::int64_t layer = 0;
  std::int64_t width = 64;
  std::int64_t updates = 4;
  std::uint64_t seed = 1;
  fs::path out;
  MachineArguments machine;
  JsonArgument json;
  bool is_quiet = false;
};

// One memory with one value of the option.
struct Variant {
  std::string memory;  // its name
  std::string value;   // as TOML; "" = as the file has it
  config::MemoryConfig config;
};

config::MemoryConfig memory_of(const fs::path& file,
                               const std::vector<config::Override>& overrides = {}) {
  config::MemoryConfig memory = config::parse_memory_file(file, overrides);
  if (memory.tiers.size() != 1) {
    throw_usage({.where = file.string(),
                 .failed = "a regression is that of one tier",
                 .expected = "one [[memory.tier]]",
                 .got = str(memory.tiers.size())});
  }
  return memory;
}

std::vector<config::Value> values_of(const RegressionArguments& arguments) {
  if (arguments.values.empty()) return {};
  const config::Value root =
      config::parse_toml("values = [" + arguments.values + "]", "--values " + arguments.values);
  return root.find("values")->items();
}

std::vector<Variant> variants_of(const RegressionArguments& arguments) {
  std::vector<std::string> names;
  for (const fs::path& file : arguments.memory) names.push_back(as_utf8(file.stem().native()));
  names = distinct_names(names);
  const std::vector<config::Value> values = values_of(arguments);
  std::vector<Variant> variants;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const fs::path& file = arguments.memory[i];
    const config::MemoryConfig memory = memory_of(file);
    if (values.empty()) variants.push_back({names[i], "", memory});
    for (const config::Value& value : values) {
      const config::Override changed{.key = "memory.tier.0." + arguments.option,
                                     .value = value.toml()};
      variants.push_back({names[i], value.toml(), memory_of(file, {changed})});
    }
  }
  return variants;
}

// Rows of one kind; a new source begins anew, so that every memory stores the same rows.
class Sources {
 public:
  explicit Sources(const RegressionArguments& arguments) : arguments_(arguments) {
    if (arguments.run.empty()) return;
    const c10::Device device = tensor::open_device(arguments.machine.device);
    const run::RuntimeOptions options{.device = device,
                                      .free_memory = arguments.machine.free_memory(device)};
    const auto runtime = run::open_run(arguments.run, options);
    const std::int64_t longest = *std::ranges::max_element(arguments.rows);
    hidden_ = analyze::hidden_rows(*runtime, data::Split::kValid, arguments.layer,
                                   longest * analyze::regression_segments(arguments.updates));
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names = arguments_.sources;
    if (hidden_.defined()) names.emplace_back("hidden");
    return names;
  }
  [[nodiscard]] std::int64_t width(const std::string& name) const {
    return name == "hidden" ? hidden_.size(1) : arguments_.width;
  }
  [[nodiscard]] analyze::RowSource open(const std::string& name) const {
    if (name == "hidden") return analyze::given_rows(hidden_);
    return analyze::autoregressive(arguments_.width, name == "white" ? 0.0 : kSmooth,
                                   arguments_.seed);
  }

 private:
  const RegressionArguments& arguments_;
  at::Tensor hidden_;  // [n, D]
};

// Makes every memory once, so that an error in the last one is found at once.
void check_variants(const RegressionArguments& arguments, const std::vector<Variant>& variants) {
  const LogListener silent([](LogLevel, std::string_view) { return false; });
  plugin::PluginLoader loader = memory::make_loader();
  for (const Variant& variant : variants) {
    try {
      static_cast<void>(
          analyze::StoredSignal(variant.config, arguments.rows.front(), arguments.width, loader));
    } catch (const Error& error) {
      throw error.with_context(variant.memory);
    }
  }
}

std::vector<analyze::MeasuredRegression> measure(const RegressionArguments& arguments,
                                                 const std::vector<Variant>& variants,
                                                 const Sources& sources, Display& display) {
  plugin::PluginLoader loader = memory::make_loader();
  const std::vector<std::string> names = sources.names();
  display.begin("regression",
                static_cast<std::int64_t>(variants.size() * names.size() * arguments.rows.size()));
  std::vector<analyze::MeasuredRegression> measured;
  for (const std::int64_t rows : arguments.rows) {
    for (const Variant& variant : variants) {
      for (const std::string& name : names) {
        analyze::StoredSignal stored(variant.config, rows, sources.width(name), loader);
        measured.push_back(
            {variant.memory, rows, name, variant.value,
             analyze::measure_regression(stored, sources.open(name), rows, arguments.updates)});
        display.update(static_cast<std::int64_t>(measured.size()), stored.absorbed());
      }
    }
  }
  display.end();
  return measured;
}

Table table_of(const RegressionArguments& arguments,
               const std::vector<analyze::MeasuredRegression>& measured) {
  std::vector<std::string> headings = {"memory", "rows", "source", arguments.option, "error"};
  for (std::int64_t age = 0; arguments.updates > 0 && age <= arguments.updates; ++age) {
    headings.push_back(str("r, age ", age));
  }
  Table table(headings);
  for (const analyze::MeasuredRegression& one : measured) {
    std::vector<std::string> cells = {one.memory, str(one.rows), one.source, one.value,
                                      format_number(one.result.fit_error, 3)};
    for (const analyze::ReadBack& age : one.result.ageing) {
      cells.push_back(format_number(age.correlation, 3));
    }
    table.add_row(std::move(cells));
  }
  return table;
}

int run(const RegressionArguments& arguments, const Streams& streams) {
  for (const std::int64_t rows : arguments.rows) {
    if (rows < 1) throw_usage("analyze regression --rows: expected at least 1, got ", rows);
  }
  arguments.json.check();
  const OutputFolder folder(arguments.out);
  tensor::set_threads(arguments.machine.threads);
  Display display(streams, arguments.is_quiet);
  const std::vector<Variant> variants = read_input([&] { return variants_of(arguments); });
  check_variants(arguments, variants);
  const Sources sources = read_input([&] { return Sources(arguments); });
  const std::vector<analyze::MeasuredRegression> measured =
      measure(arguments, variants, sources, display);
  Json json = analyze::to_json(arguments.option, measured);
  json["width"] = arguments.width;
  json["seed"] = arguments.seed;
  write_analysis(
      table_of(arguments, measured).text(streams.out_width), arguments.out,
      [&] { return analyze::write_regression(arguments.out, arguments.option, measured); },
      std::move(json), arguments.json, streams);
  return 0;
}

void add_row_options(const Command& command, RegressionArguments& arguments) {
  command.option("--rows", arguments.rows, "L,...", "Rows of a segment; several with commas",
                 {delimiter(','), one_each, shown});
  command.option("--source", arguments.sources, "KIND,...",
                 "What is stored: white (noise), ar1 (neighbours correlate by .95)",
                 {delimiter(','), one_each, one_of({"white", "ar1"}), shown});
  command.option("--run", arguments.run, "RUN",
                 "Also store a run's hidden rows, of its valid split");
  command.option("--layer", arguments.layer, "N", "The layer whose inputs --run stores", {shown});
  command.option("--width", arguments.width, "D", "Width of generated rows",
                 {in(1, kMaxExtent), shown});
  command.option("--seed", arguments.seed, "N", "Seed of the generated rows", {shown});
}

}  // namespace

void add_analyze_regression(const Command& analyze) {
  const Command command = analyze.subcommand(
      "regression", "How well a memory keeps given rows: error of a fit, and how it ages");
  const auto arguments = std::make_shared<RegressionArguments>();
  command.option("--memory", arguments->memory, "FILE",
                 "Memory file with one tier; may be given several times", {one_each, required});
  command.option("--option", arguments->option, "OPTION", "The tier's option that --values changes",
                 {shown});
  command.option("--values", arguments->values, "V,...",
                 "Its values as TOML, with commas; without them the file's own",
                 {not_empty("values")});
  add_row_options(command, *arguments);
  command.option("--updates", arguments->updates, "K",
                 "Also how segments age over K updates; 0 = no", {in(0, 10'000), shown});
  command.option("--out", arguments->out, "DIR", "Folder for the CSV files, figures and the page",
                 {required});
  arguments->machine.add(command);
  arguments->json.add(command);
  command.flag("--quiet", arguments->is_quiet, "Show no progress");
  command.examples(
      {"mneme analyze regression --memory my_memory.toml --out analysis --values 64,128,256",
       "mneme analyze regression --memory my_memory.toml --out analysis --run runs/first --layer "
       "2"});
  command.runs(arguments, &run);
}

}  // namespace mneme::cli
