// mneme serve RUN --stdio
#include "host/cli/serve/serve.hpp"

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/input_lines.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/streams.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

constexpr std::size_t kMostQueued = 4096;    // requests that are answered together, at most
constexpr std::size_t kLongestRequest = 64;  // MiB of a line

struct ServeArguments : GenerateArguments {
  bool is_stdio = false;
};

// Requests as they come, and their answers.
class Service {
 public:
  Service(const GenerateArguments& arguments, const OpenGeneration& opened, const Streams& streams)
      : opened_(opened), streams_(streams), answers_(arguments, opened) {}

  // The exit status.
  int run() {
    try {
      while (read_queued()) write_answers();
    } catch (const Interrupted& stop) {
      return say_end(stop.signal);
    }
    const int signal = InterruptGuard::signal();
    // Between two requests Ctrl-C is the way to end the service, another signal is not.
    return signal == 0 || signal == SIGINT ? 0 : say_end(signal);
  }

 private:
  // A request, or the answer to what is none.
  struct Queued {
    std::optional<ServeRequest> request;
    Json answer;
  };

  // Waits for a line, and takes those that are there already. False at the end.
  bool read_queued() {
    queue_.clear();
    do {
      try {
        const std::optional<std::string> line = lines_.next();
        if (!line) return !queue_.empty() && InterruptGuard::signal() == 0;
        add_line(*line);
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kUsage) throw;
        queue_.push_back({std::nullopt, failed_answer(nullptr, error)});
      }
    } while (queue_.size() < kMostQueued && lines_.is_ready());
    return InterruptGuard::signal() == 0 && static_cast<bool>(streams_.out);
  }

  void add_line(const std::string& line) {
    if (line.find_first_not_of(" \t") == std::string::npos) return;
    Json json;
    std::optional<std::string> repeated;
    try {
      json = parse_json_or_throw(line, &repeated);
    } catch (const Json::exception& error) {
      throw_usage({.where = str("standard input, line ", lines_.number()),
                   .failed = "this is no JSON",
                   .expected = "a request, or a list of requests",
                   .hint = error.what()});
    }
    if (repeated) {
      throw_usage({.where = str("standard input, line ", lines_.number()),
                   .failed = "a key is there twice",
                   .expected = "each key once",
                   .got = str('"', printable(*repeated), '"')});
    }
    if (!json.is_array()) return add_request(json);
    for (const Json& one : json) add_request(one);
  }

  void add_request(const Json& json) {
    try {
      queue_.push_back({read_request(json, opened_), nullptr});
    } catch (const Error& error) {
      queue_.push_back({std::nullopt, failed_answer(id_of(json), error)});
    }
  }

  void write_answers() {
    std::vector<ServeRequest> requests;
    for (Queued& one : queue_) {
      if (one.request) requests.push_back(std::move(*one.request));
    }
    const std::vector<Json> answers = answers_.answer(requests);
    auto next = answers.begin();
    for (const Queued& one : queue_)
      streams_.out << json_text(one.request ? *next++ : one.answer) << '\n';
    streams_.out << std::flush;
  }

  int say_end(int signal) const {
    streams_.err << "mneme: stopped by " << signal_name(signal) << '\n';
    return exit_code_of_signal(signal);
  }

  const OpenGeneration& opened_;
  const Streams& streams_;
  ServeAnswers answers_;
  InputLines lines_{"request", kLongestRequest};
  std::vector<Queued> queue_;
};

int run_service(const ServeArguments& arguments, const Streams& streams) {
  InputLines::check_open("request");
  tensor::set_threads(arguments.machine.threads);
  Display display(streams, arguments.is_quiet);
  const OpenGeneration opened = read_input([&] { return open_generation(arguments, display); });
  warn_of_untrained(opened.memory_name, opened.untrained);
  const InterruptGuard guard;
  return Service(arguments, opened, streams).run();
}

}  // namespace

void add_serve(const Command& app) {
  const Command command =
      app.subcommand("serve", "Score and continue texts for another program, request by request");
  const auto arguments = std::make_shared<ServeArguments>();
  arguments->reads_split = false;
  arguments->serves = true;
  arguments->add_run(command, "Memory file in place of the run's own");
  command.flag("--stdio", arguments->is_stdio,
               "Read requests from standard input, a line of JSON each, and write the answers to "
               "standard output");
  add_locked(command, arguments->is_locked);
  arguments->set.add(command);
  arguments->machine.add(command);
  command.flag("--quiet", arguments->is_quiet, "Show warnings and errors only");
  arguments->parser = command;
  command.examples({"mneme serve runs/first --stdio",
                    "mneme serve runs/first --stdio --memory my_memory.toml --set eval.lanes=16"});
  command.runs(arguments, &run_service,
               [arguments] { Command::require("--stdio", arguments->is_stdio); });
}

}  // namespace mneme::cli
