#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/run/cost/utilization.hpp"

namespace mneme::cli {
namespace {

using Results = std::vector<run::SweepResult>;

// A column of the table: its heading and a memory's cell, "" when it is not known.
struct Column {
  std::string heading;
  std::function<std::string(const eval::Result&)> cell;
};

std::string number(const std::optional<double>& value, int digits) {
  return value ? format_number(*value, digits) : std::string();
}

std::vector<Column> columns() {
  using Result = eval::Result;
  return {
      {"context", [](const Result& r) { return eval::context_text(r.protocol); }},
      {"loss", [](const Result& r) { return format_number(r.loss(), 4); }},
      {"perplexity", [](const Result& r) { return format_number(r.perplexity(), 3); }},
      {"per word", [](const Result& r) { return number(r.perplexity_per_word(), 3); }},
      {"bits/byte", [](const Result& r) { return number(r.bits_per_byte(), 4); }},
      {"bits/character", [](const Result& r) { return number(r.bits_per_character(), 4); }},
      {"accuracy", [](const Result& r) { return format_number(r.accuracy(), 4); }},
      {"accuracy outside", [](const Result& r) { return number(r.outside_accuracy(), 4); }},
      {"accuracy, normalised",
       [](const Result& r) {
         return r.questions && r.questions->has_choices
                    ? format_number(r.questions->all.normalised_accuracy(), 4)
                    : std::string();
       }},
      {"tokens", [](const Result& r) { return str(r.total.targets); }},
      {"state bytes/lane",
       [](const Result& r) { return str(r.state_bytes / std::max<std::int64_t>(1, r.lanes)); }},
      {"tokens/s", [](const Result& r) { return format_count(r.tokens_per_second()); }},
  };
}

const run::SweepResult* first_result(const Results& results) {
  const auto found =
      std::ranges::find_if(results, [](const auto& r) { return r.result.has_value(); });
  return found == results.end() ? nullptr : &*found;
}

// Places 0, 1, 2-3, 4-7, ... drawn together.
std::vector<scores::Bucket> in_powers_of_two(const std::vector<scores::Bucket>& places) {
  std::map<std::int64_t, scores::Bucket> grouped;
  for (const scores::Bucket& one : places) {
    const auto from =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(one.from)));
    scores::Bucket& bucket = grouped[from];
    bucket.from = from;
    bucket.name = from == one.from ? str(from) : str(from, "-", one.from);
    bucket.sums.add(one.sums);
  }
  std::vector<scores::Bucket> out;
  for (auto& [from, bucket] : grouped) out.push_back(std::move(bucket));
  return out;
}

using Pick = std::function<std::vector<scores::Bucket>(const eval::Breakdown&)>;

// One breakdown of all memories; "" when the first has none.
std::string breakdown_table(const Results& results, const std::string& value, const Pick& pick,
                            std::size_t width) {
  const run::SweepResult* const first = first_result(results);
  if (first == nullptr || pick(first->result->breakdown).empty()) return "";
  std::vector<std::string> headings = {"", "tokens"};
  std::vector<std::map<std::int64_t, scores::Sums>> scores;
  for (const run::SweepResult& result : results) {
    if (!result.result) continue;
    headings.push_back(result.name);
    scores.emplace_back();
    for (const scores::Bucket& bucket : pick(result.result->breakdown)) {
      scores.back()[bucket.from] = bucket.sums;
    }
  }
  Table table(headings);
  for (const scores::Bucket& bucket : pick(first->result->breakdown)) {
    std::vector<std::string> cells = {bucket.name, str(bucket.sums.targets)};
    for (const auto& memory : scores) {
      const auto found = memory.find(bucket.from);
      cells.push_back(found == memory.end() ? "-" : format_number(found->second.loss(), 4));
    }
    table.add_row(std::move(cells));
  }
  return str("\nloss, nats a token, by ", value, '\n', table.text(width));
}

// Which memory ran which build, where one plugin occurs in several; else "".
std::string builds_text(const Results& results, std::size_t width) {
  std::vector<std::vector<memory::TierIdentity>> identities;
  for (const run::SweepResult& result : results) identities.push_back(result.plugins);
  if (!memory::has_builds(identities)) return "";
  const std::vector<std::string> labels = memory::plugin_labels(identities);
  std::string text = "\nseveral builds of one plugin:\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].plugins.empty()) continue;
    for (const std::string& line : wrap_text(str(results[i].name, ": ", labels[i]), width - 2, 2)) {
      text += str("  ", line, '\n');
    }
  }
  return text;
}

}  // namespace

