// How `mneme generate` opens a run and goes on with a saved conversation.
#include <algorithm>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/write_file.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/display.hpp"
#include "host/cli/generate/generate.hpp"
#include "host/cli/streams.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/generate/recorded_steps.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/plugin_lock.hpp"
#include "host/run/run_description.hpp"
#include "host/run/run_folder.hpp"
#include "host/tensor/device.hpp"
#include "host/weights/pretrained/folder_record.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

// [LaMemo, section 4.5 and its generation script]: prompt in chunks of 256 without <eos>, then 256
// segments of one token, 512 rows, distances clamped at 400, nucleus .95, seed 42.
constexpr std::int64_t kReleasedChunk = 256;
constexpr std::int64_t kReleasedTokens = 256;
constexpr std::int64_t kReleasedRows = 512;
constexpr std::int64_t kReleasedClamp = 400;
constexpr double kReleasedTopP = 0.95;
constexpr std::int64_t kReleasedSeed = 42;

bool is_released(const GenerateArguments& arguments) { return arguments.protocol == "released"; }

std::vector<config::Override> overrides_of(const GenerateArguments& arguments,
                                           const config::Experiment& stored) {
  std::vector<config::Override> overrides;
  const bool has_distances = stored.model.position != config::PositionScheme::kLearned &&
                             stored.model.position != config::PositionScheme::kNone;
  if (is_released(arguments) && has_distances) {
    overrides.push_back({.key = "model.clamp_distance", .value = str(kReleasedClamp)});
  }
  for (const config::Override& given : arguments.set.overrides()) {
    const std::string table = given.key.substr(0, given.key.find('.'));
    if (table != "eval" && table != "memory" && table != "generate" &&
        !config::may_differ_from_training(given.key)) {
      throw_usage("generate ", given.text(),
                  ": the trained model generates as it is: expected a key of generate, eval or "
                  "memory, model.same_length, model.clamp_distance, model.attention_kernel or "
                  "model.row_kernels");
    }
    overrides.push_back(given);
  }
  return overrides;
}

GenerateSettings settings_of(const GenerateArguments& arguments,
                             const config::Experiment& experiment) {
  const bool released = is_released(arguments);
  GenerateSettings settings;
  generate::Options& options = settings.options;
  generate::Sampling& sampling = options.sampling;
  options.segment = arguments.segment.value_or(released ? 1 : experiment.generate.segment);
  options.seed = static_cast<std::uint64_t>(arguments.seed.value_or(released ? kReleasedSeed : 1));
  sampling.is_greedy = arguments.is_greedy;
  sampling.temperature = arguments.temperature.value_or(1.0);
  sampling.top_k = arguments.top_k.value_or(0);
  sampling.top_p = arguments.top_p.value_or(released ? kReleasedTopP : 1.0);
  sampling.min_p = arguments.min_p.value_or(0.0);
  settings.tokens = arguments.tokens.value_or(kReleasedTokens);
  settings.has_seed = arguments.seed.has_value() || released;
  settings.keeps_eos = !released;
  settings.tokenises = arguments.tokenises;
  settings.detokenises = arguments.detokenises || released;
  return settings;
}

// Whether the command line says how long segments are; the experiment's default follows eval's.
bool has_given_segment(const GenerateArguments& arguments) {
  if (arguments.segment || is_released(arguments)) return true;
  return std::ranges::any_of(arguments.set.overrides(), [](const config::Override& given) {
    return given.key == "generate.segment" || given.key == "eval.segment";
  });
}

// A conversation goes on in its own segments, unless others are given: the segment is a part of
// the function that the text is drawn from.
void keep_segment(const GenerateArguments& arguments, GenerateSettings& settings,
                  Display& display) {
  if (arguments.state.empty()) return;
  const std::int64_t saved =
      read_input([&] { return generate::segment_of_conversation(arguments.state); });
  if (saved == 0 || saved == settings.options.segment) return;
  if (!has_given_segment(arguments)) {
    settings.options.segment = saved;
    return;
  }
  display.note(str(arguments.state.string(), ": the conversation was generated in segments of ",
                   saved, " tokens and goes on in segments of ", settings.options.segment,
                   ", as given: the text is another one than without a stop"));
}

