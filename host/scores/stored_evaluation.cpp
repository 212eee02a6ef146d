#include "host/scores/stored_evaluation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <sstream>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/scores/evaluation_files.hpp"

namespace mneme::scores {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAgain = "evaluate the run again: mneme eval RUN";

[[noreturn]] void fail_damaged(const fs::path& path, const std::string& failed,
                               const std::string& expected, const std::string& got) {
  throw_run({.where = path.string(),
             .failed = str("the stored evaluation is damaged: ", failed),
             .expected = expected,
             .got = got,
             .hint = kAgain});
}

template <typename T>
std::vector<T> values_of(const TensorView& tensor) {
  std::vector<T> values(static_cast<std::size_t>(tensor.elements()));
  if (!values.empty()) std::memcpy(values.data(), tensor.data, tensor.bytes);
  return values;
}

void check_text(const fs::path& path, const Json& info, const char* key,
                const std::string& expected) {
  const std::string got = info.contains(key) ? info.at(key).dump() : "nothing";
  if (got == expected) return;
  throw_run({.where = str(path.string(), ": ", key),
             .failed = "this program cannot read the stored evaluation",
             .expected = expected,
             .got = got,
             .hint = "use the version of mneme that wrote it, or evaluate the run again"});
}

// Keys that every reader relies on, and their types.
void check_keys(const fs::path& path, const Json& info) {
  const auto check = [&](const char* key, bool is_right, const char* expected) {
    if (is_right) return;
    fail_damaged(path, str("key \"", key, "\""), expected,
                 info.contains(key) ? info.at(key).dump() : "nothing");
  };
  const auto type = [&](const char* key) {
    return info.contains(key) ? info.at(key).type() : Json::value_t::discarded;
  };
  for (const char* key : {"split", "unit"}) {
    check(key, type(key) == Json::value_t::string, "a text");
  }
  for (const char* key : {"step", "seed"}) {
    check(key, info.contains(key) && info.at(key).is_number_integer(), "an integer");
  }
  for (const char* key : {"result", "checksums"}) {
    check(key, type(key) == Json::value_t::object, "an object");
  }
  check("sample_columns", type("sample_columns") == Json::value_t::array, "a list");
}

Json read_info(const fs::path& folder) {
  const fs::path path = folder / kInfoFile;
  std::error_code code;
  if (!fs::exists(path, code) && !code) {
    throw_usage({.where = folder.string(),
                 .failed = "there is no finished evaluation",
                 .expected = str("a folder with ", kInfoFile),
                 .got = fs::is_directory(folder, code) ? "a folder without it" : "no folder",
                 .hint = "name a folder in RUN/evaluations"});
  }
  Json info = parse_json(read_file(path));
  if (!info.is_object()) fail_damaged(path, "no JSON object", "", "");
  check_text(path, info, "format", str('"', kFormat, '"'));
  check_text(path, info, "version", str(kVersion));
  const std::string checksum = info.value("checksum", Json()).dump();
  const std::string expected = str('"', checksum_of_info(info), '"');
  if (checksum != expected) fail_damaged(path, "its checksum", expected, checksum);
  check_keys(path, info);
  return info;
}

SampleUnit read_unit(const fs::path& path, const Json& info) {
  constexpr std::array kAll = {SampleUnit::kDocument, SampleUnit::kSequence, SampleUnit::kEpisode,
                               SampleUnit::kLane, SampleUnit::kQuestion};
  for (const SampleUnit unit : kAll) {
    const bool is_equal = info.at("unit") == Json(unit_word(unit)) &&
                          info.at("sample_columns") == Json(sample_columns(unit));
    if (is_equal) return unit;
  }
  fail_damaged(path, "its unit", "document, sequence, question or lane, with its columns",
               str(info.at("unit").dump(), " of ", info.at("sample_columns").dump()));
}

Sums read_sums(const Json& json) {
  return {.targets = json_integer(json.at("targets")),
          .nll = json.at("nll").get<double>(),
          .correct = json_integer(json.at("correct")),
          .questions = json.contains("questions") ? json_integer(json.at("questions")) : 0};
}

Sample read_sample(const Json& line) {
  Sample sample{.id = line.at("id").get<std::string>(),
                .document = json_integer(line.at("document")),
                .sha256 = line.at("sha256").get<std::string>(),
                .sums = read_sums(line),
                .seed = json_unsigned(line.at("seed")),
                .slices = {}};
  for (const auto& [name, sums] : line.at("slices").items()) {
    sample.slices[name] = read_sums(sums);
  }
  if (line.contains("groups")) line.at("groups").get_to(sample.groups);
  if (line.contains("unit")) line.at("unit").get_to(sample.unit);
  return sample;
}

std::string names_text(const std::map<std::string, std::string>& groups) {
  std::vector<std::string> names;
  for (const auto& one : groups) names.push_back(one.first);
  return names.empty() ? "none" : join(names, ", ");
}

// Tables by group would miss samples that lack one.
void check_groups(const fs::path& path, const std::vector<Sample>& samples) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::string expected = names_text(samples.front().groups);
    const std::string got = names_text(samples[i].groups);
    if (got != expected) {
      fail_damaged(path, str("line ", i + 1, ": other groups than in line 1"), expected, got);
    }
    for (const auto& [name, group] : samples[i].groups) {
      if (group.empty()) fail_damaged(path, str("line ", i + 1), str("a group of ", name), "\"\"");
    }
  }
}

