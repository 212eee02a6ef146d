// Names, locking, writing and removal of stored evaluations.
#include "host/scores/evaluation_files.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_text.hpp"

namespace mneme::scores {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStepDigits = 8;
constexpr std::size_t kSettingsDigits = 8;
constexpr std::string_view kBeforeStep = "-step";

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

std::string to_text(const EvaluationName& name) {
  const std::string step = str(name.step);
  const std::string zeros(kStepDigits - std::min(kStepDigits, step.size()), '0');
  return str(name.split, kBeforeStep, zeros, step, '-', name.settings);
}

std::optional<EvaluationName> parse_evaluation_name(std::string_view name) {
  const std::size_t before = name.find(kBeforeStep);
  const std::size_t last = name.rfind('-');
  if (before == 0 || before == std::string_view::npos || last <= before) return std::nullopt;
  const std::string_view step =
      name.substr(before + kBeforeStep.size(), last - before - kBeforeStep.size());
  const std::string_view settings = name.substr(last + 1);
  // It is the name of a folder and of files.
  if (name.find('/') != std::string_view::npos) return std::nullopt;
  EvaluationName out{.split = std::string(name.substr(0, before)),
                     .settings = std::string(settings)};
  const auto number = integer_of<std::int64_t>(step);
  if (!number || settings.size() != kSettingsDigits || !is_hex(settings)) return std::nullopt;
  out.step = *number;
  return to_text(out) == name ? std::optional(out) : std::nullopt;
}

fs::path evaluations_folder(const fs::path& run_folder) { return run_folder / "evaluations"; }

std::vector<fs::path> list_evaluations(const fs::path& run_folder) {
  std::vector<fs::path> found;
  const fs::path all = evaluations_folder(run_folder);
  std::error_code code;
  const fs::directory_iterator entries(all, code);
  if (code && code != std::errc::no_such_file_or_directory) fail_file(all, "read", code.value());
  for (const fs::directory_entry& entry : entries) {
    if (!parse_evaluation_name(entry.path().filename().string())) continue;
    // Whoever reads it names one that cannot be read.
    if (fs::exists(entry.path() / kInfoFile, code) || code) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

bool has_vocabulary_counts(const fs::path& run_folder) {
  std::error_code ignored;
  return fs::exists(evaluations_folder(run_folder) / kCountsFile, ignored);
}

std::string crc32c_text(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_file(path, "open", errno);
  std::vector<std::byte> part(std::size_t{1} << 20);
  std::uint32_t sum = 0;
  while (true) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_file(path, "read", errno);
    if (count == 0) return hex_text(sum);
    sum = crc32c(std::span(part).first(static_cast<std::size_t>(count)), sum);
  }
}

std::string checksum_of_info(Json info) {
  info.erase("checksum");
  return hex_text(crc32c(json_text(info)));
}

std::string_view unit_word(SampleUnit unit) {
  switch (unit) {
    case SampleUnit::kDocument:
      return "document";
    case SampleUnit::kSequence:
    case SampleUnit::kEpisode:
      return "sequence";
    case SampleUnit::kQuestion:
      return "question";
    case SampleUnit::kLane:
      break;
  }
  return "lane";
}

std::vector<std::string> sample_columns(SampleUnit unit) {
  if (unit == SampleUnit::kEpisode) return {"document", "lane"};
  return {unit == SampleUnit::kLane ? "lane" : "document"};
}

Json to_json(const Sums& sums) {
  Json json = {{"targets", sums.targets}, {"nll", sums.nll}, {"correct", sums.correct}};
  if (sums.questions > 0) json["questions"] = sums.questions;
  return json;
}

namespace {

Descriptor open_lock(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_run({.where = folder.string(),
               .failed = "the folder of stored evaluations cannot be made",
               .got = error.message()});
  }
  const fs::path path = folder / "lock";
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (file.get() < 0) fail_file(path, "open", errno);
  return file;
}

}  // namespace

WriterLock::WriterLock(const fs::path& folder, std::chrono::milliseconds patience)
    : file_(open_lock(folder)) {
  constexpr std::chrono::milliseconds kPause(20);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail_file(folder / "lock", "lock", errno);
    if (std::chrono::steady_clock::now() > end) {
      throw_run({.where = folder.string(),
                 .failed = "the evaluation cannot be stored",
                 .expected = "to be the only process that writes here",
                 .got = str("another one, for ", std::chrono::duration<double>(patience).count(),
                            " seconds")});
    }
    std::this_thread::sleep_for(kPause);
  }
  std::vector<fs::path> left;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(".tmp")) left.push_back(entry.path());
  }
  for (const fs::path& path : left) fs::remove_all(path, ignored);
}

namespace {

// A folder that is removed with its contents, unless it has been given its name.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(fs::path path) : path_(std::move(path)) {
    std::error_code error;
    fs::create_directory(path_, error);
    if (error) fail_file(path_, "make the folder", error.value());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

  // Puts the folder in the place of `target`, at once; an older folder there is removed.
  void rename_to(const fs::path& target) {
    if (::rename(path_.c_str(), target.c_str()) == 0) return;
    if (errno != ENOTEMPTY && errno != EEXIST) fail_file(target, "rename to it", errno);
    if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
      return;  // the destructor removes the older one
    }
    // A file system that cannot exchange: for a moment neither is there.
    const fs::path old = path_.parent_path() / str(".old", path_.filename().string());
    if (::rename(target.c_str(), old.c_str()) != 0) fail_file(target, "replace", errno);
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      const int code = errno;
      static_cast<void>(::rename(old.c_str(), target.c_str()));
      fail_file(target, "rename to it", code);
    }
    std::error_code ignored;
    fs::remove_all(old, ignored);
  }

 private:
  fs::path path_;
};

