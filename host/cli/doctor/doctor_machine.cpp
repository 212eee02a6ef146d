// The part of `mneme doctor` about LibTorch, folders, system and terminal.
#include <dlfcn.h>
#include <fcntl.h>
#include <langinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "host/base/text.hpp"
#include "host/cli/doctor/doctor.hpp"
#include "host/ranks/launcher.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

// Makes, writes and removes a file; "" or the system's reason. access(2) would say yes to root.
std::string write_problem(const fs::path& folder) {
  std::string name = (folder / ".mneme_doctor_XXXXXX").string();
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) return std::strerror(errno);
  const bool is_written = ::write(descriptor, "x", 1) == 1;
  const std::string reason = is_written ? "" : std::strerror(errno);
  ::close(descriptor);
  ::unlink(name.c_str());
  return reason;
}

Finding check_folder(const std::string& subject, const fs::path& folder, State when_broken,
                     const std::string& advice) {
  constexpr std::uintmax_t kLittle = std::uintmax_t{1} << 30;
  Finding finding{.subject = subject, .text = folder.string()};
  std::error_code error;
  const std::string problem = write_problem(folder);
  const fs::space_info space = fs::space(folder, error);
  finding.details = {{"folder", folder.string()}, {"writable", problem.empty()}};
  if (!error) finding.details["free_bytes"] = space.available;
  if (!problem.empty()) {
    finding.state = when_broken;
    finding.text += ": cannot be written: " + problem;
    finding.advice = advice;
  } else if (!error) {
    finding.text += str(": can be written, ", human_bytes(space.available), " free");
    if (space.available < kLittle) {
      finding.state = State::kAbsent;
      finding.advice = "little room for checkpoints: free some, or name another folder";
    }
  }
  return finding;
}

fs::path temporary_folder() {
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  const char* const named = std::getenv("TMPDIR");
  return error ? fs::path(named == nullptr ? "/tmp" : named) : folder;
}

bool has_sealed_memory() {
  const int descriptor = ::memfd_create("mneme_doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return false;
  const bool is_sealed = ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0;
  ::close(descriptor);
  return is_sealed;
}

// Whose memory the process gets (host/allocator.cpp).
Finding check_allocator() {
  using Control = int(const char*, void*, std::size_t*, void*, std::size_t);
  auto* const control = reinterpret_cast<Control*>(::dlsym(RTLD_DEFAULT, "mallctl"));
  const auto setting = [&](const char* name) {
    const char* value = "";
    std::size_t size = sizeof(value);
    return control == nullptr || control(name, static_cast<void*>(&value), &size, nullptr, 0) != 0
               ? std::string()
               : std::string(value);
  };
  const std::string version = setting("version"), pages = setting("opt.thp");
  Finding finding{.subject = "allocator"};
  finding.details = {{"version", version}, {"thp", pages}};
  if (version.empty()) {
    finding.state = State::kAbsent;
    finding.text = "another one than jemalloc";
    finding.advice = "evaluations need more memory and time: start mneme without LD_PRELOAD";
    return finding;
  }
  finding.text = str("jemalloc ", version.substr(0, version.find('-')), ", huge pages ",
                     pages == "always" ? "asked for" : pages);
  return finding;
}

}  // namespace

std::vector<Finding> check_libtorch() {
  const std::string capability = tensor::cpu_capability();
  Finding library{.subject = "LibTorch", .text = tensor::torch_version()};
  library.details = {{"version", tensor::torch_version()}};
  Finding processor{.subject = "processor"};
  const unsigned cores = std::thread::hardware_concurrency();
  processor.text =
      str(tensor::processor_name(), ", ", cores, " cores, threads: ", tensor::threads(),
          " (--threads changes it), instructions ", capability);
  processor.details = {{"name", tensor::processor_name()},
                       {"cores", cores},
                       {"threads", tensor::threads()},
                       {"capability", capability}};
  if (capability == "DEFAULT") {
    processor.state = State::kAbsent;
    processor.advice =
        "no AVX2: computing will be slow; unset ATEN_CPU_CAPABILITY, or use another machine";
  }
  return {library, processor};
}

std::vector<Finding> check_folders() {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  std::vector<Finding> findings;
  if (error) {
    findings.push_back({.subject = "current folder",
                        .state = State::kBroken,
                        .text = error.message(),
                        .advice = "go to a folder that exists"});
  } else {
    findings.push_back(check_folder("current folder", here, State::kBroken,
                                    "go elsewhere, or name the run's folder with --run"));
    if (fs::exists(here / "runs", error)) {
      findings.push_back(check_folder("runs", here / "runs", State::kBroken,
                                      "make it writable, or name the run's folder with --run"));
    }
  }
  findings.push_back(check_folder("temporary folder", temporary_folder(),
                                  has_sealed_memory() ? State::kAbsent : State::kBroken,
                                  "plugins are loaded from there where sealed memory is missing: "
                                  "set TMPDIR to a folder that can be written"));
  return findings;
}

Finding check_mpi() {
  Finding finding{.subject = "MPI"};
  finding.details = {{"available", ranks::has_mpi()}, {"version", ranks::mpi_version()}};
  finding.text = ranks::has_mpi() ? ranks::mpi_version() : "this program was built without MPI";
  if (!ranks::has_mpi()) {
    finding.state = State::kAbsent;
    finding.advice =
        "needed only for several processes (mpirun): install an MPI library and build again";
  }
  return finding;
}

std::vector<Finding> check_system() {
  Finding finding{.subject = "sealed memory"};
  const bool is_there = has_sealed_memory();
  finding.details = {{"available", is_there}};
  finding.text =
      is_there ? "memfd_create with seals: plugins run from copies that nobody can change"
               : "no memfd_create with seals: plugins run from copies in the temporary folder";
  if (!is_there) {
    finding.state = State::kAbsent;
    finding.advice = "use Linux 3.17 or later, and allow memfd_create in the container";
  }
  return {check_allocator(), finding, check_mpi()};
}

std::vector<Finding> check_terminal(const Streams& streams) {
  Finding finding{.subject = "terminal"};
  const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
  const std::string encoding = locale == nullptr ? "unknown" : ::nl_langinfo_l(CODESET, locale);
  if (locale != nullptr) ::freelocale(locale);
  finding.text = str(encoding, streams.is_err_terminal
                                   ? str(", ", streams.err_width, " columns",
                                         streams.is_err_coloured ? ", colours" : ", no colours")
                                   : ", no terminal: progress is printed as lines");
  finding.details = {{"encoding", encoding}, {"terminal", streams.is_err_terminal}};
  if (encoding != "UTF-8") {
    finding.state = State::kAbsent;
    finding.advice = "texts may look wrong here; files are not affected: export LC_ALL=C.UTF-8";
  }
  return {finding};
}

}  // namespace mneme::cli