// What the tokenizer's template puts before a text. Error (kUsage) where there is nothing.
std::vector<std::int32_t> beginning_of(const data::Vocabulary* vocabulary) {
  const data::Tokenizer* const tokenizer =
      vocabulary == nullptr ? nullptr : vocabulary->tokenizer().get();
  if (tokenizer == nullptr) {
    throw_usage(
        {.where = "--bos",
         .failed = "the run's vocabulary is no tokenizer: it has no token that begins a text",
         .hint = "leave the option out, or write the token into the prompt"});
  }
  if (!tokenizer->beginning().empty()) return tokenizer->beginning();
  throw_usage({.where = "--bos",
               .failed = "the tokenizer's template puts no token before a text",
               .expected = "a post_processor of tokenizer.json, or add_bos_token = true in "
                           "tokenizer_config.json, that does",
               .hint = "leave the option out, or write the token into the prompt"});
}

// --tokenize and --detokenize have an effect on words alone. `vocabulary`: the run's, null for ids.
void check_words(const char* option, const data::Vocabulary* vocabulary, const char* instead) {
  if (vocabulary != nullptr && vocabulary->kind() == data::VocabularyKind::kWord) return;
  throw_usage({.where = option,
               .failed = "the run has no vocabulary of words",
               .expected = "a run with data.vocabulary = \"word\"",
               .got = vocabulary == nullptr
                          ? "ids without a text"
                          : str("the vocabulary \"", to_word(vocabulary->kind()), '"'),
               .hint = str("leave it out: ", instead)});
}

// A run of ids writes them with blanks between them, in which no other text can appear.
void check_stops(const std::vector<std::string>& stops, const data::Vocabulary* vocabulary) {
  if (vocabulary != nullptr) return;
  for (const std::string& stop : stops) {
    if (stop.find_first_not_of("0123456789 ") == stop.npos) continue;
    throw_usage({.where = "--stop",
                 .failed = "the run was trained on ids: its texts are ids with blanks between them",
                 .expected = "ids and blanks, as \" 7 12 \"",
                 .got = str('"', printable(stop), '"'),
                 .hint = "leave it out"});
  }
}

// Whether a tier's rows at evaluation come from the command line: from --set, or as eval_rows of
// --memory FILE.
bool has_given_rows(const config::TierConfig& tier, const fs::path& run_file) {
  const auto source_of = [](const config::Value* value) {
    return value == nullptr || !value->position().source ? "" : *value->position().source;
  };
  const std::string at_evaluation = source_of(tier.eval_options.find("rows"));
  return (!at_evaluation.empty() && at_evaluation != run_file.string()) ||
         source_of(tier.options.find("rows")).starts_with("--set");
}

// The memory with 512 rows in the first tier that has rows, unless the user gave it others.
config::MemoryConfig with_released_rows(const OpenGeneration& opened, config::MemoryConfig memory,
                                        const fs::path& run_file) {
  const data::Vocabulary* const vocabulary = opened.vocabulary();
  const bool has_words = vocabulary != nullptr && vocabulary->kind() == data::VocabularyKind::kWord;
  const run::SizeOption option = run::find_size_option(
      opened.runtime().stack(), "rows", "--protocol released",
      str("leave it out and give its other values: --segment 1 --top-p ", kReleasedTopP, " --seed ",
          kReleasedSeed, has_words ? " --detokenize" : ""));
  const std::string path = str("memory.tier.", option.tier, ".eval_rows");
  config::TierConfig& tier = memory.tiers.at(option.tier);
  if (has_given_rows(tier, run_file)) return memory;
  tier.eval_options.set("rows", tier.position,
                        config::Value::integer(kReleasedRows, tier.position, path));
  return memory;
}

// The protocol's chunk, or the longest segment that the model and its memory can serve.
std::int64_t released_chunk(const run::Runtime& runtime) {
  std::int64_t chunk = kReleasedChunk;
  for (const std::int64_t longest : {runtime.model().longest_segment(),
                                     runtime.stack().longest_segment(memory::Phase::kEvaluation)}) {
    if (longest > 0) chunk = std::min(chunk, longest);
  }
  return chunk;
}

