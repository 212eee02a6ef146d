// Checks of options and of what `create` makes of them.

#include <algorithm>
#include <optional>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/interposer.hpp"
#include "host/validate/setting.hpp"
#include "mneme/plugin.h"

namespace mneme::validate {
namespace {

using config::OptionSpec;
using config::OptionType;
using memory::Phase;
using memory::StackState;

// The values of an option that are tried: both bounds, both truths, every choice, lists of one.
std::vector<std::string> tried_values(const OptionSpec& spec) {
  std::vector<std::string> values;
  const auto add_bounds = [&](const auto& range, const auto& unbounded) {
    for (const auto bound :
         {&std::decay_t<decltype(range)>::min, &std::decay_t<decltype(range)>::max}) {
      if (range.*bound == unbounded.*bound) continue;
      std::string text = config::option_text(range.*bound);
      if (spec.type == OptionType::kIntegerList || spec.type == OptionType::kRealList)
        text = '[' + text + ']';
      values.push_back(text);
    }
  };
  switch (spec.type) {
    case OptionType::kBoolean:
      return {"true", "false"};
    case OptionType::kChoice:
      for (const std::string& choice : spec.choices) values.push_back(quoted_list({choice}));
      return values;
    case OptionType::kText:
      return {};
    default:
      add_bounds(spec.integers, config::IntegerRange{});
      add_bounds(spec.reals, config::RealRange{});
      return values;
  }
}

// The largest value that the option takes, when it is one that may ask for much memory.
std::optional<std::string> large_bound(const OptionSpec& spec) {
  constexpr std::int64_t kSmall = 64;
  const auto of = [&](const auto& range, const auto& unbounded) -> std::optional<std::string> {
    if (range.max == unbounded.max || (range.max <= kSmall && range.max >= -kSmall)) return {};
    return config::option_text(range.max);
  };
  const auto integers = of(spec.integers, config::IntegerRange{});
  return integers ? integers : of(spec.reals, config::RealRange{});
}

// Why no value was tried: all are `given` by --set, or `none` is there.
std::string nothing_to_try(const std::vector<std::string>& given, const char* none) {
  return given.empty() ? none : str("keeps the value given by --set: ", join(given, ", "));
}

// A session of a memory with this option, "rows=8"; null where it is refused by a text that names
// the option's key. Any other refusal fails with that text behind `where`.
std::unique_ptr<Session> open_with(const Subject& subject, Setting setting,
                                   const std::string& option, const std::string& key,
                                   const std::string& where) {
  setting.options = {option};
  try {
    return open(subject, setting);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find(key) != std::string::npos) return nullptr;
    throw Failed(where + text);
  }
}

// Two segments in both phases.
void run_for_a_moment(Session& session, const Subject& subject) {
  const std::int64_t length = segment_length(session);
  const at::Tensor ids = ids_of(subject, session, 2);
  for (const Phase phase : kPhases) {
    StackState state = session.fresh(kLanes, phase);
    for (std::int64_t s = 0; s < 2; ++s)
      static_cast<void>(session.loss(state, segment_of(ids, length, s)));
  }
}

Outcome has_help(const Subject& subject) {
  plugin::PluginLoader loader(interposed_group);
  const mneme_plugin& table = *load(subject, loader).table;
  std::vector<std::string> problems;
  if (table.summary == nullptr || *table.summary == '\0') problems.emplace_back("no summary");
  for (const OptionSpec& spec : options_of(subject)) {
    if (spec.text.empty()) problems.push_back(str("option ", spec.key, " has no help"));
    const bool is_number = spec.type == OptionType::kInteger || spec.type == OptionType::kReal;
    const bool is_bounded =
        spec.integers != config::IntegerRange{} || spec.reals != config::RealRange{};
    if (is_number && !is_bounded) problems.push_back(str("option ", spec.key, " has no bounds"));
  }
  if (problems.empty()) return {};
  return {Grade::kWarn, join(problems, "; ")};
}

Outcome runs_as_given(const Subject& subject) {
  const std::vector<OptionSpec> specs = options_of(subject);
  std::vector<std::string> known, missing;
  for (const OptionSpec& spec : specs) known.push_back(spec.key);
  for (const std::string& option : subject.options) {
    const std::string key = option.substr(0, option.find('='));
    const bool is_known = std::ranges::find(known, key) != known.end() || key.starts_with("eval_");
    if (!is_known) {
      throw Failed(str("--set ", option, ": there is no such option", did_you_mean(key, known),
                       ": expected ", join(known, ", ")));
    }
  }
  for (const OptionSpec& spec : specs) {
    if (!spec.default_value && !is_given(subject, spec.key))
      missing.push_back(str("--set ", spec.key, "=... (", config::option_expectation(spec), ")"));
  }
  if (!missing.empty())
    throw Failed("options without a default are not given: add " + join(missing, " "));
  const auto session = open(subject);
  run_for_a_moment(*session, subject);
  const std::int64_t rows = session->stack.context_rows(Phase::kTraining);
  const std::int64_t read = kSegments * segment_length(*session);
  if (rows <= read) return {};
  return {Grade::kWarn,
          str("the memory has ", rows, " rows, and most checks read ", read,
              " tokens: give smaller sizes with --set, so that they see rows leave it")};
}

// Each value is taken, or refused with a text that names the option.
Outcome bounds_hold(const Subject& subject) {
  const Setting base = small_setting(subject);
  std::int64_t taken = 0, refused = 0;
  std::vector<std::string> given;
  for (const OptionSpec& spec : options_of(subject)) {
    if (is_given(subject, spec.key)) {
      given.push_back(spec.key);
      continue;
    }
    for (const std::string& value : tried_values(spec)) {
      const std::string where = str(spec.key, " = ", value);
      const auto session =
          open_with(subject, base, str(spec.key, '=', value), spec.key,
                    where +
                        " is within the option's bounds and is refused by a text that does not "
                        "name the option: ");
      ++(session == nullptr ? refused : taken);
      if (session == nullptr) continue;
      // The largest sizes are made and not run: their states may not fit the machine.
      const auto large = large_bound(spec);
      if (large && value.find(*large) != std::string::npos) continue;
      try {
        run_for_a_moment(*session, subject);
      } catch (const Error& error) {
        throw Failed(str(where, ": ", error.what()));
      }
    }
  }
  if (taken + refused == 0) throw Skipped(nothing_to_try(given, "there is no option to try"));
  return {Grade::kPass, str(taken, " values taken, ", refused, " refused with a reason")};
}

// An option that may differ at evaluation is given its bounds there, whatever its value in training
// is.
Outcome options_at_evaluation(const Subject& subject) {
  const Setting base = small_setting(subject);
  std::int64_t tried = 0;
  std::vector<std::string> given;
  for (const OptionSpec& spec : options_of(subject)) {
    if (!spec.may_differ_at_evaluation) continue;
    if (is_given(subject, "eval_" + spec.key)) {
      given.push_back("eval_" + spec.key);
      continue;
    }
    for (const std::string& value : tried_values(spec)) {
      const auto session = open_with(subject, base, str("eval_", spec.key, '=', value), spec.key,
                                     str("eval_", spec.key, " = ", value, ": "));
      if (session == nullptr) continue;
      ++tried;
      if (large_bound(spec)) continue;
      run_for_a_moment(*session, subject);
    }
  }
  if (tried == 0) throw Skipped(nothing_to_try(given, "no option may differ at evaluation"));
  return {Grade::kPass, str(tried, " values")};
}

}  // namespace

std::vector<Check> option_checks() {
  return {
      {"options.run", "Does it run with the options given?", runs_as_given, "file.load"},
      {"options.help", "Does everything explain itself?", has_help},
      {"options.bounds", "Is every option taken at its bounds, or refused with a reason?",
       bounds_hold},
      {"options.evaluation", "Can options differ at evaluation where they say so?",
       options_at_evaluation},
  };
}

}  // namespace mneme::validate
