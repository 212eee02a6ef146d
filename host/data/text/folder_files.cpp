#include "host/data/text/folder_files.hpp"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"

namespace mneme::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamed = 5;  // names that a warning lists

}  // namespace

bool is_leftover_name(const std::string& name) {
  const auto ends = [&](std::string_view suffix) {
    return name.size() > suffix.size() && name.ends_with(suffix);
  };
  if (name.starts_with('.') || ends("~")) return true;
  if (name.size() > 2 && name.starts_with('#') && name.ends_with('#')) return true;
  for (const std::string_view suffix : {".bak", ".orig", ".rej", ".save", ".swp", ".swo"}) {
    if (ends(suffix)) return true;
  }
  return name == "Thumbs.db" || name == "desktop.ini";
}

FolderFiles list_files(const fs::path& folder) {
  FolderFiles out;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      if (!is_leftover_name(name)) out.folders.push_back(name);
    } else if (is_leftover_name(name)) {
      out.leftovers.push_back(name);
    } else if (entry->is_regular_file(ignored) || !entry->exists(ignored)) {
      out.files.push_back(entry->path());
    } else {
      out.others.push_back(name);
    }
  }
  if (error) throw_run(folder.string(), ": cannot be read: ", error.message());
  std::ranges::sort(out.files);
  std::ranges::sort(out.leftovers);
  std::ranges::sort(out.folders);
  std::ranges::sort(out.others);
  return out;
}

void warn_of_left_out(const std::string& where, const FolderFiles& listed) {
  if (!listed.leftovers.empty()) {
    log_warning(where, ": hidden files and copies of editors are left out: ",
                first_names(listed.leftovers, kNamed), "; name a file itself to read it");
  }
  if (!listed.folders.empty()) {
    log_warning(where,
                ": folders inside it are not searched: ", first_names(listed.folders, kNamed),
                "; name each of them to read it");
  }
  if (!listed.others.empty()) {
    log_warning(where,
                ": pipes, sockets and devices are left out: ", first_names(listed.others, kNamed),
                "; copy their contents into files to read them");
  }
}

}  // namespace mneme::data