void write_columns(const fs::path& path, const Columns& columns) {
  SafetensorsWriter writer;
  const std::vector<std::int64_t> shape = {columns.size()};
  if (columns.is_wide()) {
    writer.add("nll", DType::F64, shape, columns.wide_nll.data());
  } else {
    writer.add("nll", DType::F32, shape, columns.narrow_nll.data());
  }
  for (const auto& [name, values] : kIntegerColumns) {
    writer.add(name, DType::I32, shape, (columns.*values).data());
  }
  writer.add("correct", DType::U8, shape, columns.correct.data());
  if (!columns.source.empty()) writer.add("source", DType::U8, shape, columns.source.data());
  if (!columns.predicted.empty())
    writer.add("predicted", DType::I32, shape, columns.predicted.data());
  writer.set_metadata("format", "mneme-nll");
  writer.set_metadata("unit", "nats");
  writer.write(path);
}

void write_samples(const fs::path& path, const std::vector<Sample>& samples) {
  std::string text;
  for (const Sample& sample : samples) {
    Json line = {{"id", sample.id}, {"document", sample.document}, {"sha256", sample.sha256}};
    line.update(to_json(sample.sums));
    line["seed"] = sample.seed;
    line["slices"] = Json::object();
    for (const auto& [name, sums] : sample.slices) line["slices"][name] = to_json(sums);
    if (!sample.groups.empty()) line["groups"] = sample.groups;
    if (!sample.unit.empty()) line["unit"] = sample.unit;
    text += json_text(line) + '\n';
  }
  write_file_atomic(path, text);
}

// True when the run has the counts, by now.
bool write_counts(const fs::path& path, const std::vector<std::int64_t>& counts) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return true;
  if (counts.empty()) return false;
  SafetensorsWriter writer;
  writer.add("count", DType::I64, {static_cast<std::int64_t>(counts.size())}, counts.data());
  writer.set_metadata("format", "mneme-vocabulary-counts");
  writer.write(path);
  return true;
}

// evaluation.json; the files that it has the checksums of are in `folder`.
Json whole_info(const EvaluationToStore& evaluation, const fs::path& folder, bool has_counts) {
  Json info = {{"format", kFormat},
               {"version", kVersion},
               {"split", evaluation.name.split},
               {"step", evaluation.name.step},
               {"unit", unit_word(evaluation.unit)},
               {"sample_columns", sample_columns(evaluation.unit)}};
  info.update(evaluation.info);
  info["vocabulary_counts"] = has_counts ? Json(kCountsFile) : Json(nullptr);
  for (const std::string_view file : {kColumnsFile, kSamplesFile}) {
    info["checksums"][std::string(file)] = crc32c_text(folder / file);
  }
  info["checksum"] = checksum_of_info(info);
  return info;
}

}  // namespace

fs::path write_evaluation(const fs::path& run_folder, const EvaluationToStore& evaluation,
                          Columns& columns) {
  columns.sort();
  const fs::path all = evaluations_folder(run_folder);
  const std::string name = to_text(evaluation.name);
  const WriterLock lock(all);
  const bool has_counts = write_counts(all / kCountsFile, evaluation.vocabulary_counts);
  TemporaryFolder folder(all / str('.', name, ".tmp"));
  write_columns(folder.path() / kColumnsFile, columns);
  std::vector<Sample> samples = make_samples(columns, evaluation.unit, evaluation.name.split,
                                             evaluation.info.at("seed").get<std::uint64_t>());
  for (Sample& sample : samples) {
    if (evaluation.groups) sample.groups = evaluation.groups(sample.document);
    if (evaluation.units) sample.unit = evaluation.units(sample.document);
  }
  write_samples(folder.path() / kSamplesFile, samples);
  write_file_atomic(folder.path() / kInfoFile,
                    json_text(whole_info(evaluation, folder.path(), has_counts), 2) + "\n");
  folder.rename_to(all / name);
  const Descriptor parent(::open(all.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() >= 0) static_cast<void>(::fsync(parent.get()));
  return all / name;
}

std::vector<fs::path> remove_evaluations(
    const fs::path& run_folder,
    const std::function<bool(const EvaluationName& name, const Json& info)>& is_unwanted) {
  std::vector<fs::path> removed;
  if (list_evaluations(run_folder).empty()) return removed;
  const WriterLock lock(evaluations_folder(run_folder));
  for (const fs::path& folder : list_evaluations(run_folder)) {
    Json info;
    try {
      info = parse_json(read_file(folder / kInfoFile));
    } catch (const Error&) {
      continue;
    }
    const auto name = parse_evaluation_name(folder.filename().string());
    if (!name || !info.is_object() || !is_unwanted(*name, info)) continue;
    // A folder without evaluation.json is unfinished: this goes first.
    std::error_code error;
    fs::remove(folder / kInfoFile, error);
    if (!error) fs::remove_all(folder, error);
    if (error) {
      throw_run({.where = folder.string(),
                 .failed = "cannot remove the stored evaluation",
                 .got = error.message()});
    }
    removed.push_back(folder);
  }
  return removed;
}

}  // namespace mneme::scores