std::string result_table(const Results& results, std::size_t width) {
  std::vector<Column> known;
  for (Column& column : columns()) {
    const bool has_any = std::ranges::any_of(
        results, [&](const auto& r) { return r.result && !column.cell(*r.result).empty(); });
    if (has_any) known.push_back(std::move(column));
  }
  std::vector<std::string> headings = {"memory"};
  for (const Column& column : known) headings.push_back(column.heading);
  if (known.empty()) headings.emplace_back();
  Table table(headings);
  for (const run::SweepResult& result : results) {
    std::vector<std::string> cells = {result.name};
    if (!result.result) cells.emplace_back("failed");
    for (const Column& column : known) {
      if (!result.result) break;
      const std::string cell = column.cell(*result.result);
      cells.push_back(cell.empty() ? "-" : cell);
    }
    table.add_row(std::move(cells));
  }
  return table.text(width) + builds_text(results, width);
}

std::string statement_text(const Results& results, std::size_t width) {
  const run::SweepResult* const first = first_result(results);
  if (first == nullptr) return "";
  std::string text = eval::statement(*first->result);
  if (results.size() > 1) text = str(first->name, ": ", text, " Other memories: see context.");
  return '\n' + join(wrap_text(text, width), "\n") + '\n';
}

namespace {

// Of a group of questions: its name, the digits of a group that is a number, so that numbers are in
// order, and the group.
using QuestionRow = std::tuple<std::string, std::size_t, std::string>;

QuestionRow group_row(const std::string& name, const std::string& group) {
  const bool is_number = group.find_first_not_of("0123456789") == std::string::npos;
  return {name, is_number ? group.size() : 0, group};
}

}  // namespace

std::string questions_text(const Results& results, std::size_t width) {
  using Rows = std::map<QuestionRow, eval::QuestionCounts>;
  std::vector<Rows> columns;
  std::vector<std::string> headings = {"accuracy", "questions"};
  const bool has_choices = std::ranges::any_of(results, [](const run::SweepResult& one) {
    return one.result && one.result->questions && one.result->questions->has_choices;
  });
  if (has_choices) headings.emplace_back("chance");
  for (const run::SweepResult& result : results) {
    if (!result.result || !result.result->questions) continue;
    headings.push_back(result.name);
    Rows& rows = columns.emplace_back();
    rows[group_row("", "")] = result.result->questions->all;
    for (const auto& [name, groups] : result.result->questions->groups) {
      for (const auto& [group, counts] : groups) rows[group_row(name, group)] = counts;
    }
  }
  if (columns.empty()) return "";
  Table table(headings);
  for (const auto& [row, counts] : columns.front()) {
    const auto& [name, digits, group] = row;
    std::vector<std::string> cells = {name.empty() ? "all" : printable(str(name, ' ', group)),
                                      str(counts.questions)};
    if (has_choices) cells.push_back(format_number(counts.chance(), 4));
    for (Rows& column : columns) {
      const eval::QuestionCounts& own = column[row];
      const auto [low, high] = own.interval();
      cells.push_back(str(format_number(own.accuracy(), 4), " [", format_number(low, 3), ", ",
                          format_number(high, 3), ']'));
    }
    table.add_row(std::move(cells));
  }
  return str("\nright answers, with 95 % intervals over questions\n", table.text(width));
}

std::string breakdown_text(const Results& results, std::size_t width) {
  return breakdown_table(
             results, "place in the segment",
             [](const eval::Breakdown& b) { return in_powers_of_two(b.place); }, width) +
         breakdown_table(
             results, "tokens of the document before",
             [](const eval::Breakdown& b) { return b.distance; }, width) +
         breakdown_table(
             results, "times in the training data",
             [](const eval::Breakdown& b) { return b.frequency; }, width);
}

std::optional<run::Speed> measured_speed(const OpenArguments& arguments,
                                         const run::Runtime& runtime, double tokens_a_second,
                                         std::int64_t devices) {
  if (!arguments.json.is_given()) return std::nullopt;
  return run::Speed{run::measure_utilization(runtime, &run::FlopsPerToken::evaluation),
                    tokens_a_second, devices};
}

Json to_json(const run::SweepResult& result) {
  Json json = {{"name", result.name},
               {"memory", config::to_toml(result.memory)},
               {"plugins", run::to_json(result.plugins)},
               {"differs_from_run", run::to_json(result.differences)}};
  if (!result.reset.empty()) json["untrained_parameters"] = result.reset;
  if (result.result) {
    json["result"] = eval::to_json(*result.result);
    json["statement"] = eval::statement(*result.result);
    json["breakdown"] = eval::to_json(result.result->breakdown);
  }
  if (result.speed) json["speed"] = run::to_json(*result.speed);
  if (result.error) {
    json["error"] = {{"message", result.error->what()}, {"exit_code", result.error->exit_code()}};
  }
  return json;
}

}  // namespace mneme::cli
