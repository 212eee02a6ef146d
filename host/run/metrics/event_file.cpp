#include "host/run/metrics/event_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <string_view>
#include <system_error>

#include "host/base/file/crc32c.hpp"
#include "host/base/error.hpp"
#include "host/run/metrics/host_name.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventsPrefix = "events.out.tfevents.";

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
  EventFile file(AppendFile(folder / str(kEventsPrefix, seconds, '.', host_name(), '.', ::getpid())));
  file.append_record(event(0, bytes_field(3, "brain.Event:2")));
  if (first_step > 0) {
    file.append_record(event(first_step, bytes_field(7, integer_field(1, /*START=*/1))));
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

}  // namespace mneme::run
