#include "host/report/bundle.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <set>
#include <span>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/utf8.hpp"
#include "host/report/archive/tar.hpp"
#include "host/report/bundle_files.hpp"
#include "host/report/comparison/load.hpp"
#include "host/report/report.hpp"
#include "host/report/setup/baseline.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"
#include "mneme/abi.h"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanFile = "comparison.json";
constexpr const char* kWorkName = "mneme-bundle-";

// Files of runs, in a folder with the names that they have in the bundle: as links.
class Stage {
 public:
  explicit Stage(fs::path root) : root_(std::move(root)) {}

  // Names are as JSON keeps them.
  void add(const fs::path& source, const fs::path& name) const {
    std::error_code code;
    if (!fs::is_regular_file(source, code)) return;
    const fs::path link = root_ / as_utf8(name.native());
    fs::create_directories(link.parent_path());
    fs::create_symlink(fs::canonical(source), link, code);
    if (code && code != std::errc::file_exists) fail_file(link, "make", code.value());
  }

  // What a report reads of a run: neither weights nor logs.
  void add_run(const fs::path& run, const fs::path& name) const {
    static const std::set<std::string> kEndings = {".json", ".jsonl", ".toml"};
    add_folder(run, name, [](const fs::path& file) {
      return kEndings.contains(file.extension().string()) &&
             !file.filename().string().starts_with('.');
    });
    const fs::path evaluations = scores::evaluations_folder(run);
    const auto any = [](const fs::path&) { return true; };
    add(evaluations / scores::kCountsFile, name / evaluations.filename() / scores::kCountsFile);
    for (const fs::path& one : scores::list_evaluations(run)) {
      add_folder(one, name / evaluations.filename() / one.filename(), any);
      for (const fs::path& beside : {scores::generated_file(run, one.filename().string()),
                                     scores::diagnostics_file(run, one.filename().string())}) {
        add(beside, name / beside.parent_path().filename() / beside.filename());
      }
    }
  }

 private:
  template <typename Choose>
  void add_folder(const fs::path& folder, const fs::path& name, const Choose& is_chosen) const {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      if (is_chosen(entry.path())) add(entry.path(), name / entry.path().filename());
    }
  }

  fs::path root_;
};

fs::path folder_of(const Run& run) {
  return fs::absolute(run.path / "").lexically_normal().parent_path();
}

// The trials of tuned arms, from which a report makes the choice anew.
void stage_trials(const Stage& stage, const fs::path& folder) {
  const fs::path name = fs::path("runs") / scores::kTuningFolder;
  stage.add(folder / kPlanFile, name / kPlanFile);
  const Comparison trials = load({folder});
  for (const auto& [arm, run] : runs_of(trials)) {
    if (!run.folder.empty()) stage.add_run(folder_of(run), name / folder_of(run).filename());
  }
}

// Stages what is loaded from `folders`; the folders to load in their place, relative to the root.
std::vector<std::string> stage_runs(const Stage& stage, const std::vector<fs::path>& folders) {
  const Comparison comparison = load(folders);
  const bool is_comparison = folders.size() == 1 && fs::exists(folders.front() / kPlanFile);
  std::vector<std::string> out;
  if (is_comparison) stage.add(folders.front() / kPlanFile, fs::path("runs") / kPlanFile);
  for (const Arm& arm : comparison.arms) {
    for (const Run& run : arm.runs) {
      if (run.folder.empty()) continue;  // a trial that could not be made
      const fs::path path = folder_of(run);
      const fs::path group =
          is_comparison ? fs::path("runs") : fs::path("runs") / str(out.size() + 1);
      stage.add_run(path, group / path.filename());
      if (is_comparison) continue;
      stage.add(path.parent_path() / kPlanFile, group / kPlanFile);
      out.push_back(as_utf8((group / path.filename()).native()));
    }
  }
  if (comparison.tuning) stage_trials(stage, folders.front() / scores::kTuningFolder);
  if (is_comparison) out.emplace_back("runs");
  return out;
}

// Below 0 when it cannot be opened, or another process has it.
Descriptor open_locked(const fs::path& folder) {
  Descriptor out(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (out.get() >= 0 && ::flock(out.get(), LOCK_EX | LOCK_NB) != 0) return Descriptor();
  return out;
}

// A process that a signal ends runs no destructor. One that makes its folder now has no lock yet.
void remove_left(const fs::path& parent) {
  const auto old = fs::file_time_type::clock::now() - std::chrono::minutes(1);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored)) {
    if (!entry.path().filename().string().starts_with(kWorkName)) continue;
    struct stat status {};
    const Descriptor lock = open_locked(entry.path());
    if (lock.get() >= 0 && ::fstat(lock.get(), &status) == 0 && status.st_uid == ::geteuid() &&
        entry.last_write_time(ignored) < old) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace

WorkFolder::WorkFolder() {
  std::error_code code;
  const fs::path parent = fs::temp_directory_path(code);
  if (code) {
    throw_run({.where = "TMPDIR",
               .failed = "there is no folder for temporary files",
               .got = code.message(),
               .hint = "set TMPDIR to a folder that can be written"});
  }
  remove_left(parent);
  std::string name = (parent / str(kWorkName, "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) fail_file(name, "make the folder", errno);
  path_ = name;
  lock_ = open_locked(path_);
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_bundle_report(const fs::path& root, const std::vector<std::string>& folders,
                         const Choice& choice) {
  std::vector<fs::path> paths;
  for (const std::string& folder : folders) paths.push_back(root / folder);
  Comparison comparison = load(paths);
  if (!choice.baseline.empty()) set_baseline(comparison, choice.baseline);
  fs::remove(
      make_report(std::move(comparison), choice.has_pairs, choice.margin).write(root / "report"));
}

std::vector<std::string> files_below(const fs::path& root, const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored)) {
    if (entry.is_regular_file()) out.push_back(entry.path().lexically_relative(root).string());
  }
  std::ranges::sort(out);
  return out;
}

void write_bundle(const fs::path& file, const std::vector<fs::path>& folders,
                  const Choice& choice) {
  const WorkFolder work;
  const std::vector<std::string> staged = stage_runs(Stage(work.path()), folders);
  write_bundle_report(work.path(), staged, choice);
  Json checksums = Json::object();
  std::deque<MappedFile> maps;
  std::vector<TarEntry> entries = {{std::string(kBundleFile), {}}};
  for (const std::string& name : files_below(work.path(), work.path())) {
    entries.push_back({name, maps.emplace_back(work.path() / name).bytes()});
    checksums[name] = sha256_hex(entries.back().bytes);
  }
  Json head = {{"format", kBundleFormat},     {"version", kBundleVersion},
               {"mneme", MNEME_SDK_VERSION},  {"folders", staged},
               {"baseline", choice.baseline}, {"pairs", choice.has_pairs},
               {"sha256", checksums}};
  if (choice.margin > 0.0) head["margin"] = choice.margin;
  const std::string text = json_text(head, 1) + '\n';
  entries.front().bytes = std::as_bytes(std::span(text));
  write_tar(file, entries);
}

}  // namespace mneme::report
