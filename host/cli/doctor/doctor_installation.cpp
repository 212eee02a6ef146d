// The part of `mneme doctor` about the installation that the program belongs to.
#include <charconv>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/cli/doctor/doctor.hpp"
#include "host/plugin/plugin_search.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;
using State = Finding::State;

constexpr std::string_view kListName = "installed.txt";  // cmake/InstallList.cmake writes it
constexpr const char* kInstallAgain = "install again: cmake --install BUILD --prefix ";

// What a list says: its first line, and the files that are not there as it has them.
struct InstalledList {
  std::string head;
  std::size_t files = 0;
  std::vector<std::string> missing;  // paths; of another size too
};

// Absent when there is no list: the installation has not come to its end.
std::optional<InstalledList> read_list(const fs::path& folder) {
  std::error_code error;
  const fs::path file = folder / kListName;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  std::istringstream lines(read_file(file, kMaxConfigBytes));
  InstalledList list;
  std::getline(lines, list.head);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    std::uintmax_t size = 0;
    std::from_chars(line.data(), line.data() + blank, size);
    const fs::path path = (folder / line.substr(blank + 1)).lexically_normal();
    ++list.files;
    const std::uintmax_t found = fs::file_size(path, error);
    if (error || found != size) list.missing.push_back(path.string());
  }
  return list;
}

// Compares one component with its list in `folder`.
Finding check_component(const std::string& subject, const fs::path& prefix,
                        const fs::path& folder) {
  Finding finding{.subject = subject, .text = prefix.string()};
  finding.details = {{"prefix", prefix.string()}, {"missing", Json::array()}};
  try {
    const std::optional<InstalledList> list = read_list(folder);
    if (!list) {
      finding.state = State::kBroken;
      finding.text += str(": not complete: there is no ", (folder / kListName).string(),
                          ", which cmake --install writes at its end");
    } else if (!list->missing.empty()) {
      finding.state = State::kBroken;
      finding.text += str(": not complete: ", list->missing.size(), " of ", list->files,
                          list->missing.size() == 1 ? " files is" : " files are",
                          " missing or changed: ", first_names(list->missing, 3));
      finding.details["missing"] = list->missing;
    } else {
      finding.text += str(": complete, ", list->files, " files");
    }
  } catch (const Error& error) {
    finding.state = State::kBroken;
    finding.text = error.what();
  }
  if (finding.state == State::kBroken) finding.advice = kInstallAgain + shell_word(prefix.string());
  return finding;
}

}  // namespace

std::vector<Finding> check_installation(const fs::path& executable) {
  const fs::path folder = plugin::installation_of(executable);
  if (folder.empty()) {
    return {{.subject = "installation",
             .text = str("none: this program is that of the build folder ",
                         executable.parent_path().parent_path().string())}};
  }
  const fs::path prefix = executable.parent_path().parent_path();
  std::vector<Finding> findings = {check_component("installation", prefix, folder)};
  const fs::path sdk = prefix / "share/mneme-sdk";
  std::error_code ignored;
  if (fs::exists(sdk, ignored)) {
    findings.push_back(check_component("SDK", prefix, sdk));
  } else {
    findings.push_back({.subject = "SDK",
                        .state = State::kAbsent,
                        .text = "not in " + prefix.string(),
                        .advice = "needed only to build plugins: cmake --install BUILD --prefix " +
                                  shell_word(prefix.string()) + " --component sdk"});
  }
  return findings;
}

std::string advice_on_cuda(const fs::path& executable) {
  const fs::path folder = plugin::installation_of(executable);
  if (folder.empty()) return "";
  try {
    const std::optional<InstalledList> list = read_list(folder);
    if (!list || list->head.find("LibTorch: copy of a build with CUDA") == std::string::npos) {
      return "";
    }
  } catch (const Error&) {
    return "";
  }
  return "LibTorch's libraries for CUDA were left out of this installation: configure the build "
         "with -DMNEME_INSTALL_TORCH=copy-cuda, or =link, and install again";
}

}  // namespace mneme::cli
