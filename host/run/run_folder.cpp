#include "host/run/run_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/run/cost/ram_check.hpp"
#include "host/run/record/metrics.hpp"
#include "host/run/run_description.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

// The number of steps that a word is; -1 for other words.
std::int64_t step_word(const std::string& word) {
  return integer_of<std::int64_t>(word).value_or(-1);
}

// The newest readable checkpoint before `step`; -1 = none.
std::int64_t newest_whole(const CheckpointFiles& files, std::int64_t step) {
  std::vector<std::int64_t> steps = files.steps();
  std::ranges::reverse(steps);
  for (const std::int64_t other : steps) {
    if (other >= step) continue;
    try {
      static_cast<void>(Checkpoint::open(files.path_of(other)));
      return other;
    } catch (const Error&) {
      continue;  // the caller reports the first damaged one
    }
  }
  return -1;
}

// The run that a file belongs to as one of its checkpoints; "" = none.
fs::path run_of_checkpoint(const fs::path& file) {
  const fs::path run_folder = fs::absolute(file).lexically_normal().parent_path().parent_path();
  std::error_code ignored;
  return fs::exists(run_folder / "run.json", ignored) ? run_folder : fs::path();
}

// What is at a path that should be a run's folder and lacks `missing`.
std::string found_in_place_of(const fs::path& path, const fs::path& missing) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return "no such folder" + did_you_mean_path(path);
  if (fs::is_directory(path, ignored)) {
    if (fs::exists(path / "comparison.json", ignored)) return "the folder of a comparison";
    if (fs::exists(path / "suite.json", ignored)) return "the folder of a suite";
    if (fs::exists(path / "config.json", ignored)) return "a model folder of another program";
    return "no " + missing.filename().string();
  }
  if (path.extension() == ".toml") return "an experiment or memory file";
  return run_of_checkpoint(path).empty() ? "a file" : "one of a run's checkpoints";
}

// The runs inside a comparison's folder, as far as a message has room.
std::string runs_inside(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    if (fs::exists(entry.path() / "run.json", ignored)) names.push_back(entry.path().string());
  }
  std::ranges::sort(names);
  return first_names(names, 4);
}

std::string hint_in_place_of(const fs::path& path) {
  std::error_code ignored;
  const std::string word = shell_word(path.string());
  if (fs::exists(path / "comparison.json", ignored)) {
    const std::string runs = runs_inside(path);
    return runs.empty() ? "it has no run yet" : "name one of its runs: " + runs;
  }
  if (fs::exists(path / "config.json", ignored)) {
    return str("make a run of it: mneme import --from ", word, " --run DIR");
  }
  if (path.extension() == ".toml" && fs::is_regular_file(path, ignored)) {
    return str("mneme train ", word, " --run DIR makes a run of an experiment: name its DIR here");
  }
  if (const fs::path run_folder = run_of_checkpoint(path); !run_folder.empty()) {
    return str("name the run, ", run_folder.string(),
               "; --checkpoint chooses one of its checkpoints");
  }
  return "name a folder that `mneme train --run` wrote";
}

[[noreturn]] void fail_info(const fs::path& file, const std::string& got) {
  throw_run({.where = file.string(),
             .failed = "it does not describe a run",
             .got = got,
             .hint = "the run's folder was damaged"});
}

// True when `continued` is absent or as add_continuation makes it.
bool is_continued_well(const Json& info) {
  if (!info.contains("continued")) return true;
  const Json& entries = info.at("continued");
  return entries.is_array() && !entries.empty() &&
         std::ranges::all_of(entries, [](const Json& entry) { return entry.is_object(); });
}

}  // namespace

RunFolder RunFolder::at(const fs::path& path) {
  // Absolute, so that a later change of the working folder does not matter.
  return RunFolder(fs::absolute(path).lexically_normal());
}

RunFolder RunFolder::open(const fs::path& path) {
  RunFolder folder = at(path);
  for (const fs::path& file : {folder.experiment_file(), folder.info_file()}) {
    if (fs::is_regular_file(file)) continue;
    throw_usage({.where = path.string(),
                 .failed = "this is no run of mneme",
                 .expected = "a folder with experiment.toml and run.json",
                 .got = found_in_place_of(path, file),
                 .hint = hint_in_place_of(path)});
  }
  return folder;
}

config::Experiment RunFolder::experiment() const {
  return config::parse_experiment(experiment_file());
}

std::optional<data::Vocabulary> RunFolder::vocabulary() const {
  if (!fs::exists(vocabulary_file())) return std::nullopt;
  data::Vocabulary vocabulary = data::Vocabulary::load(vocabulary_file());
  check_vocabulary(vocabulary_file().string(), raw_info(), vocabulary.sha256());
  return vocabulary;
}

Json RunFolder::raw_info() const {
  try {
    return parse_json_or_throw(read_file(info_file()));
  } catch (const Json::exception& error) {
    fail_info(info_file(), error.what());
  }
}

Json RunFolder::info() const {
  Json info = raw_info();
  try {
    static_cast<void>(info.at("data"));
    static_cast<void>(read_plugins(info));
    if (is_continued_well(info)) return info;
  } catch (const Json::exception& error) {
    fail_info(info_file(), error.what());
  }
  fail_info(info_file(), "\"continued\" that is no list of objects");
}

