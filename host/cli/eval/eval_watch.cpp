// mneme eval RUN --watch
#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/file/file_watch.hpp"
#include "host/base/text.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/streams.hpp"
#include "host/trial/trial.hpp"
#include "host/trial/watched_files.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

bool is_stopped() { return InterruptGuard::signal() != 0; }

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%H:%M:%S", &parts);
  return text.data();
}

// "+0.0012"; a difference that these digits would show as zero is written out: "-3.1e-07".
std::string difference_text(double difference) {
  if (difference == 0.0) return "+0";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), std::abs(difference) < 5e-5 ? "%+.1e" : "%+.4f",
                difference);
  return text.data();
}

// The fields with two blanks between them, in lines of at most `width` columns (0 = one line); the
// lines after the first are indented. A field is not broken.
std::string in_lines(const std::vector<std::string>& fields, std::size_t width,
                     std::size_t indent) {
  std::string text, line;
  for (const std::string& field : fields) {
    const bool fits = width == 0 || text_width(line) + 2 + text_width(field) <= width;
    if (!line.empty() && !fits) {
      text += line + '\n';
      line = std::string(indent, ' ') + field;
    } else {
      line += (line.empty() ? "" : "  ") + field;
    }
  }
  return text + line + '\n';
}

config::Experiment without_memory(config::Experiment experiment) {
  experiment.memory = {};
  return experiment;
}

// One memory of the watch and what is known of it.
struct Watched {
  std::string fingerprint;               // of the last evaluation, good or failed
  std::optional<run::SweepResult> last;  // of the last evaluation
  std::optional<eval::Result> good;      // the last numbers
  std::string good_builds, good_time;
  bool is_unread = false;  // its file could not be read since
};

class Watch {
 public:
  Watch(const EvalArguments& arguments, OpenEvaluation& opened, const Streams& streams)
      : arguments_(arguments),
        opened_(opened),
        streams_(streams),
        display_(streams, arguments.is_quiet),
        file_(fs::path(arguments.run) / "experiment.toml"),
        sweep_(opened.checkpoint, opened.experiment, opened.options),
        all_(opened.memories.size()) {}

  int run() {
    note_data(display_, *opened_.options.dataset);
    watch_files();
    note_files();
    try {
      for (;;) {
        evaluate_changed();
        if (arguments_.watch_count > 0 && lines_ >= arguments_.watch_count) break;
        if (is_stopped() || files_.wait(&is_stopped).empty()) break;
        read_again();
        watch_files();
      }
    } catch (const Interrupted&) {
      display_.end();
    }
    display_.end();
    display_.note(
        str("the watch ended after ", lines_, lines_ == 1 ? " evaluation" : " evaluations"));
    // Ctrl-C is the way to end a watch, another signal is not.
    const int signal = InterruptGuard::signal();
    return signal == 0 || signal == SIGINT ? 0 : exit_code_of_signal(signal);
  }

 private:
  void note_files() {
    display_.note(str("watching ", join(trial::names_of(watched_), ", "), "; Ctrl-C ends"));
    if (files_.method() == WatchMethod::kPolled) {
      display_.note("the system does not notify of changes here: looking every half second");
    }
  }

  void watch_files() {
    watched_ = {arguments_.memory.begin(), arguments_.memory.end()};
    if (watched_.empty()) watched_.insert(file_);
    for (const run::SweepMemory& memory : opened_.memories) {
      trial::add_plugin_files(memory.memory, watched_);
    }
    files_.watch({watched_.begin(), watched_.end()});
  }

  // The memories as their files say now; those before stay when they cannot be read.
  void read_again() {
    try {
      EvaluatedMemories read = read_memories(arguments_, file_);
      if (tell_unread(read)) return;
      tell_read(read);
      if (without_memory(read.experiment) != without_memory(opened_.experiment) &&
          !std::exchange(is_other_told_, true)) {
        display_.note(str(file_.string(),
                          " has other settings than at the start; a watch reads [memory] again "
                          "only: start it again for the others"));
      }
      opened_.memories = std::move(read.memories);
    } catch (const Error& error) {
      report_error(streams_, "", error);
      for (Watched& each : all_) each.is_unread = true;
    }
  }

  // Whether a memory could not be read.
  bool tell_unread(const EvaluatedMemories& read) {
    bool is_any = false;
    for (std::size_t i = 0; i < read.memories.size(); ++i) {
      if (!read.failures[i]) continue;
      report_error(streams_, read.memories[i].name, *read.failures[i]);
      all_[i].is_unread = true;
      is_any = true;
    }
    return is_any;
  }

