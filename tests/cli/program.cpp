#include "tests/cli/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "tests/base/tiny_motif.hpp"
#include "tests/base/wordings.hpp"

namespace mneme::test {
namespace {

// Whether the program's main may run in a fork of this process: a fork has the calling thread
// only, and libraries that are loaded already have read the environment. `mneme compare`, and
// `mneme eval` with several memories, start their own file again, which must not be the test.
bool can_fork(const std::vector<std::string>& arguments, const ProgramOptions& options) {
  const bool starts_itself = (!arguments.empty() && arguments.front() == "compare") ||
                             std::ranges::count(arguments, "--memory") > 1;
  if (starts_itself && !options.is_refused) return false;
  return program_main != nullptr && !options.is_new_program && options.environment.empty() &&
         options.address_space == 0 && options.signal == 0 &&
         std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 1;
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  }
  void close_writer() { ::close(ends[1]); }
  void close_reader() {
    if (ends[0] >= 0) ::close(ends[0]);
    ends[0] = -1;
  }
};

[[noreturn]] void become(const std::vector<std::string>& arguments, const ProgramOptions& options,
                         const Pipe& out, const Pipe& err, bool is_forked) {
  ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
  ::dup2(options.out.empty() ? out.ends[1] : ::open(options.out.c_str(), O_WRONLY), STDOUT_FILENO);
  ::dup2(err.ends[1], STDERR_FILENO);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(126);
  if (options.address_space > 0) {
    const auto bytes = static_cast<rlim_t>(options.address_space);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  if (options.file_size > 0) {
    const auto bytes = static_cast<rlim_t>(options.file_size);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  for (const std::string& entry : options.environment) {
    const auto equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> argv{const_cast<char*>("mneme")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  if (is_forked) {
    ::setenv(kForkVariable, "1", 1);
    const int status = program_main(static_cast<int>(argv.size()) - 1, argv.data());
    std::fflush(nullptr);
    ::_exit(status);  // LibTorch's destructors take longer than most commands
  }
  ::execv(MNEME_PROGRAM, argv.data());
  ::_exit(127);
}

// Appends what can be read; false at the end.
bool drain(int descriptor, std::string& text) {
  std::array<char, 4096> piece{};
  const ssize_t count = ::read(descriptor, piece.data(), piece.size());
  if (count > 0) text.append(piece.data(), static_cast<std::size_t>(count));
  return count > 0;
}

void collect(pid_t child, const ProgramOptions& options, const Pipe& out, const Pipe& err,
             ProgramResult& result) {
  std::array<pollfd, 2> waiting{pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
  bool is_signal_due = options.signal != 0, is_second_due = options.second_signal != 0;
  while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].fd < 0 || waiting[i].revents == 0) continue;
      if (!drain(waiting[i].fd, i == 0 ? result.out : result.err)) waiting[i].fd = -1;
    }
    if (is_signal_due && result.err.find(options.signal_after) != std::string::npos) {
      ::kill(child, options.signal);
      is_signal_due = false;
    }
    if (!is_signal_due && is_second_due &&
        result.err.find(options.second_signal_after) != std::string::npos) {
      ::kill(child, options.second_signal);
      is_second_due = false;
    }
  }
}

}  // namespace

ProgramMain program_main = nullptr;

ProgramResult run_mneme(const std::vector<std::string>& arguments, const ProgramOptions& options) {
  Pipe out;
  Pipe err;
  if (options.is_out_unread) out.close_reader();
  if (options.is_err_unread) err.close_reader();
  std::fflush(nullptr);  // the child has a copy of what is not written yet
  std::cout.flush();
  const bool is_forked = can_fork(arguments, options);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become(arguments, options, out, err, is_forked);
  out.close_writer();
  err.close_writer();
  ProgramResult result;
  collect(child, options, out, err, result);
  out.close_reader();
  err.close_reader();
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  } else if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  }
  return result;
}

ProgramResult run_shell(const std::string& command) {
  FILE* const pipe = ::popen(("{ " + command + "\n} 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  ProgramResult result;
  while (drain(::fileno(pipe), result.out)) {
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

std::vector<std::string> shell_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  bool is_quoted = false, is_word = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'') {
      is_quoted = !is_quoted;
      is_word = true;
    } else if (!is_quoted && c == '\\' && i + 1 < text.size()) {
      word += text[++i];
    } else if (!is_quoted && c == ' ') {
      if (is_word) words.push_back(word);
      word.clear();
      is_word = false;
    } else {
      word += c;
      is_word = true;
    }
  }
  if (is_word) words.push_back(word);
  return words;
}

void expect_refusal(const ProgramResult& result, int exit_code,
                    const std::vector<std::string>& texts) {
  EXPECT_EQ(result.signal, 0) << result.err;
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_THAT(result.err, ::testing::HasSubstr("mneme: error"));
  EXPECT_THAT(result.err, ::testing::Not(::testing::HasSubstr("unexpected failure")));
  for (const std::string& text : texts) EXPECT_THAT(result.err, ::testing::HasSubstr(text));
}

void expect_done(const ProgramResult& result) {
  EXPECT_EQ(result.signal, 0) << result.err;
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

std::string CliTest::tiny(const std::string& memory, const std::string& more) {
  return memory + tiny_model() + kMotifData + R"([train]
segment = 8
lanes = 4
steps = 6
lr = 3e-3
log_every = 2

[eval]
steps = 4
)" + more;
}

std::string CliTest::tiny_on(const std::string& data, const std::string& memory) {
  std::string text = tiny(memory);
  const std::size_t begin = text.find("[data]");
  return text.replace(begin, text.find("[train]") - begin, "[data]\n" + data + "\n");
}

std::string CliTest::with_files(std::string text) const {
  for (std::size_t open = 0; (open = text.find('{', open)) != std::string::npos;) {
    const std::size_t close = text.find('}', open);
    text.replace(open, close + 1 - open, file(text.substr(open + 1, close - open - 1)));
  }
  return text;
}

void CliTest::expect_refusals(int exit_code, const std::string& before,
                              const std::vector<Wording>& rows) const {
  for_each_case(
      rows, [&](const Wording& row) { return row.place + ": " + before + ' ' + row.given; },
      [&](const Wording& row) {
        std::vector<std::string> arguments;
        for (const std::string& word : shell_words(before + ' ' + row.given)) {
          arguments.push_back(with_files(word));
        }
        std::vector<std::string> parts = parts_of(row.message);
        for (std::string& part : parts) part = with_files(part);
        expect_refusal(run_mneme(arguments, {.is_refused = true}), exit_code, parts);
      });
}

std::string memory_with(const std::string& plugin, const std::filesystem::path& folder,
                        const std::string& options) {
  return "[memory]\nplugins = [\"" + folder.string() + "\"]\n\n[[memory.tier]]\nplugin = \"" +
         plugin + "\"\n" + options + "\n";
}

}  // namespace mneme::test
