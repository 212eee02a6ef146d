#include "host/generate/split_samples.hpp"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/generate/dialogue_answers.hpp"
#include "host/run/host_commit.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::generate {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kTopP = 0.95;
constexpr std::int64_t kWords = 64;        // of a continuation
constexpr std::int64_t kCharacters = 256;  // likewise
constexpr std::int64_t kPartOfWindow = 4;  // a continuation takes at most 1 / kPartOfWindow
constexpr std::int64_t kMaxAttempts = 64;  // draws of a window that overlaps none before

// First token and length of every document.
struct Spans {
  explicit Spans(const data::Corpus& corpus) {
    for (std::size_t i = 0; i < corpus.documents.size(); ++i) {
      const std::int64_t end =
          i + 1 < corpus.documents.size() ? corpus.documents[i + 1] : corpus.size();
      start.push_back(corpus.documents[i]);
      length.push_back(end - corpus.documents[i]);
    }
  }
  std::vector<std::int64_t> start, length;
};

void check_window_options(const WindowOptions& options) {
  for (const auto& [key, value] :
       {std::pair("--for-report", options.count), std::pair("--prompt-tokens", options.prompt),
        std::pair("continuation", options.continuation)}) {
    if (value >= 1) continue;
    throw_usage({.where = key,
                 .failed = "no sample can be made",
                 .expected = "at least 1",
                 .got = str(value)});
  }
}

// Lengths of the windows' parts: those that are asked for, or what `count` documents have room for.
std::pair<std::int64_t, std::int64_t> lengths_of(const Spans& spans, const data::Corpus& corpus,
                                                 const WindowOptions& options) {
  const std::int64_t wanted = options.prompt + options.continuation;
  if (std::ranges::any_of(spans.length,
                          [&](std::int64_t length) { return length / wanted >= options.count; })) {
    return {options.prompt, options.continuation};
  }
  std::vector<std::int64_t> longest = spans.length;
  std::ranges::sort(longest, std::greater());
  std::erase_if(longest, [](std::int64_t length) { return length < 2; });
  if (longest.empty()) {
    throw_usage({.where = corpus.key,
                 .failed = "no document can be continued",
                 .expected = "a document of at least two tokens",
                 .got = str(spans.length.size(), " shorter ones")});
  }
  const auto last = std::min(longest.size(), static_cast<std::size_t>(options.count)) - 1;
  if (longest[last] >= wanted) return {options.prompt, options.continuation};
  const std::int64_t continuation =
      std::clamp<std::int64_t>(longest[last] / kPartOfWindow, 1, options.continuation);
  return {std::min(options.prompt, longest[last] - continuation), continuation};
}

std::vector<std::int32_t> ids_of(const data::Corpus& corpus, std::int64_t first,
                                 std::int64_t count) {
  std::vector<std::int64_t> wide(static_cast<std::size_t>(count));
  corpus.tokens.copy(first, count, wide.data());
  return {wide.begin(), wide.end()};
}

std::vector<std::int32_t> drawn_ids(run::Runtime& runtime, const std::vector<std::int32_t>& prompt,
                                    std::int64_t count, const Options& options) {
  Generator generator(runtime.model(), runtime.stack(), options);
  generator.prompt(prompt);
  std::vector<std::int32_t> out;
  generator.generate(count, [&](std::int64_t, std::int32_t id) {
    out.push_back(id);
    return true;
  });
  return out;
}

std::int64_t continuation_of(const data::Vocabulary* vocabulary) {
  const bool has_letters =
      vocabulary != nullptr && vocabulary->kind() != data::VocabularyKind::kWord;
  return has_letters ? kCharacters : kWords;
}

}  // namespace

