#include "host/cli/cli.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "host/base/error.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/man/man.hpp"
#include "host/cli/old_spellings.hpp"
#include "host/cli/program/program.hpp"
#include "host/cli/rank_session.hpp"
#include "host/plugin/reported_call.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

void add_commands(const Command& program) {
  add_train(program);
  add_eval(program);
  add_score(program);
  add_certify(program);
  add_decode(program);
  add_generate(program);
  add_serve(program);
  add_compare(program);
  add_report(program);
  add_verify(program);
  add_plan(program);
  add_analyze(program);
  add_config(program);
  add_data(program);
  add_plugins(program);
  add_abi(program);
  add_import(program);
  add_export(program);
  add_inspect(program);
  add_doctor(program);
  add_completion(program);
  add_man(program, mneme_manual());
  program.examples(
      {"mneme compare configs/quickstart.toml --memory configs/memory/none.toml --memory "
       "my_memory.toml",
       "mneme plugins list"});
}

// Most commands run in one process.
void check_ranks(const std::string& command) {
  if (command != "train" && command != "eval" && command != "certify" && command != "compare") {
    check_started_alone("mneme " + command);
  }
}

}  // namespace

int main_entry(int argc, const char* const* argv, const Streams& streams) noexcept {
  try {
    const Program program = {
        .name = "mneme",
        .version = str(MNEME_SDK_VERSION, " (ABI ", MNEME_ABI_MAJOR, '.', MNEME_ABI_MINOR, ')'),
        .help =
            "A runtime for transformer memory: trains, evaluates and compares models whose "
            "memories are plugins.",
        .add_commands = &add_commands,
        .commands = &current_spelling,
        .check = &check_ranks,
        .message = &message_of_rank,
        .end = &end_ranks,
        .when_out_of_memory = "; try fewer lanes or a smaller model"};
    return run_program(program, argc, argv, streams);
  } catch (...) {  // no memory for a few words
    return static_cast<int>(ErrorKind::kRun);
  }
}

void Failures::add(const std::string& name, const Error& error) {
  all_.push_back({name, error});
  if (all_.size() == memories_) throw error.with_context(name);
  report_error(streams_, name, error);
}

int Failures::exit_code() const { return all_.empty() ? 0 : all_.front().error.exit_code(); }

Json Failures::json() const {
  Json list = Json::array();
  for (const Failure& one : all_) {
    list.push_back(
        {{"name", one.name}, {"message", one.error.what()}, {"exit_code", one.error.exit_code()}});
  }
  return list;
}

namespace {

using plugin::ReportedCall;

struct Fault {
  int signal;
  std::string_view words;
};
constexpr std::array kFaults = {Fault{SIGSEGV, "segmentation fault (SIGSEGV)"},
                                Fault{SIGBUS, "bus error (SIGBUS)"},
                                Fault{SIGILL, "illegal instruction (SIGILL)"},
                                Fault{SIGFPE, "integer division by zero or overflow (SIGFPE)"},
                                Fault{SIGABRT, "abort (SIGABRT)"}};

// AVX-512's registers alone take 2.7 KB of a signal's frame.
constexpr std::size_t kStackBytes = 64 * 1024;

bool g_is_terminal = false;  // stderr

// Composes one line in a fixed buffer: a signal handler may not allocate.
class Line {
 public:
  Line& add(std::string_view text) {
    const std::size_t size = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), size);
    size_ += size;
    return *this;
  }
  void write() const {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text_.data(), size_);
  }

 private:
  std::array<char, 1024> text_{};
  std::size_t size_ = 0;
};

extern "C" void report_and_die(int signal, siginfo_t* info, void* /*context*/) {
  const auto* const fault =
      std::ranges::find_if(kFaults, [&](const Fault& each) { return each.signal == signal; });
  const ReportedCall::Text call = ReportedCall::text();
  Line line;
  line.add(g_is_terminal ? "\nmneme: error: " : "mneme: error: ");  // behind a progress bar
  if (call.size > 0) {
    line.add(call.view()).add(": ").add(fault->words).add(": the process ends; ");
    line.add("gdb --args mneme ... shows the line\n");
  } else {
    line.add(fault->words).add(" outside of calls into plugins: the process ends; ");
    line.add("please report it with the command that you gave\n");
  }
  line.write();
  // SA_RESETHAND restored the default action: the instruction faults again, abort() raises again. A
  // signal that a process sent must be raised here.
  if (info->si_code <= 0) std::raise(signal);
}

void refuse_exit() {
  const ReportedCall::Text call = ReportedCall::text();
  if (call.size == 0) return;
  std::cout.flush();
  Line line;
  line.add("mneme: error: ").add(call.view());
  line.add(": the plugin called exit() in the middle of the run: expected a status; report it to ");
  line.add("the plugin's author\n");
  line.write();
  ::_exit(static_cast<int>(ErrorKind::kPlugin));
}

}  // namespace

void end_late(const std::string& message) {
  const std::string line = str("mneme: error: ", message, '\n');
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
  ::_exit(static_cast<int>(ErrorKind::kPlugin));
}

void report_crashes() {
  g_is_terminal = ::isatty(STDERR_FILENO) == 1;
  static std::array<char, kStackBytes> stack;
  stack_t other{};
  sigaltstack(nullptr, &other);
  if ((other.ss_flags & SS_DISABLE) != 0) {
    other = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
    sigaltstack(&other, nullptr);
  }
  for (const Fault& fault : kFaults) {
    struct sigaction before {};
    sigaction(fault.signal, nullptr, &before);
    if (before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_sigaction = &report_and_die;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(fault.signal, &action, nullptr);
  }
  std::atexit(&refuse_exit);
  std::at_quick_exit(&refuse_exit);
}

}  // namespace mneme::cli
