#include "host/generate/dialogue_answers.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/generate/chat_turns.hpp"
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

// The tokens of an answer, without the mark that ends it. `room` tokens of the last piece of its
// prompt stay free for it.
std::vector<std::int32_t> answer_to(run::Runtime& runtime, const data::DialogueSequence& sequence,
                                    const Asked& asked, std::int64_t room, std::int64_t tokens) {
  Options drawing = drawing_of(runtime, kAnswerTopP);
  drawing.seed = kAnswerSeed + asked.number;
  std::vector<std::vector<std::int32_t>> pieces;
  for (const data::TokenRange& piece :
       data::cut_from_end(asked.instance.context.size(), drawing.segment, room)) {
    pieces.push_back(tokens_of(sequence, piece));
  }
  Generator generator(runtime.model(), runtime.stack(), drawing);
  generator.prompt_pieces(pieces);
  const ChatTurns turns(*runtime.dataset());
  std::vector<std::int32_t> out;
  generator.generate(tokens, [&](std::int64_t, std::int32_t id) {
    if (turns.ends_answer(id)) return false;
    out.push_back(id);
    return true;
  });
  return out;
}

}  // namespace

Options drawing_of(const run::Runtime& runtime, double top_p) {
  const data::Dataset& dataset = *runtime.dataset();
  Options out{.segment = runtime.experiment().eval.segment,
              .ids = dataset.vocabulary() == nullptr ? 0 : dataset.vocabulary()->size(),
              .type_marks = dataset.type_marks(),
              .takes_forgotten_prompts = true};
  out.sampling.top_p = top_p;
  return out;
}

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
  const std::int64_t segment = runtime.experiment().eval.segment;
  const std::int64_t room = std::min(options.tokens, segment / 2);  // for the answer
  const auto text_of = [&](const std::vector<std::int32_t>& ids) {
    return scores::with_replacements(runtime.dataset()->vocabulary()->decode(ids));
  };
  const std::int64_t kept =
      options.prompt_tokens == 0 ? scores::default_prompt_tokens(segment) : options.prompt_tokens;
  scores::Generated out{.name = name,
                        .samples_wanted = options.count,
                        .prompt_tokens = kept,
                        .info = {{"task", "dialogue"},
                                 {"segment", segment},
                                 {"room", room},
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
        .generated = answer_to(runtime, sequence, asked, room, options.tokens)};
    sample.prompt_text = text_of(sample.prompt);
    sample.expected_text = scores::with_replacements(
        dialogue.turns[static_cast<std::size_t>(asked.instance.turn)].text);
    sample.generated_text = text_of(sample.generated);
    out.samples.push_back(std::move(sample));
    if (options.on_progress) options.on_progress(static_cast<std::int64_t>(out.samples.size()));
  }
  return out;
}

}  // namespace mneme::generate
