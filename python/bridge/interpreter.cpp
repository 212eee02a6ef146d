#include "python/bridge/interpreter.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

extern char** environ;

namespace mneme::python {
namespace {

// Prints path, version, libpython or an empty line, torch's version or an empty line, and the prefix.
// `-c` would import modules of the current folder, such as an email.py, in place of Python's own.
constexpr const char* kQuestion = R"(
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import os, sysconfig
def library():
    get = sysconfig.get_config_var
    folders = [get("LIBDIR"), os.path.join(sys.base_prefix, "lib"), get("LIBPL")]
    if get("LIBDIR") and get("MULTIARCH"): folders.insert(1, os.path.join(get("LIBDIR"), get("MULTIARCH")))
    for folder in filter(None, folders):
        for name in filter(None, (get("INSTSONAME"), get("LDLIBRARY"))):
            path = os.path.join(folder, name)
            if ".so" in name and os.path.isfile(path): return path
    return ""
def torch():
    from importlib import metadata
    try: return metadata.version("torch")
    except metadata.PackageNotFoundError: return ""
print("mneme\n%s\n%d.%d.%d\n%s\n%s\n%s" % ((sys.executable,) + sys.version_info[:3] + (library(), torch(), sys.base_prefix)))
)";

constexpr std::chrono::seconds kLongest(20);

// A descriptor that is closed when it goes.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

// Everything that the process writes until it closes its output, or the time is over.
std::string read_all(int descriptor, bool& is_in_time) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  std::string text;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return text;
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return text;
    const ssize_t bytes = ::read(descriptor, buffer, sizeof(buffer));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(buffer, static_cast<std::size_t>(bytes));
  }
  is_in_time = true;
  return text;
}

// Output of `executable -c kQuestion`. Errors: InterpreterError.
std::string answer_of(const std::string& executable) {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0)
    throw InterpreterError("cannot make a pipe: " + std::string(std::strerror(errno)));
  Descriptor from(pipe[0]);
  Descriptor to(pipe[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to.number(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // The program's threads block the signals that stop it.
  posix_spawnattr_t attributes;
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  std::string words[] = {executable, "-c", kQuestion};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  pid_t child = 0;
  const int failed =
      ::posix_spawn(&child, executable.c_str(), &actions, &attributes, arguments, environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw InterpreterError(executable + " cannot be run: " + std::strerror(failed));
  to.close();
  bool is_in_time = false;
  std::string text = read_all(from.number(), is_in_time);
  if (!is_in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!is_in_time)
    throw InterpreterError(executable + " gave no answer within " +
                           std::to_string(kLongest.count()) + " seconds");
  return text;
}

std::string install_command(const std::string& version, const std::string& prefix) {
  const std::string minor = version.substr(0, version.rfind('.'));
  if (prefix == "/usr") return "apt-get install libpython" + minor;
  if (prefix.find("/.pyenv/") != std::string::npos)
    return "PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force " + version;
  return "install a Python " + minor + " that is built with --enable-shared";
}

// Of "3.11.7".
bool is_new_enough(const std::string& version) {
  return version.rfind("3.", 0) == 0 && std::atoi(version.c_str() + 2) >= 10;
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_program(const std::string& path) { return ::access(path.c_str(), X_OK) == 0; }

Interpreter checked(Interpreter found) {
  if (found.library.empty())
    throw InterpreterError(
        found.executable + " (Python " + found.version +
        ") has no shared library libpython, in which memories run: " + found.advice);
  if (found.torch.empty())
    throw InterpreterError(
        found.executable +
        " has no torch, with which memories in Python compute: " + found.executable +
        " -m pip install 'torch==2.11.*', or in a checkout "
        "scripts/setup.sh --python");
  return found;
}

}  // namespace

Interpreter ask_interpreter(const std::string& executable) {
  std::istringstream lines(answer_of(executable));
  std::string greeting;
  std::string prefix;
  Interpreter out;
  std::getline(lines, greeting);
  std::getline(lines, out.executable);
  std::getline(lines, out.version);
  std::getline(lines, out.library);
  std::getline(lines, out.torch);
  std::getline(lines, prefix);
  if (greeting != "mneme" || out.executable.empty() || !is_new_enough(out.version))
    throw InterpreterError(executable + " is no Python 3.10 or newer" +
                           (out.version.empty() ? "" : ": it is " + out.version));
  if (out.library.empty()) out.advice = install_command(out.version, prefix);
  return out;
}

Interpreter find_interpreter() {
  if (const std::string named = environment(kInterpreter); !named.empty()) {
    if (named.front() != '/')
      throw InterpreterError(std::string(kInterpreter) + ": expected an absolute path, got \"" +
                             named + "\"");
    return checked(ask_interpreter(named));
  }
  if (const std::string folder = environment("VIRTUAL_ENV"); !folder.empty()) {
    const std::string path = folder + "/bin/python3";
    if (is_program(path)) return checked(ask_interpreter(path));
  }
  std::istringstream folders(environment("PATH"));
  std::string without;
  std::string failed;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string path = folder + "/python3";
    if (folder.empty() || folder.front() != '/' || !is_program(path)) continue;
    Interpreter found;
    try {
      found = ask_interpreter(path);
    } catch (const InterpreterError& error) {
      failed += std::string("; ") + error.what();
      continue;
    }
    if (!found.torch.empty()) return checked(std::move(found));
    without += (without.empty() ? "; without torch are " : ", ") + path;
  }
  throw InterpreterError("no Python with torch was found" + without + failed +
                         ": activate a venv that has it, or name its interpreter in " +
                         kInterpreter + " (in a checkout scripts/setup.sh --python makes one)");
}

}  // namespace mneme::python
