// Which Python memories run in. The interpreters here are shell scripts that print what one would.
#include "python/bridge/interpreter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace mneme::python {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Gives a variable of the environment a value until it goes.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    if (value.empty()) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value.c_str(), 1);
    }
  }
  ~Variable() {
    if (before_) {
      ::setenv(name_, before_->c_str(), 1);
    } else {
      ::unsetenv(name_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class Interpreters : public testing::Test {
 protected:
  Interpreters() { fs::create_directories(folder_); }
  ~Interpreters() override { fs::remove_all(folder_); }

  // An executable file that runs these lines of a shell.
  std::string script(const std::string& name, const std::string& lines) const {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  // One that answers as a Python would.
  std::string python(const std::string& name, const std::string& version,
                     const std::string& library, const std::string& torch,
                     const std::string& prefix = "/opt") const {
    return script(name, "printf '%s\\n' mneme \"$0\" '" + version + "' '" + library + "' '" +
                            torch + "' '" + prefix + "'");
  }
  // The message of find_interpreter with these values of the environment.
  std::string refusal(const std::string& named, const std::string& venv,
                      const std::string& path) const {
    try {
      find(named, venv, path);
    } catch (const InterpreterError& error) {
      return error.what();
    }
    return "no error";
  }
  static Interpreter find(const std::string& named, const std::string& venv,
                          const std::string& path) {
    const Variable first(kInterpreter, named);
    const Variable second("VIRTUAL_ENV", venv);
    // The scripts need the shell's own commands alone.
    const Variable third("PATH", path);
    return find_interpreter();
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_ =
      fs::temp_directory_path() / ("mneme-interpreters-" + std::to_string(::getpid()));
};

TEST_F(Interpreters, AreAskedForTheirLibraryAndTorch) {
  const std::string path = python("python3", "3.12.4", "/opt/lib/libpython3.12.so.1.0", "2.11.0");
  const Interpreter answer = ask_interpreter(path);
  EXPECT_EQ(answer.executable, path);
  EXPECT_EQ(answer.version, "3.12.4");
  EXPECT_EQ(answer.library, "/opt/lib/libpython3.12.so.1.0");
  EXPECT_EQ(answer.torch, "2.11.0");
  EXPECT_EQ(answer.advice, "");
}

TEST_F(Interpreters, WithoutALibraryAreGivenTheCommandThatInstallsIt) {
  EXPECT_EQ(ask_interpreter(python("a", "3.11.2", "", "", "/usr")).advice,
            "apt-get install libpython3.11");
  EXPECT_EQ(
      ask_interpreter(python("b", "3.12.4", "", "", "/home/me/.pyenv/versions/3.12.4")).advice,
      "PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install --force 3.12.4");
  EXPECT_EQ(ask_interpreter(python("c", "3.13.0", "", "", "/opt")).advice,
            "install a Python 3.13 that is built with --enable-shared");
  EXPECT_THAT(refusal(python("d", "3.11.2", "", "2.11.0", "/usr"), "", ""),
              AllOf(HasSubstr("has no shared library libpython"),
                    HasSubstr("apt-get install libpython3.11")));
}

TEST_F(Interpreters, AreAskedWithoutTheModulesOfTheCurrentFolder) {
  const std::string path = "/usr/bin/python3";
  Interpreter outside;
  try {
    outside = ask_interpreter(path);
  } catch (const InterpreterError& error) {
    GTEST_SKIP() << error.what();
  }
  script("email.py", "raise SystemExit(1)");
  const fs::path before = fs::current_path();
  fs::current_path(fs::path(at("email.py")).parent_path());
  EXPECT_NO_THROW(EXPECT_EQ(ask_interpreter(path).version, outside.version));
  fs::current_path(before);
}

TEST_F(Interpreters, AreAskedWithNoSignalBlocked) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const std::string path = script("python3",
                                  "blocked=$(grep SigBlk /proc/self/status)\n"
                                  "printf '%s\\n' mneme \"$0\" 3.11.2 \"$blocked\" 2.11.0 /opt");
  EXPECT_NO_THROW(EXPECT_EQ(ask_interpreter(path).library, "SigBlk:\t0000000000000000"));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(Interpreters, ThatAreNoneAreRefused) {
  EXPECT_THAT(refusal(at("missing"), "", ""), HasSubstr("missing cannot be run: "));
  EXPECT_THAT(refusal("python3", "", ""), HasSubstr("MNEME_PYTHON: expected an absolute path"));
  EXPECT_THAT(refusal(script("silent", "exit 1"), "", ""), HasSubstr("is no Python 3.10 or newer"));
  EXPECT_THAT(refusal(python("old", "3.9.18", "/l.so", "2.11.0"), "", ""),
              HasSubstr("is no Python 3.10 or newer: it is 3.9.18"));
  EXPECT_THAT(refusal(python("bare", "3.11.2", "/l.so", ""), "", ""),
              AllOf(HasSubstr("bare has no torch"), HasSubstr("-m pip install 'torch==2.11.*'"),
                    HasSubstr("scripts/setup.sh --python")));
}

TEST_F(Interpreters, AreTakenFromTheNameThenTheVenvThenThePath) {
  const std::string named = python("named", "3.11.2", "/l.so", "2.11.0");
  const std::string of_venv = python("venv/bin/python3", "3.11.2", "/l.so", "2.11.0");
  python("without/python3", "3.11.2", "/l.so", "");
  const std::string with_torch = python("with/python3", "3.11.2", "/l.so", "2.11.0");
  const std::string path = at("nowhere") + ":relative:" + at("without") + ":" + at("with");
  EXPECT_EQ(find(named, at("venv"), path).executable, named);
  EXPECT_EQ(find("", at("venv"), path).executable, of_venv);
  EXPECT_EQ(find("", "", path).executable, with_torch);
  EXPECT_EQ(find("", at("nowhere"), path).executable, with_torch);
  EXPECT_THAT(
      refusal("", "", at("without")),
      AllOf(HasSubstr("no Python with torch was found; without torch are "),
            HasSubstr("without/python3: activate a venv that has it"), HasSubstr("MNEME_PYTHON")));
}

TEST_F(Interpreters, OnThePathThatFailAreNamedAndPassedOver) {
  python("old/python3", "3.9.18", "/l.so", "2.11.0");
  script("shim/python3", "exit 127");
  const std::string good = python("with/python3", "3.11.2", "/l.so", "2.11.0");
  const std::string path = at("old") + ":" + at("shim");
  EXPECT_EQ(find("", "", path + ":" + at("with")).executable, good);
  EXPECT_THAT(refusal("", "", path),
              AllOf(HasSubstr("no Python with torch was found; "),
                    HasSubstr("old/python3 is no Python 3.10 or newer: it is 3.9.18; "),
                    HasSubstr("shim/python3 is no Python 3.10 or newer: activate a venv")));
}

}  // namespace
}  // namespace mneme::python
