#include "host/generate/dialogue_answers.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/generate/chat_turns.hpp"
#include "host/generate/generator.hpp"
#include "host/run/host_commit.hpp"
#include "host/tensor/device.hpp"
#include "mneme/abi.h"

namespace mneme::generate {
namespace {

// [infinity-former, section 4.3]: nucleus sampling; the seed is the released program's.
constexpr std::uint64_t kAnswerSeed = 11;
constexpr double kAnswerTopP = 0.9;

// A turn to generate.
struct Asked {
  std::size_t dialogue = 0;
  data::GenerationInstance instance;
  std::uint64_t number = 0;  // among all scored turns of the split
};

// Lowers `turns_before` where no dialogue has so many turns.
std::vector<Asked> asked_turns(const data::DialogueData& data, AnswerOptions& options) {
  std::int64_t longest = 1;
  for (const data::DialogueSequence& sequence : data.sequences) {
    longest = std::max(longest, static_cast<std::int64_t>(sequence.turns.size()));
  }
  options.turns_before = std::min(options.turns_before, longest - 1);
  std::vector<Asked> all;
  for (std::size_t i = 0; i < data.sequences.size(); ++i) {
    for (const auto& instance :
         data::generation_instances(data.sequences[i], options.turns_before)) {
      all.push_back({i, instance, all.size()});
    }
  }
  const auto wanted = static_cast<std::size_t>(options.count);
  if (wanted == 0 || wanted >= all.size()) return all;
  Random random(kAnswerSeed, {"answered turns"});
  random.shuffle(std::span(all));
  all.resize(wanted);
  std::ranges::sort(all, {}, &Asked::number);
  return all;
}

std::vector<std::int32_t> tokens_of(const data::DialogueSequence& sequence,
                                    const data::TokenRange& range) {
  return {sequence.tokens.begin() + range.begin, sequence.tokens.begin() + range.end};
}

// Generates turn after turn of one split.
class Answers {
 public:
  Answers(run::Runtime& runtime, const data::DialogueData& data, const AnswerOptions& options)
      : runtime_(runtime),
        data_(data),
        vocabulary_(*runtime.dataset()->vocabulary()),
        segment_(runtime.experiment().eval.segment),
        tokens_(options.tokens),
        turns_(*runtime.dataset()) {
    drawing_.segment = segment_;
    drawing_.takes_forgotten_prompts = true;
    drawing_.sampling.top_p = kAnswerTopP;
    drawing_.ids = vocabulary_.size();
    drawing_.type_marks = runtime.dataset()->type_marks();
  }

  // Tokens of the last piece that stay free for the answer; at most half a segment.
  [[nodiscard]] std::int64_t room() const { return std::min(tokens_, segment_ / 2); }
  [[nodiscard]] const Options& drawing() const { return drawing_; }

  std::vector<std::int32_t> answer(const Asked& asked) {
    const data::DialogueSequence& sequence = data_.sequences[asked.dialogue];
    std::vector<std::vector<std::int32_t>> pieces;
    for (const data::TokenRange& piece :
         data::cut_from_end(asked.instance.context.size(), segment_, room())) {
      pieces.push_back(tokens_of(sequence, piece));
    }
    drawing_.seed = kAnswerSeed + asked.number;
    Generator generator(runtime_.model(), runtime_.stack(), drawing_);
    generator.prompt_pieces(pieces);
    std::vector<std::int32_t> out;
    generator.generate(tokens_, [&](std::int64_t, std::int32_t id) {
      if (turns_.ends_answer(id)) return false;
      out.push_back(id);
      return true;
    });
    return out;
  }

  [[nodiscard]] std::string text_of(const std::vector<std::int32_t>& ids) const {
    return scores::with_replacements(vocabulary_.decode(ids));
  }

 private:
  run::Runtime& runtime_;
  const data::DialogueData& data_;
  const data::Vocabulary& vocabulary_;
  std::int64_t segment_;
  std::int64_t tokens_;
  ChatTurns turns_;
  Options drawing_;
};

}  // namespace

scores::Generated answer_turns(run::Runtime& runtime, data::Split split,
                               const scores::EvaluationName& name, AnswerOptions options) {
  const auto data = runtime.dataset()->dialogues(split);
  if (data == nullptr) {
    throw_usage({.where = data::key_of(split),
                 .failed = "there are no dialogues to answer",
                 .expected = "data.task = \"dialogue\" and the path of a file",
                 .got = "none that was read"});
  }
  if (options.count < 0 || options.tokens < 1) {
    throw_usage({.where = options.count < 0 ? "--for-report" : "tokens of an answer",
                 .failed = "no answer can be made",
                 .expected = "at least 1",
                 .got = str(options.count < 0 ? options.count : options.tokens)});
  }
  const std::vector<Asked> all = asked_turns(*data, options);
  Answers answers(runtime, *data, options);
  const std::int64_t segment = runtime.experiment().eval.segment;
  const std::int64_t kept =
      options.prompt_tokens == 0 ? scores::default_prompt_tokens(segment) : options.prompt_tokens;
  scores::Generated out{.name = name,
                        .samples_wanted = options.count,
                        .prompt_tokens = kept,
                        .info = {{"task", "dialogue"},
                                 {"segment", segment},
                                 {"room", answers.room()},
                                 {"answer_tokens", options.tokens},
                                 {"turns_before", options.turns_before},
                                 {"top_p", kAnswerTopP},
                                 {"temperature", 1.0},
                                 {"seed", kAnswerSeed},
                                 {"device", tensor::describe(runtime.device())},
                                 {"threads", tensor::threads()},
                                 {"mneme", MNEME_SDK_VERSION},
                                 {"commit", run::host_commit()}},
                        .samples = {}};
  for (const Asked& asked : all) {
    const data::DialogueSequence& sequence = data->sequences[asked.dialogue];
    const data::Dialogue& dialogue = data->dialogues[asked.dialogue];
    const std::int64_t end = asked.instance.context.end;
    const std::int64_t begin = std::max<std::int64_t>(0, end - kept);
    scores::GeneratedSample sample{
        .id = str(name.split, '/', dialogue.id, '@', asked.instance.turn),
        .document = static_cast<std::int64_t>(asked.dialogue),
        .distance = begin,
        .prompt = tokens_of(sequence, {begin, end}),
        .expected = tokens_of(sequence, asked.instance.reference),
        .generated = answers.answer(asked)};
    sample.prompt_text = answers.text_of(sample.prompt);
    sample.expected_text = scores::with_replacements(
        dialogue.turns[static_cast<std::size_t>(asked.instance.turn)].text);
    sample.generated_text = answers.text_of(sample.generated);
    out.samples.push_back(std::move(sample));
    if (options.on_progress) options.on_progress(static_cast<std::int64_t>(out.samples.size()));
  }
  return out;
}

}  // namespace mneme::generate
