#include "host/run/record/metrics.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme::run {
namespace {

// The line as JSON; `number` counts from 1.
Json parse_line(std::string_view line, const std::filesystem::path& path, std::int64_t number) {
  constexpr std::size_t kShown = 60;
  Json json = parse_json(line);
  const bool is_metric = json.is_object() && json.contains("kind") && json.contains("step") &&
                         json["kind"].is_string() && json["step"].is_number_integer();
  if (is_metric) return json;
  throw_run({.where = str(path.string(), ':', number),
             .failed = "the line is damaged",
             .expected = "a JSON object with \"kind\" and \"step\"",
             .got = str('"', line.substr(0, kShown), line.size() > kShown ? "...\"" : "\""),
             .hint = "restore the file, or delete the line: its numbers are then lost"});
}

// Calls `use(line, json)` for each line of the file that has its end; returns the file's size.
template <typename Use>
std::size_t read_lines(const std::filesystem::path& path, Use use) {
  const std::string text = std::filesystem::exists(path) ? read_file(path) : std::string();
  std::int64_t number = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    use(line, parse_line(line, path, ++number));
  }
  return text.size();
}

}  // namespace

std::int64_t cut_metrics(const std::filesystem::path& path, std::int64_t step,
                         std::int64_t evaluated, std::int64_t curve) {
  std::string kept;
  std::int64_t lines = 0;
  const std::size_t size = read_lines(path, [&](std::string_view line, const Json& json) {
    const Json& kind = json.at("kind");
    const std::int64_t last = kind == "eval" ? evaluated : kind == "curve" ? curve : step;
    if (json.at("step").get<std::int64_t>() > last) return;
    kept.append(line).append("\n");
    ++lines;
  });
  if (kept.size() != size || size == 0) write_file_atomic(path, kept);
  return lines;
}

void check_metrics(const std::filesystem::path& path) {
  read_lines(path, [](std::string_view, const Json&) {});
}

namespace {

namespace fs = std::filesystem;

void add_all(std::vector<Scalar>& out, const std::string& folder,
             const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) out.push_back({folder + name, value});
}

void add_bytes(std::vector<Scalar>& out, const std::string& folder,
               const std::optional<std::int64_t>& peak) {
  if (peak) out.push_back({folder + "peak_device_bytes", static_cast<double>(*peak)});
}

}  // namespace

std::vector<Scalar> scalars_of(const StepReport& report, std::int64_t tokens, double seconds) {
  std::vector<Scalar> out = {
      {"train/loss", report.loss}, {"train/grad_norm", report.grad_norm}, {"train/lr", report.lr}};
  if (report.seconds > seconds) {
    const auto more = static_cast<double>(report.tokens - tokens);
    out.push_back({"train/tokens_per_second", more / (report.seconds - seconds)});
  }
  if (report.mfu) out.push_back({"train/mfu", *report.mfu});
  add_bytes(out, "train/", report.peak_device_bytes);
  add_all(out, "loss/", report.losses);
  add_all(out, "memory/", report.metrics);
  return out;
}

std::vector<Scalar> scalars_of(const EvalReport& report) {
  const std::string split = str(data::to_word(report.split), '/');
  const eval::Result& result = report.result;
  std::vector<Scalar> out = {{split + "loss", result.loss()},
                             {split + "perplexity", result.perplexity()},
                             {split + "accuracy", result.accuracy()}};
  if (const auto bits = result.bits_per_character()) {
    out.push_back({split + "bits_per_character", *bits});
  }
  out.push_back({split + "state_bytes", static_cast<double>(result.state_bytes)});
  out.push_back({split + "tokens_per_second", result.tokens_per_second()});
  add_bytes(out, split, result.peak_device_bytes);
  add_all(out, split + "loss/", result.losses);
  add_all(out, split + "memory/", result.metrics);
  return out;
}

std::vector<Scalar> scalars_of(const CurveReport& report) {
  return {{"valid/curve_loss", report.result.loss()}};
}

EventFile& TensorBoard::file() {
  if (file_) return *file_;
  // A run that was killed before its first checkpoint starts again at step 0, where event files
  // already exist.
  std::error_code ignored;
  const bool has_files = fs::exists(folder_, ignored) && !fs::is_empty(folder_, ignored);
  return file_.emplace(EventFile::create(folder_, step_ > 0 || has_files ? step_ + 1 : 0));
}

void TensorBoard::add(const StepReport& report) {
  file().add(report.step, scalars_of(report, tokens_, seconds_));
  tokens_ = report.tokens;
  seconds_ = report.seconds;
}

void TensorBoard::add(const EvalReport& report) { file().add(report.step, scalars_of(report)); }

void TensorBoard::add(const CurveReport& report) { file().add(report.step, scalars_of(report)); }

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventsPrefix = "events.out.tfevents.";
constexpr std::int64_t kSessionStart = 1;  // SessionLog.status

template <typename Integer>
std::string little_endian(Integer value) {
  static_assert(std::endian::native == std::endian::little);
  std::array<char, sizeof(Integer)> bytes = std::bit_cast<std::array<char, sizeof(Integer)>>(value);
  return {bytes.data(), bytes.size()};
}

std::uint32_t masked(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

// Protobuf's wire format: a key (field << 3 | wire type), then the value.
enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>((value & 127) | 128);
  return out + static_cast<char>(value);
}

std::string key(std::uint64_t field, WireType type) { return varint((field << 3) | type); }

std::string integer_field(std::uint64_t field, std::int64_t value) {
  return key(field, kVarint) + varint(static_cast<std::uint64_t>(value));
}

std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string event(std::int64_t step, const std::string& what) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return key(1, kFixed64) + little_endian(now.count()) + integer_field(2, step) + what;
}

std::int64_t seconds_now() {
  using std::chrono::floor, std::chrono::seconds, std::chrono::system_clock;
  return floor<seconds>(system_clock::now()).time_since_epoch().count();
}

// The seconds in the newest file's name; 0 without a file. TensorBoard reads a folder's files in
// the order of their names.
std::int64_t newest_seconds(const fs::path& folder) {
  std::int64_t newest = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kEventsPrefix)) continue;
    newest = std::max<std::int64_t>(
        newest, std::strtoll(name.c_str() + kEventsPrefix.size(), nullptr, /*base=*/10));
  }
  return newest;
}

}  // namespace

EventFile EventFile::create(const fs::path& folder, std::int64_t first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw_run({.where = folder.string(),
               .failed = "the folder of event files cannot be made",
               .got = error.message()});
  }
  const std::int64_t seconds = std::max(seconds_now(), newest_seconds(folder) + 1);
  EventFile file(
      AppendFile(folder / str(kEventsPrefix, seconds, '.', host_name(), '.', ::getpid())));
  file.append_record(event(0, bytes_field(3, "brain.Event:2")));
  if (first_step > 0) {
    file.append_record(event(first_step, bytes_field(7, integer_field(1, kSessionStart))));
  }
  return file;
}

void EventFile::add(std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    const std::string value = bytes_field(1, scalar.tag) + key(2, kFixed32) +
                              little_endian(static_cast<float>(scalar.value));
    summary += bytes_field(1, value);
  }
  append_record(event(step, bytes_field(5, summary)));
}

void EventFile::append_record(const std::string& event) {
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  file_.append(length + little_endian(masked(length)) + event + little_endian(masked(event)));
}

std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return is_known ? name.data() : "unknown";
}

}  // namespace mneme::run
