#include "host/report/samples/samples.hpp"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/report/comparison/hide_folders.hpp"

namespace mneme::report {
namespace {

constexpr std::size_t kMaxPromptCharacters = 400;
constexpr std::size_t kMaxPromptIds = 80;

const std::vector<Shown>* shown_of(const Arm& arm, std::uint64_t seed, const std::string& split) {
  const Run* const run = arm.find(seed);
  const EvaluationSummary* const evaluation = run == nullptr ? nullptr : run->find(split);
  return evaluation == nullptr || evaluation->shown.empty() ? nullptr : &evaluation->shown;
}

// The first seed that most arms have samples of; the number of those arms.
std::pair<std::uint64_t, std::size_t> best_seed(const Comparison& comparison,
                                                const std::string& split) {
  std::pair<std::uint64_t, std::size_t> best{0, 0};
  for (const std::uint64_t seed : comparison.seeds) {
    const auto count = static_cast<std::size_t>(std::ranges::count_if(
        comparison.arms, [&](const Arm& arm) { return shown_of(arm, seed, split) != nullptr; }));
    if (count > best.second) best = {seed, count};
  }
  return best;
}

std::string ids_text(const std::vector<std::int32_t>& ids, std::size_t first = 0) {
  std::vector<std::string> words;
  for (std::size_t i = first; i < ids.size(); ++i) words.push_back(str(ids[i]));
  return join(words, " ");
}

// Where the last `count` characters of a text in UTF-8 begin.
std::size_t begin_of_last(const std::string& text, std::size_t count) {
  std::size_t at = text.size();
  while (at > 0 && count > 0) {
    if (!is_continuation(text[--at])) --count;
  }
  return at;
}

bool is_continued(const Comparison& comparison) {
  const std::string task = task_of(comparison);
  return task == "text" || task == "tokens";
}

}  // namespace

std::vector<SideBySide> side_by_side(const Comparison& comparison) {
  std::vector<SideBySide> out;
  for (const std::string& split : comparison.splits) {
    const auto [seed, count] = best_seed(comparison, split);
    if (count == 0) continue;
    std::vector<SideBySide> of_split;
    for (std::size_t a = 0; a < comparison.arms.size(); ++a) {
      const std::vector<Shown>* const shown = shown_of(comparison.arms[a], seed, split);
      if (shown == nullptr) continue;
      for (const Shown& one : *shown) {
        auto found = std::ranges::find_if(
            of_split, [&](const SideBySide& other) { return other.asked->is_like(one); });
        if (found == of_split.end()) {
          of_split.push_back({.split = split, .seed = seed, .asked = &one});
          found = std::prev(of_split.end());
          found->of_arms.resize(comparison.arms.size());
        }
        found->of_arms[a] = &one;
      }
    }
    out.insert(out.end(), of_split.begin(), of_split.end());
  }
  return out;
}

std::string title_of(const Shown& sample) {
  const std::size_t slash = sample.id.find('/');
  const std::size_t at = sample.id.find('@');
  if (sample.is_answer || slash == std::string::npos || at == std::string::npos) return sample.id;
  const std::string before = sample.id.substr(at + 1);
  return str(sample.id.substr(0, slash), ", document ", sample.id.substr(slash + 1, at - slash - 1),
             before == "0" ? ", from its beginning" : ", after its first " + before + " tokens");
}

std::string explanation(const SideBySide& sample) {
  if (sample.asked->is_answer) {
    return str("What was predicted in place of the answers of the first sequences of ",
               sample.split, ", by the runs of seed ", sample.seed,
               ". Every token is predicted after the true tokens before it, as in the accuracy. "
               "Shown are the task's ids; wrong ones are underlined.");
  }
  return str("Every arm continues the same parts of ", sample.split, ", by the runs of seed ",
             sample.seed,
             ": it reads the prompt from an empty memory, then its tokens are drawn with the same "
             "random numbers in all arms from the likeliest ones that together exceed 0.95.");
}

std::string missing_words(const Comparison& comparison) {
  std::vector<std::string> runs;
  for (const auto& [arm, run] : runs_of(comparison)) {
    const bool has_samples = std::ranges::any_of(
        run.evaluations, [](const EvaluationSummary& one) { return !one.shown.empty(); });
    if (!run.evaluations.empty() && !has_samples) runs.push_back(run.folder.string());
  }
  if (runs.empty()) return "";
  std::string words = str("No samples are stored of ", join(runs, ", "), ". ");
  words += is_continued(comparison) ? "\"mneme generate RUN --for-report 3\" makes them"
                                    : "\"mneme eval RUN\" stores what is predicted";
  return without_folders(words + "; then write the report again.");
}

Excerpt prompt_excerpt(const Shown& sample) {
  if (!sample.prompt_text) {
    const std::size_t all = sample.prompt.size();
    const std::size_t first = all > kMaxPromptIds ? all - kMaxPromptIds : 0;
    return {.text = ids_text(sample.prompt, first), .is_shortened = first > 0};
  }
  const std::size_t first = begin_of_last(*sample.prompt_text, kMaxPromptCharacters);
  return {.text = sample.prompt_text->substr(first), .is_shortened = first > 0};
}

std::string prompt_title(const Shown& sample, const Excerpt& excerpt) {
  std::string out = str("prompt of ", sample.prompt.size(), " tokens");
  if (excerpt.is_shortened) {
    out += sample.prompt_text ? str(", its last ", kMaxPromptCharacters, " characters")
                              : str(", its last ", kMaxPromptIds, " ids");
  }
  return out;
}

std::string expected_text(const Shown& sample) {
  return sample.expected_text ? *sample.expected_text : ids_text(sample.expected);
}

std::string made_text(const Shown& sample) {
  return sample.made_text ? *sample.made_text : ids_text(sample.made);
}

std::int64_t right_tokens(const Shown& sample) {
  std::int64_t right = 0;
  for (std::size_t i = 0; i < std::min(sample.made.size(), sample.expected.size()); ++i) {
    right += sample.made[i] == sample.expected[i] ? 1 : 0;
  }
  return right;
}

std::string samples_markdown(const Comparison& comparison) {
  const std::vector<SideBySide> all = side_by_side(comparison);
  std::string out;
  std::string said;
  for (const SideBySide& one : all) {
    const Shown& asked = *one.asked;
    if (out.empty()) out = asked.is_answer ? "### Answers\n" : "### Generated samples\n";
    const std::string words = explanation(one);
    if (words != std::exchange(said, words)) out += '\n' + markdown_text(words) + '\n';
    out += str("\n**", markdown_text(title_of(asked)), "**\n\n");
    const auto item = [&](const std::string& name, const std::string& text) {
      out += str("- ", markdown_text(name), ": ", markdown_text(text), '\n');
    };
    if (!asked.is_answer) {
      const Excerpt prompt = prompt_excerpt(asked);
      item(prompt_title(asked, prompt), (prompt.is_shortened ? "... " : "") + prompt.text);
    }
    item(asked.is_answer ? "answer" : "true continuation", expected_text(asked));
    for (std::size_t a = 0; a < one.of_arms.size(); ++a) {
      const Shown* const made = one.of_arms[a];
      item(comparison.arms[a].name, made == nullptr ? "none stored" : made_text(*made));
    }
  }
  const std::string missing = missing_words(comparison);
  if (!out.empty() && !missing.empty()) out += '\n' + markdown_text(missing) + '\n';
  return out;
}

Sheet samples_sheet(const Comparison& comparison) {
  Sheet sheet{.key = "samples",
              .title = "Samples",
              .headings = {"sample", "part", "arm", "seed", "tokens", "right_tokens", "text"},
              .is_for_programs = true};
  const auto add = [&](const Shown& one, const char* part, const std::string& arm, const Json& seed,
                       std::size_t tokens, const Json& right, const std::string& text) {
    sheet.rows.push_back({Cell(one.id), Cell(std::string(part)), Cell(arm), Cell("", seed),
                          Cell("", tokens), Cell("", right), Cell(text)});
  };
  std::vector<const Shown*> asked;
  for (const auto& [arm, run] : runs_of(comparison)) {
    for (const EvaluationSummary& evaluation : run.evaluations) {
      for (const Shown& one : evaluation.shown) {
        const bool is_known =
            std::ranges::any_of(asked, [&](const Shown* other) { return other->is_like(one); });
        if (!is_known) {
          asked.push_back(&one);
          if (!one.is_answer) {
            const std::string prompt = one.prompt_text ? *one.prompt_text : ids_text(one.prompt);
            add(one, "prompt", "", nullptr, one.prompt.size(), nullptr, prompt);
          }
          add(one, "expected", "", nullptr, one.expected.size(), nullptr, expected_text(one));
        }
        add(one, one.is_answer ? "predicted" : "generated", arm.name, run.seed, one.made.size(),
            one.is_answer ? Json(right_tokens(one)) : Json(nullptr), made_text(one));
      }
    }
  }
  return sheet;
}

}  // namespace mneme::report
