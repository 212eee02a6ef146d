// mneme compare --until-decided: seeds one after another, with a look at the arms after each.
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/cli/compare/compare.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/looks/looks.hpp"
#include "host/report/setup/baseline.hpp"
#include "host/stats/looks.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// "look after 4 of at most 12 seeds, loss on test: cache -0.0123 (...), not decided"
std::string look_text(const report::Comparison& comparison,
                      const std::vector<report::Difference>& seen) {
  std::vector<std::string> words;
  for (const report::Difference& one : seen) words.push_back(report::look_words(comparison, one));
  return str("look after ", comparison.seeds.size(), " of at most ",
             comparison.looks->plan.max_seeds(), " seeds, loss on ", comparison.looks->split, ": ",
             join(words, "; "), '\n');
}

// The names of the arms that need no more seeds. Rank 0 looks for all, which may see the newest
// files later.
std::set<std::string> take_look(const fs::path& folder, const CompareArguments& arguments,
                                const RankSession& session) {
  std::string told;
  if (session.is_first()) {
    report::Comparison comparison = report::load({folder});
    if (!arguments.compared.baseline.empty())
      report::set_baseline(comparison, arguments.compared.baseline);
    const std::vector<report::Difference> seen =
        report::look_differences(comparison, comparison.seeds.size());
    if (!arguments.is_quiet) session.streams().err << look_text(comparison, seen) << std::flush;
    Json decided = Json::array();
    for (const report::Difference& one : seen) {
      if (report::is_decided(one)) decided.push_back(comparison.arms[one.arm].name);
    }
    told = decided.dump();
  }
  if (session.ranks() != nullptr)
    told = session.ranks()->all_gather(told, "compare: the look").front();
  return Json::parse(told).get<std::set<std::string>>();
}

}  // namespace

CompareEnd run_until_decided(const compare::Record& all, const compare::Options& options,
                             const CompareArguments& arguments, const RankSession& session) {
  compare::Record record = all;
  for (compare::ArmRecord& arm : record.arms) arm.runs.clear();
  std::set<std::string> decided;
  CompareEnd end;
  std::size_t seeds = stats::LookPlan::first_look_of(all.seeds.size());
  for (std::size_t before = 0; seeds <= all.seeds.size(); before = seeds++) {
    record.ended_seeds = before;
    record.seeds.assign(all.seeds.begin(), all.seeds.begin() + static_cast<std::ptrdiff_t>(seeds));
    for (std::size_t i = 0; i < record.arms.size(); ++i) {
      std::vector<compare::RunRecord>& runs = record.arms[i].runs;
      if (decided.contains(record.arms[i].setup.name)) continue;
      const std::vector<compare::RunRecord>& planned = all.arms[i].runs;
      runs.insert(runs.end(), planned.begin() + static_cast<std::ptrdiff_t>(before),
                  planned.begin() + static_cast<std::ptrdiff_t>(seeds));
    }
    end = run_comparison(record, options, arguments, session.streams());
    if (end.signal != 0) break;
    decided.merge(take_look(options.folder, arguments, session));
    if (decided.size() + 1 >= record.arms.size()) break;
  }
  return end;
}

void add_first_look(const compare::Record& record, const CompareArguments& arguments,
                    const Streams& streams, Json& plan) {
  const std::size_t most = record.seeds.size();
  const std::size_t first = stats::LookPlan::first_look_of(most);
  arguments.json.text(streams) << "this is for " << most
                               << " seeds, the most; the first look is after " << first
                               << ", and an arm that is decided gets no more\n"
                               << std::flush;
  plan[scores::kLooksKey] = {{"max_seeds", most}, {"first_look", first}};
}

}  // namespace mneme::cli
