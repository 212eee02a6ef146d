// mneme generate RUN

#include "host/cli/generate/generate.hpp"

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/progress.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/streams.hpp"
#include "host/cli/unread_output.hpp"
#include "host/generate/text.hpp"
#include "host/run/cost/utilization.hpp"
#include "host/run/run_description.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/device_memory.hpp"

namespace mneme::cli {
namespace {

Json json_of(const generate::SampleText& sample, std::int64_t tokens) {
  const bool is_whole = static_cast<std::int64_t>(sample.ids().size()) == tokens;
  return {{"ids", sample.ids()},
          {"text", sample.text()},
          {"end", sample.is_stopped()  ? "stop"
                  : sample.is_at_end() ? "eos"
                  : is_whole           ? "tokens"
                                       : "interrupted"}};
}

constexpr const char* kGenerateRules = R"(
--split, --prompt-tokens needs --for-report
several --memory needs --for-report: expected one without it
--prompt, --prompt-ids refuses --prompt-file: is the text to continue
--prompt refuses --prompt-ids: is the text to continue
--chat refuses --prompt, --prompt-file, --prompt-ids, --samples, --protocol, --json: reads its prompts from standard input
--document, --trial-seconds needs --chat
--document refuses --state: begins a dialogue, and --state goes on with one
--tokenize refuses --prompt-ids: takes a text apart, and --prompt-ids is none
--bos refuses --prompt-ids, --state: begins a text, and neither ids nor a conversation that goes on is a new one
--save-state refuses --samples: keeps one text
)";

void check_beginning(const GenerateArguments& arguments) {
  if (!arguments.is_chat && !arguments.has_prompt() && arguments.state.empty() &&
      !arguments.puts_beginning) {
    throw_usage(
        "generate: there is nothing to continue: expected --prompt TEXT, --prompt-file FILE, "
        "--prompt-ids LIST, --state FILE of an earlier conversation, --bos, or --chat");
  }
  if (!arguments.save_state.empty()) check_output_file("--save-state", arguments.save_state);
}

// Generates, showing a single sample's text as it is made and several ones after another at the
// end: they grow together.
class Generation {
 public:
  Generation(const GenerateArguments& arguments, const OpenGeneration& opened, Display& display,
             const Streams& streams)
      : arguments_(arguments),
        opened_(opened),
        display_(display),
        streams_(streams),
        generator_(opened.runtime().model(), opened.runtime().stack(), opened.settings.options) {}

  // Generates and shows the text; the results for programs.
  Json run() {
    if (!arguments_.state.empty()) continue_saved(arguments_, opened_, generator_);
    generate::Prompt prompt = read_prompt(arguments_, opened_, display_);
    if (generator_.tokens() == 0) prompt.ids = with_beginning(opened_, std::move(prompt.ids));
    const double start = steady_clock().seconds();
    generator_.prompt(prompt.ids);
    for (const std::string& note : forgetting_notes(opened_, generator_)) display_.note(note);
    for (const std::string& note : boundary_notes(arguments_, opened_)) display_.note(note);
    if (arguments_.samples > 1) generator_.multiply(arguments_.samples);
    const double prompted = steady_clock().seconds();
    try {
      generate_all(prompt);
    } catch (const Error&) {
      display_.end();
      show_samples();  // the text so far
      throw;
    }
    show_samples();
    const double seconds = steady_clock().seconds() - prompted;
    report(prompt, prompted - start, seconds);
    return json_of(prompt, prompted - start, seconds);
  }

  void save() const { save_conversation(arguments_, opened_, generator_); }

  // The command's exit status; logs the signal that ended the generation, if one did.
  [[nodiscard]] int finish() const {
    if (signal_ == 0) return 0;
    const auto made = static_cast<std::int64_t>(samples_.front().ids().size());
    const std::int64_t all = opened_.settings.tokens;
    streams_.err << "mneme: stopped by " << signal_name(signal_) << " after " << made << " of "
                 << all << " tokens"
                 << (arguments_.save_state.empty() ? "" : saved_text(arguments_, all - made))
                 << '\n';
    return exit_code_of_signal(signal_);
  }

 private:
  [[nodiscard]] bool is_streaming() const {
    return arguments_.samples == 1 && !arguments_.json.is_stdout();
  }

  void generate_all(const generate::Prompt& prompt) {
    for (std::int64_t s = 0; s < arguments_.samples; ++s) {
      samples_.emplace_back(opened_.vocabulary(), opened_.settings.detokenises, arguments_.stops);
      samples_.back().follow(prompt.ids);
    }
    if (!is_streaming()) display_.begin("generate", opened_.settings.tokens);
    guard_.emplace();
    generator_.generate(opened_.settings.tokens, [&](std::int64_t s, std::int32_t id) {
      generate::SampleText& sample = samples_[static_cast<std::size_t>(s)];
      const bool is_end = opened_.settings.ends_with(id);
      if (is_end) sample.end_with(id);
      const std::string piece = is_end ? "" : sample.add(id);
      if (is_streaming()) streams_.out << piece << std::flush;
      ++drawn_;
      if (s == 0) display_.update(static_cast<std::int64_t>(sample.ids().size()), drawn_);
      return !is_end && !sample.is_stopped() && InterruptGuard::signal() == 0;
    });
    signal_ = InterruptGuard::signal();
    display_.end();
    for (generate::SampleText& sample : samples_) {
      const std::string piece = sample.end();
      if (is_streaming()) streams_.out << piece;
    }
  }

