// mneme generate RUN --chat
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/progress.hpp"
#include "host/base/text.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/generate/generate.hpp"
#include "host/cli/input_lines.hpp"
#include "host/cli/interrupt.hpp"
#include "host/generate/chat_turns.hpp"
#include "host/trial/trial.hpp"

namespace mneme::cli {
namespace {

// One conversation, whose memory may be replaced between two turns.
class Chat {
 public:
  Chat(const GenerateArguments& arguments, const OpenGeneration& opened, Display& display,
       const Streams& streams)
      : arguments_(arguments),
        opened_(opened),
        display_(display),
        streams_(streams),
        folder_(run::RunFolder::open(arguments.run)),
        memory_(opened.runtime().experiment().memory),
        fingerprint_(trial::fingerprint_of(memory_)),
        turns_(*opened.runtime().dataset()) {
    make_generator();
    if (!arguments_.state.empty()) continue_saved(arguments_, opened_, *generator_);
    if (!arguments_.document.empty()) read_document();
  }

  // The exit status: of the first turn that failed, or that of the signal that cut a turn short.
  int run() {
    while (const std::optional<std::string> line = next_line()) {
      take_new_memory();
      if (InterruptGuard::signal() == 0) turn(*line);
      if (InterruptGuard::signal() == 0) continue;
      say_end(save());
      return exit_code_of_signal(InterruptGuard::signal());
    }
    const bool is_saved = save();
    const int signal = InterruptGuard::signal();
    if (signal != 0) say_end(is_saved);
    // Between two turns Ctrl-C is the way to end a conversation, another signal is not.
    return signal == 0 || signal == SIGINT ? exit_code_ : exit_code_of_signal(signal);
  }

 private:
  // Lines that cannot be taken are turns that fail.
  std::optional<std::string> next_line() {
    for (;;) {
      try {
        return lines_.next();
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUsage) {
          save();
          throw;
        }
        report_error(streams_, "", error);
        if (exit_code_ == 0) exit_code_ = error.exit_code();
      }
    }
  }

  // A memory that was replaced, until its successor has answered once.
  struct Replaced {
    run::MemorySwap swap;
    config::MemoryConfig memory;
    generate::Generator::Saved text;
  };

  void make_generator() {
    generate::Options options = opened_.settings.options;
    if (generator_) options.seed = generator_->options().seed;
    generator_ = std::make_unique<generate::Generator>(opened_.runtime().model(),
                                                       opened_.runtime().stack(), options);
  }

  // Continues a text with the memory that is loaded now.
  void continue_with(const generate::Generator::Saved& text) {
    make_generator();
    generator_->restore(text);
  }

  // The document of a dialogue, before its first turn.
  void read_document() {
    if (!turns_.is_dialogue()) {
      throw_usage(
          {.where = "--document",
           .failed = "the run was not trained on dialogues about documents",
           .expected = "a run with data.task = \"dialogue\"",
           .got = str("data.task = ", opened_.runtime().dataset()->describe().at("task").dump()),
           .hint = "give the text as the first prompt"});
    }
    if (!opened_.runtime().experiment().data.dialogue.has_document) {
      throw_usage({.where = "--document",
                   .failed = "the run was trained on turns without their documents",
                   .expected = "a run with data.with_document = true",
                   .got = "data.with_document = false",
                   .hint = "leave it out"});
    }
    const generate::Prompt document = read_document_prompt(arguments_, opened_, display_);
    if (document.ids.empty()) {
      throw_usage({.where = str("--document: ", arguments_.document.string()),
                   .failed = "it is empty",
                   .expected = "a text"});
    }
    generator_->prompt(with_beginning(opened_, turns_.document(document.ids)));
    display_.note(str("document: ", document.ids.size(), " tokens; ", state_text()));
  }
  // What the conversation takes, however long it is.
  std::string state_text() const {
    return str("text of ", generator_->tokens(), " tokens, memory ",
               human_bytes(static_cast<std::uint64_t>(generator_->state().bytes())));
  }

  // --- The memory ---

  void take_new_memory() {
    if (arguments_.is_locked) return;
    config::MemoryConfig next;
    try {
      next = read_experiment(arguments_, folder_).memory;
    } catch (const Error& error) {
      if (std::exchange(unreadable_, error.what()) != error.what())
        report_error(streams_, "", error);
      return;
    }
    unreadable_.clear();
    std::string fingerprint = trial::fingerprint_of(next);
    if (fingerprint == fingerprint_) return;
    fingerprint_ = std::move(fingerprint);
    try {
      exchange(next);
    } catch (const Error& error) {
      report_error(streams_, "", error);
      say_memory_before();
    }
  }

  // Errors leave the memory before and the conversation as they are.
  void exchange(const config::MemoryConfig& next) {
    std::vector<std::string> sha256;
    if (!next.tiers.empty()) {
      const auto request = trial_request(arguments_, folder_.experiment_file(), 0);
      sha256 = trial::try_in_child(request, next, [] { return InterruptGuard::signal() != 0; });
    }
    const config::MemoryConfig loaded = trial::pinned(next, sha256);
    Replaced before{.swap = {}, .memory = memory_, .text = generator_->save()};
    before.swap = opened_.sweep->exchange(loaded);
    try {
      const std::vector<std::string> reset = carry(before.text);
      warn_of_untrained(opened_.memory_name, before.swap.reset);
      display_.note(
          str("the memory changed: ", trial::build_labels(opened_.runtime().stack().identities()),
              reset.empty() ? "; its state was carried over"
                            : "; fresh state for " + join(reset, ", ")));
    } catch (...) {
      return_to(std::move(before));
      throw;
    }
    memory_ = loaded;
    replaced_ = std::move(before);
  }

