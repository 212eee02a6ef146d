// The part of `mneme doctor python` about the Python that memories run in.
#include <filesystem>
#include <string>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/process/child.hpp"
#include "host/base/text.hpp"
#include "host/cli/doctor/doctor.hpp"
#include "host/cli/interrupt.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/plugin/python/python_place.hpp"
#include "host/tensor/device.hpp"
#include "python/bridge/interpreter.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

constexpr double kImportSeconds = 120;  // from a network disk
// Without modules of the current folder.
constexpr const char* kImport =
    "import sys; sys.path[:] = [folder for folder in sys.path if folder]; import torch";
constexpr const char* kInstallTorch =
    "in a checkout scripts/setup.sh --python installs what it needs; elsewhere pip install torch==";

Finding check_file(const std::string& subject, const fs::path& file) {
  Finding finding{.subject = subject, .text = file.string()};
  finding.details = {{"file", file.string()}};
  std::error_code ignored;
  if (fs::exists(file, ignored)) return finding;
  finding.state = State::kBroken;
  finding.text += ": no such file";
  finding.advice = "build or install the program again";
  return finding;
}

// The version without what is behind "+".
std::string bare_version(const std::string& version) {
  return version.substr(0, version.find('+'));
}

Finding check_import(const python::Interpreter& python, const std::string& expected) {
  Finding finding{.subject = "import torch"};
  const ChildResult child = run_child({.launch = {.program = python.executable,
                                                  .arguments = {"-c", kImport},
                                                  .signal_mask = inherited_signal_mask()},
                                       .limits = {.seconds = kImportSeconds}});
  finding.details = {{"seconds", child.seconds}};
  if (child.exit_code == 0) {
    finding.text = str("works, ", format_duration(child.seconds));
    return finding;
  }
  finding.state = State::kBroken;
  const std::string words(trimmed(child.err, " \t\r\n"));
  finding.text = child.is_timed_out ? str("has not ended after ", kImportSeconds, " s")
                                    : str("fails: ", words.substr(words.rfind('\n') + 1));
  finding.advice = kInstallTorch + expected;
  return finding;
}

// What an interpreter needs, from what it says of itself.
std::vector<Finding> check_interpreter(const python::Interpreter& python) {
  std::vector<Finding> findings;
  findings.push_back(
      {.subject = "Python", .text = str(python.version, " (", python.executable, ')')});
  findings.back().details = {{"file", python.executable}, {"version", python.version}};
  Finding library{.subject = "libpython", .text = python.library};
  library.details = {{"file", python.library}};
  if (python.library.empty()) {
    library.state = State::kBroken;
    library.text = "this Python has no shared library, in which memories run";
    library.advice = python.advice;
  }
  findings.push_back(std::move(library));
  const std::string expected = bare_version(tensor::torch_version());
  Finding torch{.subject = "torch", .text = python.torch};
  torch.details = {{"version", python.torch}, {"expected", expected}};
  const bool is_equal = bare_version(python.torch) == expected;
  if (!is_equal) {
    torch.state = State::kBroken;
    torch.text = python.torch.empty()
                     ? "is not installed in this Python"
                     : str(python.torch, ", and the program computes with ", expected);
    torch.advice = kInstallTorch + expected;
  }
  findings.push_back(std::move(torch));
  if (is_equal) findings.push_back(check_import(python, expected));
  return findings;
}

std::vector<Finding> check_interpreters() {
  try {
    return check_interpreter(python::find_interpreter());
  } catch (const python::InterpreterError& error) {
    std::vector<Finding> findings = {
        {.subject = "Python", .state = State::kBroken, .text = error.what()}};
    const std::string any = plugin::any_interpreter();
    if (any.empty()) return findings;
    return check_interpreter(python::ask_interpreter(any));
  }
}

}  // namespace

std::vector<Finding> check_python() {
  std::vector<Finding> findings;
  try {
    findings = check_interpreters();
  } catch (const std::exception& error) {
    findings = {{.subject = "Python", .state = State::kBroken, .text = error.what()}};
  }
  Finding library{.subject = "LibTorch", .text = tensor::torch_version()};
  library.details = {{"version", tensor::torch_version()}};
  findings.push_back(std::move(library));
  const plugin::PythonPlace place = plugin::python_files_beside(plugin::default_plugin_folder());
  findings.push_back(check_file("bridge", place.bridge));
  findings.push_back(check_file("package mneme", place.package / "mneme"));
  return findings;
}

}  // namespace mneme::cli