  void show_samples() {
    if (arguments_.json.is_stdout()) return;
    for (std::size_t s = 0; s < samples_.size(); ++s) {
      const std::string& text = samples_[s].text();
      if (samples_.size() > 1) streams_.out << "--- sample " << s << '\n' << text;
      if (!text.empty() && text.back() != '\n') streams_.out << '\n';
    }
    streams_.out << std::flush;
  }

  void report(const generate::Prompt& prompt, double prompt_seconds, double seconds) {
    const double rate = seconds > 0.0 ? static_cast<double>(drawn_) / seconds : 0.0;
    display_.note(str("prompt: ", prompt.ids.size(), " tokens in ",
                      format_number(prompt_seconds, 2), " s; ", drawn_, " tokens in ",
                      format_number(seconds, 2), " s, ", format_count(rate), " tokens/s"));
  }

  [[nodiscard]] Json json_of(const generate::Prompt& prompt, double prompt_seconds,
                             double seconds) const {
    const generate::Options& options = generator_.options();
    const generate::Sampling& sampling = options.sampling;
    Json samples = Json::array();
    for (const auto& sample : samples_) {
      samples.push_back(mneme::cli::json_of(sample, opened_.settings.tokens));
    }
    Json json = {{"format", "mneme-generate"},
                 {"run", arguments_.run.string()},
                 {"step", opened_.checkpoint->progress().step},
                 {"memory", opened_.memory_name},
                 {"plugins", run::to_json(opened_.runtime().stack().identities())},
                 {"differs_from_run", run::to_json(opened_.sweep->differences())},
                 {"prompt", {{"ids", prompt.ids}, {"unknown", prompt.unknown}}},
                 {"segment", options.segment},
                 {"prompt_segment", options.prompt_segment},
                 {"sampling",
                  {{"greedy", sampling.is_greedy},
                   {"temperature", sampling.temperature},
                   {"top_k", sampling.top_k},
                   {"top_p", sampling.top_p},
                   {"min_p", sampling.min_p},
                   {"seed", options.seed}}},
                 {"beginning_ids", opened_.settings.beginning},
                 {"end_ids", opened_.settings.end.ids},
                 {"samples", samples},
                 {"prompt_seconds", prompt_seconds},
                 {"seconds", seconds},
                 {"text_tokens", generator_.tokens()},
                 {"state_bytes", generator_.state().bytes()}};
    // Before the speed: its copies take memory of the device.
    if (const auto peak = tensor::peak_bytes(opened_.runtime().device())) {
      json["peak_device_bytes"] = *peak;
    }
    if (arguments_.json.is_given()) {
      json["speed"] =
          run::generation_speed_json(opened_.runtime(), generator_.state().bytes(),
                                     arguments_.samples, drawn_ / arguments_.samples, seconds);
    }
    if (!opened_.untrained.empty()) json["untrained_parameters"] = opened_.untrained;
    return json;
  }

  const GenerateArguments& arguments_;
  const OpenGeneration& opened_;
  Display& display_;
  const Streams& streams_;
  generate::Generator generator_;
  std::vector<generate::SampleText> samples_;
  std::int64_t drawn_ = 0;
  std::optional<InterruptGuard> guard_;  // from the first token until the results are written
  int signal_ = 0;                       // that ended the generation; 0 = none
};

int run(const GenerateArguments& arguments, const Streams& streams) {
  if (arguments.for_report != 0) {
    return make_for_report(
        arguments, {.samples = arguments.for_report, .prompt_tokens = arguments.prompt_tokens},
        streams);
  }
  check_beginning(arguments);
  arguments.json.check();
  tensor::set_threads(arguments.machine.threads);
  const bool saves_text = arguments.json.is_given() && !arguments.json.is_stdout();
  if (saves_text || !arguments.save_state.empty()) go_on_unread();
  if (arguments.is_chat) return run_chat(arguments, streams);
  Display display(streams, arguments.is_quiet);
  const OpenGeneration opened = read_input([&] { return open_generation(arguments, display); });
  warn_of_untrained(opened.memory_name, opened.untrained);
  Generation generation(arguments, opened, display, streams);
  const Json json = generation.run();
  Outputs outputs;
  outputs.add([&] { generation.save(); });
  outputs.add([&] { arguments.json.write(json, streams); });
  outputs.finish();
  return generation.finish();
}

}  // namespace

std::string saved_text(const GenerateArguments& arguments, std::int64_t left) {
  std::set<std::string> beginning = {"--prompt",   "--prompt-file", "--prompt-ids", "--bos",
                                     "--document", "--state",       "--save-state"};
  if (left > 0) beginning.insert("--tokens");
  return str("; saved; continue with ", arguments.parser->typed(beginning), " --state ",
             shell_word(arguments.save_state.string()), left > 0 ? str(" --tokens ", left) : "");
}