std::vector<Window> choose_windows(const data::Corpus& corpus, const WindowOptions& options) {
  check_window_options(options);
  const Spans spans(corpus);
  const auto [prompt, continuation] = lengths_of(spans, corpus, options);
  const std::int64_t length = prompt + continuation;
  // Every place where a window may begin is as likely as any other.
  std::vector<std::int64_t> places;
  std::int64_t all = 0;
  for (const std::int64_t document : spans.length) {
    all += std::max<std::int64_t>(0, document - length + 1);
    places.push_back(all);
  }
  Random random(kSeed, {"samples of a split"});
  std::vector<Window> out;
  for (std::int64_t i = 0; i < kMaxAttempts * options.count; ++i) {
    if (static_cast<std::int64_t>(out.size()) == options.count) break;
    const auto place = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(all)));
    const auto document =
        static_cast<std::size_t>(std::ranges::upper_bound(places, place) - places.begin());
    const std::int64_t distance = place - (document == 0 ? 0 : places[document - 1]);
    const Window window{.document = static_cast<std::int64_t>(document),
                        .distance = distance,
                        .start = spans.start[document] + distance,
                        .prompt = prompt,
                        .continuation = continuation};
    const bool is_free = std::ranges::none_of(out, [&](const Window& other) {
      return window.start < other.start + length && other.start < window.start + length;
    });
    if (is_free) out.push_back(window);
  }
  std::ranges::sort(out, {}, &Window::start);
  return out;
}

scores::Generated continue_split(run::Runtime& runtime, data::Split split,
                                 const scores::EvaluationName& name, const SampleOptions& options) {
  const data::Dataset& dataset = *runtime.dataset();
  const auto corpus = dataset.corpus(split);
  if (corpus == nullptr) {
    throw_usage({.where = "--for-report",
                 .failed = "the run's task has no text to continue",
                 .expected = "data of text or ids",
                 .got = str("data.task = ", dataset.describe().at("task").dump()),
                 .hint = "stored evaluations of generated tasks have what was predicted"});
  }
  if (dataset.dialogues(split) != nullptr) {
    return answer_turns(runtime, split, name,
                        {.count = options.count,
                         .prompt_tokens = options.prompt_tokens,
                         .on_progress = options.on_progress});
  }
  const std::int64_t segment = runtime.experiment().eval.segment;
  const std::int64_t prompt =
      options.prompt_tokens == 0 ? scores::default_prompt_tokens(segment) : options.prompt_tokens;
  const data::Vocabulary* const vocabulary = dataset.vocabulary();
  const std::vector<Window> windows = choose_windows(
      *corpus,
      {.count = options.count, .prompt = prompt, .continuation = continuation_of(vocabulary)});
  Options drawing = drawing_of(runtime, kTopP);
  scores::Generated out{
      .name = name,
      .samples_wanted = options.count,
      .prompt_tokens = prompt,
      .info = {{"segment", segment},
               {"top_p", kTopP},
               {"temperature", 1.0},
               {"seed", kSeed},
               {"vocabulary",
                vocabulary == nullptr ? Json(nullptr) : Json(data::to_word(vocabulary->kind()))},
               {"device", tensor::describe(runtime.device())},
               {"threads", tensor::threads()},
               {"mneme", MNEME_SDK_VERSION},
               {"commit", run::host_commit()}},
      .samples = {}};
  for (const Window& window : windows) {
    scores::GeneratedSample sample{
        .id = str(name.split, '/', window.document, '@', window.distance),
        .document = window.document,
        .distance = window.distance,
        .prompt = ids_of(*corpus, window.start, window.prompt),
        .expected = ids_of(*corpus, window.start + window.prompt, window.continuation),
        .generated = {}};
    drawing.seed = kSeed + static_cast<std::uint64_t>(out.samples.size());
    sample.generated = drawn_ids(runtime, sample.prompt, window.continuation, drawing);
    if (vocabulary != nullptr) {
      sample.prompt_text = scores::with_replacements(vocabulary->decode(sample.prompt));
      sample.expected_text = scores::with_replacements(vocabulary->decode(sample.expected));
      sample.generated_text = scores::with_replacements(vocabulary->decode(sample.generated));
    }
    out.samples.push_back(std::move(sample));
    if (options.on_progress) options.on_progress(static_cast<std::int64_t>(out.samples.size()));
  }
  return out;
}

}  // namespace mneme::generate