  // Hands the text's state to the memory that is loaded now; what has a fresh one, with reasons.
  std::vector<std::string> carry(const generate::Generator::Saved& text) {
    const memory::Stack& stack = opened_.runtime().stack();
    memory::StateCarry made;
    generate::Generator::Saved next = text;
    next.text.state = stack
                          .carry(memory::Phase::kEvaluation, text.text.lanes, text.text.state,
                                 opened_.runtime().experiment().memory.carry, &made)
                          .save();
    continue_with(next);
    std::vector<std::string> reset;
    for (const auto& one : made.reset) reset.push_back(str(one.name, " (", one.reason, ')'));
    return reset;
  }

  void return_to(Replaced before) {
    generator_.reset();  // it refers to the memory that goes
    opened_.sweep->return_to(std::move(before.swap), before.memory);
    memory_ = before.memory;
    continue_with(before.text);
  }

  // --- Turns ---

  // Answers one prompt. A turn that fails is undone; where the memory is new, the one before takes
  // its place again and answers.
  void turn(const std::string& prompt) {
    for (;;) {
      const generate::Generator::Saved before = generator_->save();
      try {
        answer(prompt);
        replaced_.reset();
        return;
      } catch (const Error& error) {
        streams_.out << '\n' << std::flush;
        report_error(streams_, "", error);
        if (!replaced_ || error.kind() == ErrorKind::kUsage) {
          if (exit_code_ == 0) exit_code_ = error.exit_code();
          continue_with(before);
          streams_.err << "mneme: the turn was undone\n" << std::flush;
          return;
        }
      }
      return_to(std::move(*std::exchange(replaced_, std::nullopt)));
      say_memory_before();
    }
  }

  void answer(const std::string& line) {
    const generate::Prompt prompt = read_line_prompt(line, lines_.number(), opened_, display_);
    if (prompt.ids.empty() && generator_->tokens() == 0) {
      throw_usage({.where = str("standard input, line ", lines_.number()),
                   .failed = "the prompt is empty, and there is no text yet that could go on",
                   .expected = "at least one token",
                   .got = "none"});
    }
    const double start = steady_clock().seconds();
    // An empty line lets an answer go on that --tokens has cut.
    std::vector<std::int32_t> ids = prompt.ids.empty() ? prompt.ids : turns_.turn(prompt.ids);
    if (generator_->tokens() == 0) ids = with_beginning(opened_, std::move(ids));
    generator_->prompt(ids);
    for (const auto& notes :
         {forgetting_notes(opened_, *generator_), boundary_notes(arguments_, opened_)}) {
      for (const std::string& note : notes) {
        if (said_.insert(note).second) display_.note(note);
      }
    }
    generate::SampleText sample(opened_.vocabulary(), opened_.settings.detokenises,
                                arguments_.stops);
    sample.follow(ids);
    bool is_ended = false;  // by a mark
    generator_->generate(opened_.settings.tokens, [&](std::int64_t, std::int32_t id) {
      is_ended = turns_.ends_answer(id) || (turns_.is_dialogue() && opened_.settings.ends_with(id));
      if (is_ended) return false;
      if (opened_.settings.ends_with(id)) {
        sample.end_with(id);  // stays in the conversation
        return false;
      }
      streams_.out << sample.add(id) << std::flush;
      return !sample.is_stopped() && InterruptGuard::signal() == 0;
    });
    if (is_ended) generator_->take_back();
    streams_.out << sample.end() << '\n' << std::flush;
    display_.note(str("prompt: ", prompt.ids.size(), " tokens; ", sample.ids().size(),
                      " tokens in ", format_number(steady_clock().seconds() - start, 2), " s; ",
                      state_text()));
  }

  // Whether there was something to save, and a file for it.
  bool save() const {
    return generator_->tokens() > 0 && save_conversation(arguments_, opened_, *generator_);
  }

  void say_end(bool is_saved) const {
    streams_.err << "mneme: stopped by " << signal_name(InterruptGuard::signal())
                 << (is_saved ? saved_text(arguments_) : "") << '\n';
  }

  void say_memory_before() const {
    streams_.err << "mneme: the conversation goes on with the memory before, "
                 << trial::build_labels(opened_.runtime().stack().identities()) << '\n'
                 << std::flush;
  }

  const GenerateArguments& arguments_;
  const OpenGeneration& opened_;
  Display& display_;
  const Streams& streams_;
  run::RunFolder folder_;
  config::MemoryConfig memory_;  // that is loaded
  std::string fingerprint_;      // of the last memory that was read, loaded or refused
  std::string unreadable_;       // the last message about the memory's file
  std::unique_ptr<generate::Generator> generator_;
  generate::ChatTurns turns_;
  std::optional<Replaced> replaced_;
  InputLines lines_{"prompt", 1};
  std::set<std::string> said_;  // notes
  int exit_code_ = 0;
};

}  // namespace

int run_chat(const GenerateArguments& arguments, const Streams& streams) {
  InputLines::check_open("prompt");
  Display display(streams, arguments.is_quiet);
  const OpenGeneration opened = read_input([&] { return open_generation(arguments, display); });
  warn_of_untrained(opened.memory_name, opened.untrained);
  if (!opened.chat_template.empty() && !opened.runtime().dataset()->has_dialogues()) {
    display.note(str("the model's chat template (", opened.chat_template,
                     ") is not applied: a line is read as it is; write the template's marks into "
                     "it where the model expects them"));
  }
  const InterruptGuard guard;
  return Chat(arguments, opened, display, streams).run();
}

}  // namespace mneme::cli