// A prompt's tokens at most: as many as it has bytes. Absent when that is not known.
std::optional<std::int64_t> prompt_tokens(const GenerateArguments& arguments) {
  if (arguments.prompt) return static_cast<std::int64_t>(arguments.prompt->size());
  if (arguments.prompt_ids) return static_cast<std::int64_t>(arguments.prompt_ids->size());
  if (arguments.prompt_file.empty()) return 0;
  std::error_code ignored;
  if (!fs::is_regular_file(arguments.prompt_file, ignored)) return std::nullopt;
  return static_cast<std::int64_t>(fs::file_size(arguments.prompt_file, ignored));
}

// --locked
void hold_to_lock(const GenerateArguments& arguments, const run::Checkpoint& checkpoint,
                  config::MemoryConfig& memory) {
  if (arguments.memory.empty()) {
    plugin::apply_lock(memory, run::plugin_lock(arguments.run.string(), checkpoint.plugins()));
  } else {
    plugin::apply_lock_file(memory, arguments.memory.front());
  }
}

// How much the generation handles at once: a chunk of the prompt in one lane, or a token of each
// sample. A conversation that goes on may hold any number of tokens.
run::EvaluationExtents extents_of(const GenerateArguments& arguments,
                                  const generate::Options& options, config::Replay replay) {
  if (arguments.serves) return {};  // those of an evaluation
  const std::int64_t chunk = is_released(arguments) ? kReleasedChunk : options.segment;
  const std::optional<std::int64_t> prompt = prompt_tokens(arguments);
  const std::int64_t fed = std::min(chunk, prompt.value_or(1));
  run::EvaluationExtents extents{.lanes = arguments.samples};
  extents.tokens = std::max<std::int64_t>(1, fed / arguments.samples);
  if (prompt && arguments.state.empty()) {
    extents.text = *prompt + arguments.tokens.value_or(kReleasedTokens);
    // A text may have fewer tokens than bytes: none of it counts, so that the bound stays a lower one.
    extents.generated = {
        .segment = options.segment,
        .prompt = arguments.prompt_ids ? *prompt : 1,
        .drawn = extents.text - *prompt,
        .steps_evenly = replay == config::Replay::kOn && options.type_marks.empty()};
  }
  return extents;
}

// The keys of a tier that change the generated text, and the plugin's options.
std::string tier_text(const std::string& plugin, const config::TierConfig& tier) {
  std::vector<std::string> layers;
  if (tier.layers) {
    for (const std::int64_t layer : *tier.layers) layers.push_back(str(layer));
  }
  return str(plugin, " layers = ", tier.layers ? '[' + join(layers, ", ") + ']' : "all",
             " feed = ", config::to_word(tier.feed), ' ', plugin::to_text(tier.options), ' ',
             plugin::to_text(tier.eval_options));
}

// What a saved conversation must match.
generate::Identity identity_of(const OpenGeneration& opened) {
  const run::Runtime& runtime = opened.runtime();
  const config::Experiment& experiment = runtime.experiment();
  std::vector<std::string> tiers;
  const std::vector<memory::TierIdentity> plugins = runtime.stack().identities();
  for (std::size_t i = 0; i < plugins.size(); ++i) {
    tiers.push_back(tier_text(plugins[i].id, experiment.memory.tiers.at(i)));
  }
  const std::string sums = opened.checkpoint->file().metadata_or("tensor_checksums", "");
  const std::string weights = sums.empty() ? "unknown" : sha256_hex(sums).substr(0, 16);
  const data::Vocabulary* const vocabulary = opened.vocabulary();
  return {{"checkpoint", str("step ", opened.checkpoint->progress().step, ", weights ", weights)},
          {"precision", std::string(config::to_word(runtime.precision()))},
          {"model", str("clamp_distance = ", experiment.model.clamp_distance,
                        ", same_length = ", experiment.model.same_length ? "true" : "false")},
          {"memory", tiers.empty() ? "none" : join(tiers, "; ")},
          {"vocabulary", vocabulary != nullptr ? vocabulary->summary()
                                               : str(runtime.model().vocabulary(), " ids")}};
}

}  // namespace

config::Experiment read_experiment(const GenerateArguments& arguments,
                                   const run::RunFolder& folder) {
  std::optional<fs::path> memory_file;
  if (!arguments.memory.empty()) memory_file = arguments.memory.front();
  return config::parse_experiment(folder.experiment_file(),
                                  overrides_of(arguments, folder.experiment()), memory_file);
}

