// The part of `mneme doctor` about programs on PATH.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "host/base/signal_sets.hpp"
#include "host/base/text.hpp"
#include "host/cli/doctor/doctor.hpp"
#include "host/cli/interrupt.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kPatienceMs = 10'000;  // a compiler on a sleeping network disk takes its time

// The program's file on PATH; "" when there is none.
fs::path find_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder.empty() ? "." : folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

// Reads until the end, or until nothing comes for kPatienceMs; false then.
bool read_all(int descriptor, std::string& text) {
  std::array<char, 4096> piece{};
  for (;;) {
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, kPatienceMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count <= 0) return count == 0;
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

// Runs `program --version` and gives what it prints; "" when it fails or does not answer.
std::string version_text(const fs::path& program) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return "";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // What this process does with signals is not the program's affair.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const sigset_t mask = inherited_signal_mask(), defaults = signal_set({SIGXFSZ});
  posix_spawnattr_setsigmask(&attributes, &mask);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = program.string();
  std::string argument = "--version";
  std::array<char*, 3> arguments{name.data(), argument.data(), nullptr};
  pid_t child = -1;
  const int failure =
      ::posix_spawn(&child, name.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  ::close(ends[1]);
  std::string text;
  if (failure == 0) {
    if (!read_all(ends[0], text)) ::kill(child, SIGKILL);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) text.clear();
  }
  ::close(ends[0]);
  return text;
}

// The line that tells the version: nvcc's is the fourth, the others' the first.
std::string version_line(const std::string& text) {
  std::istringstream lines(text);
  std::string first;
  for (std::string line; std::getline(lines, line);) {
    if (line.find("release ") != std::string::npos) return line;
    if (first.empty()) first = line;
  }
  return first;
}

Finding check_program(const std::string& subject, const std::vector<std::string>& names,
                      const std::string& advice) {
  Finding finding{.subject = subject, .advice = advice};
  for (const std::string& name : names) {
    const fs::path file = find_program(name);
    if (file.empty()) continue;
    const std::string version = version_line(version_text(file));
    finding.details = {{"file", file.string()}, {"version", version}};
    if (!version.empty()) {
      finding.text = str(version, " (", file.string(), ')');
      finding.advice.clear();
      return finding;
    }
    finding.text = str(file.string(), " --version fails");
  }
  finding.state = Finding::State::kAbsent;
  if (finding.text.empty()) finding.text = str("no ", join(names, ", no "), " on PATH");
  return finding;
}

}  // namespace

std::string_view to_word(Finding::State state) {
  switch (state) {
    case Finding::State::kFine:
      return "fine";
    case Finding::State::kAbsent:
      return "absent";
    case Finding::State::kBroken:
      return "broken";
  }
  return "?";
}

std::vector<Finding> check_toolchain() {
  const std::string packages =
      "needed only to build plugins or mneme: scripts/setup.sh installs it";
  return {check_program("C++ compiler", {"c++", "g++", "clang++"}, packages),
          check_program("C compiler", {"cc", "gcc", "clang"}, packages),
          check_program("CMake", {"cmake"}, packages),
          check_program("CUDA compiler", {"nvcc"},
                        "needed only to compile CUDA kernels: install the CUDA toolkit 13 and put "
                        "nvcc on PATH")};
}

}  // namespace mneme::cli