  // Of memories that can be read again and are as they were, which are not evaluated: an error
  // would be the last that is said of them.
  void tell_read(const EvaluatedMemories& read) {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const bool was_unread = std::exchange(all_[i].is_unread, false);
      if (!was_unread || trial::fingerprint_of(read.memories[i].memory) != all_[i].fingerprint)
        continue;
      streams_.err << "mneme: " << read.memories[i].name
                   << ": the memory is again as at its last evaluation"
                   << (all_[i].last && all_[i].last->error ? ", which failed: " : ": ")
                   << last_text(all_[i]) << '\n'
                   << std::flush;
    }
  }

  // Evaluates each memory that is another than at its last evaluation.
  void evaluate_changed() {
    for (std::size_t i = 0; i < all_.size() && !is_stopped(); ++i) {
      const run::SweepMemory& memory = opened_.memories[i];
      std::string fingerprint = trial::fingerprint_of(memory.memory);
      if (fingerprint == all_[i].fingerprint) continue;
      all_[i].fingerprint = std::move(fingerprint);
      keep(all_[i], try_and_evaluate(memory, i));
      write_json();
      if (arguments_.watch_count > 0 && lines_ >= arguments_.watch_count) break;
    }
  }

  run::SweepResult try_and_evaluate(const run::SweepMemory& memory, std::size_t index) {
    run::SweepResult failed{.name = memory.name, .memory = memory.memory};
    std::vector<std::string> sha256;
    try {
      sha256 = tried(memory, index);
    } catch (const Error& error) {
      throw_if_interrupted();
      failed.error = error;
      return failed;
    }
    run::SweepResult result = sweep_.evaluate_memory(
        {memory.name, trial::pinned(memory.memory, sha256)}, split_of(arguments_),
        [&](run::Runtime& runtime) {
          display_.begin(str("evaluate ", memory.name, ' ', arguments_.split),
                         runtime.evaluation_segments(split_of(arguments_)));
          eval::Options options;
          options.on_progress = [&](std::int64_t segments, std::int64_t tokens) {
            display_.update(segments, tokens);
            throw_if_interrupted();
          };
          return options;
        });
    display_.end();
    result.memory = memory.memory;
    return result;
  }

  // The checksums of builds that a trial has run.
  std::vector<std::string> tried(const run::SweepMemory& memory, std::size_t index) {
    if (memory.memory.tiers.empty()) return {};
    return trial::try_in_child(trial_request(arguments_, file_, index), memory.memory, &is_stopped);
  }

  void keep(Watched& watched, run::SweepResult result) {
    if (result.error) {
      report_error(streams_, result.name, *result.error);
      streams_.err << "mneme: " << result.name << ": " << last_text(watched)
                   << "; waiting for the next change\n"
                   << std::flush;
    } else {
      warn_of_untrained(result.name, result.reset);
      const std::string time = time_of_day();
      const std::size_t width = streams_.is_out_terminal ? streams_.out_width : 0;
      streams_.out << watch_line(time, result, watched.good ? &*watched.good : nullptr, width)
                   << std::flush;
      ++lines_;
      sweep_.say_differences(false);  // from here on the lines name the builds
      watched.good = result.result;
      watched.good_builds = trial::build_labels(result.plugins);
      watched.good_time = time;
    }
    watched.last = std::move(result);
  }

  static std::string last_text(const Watched& watched) {
    if (!watched.good) return "there are no numbers yet";
    return str("the last numbers are those of ", watched.good_time, ", ", watched.good_builds);
  }

  void write_json() {
    std::vector<run::SweepResult> results;
    for (const Watched& watched : all_) {
      if (watched.last) results.push_back(*watched.last);
    }
    try {
      arguments_.json.write(evaluation_json(arguments_, opened_, results), streams_);
    } catch (const Error& error) {
      report_error(streams_, "--json", error);
    }
  }

  const EvalArguments& arguments_;
  OpenEvaluation& opened_;
  const Streams& streams_;
  Display display_;
  fs::path file_;  // the run's experiment
  run::Sweep sweep_;
  std::vector<Watched> all_;
  FileWatch files_;
  std::set<fs::path> watched_;
  std::int64_t lines_ = 0;  // of numbers
  bool is_other_told_ = false;
};

}  // namespace

std::string watch_line(const std::string& time, const run::SweepResult& result,
                       const eval::Result* previous, std::size_t width) {
  const eval::Result& now = result.result.value();
  const bool is_same = previous != nullptr && previous->total.nll == now.total.nll &&
                       previous->total.correct == now.total.correct &&
                       previous->total.targets == now.total.targets;
  const auto number = [&](const char* name, double value, int digits, double before) {
    std::string text = str(name, ' ', format_number(value, digits));
    if (previous != nullptr && !is_same) text += str(" (", difference_text(value - before), ')');
    return text;
  };
  const auto before = [&](double (eval::Result::*measure)() const) {
    return previous == nullptr ? 0.0 : (previous->*measure)();
  };
  std::vector<std::string> numbers = {
      time, result.name, number("loss", now.loss(), 4, before(&eval::Result::loss)),
      number("perplexity", now.perplexity(), 3, before(&eval::Result::perplexity)),
      number("accuracy", now.accuracy(), 4, before(&eval::Result::accuracy))};
  if (is_same) numbers.emplace_back("(equal to the last)");
  const std::vector<std::string> speed = {format_count(now.tokens_per_second()) + " tokens/s",
                                          format_number(now.seconds, 1) + " s"};
  std::string text;
  for (std::size_t kept = speed.size() + 1; kept-- > 0;) {
    std::vector<std::string> fields = numbers;
    fields.insert(fields.end(), speed.begin(), speed.begin() + static_cast<std::ptrdiff_t>(kept));
    fields.push_back(trial::build_labels(result.plugins));
    text = in_lines(fields, width, time.size() + 2);
    if (std::ranges::count(text, '\n') <= 2) break;
  }
  return text;
}

int watch_evaluation(const EvalArguments& arguments, const Streams& streams) {
  OpenEvaluation opened = read_input([&] { return open_evaluation(arguments); });
  const InterruptGuard guard;
  return Watch(arguments, opened, streams).run();
}

}  // namespace mneme::cli