OpenGeneration open_generation(const GenerateArguments& arguments, Display& display) {
  for (const fs::path& file : {arguments.prompt_file, arguments.document, arguments.state}) {
    if (!file.empty()) check_readable(file);
  }
  const run::RunFolder folder = run::RunFolder::open(arguments.run);
  OpenGeneration opened;
  opened.checkpoint = std::make_unique<run::Checkpoint>(folder.open_checkpoint(
      arguments.checkpoint, arguments.parser->typed(), run::CheckpointUse::kEvaluation));
  config::Experiment experiment = read_experiment(arguments, folder);
  // What is generated is one document: nothing is hidden from its tokens, and any memory serves.
  if (experiment.data.masks_documents()) experiment.data.reset = config::Reset::kDocument;
  if (arguments.is_locked) hold_to_lock(arguments, *opened.checkpoint, experiment.memory);
  opened.memory_name =
      arguments.memory.empty() ? "as trained" : arguments.memory.front().stem().string();
  opened.settings = settings_of(arguments, experiment);
  keep_segment(arguments, opened.settings, display);
  const bool has_end = !arguments.ignores_end && !is_released(arguments);
  if (has_end || arguments.is_chat) {
    if (const auto record = weights::FolderRecord::find(arguments.run)) {
      if (has_end) opened.settings.end = weights::end_of_text(*record, arguments.run.string());
      opened.chat_template = record->chat_template();
    }
  }
  generate::check(opened.settings.options.sampling);
  run::RuntimeOptions options;
  options.device = tensor::open_device(arguments.machine.device);
  options.free_memory = arguments.machine.free_memory(options.device);
  options.precision = experiment.eval.precision;
  options.dataset = std::make_shared<const data::Dataset>(
      experiment.data, data::DatasetOptions{.splits = {}, .vocabulary = folder.vocabulary()});
  options.loader = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  const data::Vocabulary* const vocabulary = options.dataset->vocabulary();
  if (arguments.tokenises) check_words("--tokenize", vocabulary, "the prompt is taken as it is");
  if (arguments.detokenises) check_words("--detokenize", vocabulary, "the text is shown as it is");
  check_stops(arguments.stops, vocabulary);
  if (vocabulary != nullptr) opened.settings.options.ids = vocabulary->size();
  if (arguments.puts_beginning) opened.settings.beginning = beginning_of(vocabulary);
  opened.settings.options.type_marks = options.dataset->type_marks();
  const config::MemoryConfig memory = experiment.memory;
  opened.sweep = std::make_unique<run::Sweep>(
      *opened.checkpoint, experiment, options,
      extents_of(arguments, opened.settings.options, experiment.generate.replay));
  opened.untrained = opened.sweep->load(memory);
  if (is_released(arguments)) {
    if (memory.tiers.empty()) {
      display.note("without a memory the protocol's 512 rows have no effect");
    } else {
      opened.untrained =
          opened.sweep->load(with_released_rows(opened, memory, folder.experiment_file()));
    }
    opened.settings.options.prompt_segment = released_chunk(opened.runtime());
  }
  if (experiment.generate.replay == config::Replay::kOn) {
    const run::Runtime& runtime = opened.runtime();
    opened.settings.options.run_even_step = generate::recorded_steps(
        runtime.model(), runtime.stack(), opened.settings.options.type_marks);
  }
  return opened;
}

void continue_saved(const GenerateArguments& arguments, const OpenGeneration& opened,
                    generate::Generator& generator) {
  const generate::Generator::Saved saved = read_input([&] {
    return generate::read_conversation(arguments.state, identity_of(opened),
                                       opened.runtime().model().vocabulary());
  });
  generator.restore(saved);
  if (!opened.settings.has_seed) generator.set_seed(saved.seed);
}

bool save_conversation(const GenerateArguments& arguments, const OpenGeneration& opened,
                       const generate::Generator& generator) {
  if (arguments.save_state.empty()) return false;
  make_parents(arguments.save_state);
  generate::write_conversation(arguments.save_state, generator.save(), identity_of(opened));
  return true;
}

}  // namespace mneme::cli
