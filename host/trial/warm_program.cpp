#include "host/trial/warm_program.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/exit_status.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/output_pipe.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/trial/limited_child.hpp"
#include "host/trial/warm_python.hpp"

namespace mneme::trial {
namespace {

constexpr const char* kServeVariable = "MNEME_SERVE";

std::array<int, 2> pipe_of(const std::string& program) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) == 0) return ends;
  throw_run(program, ": no pipe can be made: ", std::generic_category().message(errno));
}

// Writes all of it; false when nobody reads any more.
bool write_all(int descriptor, std::string_view text) {
  return write_bytes(descriptor, std::as_bytes(std::span(text))) == 0;
}

// The next line, without its end; nothing when there is none. Reads a byte at a time: a process
// that is forked meanwhile must not have read ahead.
std::optional<std::string> read_line(int descriptor) {
  std::string line;
  for (char c = 0;;) {
    const ssize_t count = ::read(descriptor, &c, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    if (c == '\n') return line;
    line += c;
  }
}

std::string line_of(const Json& json) { return json_text(json) + '\n'; }

ChildResult result_in(const Json& json) {
  return {.exit_code = json.at("exit_code"),
          .signal = json.at("signal"),
          .is_timed_out = json.at("is_timed_out"),
          .seconds = json.at("seconds"),
          .out = json.at("out"),
          .err = json.at("err")};
}

}  // namespace

WarmProgram::~WarmProgram() { stop(); }

void WarmProgram::start() {
  const std::array<int, 2> in = pipe_of(kOwnProgram), out = pipe_of(kOwnProgram);
  const Descriptor reader(in[0]), writer(out[1]);  // the other program's ends
  requests_ = in[1];
  answers_ = out[0];
  Launch options = limited_child({}, 0, signal_mask_).launch;
  options.environment.push_back(str(kServeVariable, "=1"));
  options.in = reader.get();
  options.out = writer.get();
  options.has_own_group = true;  // Ctrl-C reaches it through this process
  try {
    id_ = launch(options);
  } catch (...) {
    stop();
    throw;
  }
}

void WarmProgram::stop() {
  for (int* end : {&requests_, &answers_}) {
    if (*end >= 0) ::close(std::exchange(*end, -1));
  }
  if (id_ <= 0) return;
  ::kill(id_, SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
}

std::optional<std::string> WarmProgram::answer(const std::string& request) {
  if (id_ <= 0) start();
  if (!write_all(requests_, request)) return std::nullopt;
  return read_line(answers_);
}

ChildResult WarmProgram::run(const std::vector<std::string>& arguments, std::int64_t seconds) {
  const std::optional<std::string> line =
      answer(line_of({{"arguments", arguments}, {"seconds", seconds}}));
  if (line) {
    const Json json = Json::parse(*line, nullptr, false);
    if (json.is_object()) return result_in(json);
  }
  // Somebody has killed it: the command runs as any other program does.
  stop();
  return run_child(limited_child(arguments, seconds, signal_mask_));
}

namespace {

using RunCommand = int (*)(int argc, const char* const* argv);

// The command in the process that was forked for it: its exit code.
int run_forked(RunCommand run_command, const std::vector<std::string>& arguments,
               std::int64_t seconds, pid_t server, const OutputPipe& out, const OutputPipe& err) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != server) return exit_code_of_signal(SIGKILL);
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out.writer(), STDOUT_FILENO);
  ::dup2(err.writer(), STDERR_FILENO);
  ::close(null);
  ::setenv(kSecondsVariable, str(seconds).c_str(), 1);
  std::vector<const char*> words = {"mneme"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  return run_command(static_cast<int>(words.size()), words.data());
}

// Answers a request. The code with which this process has to end: that of the command, in the
// process that was forked for it, or 0 when nobody reads the answer. Nothing: the next may come.
std::optional<int> serve_one(const Json& request, RunCommand run_command) {
  const auto arguments = request.at("arguments").get<std::vector<std::string>>();
  const auto seconds = request.at("seconds").get<std::int64_t>();
  warm_python(arguments);
  OutputPipe out(kOwnProgram), err(kOwnProgram);
  const pid_t server = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw_run("no process can be made: ", std::generic_category().message(errno));
  if (child == 0) return run_forked(run_command, arguments, seconds, server, out, err);
  ::setpgid(child, child);  // whichever of the two comes first
  const ChildResult result = watch_child(child, out, err, limited_child({}, seconds).limits);
  const std::string answer = line_of({{"exit_code", result.exit_code},
                                      {"signal", result.signal},
                                      {"is_timed_out", result.is_timed_out},
                                      {"seconds", result.seconds},
                                      {"out", result.out},
                                      {"err", result.err}});
  return write_all(STDOUT_FILENO, answer) ? std::nullopt : std::optional(0);
}

}  // namespace

std::optional<int> serve_if_asked(RunCommand run_command) {
  if (std::getenv(kServeVariable) == nullptr) return std::nullopt;
  ::unsetenv(kServeVariable);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // stop_with_parent() asked for SIGTERM
  try {
    while (const std::optional<std::string> line = read_line(STDIN_FILENO)) {
      const Json request = Json::parse(*line, nullptr, false);
      if (!request.is_object()) break;
      if (const std::optional<int> code = serve_one(request, run_command)) return code;
    }
  } catch (const std::exception&) {
    return static_cast<int>(ErrorKind::kRun);  // the other side starts the command itself
  }
  return 0;
}

}  // namespace mneme::trial