void add_generate(const Command& app) {
  const Command command =
      app.subcommand("generate", "Continue a text with a trained run and its memory");
  const auto arguments = std::make_shared<GenerateArguments>();
  arguments->add(command);
  command.examples(
      {"mneme generate runs/first --prompt \"Once upon a time\" --tokens 200 --top-p 0.95",
       "mneme generate runs/first --prompt-file story.txt --samples 4 --seed 7",
       "mneme generate runs/first --prompt \"Hello.\" --save-state talk.safetensors",
       "mneme generate runs/first --state talk.safetensors --prompt \" And then?\"",
       "mneme generate runs/first --memory my_memory.toml --chat --tokens 100",
       "mneme generate runs/wt103 --prompt-file context.txt --protocol released",
       "mneme generate runs/first --for-report 3"});
  command.runs(arguments, &run, nullptr,
               {str(kGenerateRules, "--for-report allows --prompt-tokens, ", kOpenOptions,
                    ": continues parts of the split, in the same way for all runs")});
}

// --- The command line of `mneme generate` ---

namespace {

void add_text_options(const Command& command, GenerateArguments& arguments) {
  command.option("--prompt", arguments.prompt, "TEXT", "The text to continue");
  command.option("--prompt-file", arguments.prompt_file, "FILE", "The same from a file, as it is");
  command.option("--prompt-ids", arguments.prompt_ids, "LIST", "The same as ids: 1,2,3",
                 {expected(1)});
  command.flag("--bos", arguments.puts_beginning,
               "Put before the text what the tokenizer's template puts there, such as <s>");
  command.option("--state", arguments.state, "FILE",
                 "Go on with a saved conversation; a prompt is then its next turn");
  command.option("--save-state", arguments.save_state, "FILE",
                 "Where to save the conversation at the end");
  command.flag("--chat", arguments.is_chat,
               "Read prompts from standard input, one a line, and answer each in one conversation; "
               "a plugin that was rebuilt is swapped in between two prompts");
  command.option(
      "--document", arguments.document, "FILE",
      "Of a run of dialogues: the document that they are about, read before the first turn");
  add_trial_seconds(command, arguments.trial_seconds);
  command.option("--tokens", arguments.tokens, "N", "Tokens to generate, a sample (default 256)",
                 {in(0, kMaxCount)});
  command.option("--stop", arguments.stops, "TEXT",
                 "Ends a sample where this text appears; may be given several times",
                 {not_empty("a text"), one_each});
  command.flag("--ignore-eos", arguments.ignores_end,
               "Go on behind the ids that end a text by a pretrained model's "
               "generation_config.json or config.json");
  command.flag("--tokenize", arguments.tokenises,
               "Take the prompt's words apart as the training text of a word vocabulary has them: "
               "\"Hi, it's a well-known\" becomes \"Hi , it 's a well @-@ known\"");
  command.flag("--detokenize", arguments.detokenises,
               "Join words, punctuation and WikiText's @-@ as they were written");
}

void add_sampling_options(const Command& command, GenerateArguments& arguments) {
  command.flag("--greedy", arguments.is_greedy, "Take the likeliest token every time");
  command.option("--temperature", arguments.temperature, "X",
                 "Divide log-probabilities by it (default 1)");
  command.option("--top-k", arguments.top_k, "K", "Draw among the K likeliest tokens only");
  command.option("--top-p", arguments.top_p, "P",
                 "Draw among the likeliest tokens that together exceed P");
  command.option("--min-p", arguments.min_p, "P",
                 "Leave out tokens below P times the likeliest one's probability");
  command.option("--seed", arguments.seed, "N",
                 "Of the draws: the same seed gives the same text (default 1)",
                 {in(0, std::numeric_limits<std::int64_t>::max())});
  command.option("--samples", arguments.samples, "N", "Texts to generate at once",
                 {in(1, 4096), shown});
}

void add_model_options(const Command& command, GenerateArguments& arguments) {
  command.option(
      "--segment", arguments.segment, "T",
      "Tokens of a segment; 1 = every token a segment of its own (default generate.segment)",
      {in(1, kMaxExtent)});
  command.option("--protocol", arguments.protocol, "NAME",
                 "released: as LaMemo's released code: prompt in chunks of 256 without <eos>, 256 "
                 "tokens as segments of one, top-p .95, 512 rows, clamp 400, seed 42, detokenised",
                 {one_of({"released"})});
}

}  // namespace

void GenerateArguments::add(const Command& to) {
  add_run(to, "Memory file in place of the run's own");
  add_text_options(to, *this);
  add_sampling_options(to, *this);
  add_model_options(to, *this);
  to.option("--for-report", for_report, "N",
            "Instead: continue N prompts from the split, and keep them in the run for reports",
            {in(1, kMaxSamples)});
  to.option("--prompt-tokens", prompt_tokens, "P",
            "Tokens of each prompt (default three and a half segments)", {in(1, kMaxExtent)});
  add_settings(to);
}

}  // namespace mneme::cli
