// mneme processes that are stopped and killed, and the small training that they run.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "host/base/text.hpp"
#include "tests/base/tiny_motif.hpp"

namespace mneme::test {

inline std::int64_t environment(const char* name, std::int64_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

// [memory] with the cache, where it was built.
inline std::string cache_memory() {
  if (!std::filesystem::exists(std::filesystem::path(MNEME_PLUGIN_DIR) / "xl_cache.so")) {
    return "[memory]\n";
  }
  return str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
             "\"]\n[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 12\n");
}

// Saves after every step, evaluates often, keeps few: most of its time goes into files.
inline std::string small_experiment(int steps) {
  return cache_memory() + str(R"(
[model]
layers = 2
heads = 2
width = 32
dropout = 0.2
)",
                              kMotifData, R"([train]
segment = 8
lanes = 4
steps = )",
                              steps, R"(
accumulate = 2
lr = 3e-3
log_every = 1
eval_every = 5
save_every = 1
keep_checkpoints = 2
[eval]
steps = 2
)");
}

// A mneme process of its own, both outputs in `log`.
class Process {
 public:
  // environment: "NAME=value", added to this process's.
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& log,
          const std::vector<std::string>& environment = {}) {
    std::vector<char*> argv{const_cast<char*>("mneme")};
    for (const std::string& text : arguments) argv.push_back(const_cast<char*>(text.c_str()));
    argv.push_back(nullptr);
    id_ = ::fork();
    if (id_ != 0) return;
    const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
    ::execv(MNEME_PROGRAM, argv.data());
    ::_exit(127);
  }
  ~Process() {
    if (is_running()) kill();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t id() const { return id_; }
  bool is_running() {
    if (!status_) {
      int status = 0;
      if (::waitpid(id_, &status, WNOHANG) == id_) status_ = status;
    }
    return !status_;
  }
  void kill() {
    send(SIGKILL);
    wait();
  }
  void send(int signal) {
    if (is_running()) ::kill(id_, signal);
  }
  // The status of waitpid(2).
  int wait() {
    if (!status_) {
      int status = 0;
      ::waitpid(id_, &status, 0);
      status_ = status;
    }
    return *status_;
  }

 private:
  pid_t id_ = 0;
  std::optional<int> status_;
};

// A process that `parent` has started and that is still there; 0 = none.
inline pid_t child_of(pid_t parent) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    std::getline(file, line);
    const std::size_t close = line.rfind(')');  // of the program's name; state and parent follow
    if (close == std::string::npos) continue;
    std::istringstream rest(line.substr(close + 1));
    std::string state;
    pid_t id = 0;
    if (rest >> state >> id && id == parent) return static_cast<pid_t>(std::stol(name));
  }
  return 0;
}

// The processes that run mneme with a command line that holds `word`.
inline std::set<pid_t> processes_with(const std::string& word) {
  std::set<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline");
    std::stringstream text;
    text << in.rdbuf();
    const std::string line = text.str();
    if (line.find(word) != std::string::npos && line.starts_with(MNEME_PROGRAM))
      found.insert(static_cast<pid_t>(std::stol(name)));
  }
  return found;
}

// mpirun with what it needs on any machine; "-n RANKS PROGRAM" follows.
inline std::string mpirun() {
  return "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "
         "NO_COLOR=1 mpirun --oversubscribe --bind-to none ";
}

inline bool has_mpirun() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }

}  // namespace mneme::test