std::vector<Sample> read_samples(const fs::path& path) {
  std::vector<Sample> samples;
  std::istringstream in(read_file(path));
  for (std::string line; std::getline(in, line);) {
    try {
      samples.push_back(read_sample(parse_json_or_throw(line)));
    } catch (const Json::exception& error) {
      fail_damaged(path, str("line ", samples.size() + 1), "a sample", error.what());
    }
  }
  check_groups(path, samples);
  return samples;
}

void check_file(const fs::path& folder, std::string_view name, const Json& info) {
  const std::string got = crc32c_text(folder / name);
  const Json expected = info.at("checksums").value(std::string(name), Json());
  if (expected == Json(got)) return;
  fail_damaged(folder / name, "its checksum", expected.dump(), str('"', got, '"'));
}

std::string text_of(const Sums& sums) {
  return str(sums.targets, " targets, ", sums.correct, " correct, nll ", Json(sums.nll).dump());
}

}  // namespace

StoredEvaluation StoredEvaluation::open(const fs::path& folder) {
  Json info = read_info(folder);
  for (const std::string_view name : {kColumnsFile, kSamplesFile}) check_file(folder, name, info);
  StoredEvaluation out(folder, std::move(info), SafetensorsFile::open(folder / kColumnsFile));
  out.unit_ = read_unit(folder / kInfoFile, out.info_);
  out.samples_ = read_samples(folder / kSamplesFile);
  out.check_columns();
  out.check_sums(out.columns());
  return out;
}

void StoredEvaluation::check_columns() {
  const TensorView& nll = file_.at("nll");
  const bool is_list = nll.shape.size() == 1 && nll.shape[0] >= 1;
  if (!is_list || (nll.dtype != DType::F32 && nll.dtype != DType::F64)) {
    fail_damaged(file_.path(), "tensor \"nll\"", "F32 or F64 of shape [n], n at least 1",
                 str(dtype_name(nll.dtype), ' ', list_text(nll.shape)));
  }
  for (const IntegerColumn& column : kIntegerColumns) {
    static_cast<void>(file_.at(column.name, DType::I32, nll.shape));
  }
  static_cast<void>(file_.at("correct", DType::U8, nll.shape));
  if (file_.contains("source")) static_cast<void>(file_.at("source", DType::U8, nll.shape));
  if (file_.contains("predicted")) static_cast<void>(file_.at("predicted", DType::I32, nll.shape));
}

Columns StoredEvaluation::columns() const {
  Columns out;
  const TensorView& nll = file_.at("nll");
  if (nll.dtype == DType::F64) {
    out.wide_nll = values_of<double>(nll);
  } else {
    out.narrow_nll = values_of<float>(nll);
  }
  for (const auto& [name, values] : kIntegerColumns) {
    out.*values = values_of<std::int32_t>(file_.at(name));
  }
  out.correct = values_of<std::uint8_t>(file_.at("correct"));
  if (const TensorView* const source = file_.find("source")) {
    out.source = values_of<std::uint8_t>(*source);
  }
  if (const TensorView* const predicted = file_.find("predicted")) {
    out.predicted = values_of<std::int32_t>(*predicted);
  }
  return out;
}

void StoredEvaluation::check_sums(const Columns& columns) const {
  for (std::size_t i = 0; i < columns.target.size(); ++i) {
    if (std::isfinite(columns.nll(i))) continue;
    fail_damaged(file_.path(), str("nll[", i, ']'), "a finite number", str(columns.nll(i)));
  }
  const Json& result = info_.at("result");
  const auto number = [&](const char* key) { return result.value(key, Json()); };
  const Sums total = columns.total();
  const bool is_total = number("tokens") == Json(total.targets) &&
                        number("nll") == Json(total.nll) &&
                        number("correct") == Json(total.correct);
  if (!is_total) {
    fail_damaged(file_.path(), "the columns do not add up to the result in evaluation.json",
                 str(number("tokens").dump(), " targets, ", number("correct").dump(),
                     " correct, nll ", number("nll").dump()),
                 text_of(total));
  }
  std::vector<Sample> made = make_samples(columns, unit_, split(), seed());
  // The columns do not hold the groups and units.
  for (std::size_t i = 0; i < std::min(made.size(), samples_.size()); ++i) {
    made[i].groups = samples_[i].groups;
    made[i].unit = samples_[i].unit;
  }
  if (made == samples_) return;
  const auto [ours, theirs] = std::ranges::mismatch(made, samples_);
  const auto describe = [](auto sample, auto end) {
    return sample == end ? std::string("no sample")
                         : str(sample->id, ", ", sample->sha256, ", ", text_of(sample->sums));
  };
  fail_damaged(folder_ / kSamplesFile, "a sample differs from the columns",
               describe(ours, made.end()), describe(theirs, samples_.end()));
}

std::vector<std::int64_t> StoredEvaluation::vocabulary_counts() const {
  const Json name = info_.value("vocabulary_counts", Json());
  if (!name.is_string()) return {};
  const SafetensorsFile file =
      SafetensorsFile::open(folder_.parent_path() / fs::path(name.get<std::string>()).filename());
  const std::int64_t size = file.at("count").elements();
  return values_of<std::int64_t>(file.at("count", DType::I64, {size}));
}

}  // namespace mneme::scores