fs::path RunFolder::checkpoint(const std::string& which) const {
  const CheckpointFiles files = checkpoints();
  const std::vector<std::int64_t> steps = files.steps();
  if (steps.empty()) {
    throw_usage({.where = path_.string(),
                 .failed = "the run has no checkpoint",
                 .expected = str(files.folder().filename().string(), "/step_*.safetensors"),
                 .hint = "let `mneme train` finish, or set train.save_every"});
  }
  if (which == "last") return files.path_of(steps.back());
  const bool is_best = which == "best";
  const std::int64_t step =
      is_best ? Checkpoint::open(files.path_of(steps.back()), CheckpointUse::kProgress)
                    .progress()
                    .valid.best_step
              : step_word(which);
  if (std::ranges::find(steps, step) != steps.end()) return files.path_of(step);
  throw_usage({.where = path_.string(),
               .failed = is_best && step == 0
                             ? std::string("the run has not evaluated its valid split")
                             : str("the run has no checkpoint ", which),
               .expected = "\"last\", \"best\" or a number of steps",
               .got = str("checkpoints of steps ", files.list())});
}

Checkpoint RunFolder::open_checkpoint(const std::string& which, const std::string& command,
                                      CheckpointUse use) const {
  // The newest one is read to find the best.
  fs::path path = checkpoint(which == "best" ? "last" : which);
  try {
    if (which == "best") path = checkpoint(which);
    return Checkpoint::open(path, use);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUsage) throw;  // there is no best one
    const CheckpointFiles files = checkpoints();
    std::int64_t damaged = -1;
    for (const std::int64_t step : files.steps()) {
      if (files.path_of(step) == path) damaged = step;
    }
    const std::int64_t whole = newest_whole(files, damaged);
    const std::string offer =
        whole < 0 ? std::string("there is no whole checkpoint before it: start a new run")
                  : str("the checkpoint of step ", whole, " is whole: ", command, " --checkpoint ",
                        whole);
    throw Error(error.kind(), error.what(), offer);
  }
}

std::unique_ptr<Runtime> open_run(const fs::path& path, const RuntimeOptions& options,
                                  const std::optional<config::MemoryConfig>& memory,
                                  const std::string& which) {
  const RunFolder folder = RunFolder::open(path);
  config::Experiment experiment = folder.experiment();
  if (memory) experiment = config::with_memory(experiment, *memory);
  const Checkpoint checkpoint = folder.open_checkpoint(
      which, str("mneme eval ", shell_word(path.string())), CheckpointUse::kEvaluation);
  RuntimeOptions with_data = options;
  with_data.weights_follow = true;
  if (!with_data.precision) with_data.precision = experiment.eval.precision;
  if (!with_data.dataset) {
    data::DatasetOptions data;
    data.vocabulary = folder.vocabulary();
    with_data.dataset = std::make_shared<const data::Dataset>(experiment.data, data);
  }
  if (!with_data.loader)
    with_data.loader = std::make_shared<plugin::PluginLoader>(memory::make_loader());
  check_evaluation_fits(experiment, with_data);
  const std::string name = folder.path().string();
  log_differences(name, data_differences(folder.raw_info(), with_data.dataset->describe()));
  auto runtime = std::make_unique<Runtime>(experiment, with_data);
  log_differences(name, plugin_differences(checkpoint.plugins(), runtime->stack().identities()));
  static_cast<void>(checkpoint.load_weights(*runtime, experiment.memory.carry));
  return runtime;
}

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, int code) {
  throw_run(
      {.where = path.string(),
       .failed = str("the run's folder cannot be locked: ", std::generic_category().message(code)),
       .hint = "name a folder that this user may write, on a file system with locks"});
}

// What the holder wrote; it may be about to.
std::string holder(int descriptor) {
  std::array<char, 256> text{};
  const ssize_t count = ::pread(descriptor, text.data(), text.size(), 0);
  const std::string line(text.data(), static_cast<std::size_t>(count > 0 ? count : 0));
  const std::size_t space = line.find(' ');
  if (space == std::string::npos) return "another process";
  const std::size_t end = line.find('\n');
  return str("process ", line.substr(0, space), " on ", line.substr(space + 1, end - space - 1));
}

}  // namespace

RunLock::RunLock(const fs::path& folder) {
  const fs::path path = folder / "lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path, errno);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int code = errno;
    const std::string who = holder(descriptor_);
    ::close(descriptor_);
    if (code != EWOULDBLOCK) fail(path, code);
    throw_usage({.where = folder.string(),
                 .failed = "the run's folder is in use",
                 .expected = "a folder that no other process writes",
                 .got = who,
                 .hint = "wait for it, stop it, or name another folder"});
  }
  const std::string text = str(::getpid(), ' ', host_name(), '\n');
  // Who holds the lock is told for messages only: a full disk is no reason to refuse it.
  static_cast<void>(::ftruncate(descriptor_, 0));
  static_cast<void>(!::pwrite(descriptor_, text.data(), text.size(), 0));
}

RunLock::~RunLock() {
  static_cast<void>(::ftruncate(descriptor_, 0));
  ::close(descriptor_);
}

Error failure_of(const std::exception& error, const std::string& where,
                 const std::string& memory_hint) {
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) return *ours;
  const std::string text = error.what();
  ErrorText message{.where = where, .failed = text.substr(0, text.find('\n'))};
  if (is_out_of_memory(error)) {
    message.got = std::exchange(message.failed, "out of memory");
    message.hint = memory_hint;
  }
  return {ErrorKind::kRun, message};
}

}  // namespace mneme::run
